#include "ep/host/plugin_library.h"

#include <dlfcn.h>

#include <filesystem>
#include <utility>

#include "abi/objects/logger.h"
#include "base/log.h"
#include "device/hardware_devices.h"
#include "ep/host/plugin_factory.h"

namespace tenon::abi {

namespace {

constexpr size_t kMostFactories = 4;  // as many as ONNX Runtime makes room for

std::filesystem::path own_folder() {
  Dl_info info = {};
  if (dladdr(reinterpret_cast<const void*>(&find_library), &info) == 0 || info.dli_fname == nullptr) return {};
  std::error_code error;
  const std::filesystem::path path = std::filesystem::absolute(info.dli_fname, error);
  return error ? std::filesystem::path() : path.parent_path();
}

}  // namespace

Result<std::string> find_library(const std::string& path) {
  TENON_INVALID_IF(path.empty(), "The path of the EP library is empty.");
  const std::filesystem::path given(path);
  std::error_code error;
  if (given.is_absolute()) {
    if (!std::filesystem::exists(given, error)) return not_found("There is no EP library at \"{}\".", path);
    return path;
  }
  const std::filesystem::path beside = own_folder() / given;
  if (std::filesystem::exists(beside, error)) return beside.string();
  const std::filesystem::path here = std::filesystem::absolute(given, error);
  if (!error && std::filesystem::exists(here, error)) return here.string();
  return not_found("There is no EP library at \"{}\", nor at \"{}\".", beside.string(), here.string());
}

PluginLibrary::PluginLibrary(std::string name, std::string path)
    : name_(std::move(name)), path_(std::move(path)), who_(format("EP library \"{}\"", name_)) {}

Result<void*> PluginLibrary::symbol(const char* name) {
  void* found = dlsym(handle_, name);
  if (found == nullptr) return unsupported("{} (\"{}\") does not export {}: it is no EP library.", who_, path_, name);
  return found;
}

Status PluginLibrary::open() {
  // Its own symbols first: two plugins may each bring a copy of the same library.
  handle_ = dlopen(path_.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle_ == nullptr) {
    const char* why = dlerror();
    return unsupported("{} (\"{}\") cannot be loaded: {}.", who_, path_, why != nullptr ? why : "no reason given");
  }
  TENON_TRY_ASSIGN(void* create, symbol("CreateEpFactories"));
  TENON_TRY_ASSIGN(void* release, symbol("ReleaseEpFactory"));
  create_.function = reinterpret_cast<CreateFactories>(create);
  create_.name = "CreateEpFactories";
  create_.state = PluginMember<CreateFactories>::State::kUsable;
  release_.function = reinterpret_cast<ReleaseFactory>(release);
  release_.name = "ReleaseEpFactory";
  release_.state = PluginMember<ReleaseFactory>::State::kUsable;
  return {};
}

Status PluginLibrary::create_factories() {
  OrtEpFactory* made[kMostFactories] = {};
  size_t count = 0;
  logger_ = current_logger();
  TENON_TRY(call(who_, create_, name_.c_str(), OrtGetApiBase(), static_cast<const OrtLogger*>(logger_.get()), &made[0],
                 kMostFactories, &count));
  if (count > kMostFactories)
    return device_error("{}: CreateEpFactories says that it made {} factories where there is room for {}.", who_, count,
                        kMostFactories);
  for (size_t i = 0; i < count; ++i) {
    if (made[i] != nullptr) raw_factories_.push_back(made[i]);
  }
  for (size_t i = 0; i < count; ++i) {
    TENON_TRY(check_object(who_, "OrtEpFactory", made[i], "CreateEpFactories"));
    TENON_TRY_ASSIGN(auto factory, PluginFactory::create(*this, made[i]));
    factories_.push_back(std::move(factory));
  }
  if (factories_.empty()) return device_error("{}: CreateEpFactories makes no factory.", who_);
  return {};
}

Result<std::shared_ptr<PluginLibrary>> PluginLibrary::load(const std::string& name, const std::string& path,
                                                           const EpLibraryOptions& options,
                                                           std::shared_ptr<OrtEnv> env) {
  TENON_INVALID_IF(name.empty(), "The name to register the EP library \"{}\" under is empty.", path);
  TENON_TRY_ASSIGN(const std::string found, find_library(path));
  std::shared_ptr<PluginLibrary> library(new PluginLibrary(name, found));
  library->env_ = std::move(env);
  for (const HardwareDevice& device : find_hardware()) {
    library->hardware_.push_back(std::make_unique<OrtHardwareDevice>(to_ort(device)));
  }
  for (const HardwareDevice& device : options.offer) {
    library->hardware_.push_back(std::make_unique<OrtHardwareDevice>(to_ort(device)));
  }
  TENON_TRY(library->open());
  TENON_TRY(library->create_factories());
  return library;
}

PluginLibrary::~PluginLibrary() {
  factories_.clear();
  for (auto factory = raw_factories_.rbegin(); factory != raw_factories_.rend(); ++factory) {
    const Status status = call(who_, release_, *factory);
    if (!status.ok()) log_warning("plugin", "{}", status.message());
  }
  if (handle_ == nullptr) return;
  dlclose(handle_);
  forget_mappings();
}

std::vector<std::shared_ptr<PluginFactory>> PluginLibrary::factories() {
  std::vector<std::shared_ptr<PluginFactory>> shared;
  shared.reserve(factories_.size());
  for (const auto& factory : factories_) shared.emplace_back(shared_from_this(), factory.get());
  return shared;
}

}  // namespace tenon::abi
