// OrtModelPackageApi: opening packages, selecting a variant for an EP, and its session.
#include <algorithm>
#include <utility>

#include "abi/objects/env.h"
#include "abi/objects/ep_device.h"
#include "abi/objects/session_options.h"
#include "abi/objects/slots.h"
#include "abi/objects/status.h"
#include "runtime/model_package.h"

namespace tenon::abi {

namespace {

constexpr std::string_view kCpuEp = "CPUExecutionProvider";

// The EP that a program's session options select: the first one.
struct SelectedEp {
  std::string name{kCpuEp};
  std::vector<const OrtEpDevice*> devices;
  std::map<std::string, std::string> options;

  bool is_cpu() const { return name == kCpuEp; }
};

}  // namespace

}  // namespace tenon::abi

struct OrtModelPackageOptions {
  std::shared_ptr<OrtEnv> env;
  tenon::abi::SelectedEp ep;
};

// `names` is what programs are shown of the components, and of the variants of each.
struct OrtModelPackageContext {
  struct Names {
    explicit Names(const auto& named) {
      for (const auto& one : named) pointers.push_back(one.name.c_str());
    }
    std::vector<const char*> pointers;
  };
  explicit OrtModelPackageContext(tenon::ModelPackage opened)
      : package(std::move(opened)), names(package.components()) {
    for (const tenon::PackageComponent& component : package.components())
      variant_names.emplace_back(component.variants);
  }
  OrtModelPackageContext(const OrtModelPackageContext&) = delete;
  OrtModelPackageContext& operator=(const OrtModelPackageContext&) = delete;

  const tenon::ModelPackage package;
  const Names names;
  std::vector<Names> variant_names;
  mutable std::string resolved;  // until the next call of ResolveStringRef
};

struct OrtModelPackageComponentContext {
  tenon::abi::SelectedEp ep;
  std::string component;
  tenon::PackageVariant variant;
};

namespace tenon::abi {

namespace {

OrtStatus* select_ep(const OrtEnv* env, const OrtSessionOptions& given, SelectedEp* ep) {
  OrtSessionOptions options = given;
  if (OrtStatus* bad = choose_eps(options, *env)) return bad;
  std::vector<size_t> wanted;
  if (!options.eps.empty()) {
    ep->name = options.eps[0].ep_name;
    ep->options = options.eps[0].options;
    wanted = options.eps[0].devices;
  }
  if (wanted.empty()) wanted = {0};
  const OrtEpDevice* const* all = nullptr;
  size_t count = 0;
  if (OrtStatus* bad = ort_api::GetEpDevices(env, &all, &count)) return bad;
  size_t position = 0;
  for (size_t i = 0; i < count; ++i) {
    if (all[i]->ep_name != ep->name) continue;
    if (std::find(wanted.begin(), wanted.end(), position++) != wanted.end()) ep->devices.push_back(all[i]);
  }
  return nullptr;
}

bool has_device(const SelectedEp& ep, std::string_view device) {
  if (device.empty()) return true;
  if (ep.is_cpu() && device == "cpu") return true;
  const auto is = [&](const OrtEpDevice* one) {
    if (one->hardware == nullptr) return false;
    const OrtHardwareDeviceType type = one->hardware->type;
    return (device == "cpu" && type == OrtHardwareDeviceType_CPU) ||
           (device == "gpu" && type == OrtHardwareDeviceType_GPU) ||
           (device == "npu" && type == OrtHardwareDeviceType_NPU);
  };
  return std::any_of(ep.devices.begin(), ep.devices.end(), is);
}

// Negative: the variant is not for this EP. Else the larger the better, by what the EP says of a compiled model.
int score_of(const PackageVariant& variant, const SelectedEp& ep) {
  constexpr int kNone = -1, kAny = 0, kOlder = 50, kBest = 100;
  if (!variant.ep || *variant.ep != ep.name || !has_device(ep, variant.device)) return kNone;
  if (variant.compatibility.empty() || ep.devices.empty()) return kAny;
  OrtCompiledModelCompatibility compatibility = OrtCompiledModelCompatibility_EP_NOT_APPLICABLE;
  OrtStatus* const failed = ort_api::GetModelCompatibilityForEpDevices(ep.devices.data(), ep.devices.size(),
                                                                       variant.compatibility.c_str(), &compatibility);
  // An EP that cannot say it has nothing against the variant.
  release_status(failed);
  if (failed != nullptr) return kAny;
  if (compatibility == OrtCompiledModelCompatibility_EP_UNSUPPORTED) return kNone;
  if (compatibility == OrtCompiledModelCompatibility_EP_SUPPORTED_OPTIMAL) return kBest;
  return compatibility == OrtCompiledModelCompatibility_EP_SUPPORTED_PREFER_RECOMPILATION ? kOlder : kAny;
}

const PackageVariant* select_variant(const PackageComponent& component, const SelectedEp& ep) {
  const PackageVariant* best = nullptr;
  int most = -1;
  for (const PackageVariant& variant : component.variants) {
    const int score = score_of(variant, ep);
    if (score <= most) continue;
    most = score;
    best = &variant;
  }
  return best;
}

OrtStatus* find_component(const OrtModelPackageContext& context, const char* name, size_t* index) {
  const std::vector<PackageComponent>& components = context.package.components();
  const auto found =
      std::find_if(components.begin(), components.end(), [&](const auto& one) { return one.name == name; });
  if (found == components.end()) return ort_error(ORT_INVALID_ARGUMENT, "Component model not found: {}", name);
  *index = found - components.begin();
  return nullptr;
}

void show(const OrtModelPackageContext::Names& names, const char* const** out, size_t* count) {
  *out = names.pointers.data();
  *count = names.pointers.size();
}

// Gives `options` the EP that the variant was selected for, with the options that the package has for it.
OrtStatus* append_ep(const OrtEnv* env, const SelectedEp& ep, const PackageEntries& entries,
                     OrtSessionOptions& options) {
  if (ep.is_cpu() && entries.empty()) return nullptr;
  if (ep.devices.empty())
    return ort_error(ORT_FAIL, "The selected model package execution provider was not registered: {}", ep.name);
  std::map<std::string, std::string> merged = ep.options;
  for (const auto& [key, value] : entries) merged[key] = value;
  std::vector<const char*> keys, values;
  for (const auto& [key, value] : merged) {
    keys.push_back(key.c_str());
    values.push_back(value.c_str());
  }
  return ort_api::SessionOptionsAppendExecutionProvider_V2(&options, const_cast<OrtEnv*>(env), ep.devices.data(),
                                                           ep.devices.size(), keys.data(), values.data(), keys.size());
}

// Without options of the program the package's count; with them only its paths, where the program has set none.
OrtStatus* fill_options(const OrtEnv* env, const OrtModelPackageComponentContext& context,
                        const OrtSessionOptions* given, OrtSessionOptions& options) {
  if (given != nullptr) options = *given;
  for (const auto& [key, value] : context.variant.session_options) {
    if (given != nullptr && (!is_package_path_option(key) || options.config_entries.find(key.c_str()) != nullptr))
      continue;
    if (OrtStatus* bad = ort_api::AddSessionConfigEntry(&options, key.c_str(), value.c_str())) return bad;
  }
  if (!options.eps.empty() || options.has_cpu_ep) return nullptr;
  return append_ep(env, context.ep, given == nullptr ? context.variant.provider_options : PackageEntries(), options);
}

OrtStatus* null_of(const char* names) { return ort_error(ORT_INVALID_ARGUMENT, "{} must be non-null", names); }

}  // namespace

OrtStatus* model_package_api::CreateModelPackageOptionsFromSessionOptions(const OrtEnv* env,
                                                                          const OrtSessionOptions* session_options,
                                                                          OrtModelPackageOptions** out) noexcept {
  clear(out);
  if (env == nullptr || session_options == nullptr || out == nullptr) return null_of("env, session_options and out");
  return guarded([&]() -> OrtStatus* {
    auto options = std::make_unique<OrtModelPackageOptions>();
    options->env = current_env();
    if (options->env.get() != env) return make_ort_status(ORT_INVALID_ARGUMENT, "The env was released.");
    if (OrtStatus* bad = select_ep(env, *session_options, &options->ep)) return bad;
    *out = options.release();
    return nullptr;
  });
}

void model_package_api::ReleaseModelPackageOptions(OrtModelPackageOptions* options) noexcept { delete options; }

OrtStatus* model_package_api::CreateModelPackageContext(const ORTCHAR_T* package_root,
                                                        OrtModelPackageContext** out) noexcept {
  clear(out);
  if (package_root == nullptr) return null_of("package_root");
  if (out == nullptr) return null_of("out");
  return guarded([&]() -> OrtStatus* {
    Result<ModelPackage> package = ModelPackage::open(package_root);
    // The reference's code for everything that is wrong with a package.
    if (!package.ok()) return to_ort(package.status(), ORT_FAIL);
    *out = new OrtModelPackageContext(*std::move(package));
    return nullptr;
  });
}

void model_package_api::ReleaseModelPackageContext(OrtModelPackageContext* ctx) noexcept { delete ctx; }

OrtStatus* model_package_api::ModelPackage_GetSchemaVersion(const OrtModelPackageContext* ctx,
                                                            int64_t* out_version) noexcept {
  clear(out_version);
  if (ctx == nullptr || out_version == nullptr) return null_of("ctx and out_version");
  *out_version = ctx->package.schema_version();
  return nullptr;
}

OrtStatus* model_package_api::ModelPackage_GetComponentCount(const OrtModelPackageContext* ctx,
                                                             size_t* out_count) noexcept {
  clear(out_count);
  if (ctx == nullptr || out_count == nullptr) return null_of("ctx and out_count");
  *out_count = ctx->package.components().size();
  return nullptr;
}

OrtStatus* model_package_api::ModelPackage_GetComponentNames(const OrtModelPackageContext* ctx,
                                                             const char* const** out_names,
                                                             size_t* out_count) noexcept {
  clear(out_names);
  clear(out_count);
  if (ctx == nullptr || out_names == nullptr || out_count == nullptr) return null_of("ctx, out_names, and out_count");
  show(ctx->names, out_names, out_count);
  return nullptr;
}

OrtStatus* model_package_api::ModelPackage_GetVariantCount(const OrtModelPackageContext* ctx,
                                                           const char* component_name, size_t* out_count) noexcept {
  clear(out_count);
  if (ctx == nullptr || component_name == nullptr || out_count == nullptr)
    return null_of("ctx, component_name, and out_count");
  size_t index = 0;
  if (OrtStatus* bad = find_component(*ctx, component_name, &index)) return bad;
  *out_count = ctx->package.components()[index].variants.size();
  return nullptr;
}

OrtStatus* model_package_api::ModelPackage_GetVariantNames(const OrtModelPackageContext* ctx,
                                                           const char* component_name,
                                                           const char* const** out_variant_names,
                                                           size_t* out_count) noexcept {
  clear(out_variant_names);
  clear(out_count);
  if (ctx == nullptr || component_name == nullptr || out_variant_names == nullptr || out_count == nullptr)
    return null_of("ctx, component_name, out_variant_names, and out_count");
  size_t index = 0;
  if (OrtStatus* bad = find_component(*ctx, component_name, &index)) return bad;
  show(ctx->variant_names[index], out_variant_names, out_count);
  return nullptr;
}

OrtStatus* model_package_api::ModelPackage_GetVariantEpName(const OrtModelPackageContext* ctx,
                                                            const char* component_name, const char* variant_name,
                                                            const char** out_ep) noexcept {
  clear(out_ep);
  if (ctx == nullptr || component_name == nullptr || variant_name == nullptr || out_ep == nullptr)
    return null_of("ctx, component_name, variant_name, and out_ep");
  size_t index = 0;
  if (OrtStatus* bad = find_component(*ctx, component_name, &index)) return bad;
  const PackageVariant* variant = ctx->package.components()[index].find(variant_name);
  if (variant == nullptr)
    return ort_error(ORT_INVALID_ARGUMENT, "Variant '{}' not found in component '{}'.", variant_name, component_name);
  *out_ep = variant->ep ? variant->ep->c_str() : nullptr;
  return nullptr;
}

OrtStatus* model_package_api::ModelPackage_ResolveStringRef(const OrtModelPackageContext* ctx, const char* base_dir,
                                                            const char* input, int must_exist,
                                                            const char** out_path) noexcept {
  clear(out_path);
  if (ctx == nullptr || input == nullptr || out_path == nullptr) return null_of("ctx, input, and out_path");
  return guarded([&]() -> OrtStatus* {
    Result<std::string> path = ctx->package.resolve(base_dir, input, must_exist != 0);
    if (!path.ok())
      return ort_error(ORT_FAIL, "Failed to resolve '{}' in model package: {}", input, path.status().message());
    ctx->resolved = *std::move(path);
    *out_path = ctx->resolved.c_str();
    return nullptr;
  });
}

OrtStatus* model_package_api::SelectComponent(const OrtModelPackageContext* context, const char* component_name,
                                              const OrtModelPackageOptions* options,
                                              OrtModelPackageComponentContext** out) noexcept {
  clear(out);
  if (context == nullptr || component_name == nullptr || options == nullptr || out == nullptr)
    return null_of("context, component_name, options, and out");
  const PackageComponent* component = context->package.find(component_name);
  if (component == nullptr) return make_ort_status(ORT_INVALID_ARGUMENT, "Component model not found.");
  return guarded([&]() -> OrtStatus* {
    const PackageVariant* variant = select_variant(*component, options->ep);
    if (variant == nullptr)
      return make_ort_status(ORT_FAIL, "No suitable model variant found for the configured execution providers.");
    *out = new OrtModelPackageComponentContext{options->ep, component->name, *variant};
    return nullptr;
  });
}

void model_package_api::ReleaseModelPackageComponentContext(OrtModelPackageComponentContext* ctx) noexcept {
  delete ctx;
}

OrtStatus* model_package_api::ModelPackageComponent_GetSelectedVariantName(const OrtModelPackageComponentContext* ctx,
                                                                           const char** out_name) noexcept {
  clear(out_name);
  if (ctx == nullptr || out_name == nullptr) return null_of("ctx and out_name");
  *out_name = ctx->variant.name.c_str();
  return nullptr;
}

OrtStatus* model_package_api::ModelPackageComponent_GetSelectedVariantFolderPath(
    const OrtModelPackageComponentContext* ctx, const ORTCHAR_T** folder_path) noexcept {
  clear(folder_path);
  if (ctx == nullptr || folder_path == nullptr) return null_of("ctx and folder_path");
  *folder_path = ctx->variant.folder.c_str();
  return nullptr;
}

OrtStatus* model_package_api::CreateSession(const OrtEnv* env, OrtModelPackageComponentContext* context,
                                            const OrtSessionOptions* session_options, OrtSession** session) noexcept {
  clear(session);
  if (env == nullptr || context == nullptr || session == nullptr) return null_of("env, ctx, and session");
  return guarded([&]() -> OrtStatus* {
    if (context->variant.model_file.empty())
      return ort_error(ORT_FAIL, "Selected variant '{}' has no executor_info[\"ort\"][\"model_file\"]. Component: {}",
                       context->variant.name, context->component);
    OrtSessionOptions options;
    if (OrtStatus* bad = fill_options(env, *context, session_options, options)) return bad;
    return ort_api::CreateSession(env, context->variant.model_file.c_str(), &options, session);
  });
}

}  // namespace tenon::abi
