#include "cli/other_library.h"

#include <dlfcn.h>
#include <tenon/model_summary.h>
#include <tenon/onnxruntime_c_api.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <memory>
#include <string_view>

#include "cli/status.h"

namespace tenon::cli {
namespace {

// Fetched at once: the others are computed again in the next run, and do not lie in memory together.
constexpr size_t kValuesInARun = 64;

// The functions of the library, and what it says about a call that fails.
class Library {
 public:
  static Result<Library> load(const std::string& path) {
    void* const handle = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (handle == nullptr) return not_found("The library \"{}\" cannot be loaded: {}.", path, dlerror());
    // Never closed: a library that has started threads does not survive that.
    const auto get_base = reinterpret_cast<const OrtApiBase* (*)()>(dlsym(handle, "OrtGetApiBase"));
    if (get_base == nullptr)
      return not_found("The library \"{}\" has no function OrtGetApiBase: it is no libonnxruntime.", path);
    const OrtApiBase* const base = get_base();
    const std::string_view version = base->GetVersionString();
    // "1.24.4": the minor number is the newest version of the tables.
    uint32_t minor = 0;
    const size_t dot = version.find('.');
    if (dot != std::string_view::npos)
      std::from_chars(version.data() + dot + 1, version.data() + version.size(), minor);
    const OrtApi* const api = base->GetApi(std::min<uint32_t>(minor, ORT_API_VERSION));
    if (api == nullptr) return not_found("The library \"{}\" (version {}) gives no table of functions.", path, version);
    return Library(path, api);
  }

  const OrtApi* operator->() const { return api_; }
  Status check(OrtStatus* answer, const char* call) const {
    if (answer == nullptr) return {};
    Status status = device_error("{} of \"{}\" fails: {}", call, path_, api_->GetErrorMessage(answer));
    api_->ReleaseStatus(answer);
    return status;
  }

 private:
  Library(std::string path, const OrtApi* api) : path_(std::move(path)), api_(api) {}
  std::string path_;
  const OrtApi* api_;
};

template <typename T>
using Owned = std::unique_ptr<T, void (*)(T*)>;

class OtherSession {
 public:
  static Result<OtherSession> make(const Library& library, const std::string& model, const std::string& bytes) {
    OtherSession made(library);
    TENON_TRY(library.check(library->CreateEnv(ORT_LOGGING_LEVEL_ERROR, "tenon compare", &made.env_), "CreateEnv"));
    OrtSessionOptions* options = nullptr;
    TENON_TRY(library.check(library->CreateSessionOptions(&options), "CreateSessionOptions"));
    const Owned<OrtSessionOptions> owned(options, library->ReleaseSessionOptions);
    TENON_TRY(library.check(library->SetSessionGraphOptimizationLevel(options, ORT_DISABLE_ALL),
                            "SetSessionGraphOptimizationLevel"));
    const std::string folder = std::filesystem::absolute(model).parent_path().string();
    TENON_TRY(library.check(
        library->AddSessionConfigEntry(options, "session.model_external_initializers_file_folder_path", folder.c_str()),
        "AddSessionConfigEntry"));
    TENON_TRY(
        library.check(library->CreateSessionFromArray(made.env_, bytes.data(), bytes.size(), options, &made.session_),
                      "CreateSessionFromArray"));
    return made;
  }
  OtherSession(OtherSession&& other) noexcept
      : library_(std::move(other.library_)),
        env_(std::exchange(other.env_, nullptr)),
        session_(std::exchange(other.session_, nullptr)) {}
  OtherSession& operator=(OtherSession&&) = delete;
  ~OtherSession() {
    if (session_ != nullptr) library_->ReleaseSession(session_);
    if (env_ != nullptr) library_->ReleaseEnv(env_);
  }

  Status run(const std::vector<std::pair<std::string, Tensor>>& inputs, std::span<const std::string> names,
             KeptWriter& writer) const {
    OrtMemoryInfo* info = nullptr;
    TENON_TRY(library_.check(library_->CreateCpuMemoryInfo(OrtDeviceAllocator, OrtMemTypeDefault, &info),
                             "CreateCpuMemoryInfo"));
    const Owned<OrtMemoryInfo> owned_info(info, library_->ReleaseMemoryInfo);
    std::vector<Owned<OrtValue>> owned;
    std::vector<const char*> input_names, output_names;
    std::vector<const OrtValue*> values;
    for (const auto& [name, tensor] : inputs) {
      OrtValue* value = nullptr;
      // The numbers of both enumerations are those of ONNX.
      const auto type = static_cast<ONNXTensorElementDataType>(tensor.type());
      TENON_TRY(library_.check(
          library_->CreateTensorWithDataAsOrtValue(info, tensor.data(), tensor.size_bytes(), tensor.shape().begin(),
                                                   static_cast<size_t>(tensor.shape().rank()), type, &value),
          "CreateTensorWithDataAsOrtValue"));
      owned.emplace_back(value, library_->ReleaseValue);
      input_names.push_back(name.c_str());
      values.push_back(value);
    }
    for (const std::string& name : names) output_names.push_back(name.c_str());
    std::vector<OrtValue*> outputs(names.size(), nullptr);
    OrtStatus* const ran = library_->Run(session_, nullptr, input_names.data(), values.data(), values.size(),
                                         output_names.data(), names.size(), outputs.data());
    for (OrtValue* output : outputs)
      if (output != nullptr) owned.emplace_back(output, library_->ReleaseValue);
    TENON_TRY(library_.check(ran, "Run"));
    for (size_t i = 0; i < names.size(); ++i) TENON_TRY(write(names[i], outputs[i], writer));
    return {};
  }

 private:
  explicit OtherSession(const Library& library) : library_(library) {}

  Status write(const std::string& name, OrtValue* value, KeptWriter& writer) const {
    int is_tensor = 0;
    if (value != nullptr) TENON_TRY(library_.check(library_->IsTensor(value, &is_tensor), "IsTensor"));
    if (is_tensor == 0) return {};
    OrtTensorTypeAndShapeInfo* info = nullptr;
    TENON_TRY(library_.check(library_->GetTensorTypeAndShape(value, &info), "GetTensorTypeAndShape"));
    const Owned<OrtTensorTypeAndShapeInfo> owned(info, library_->ReleaseTensorTypeAndShapeInfo);
    ONNXTensorElementDataType element = ONNX_TENSOR_ELEMENT_DATA_TYPE_UNDEFINED;
    TENON_TRY(library_.check(library_->GetTensorElementType(info, &element), "GetTensorElementType"));
    size_t rank = 0;
    TENON_TRY(library_.check(library_->GetDimensionsCount(info, &rank), "GetDimensionsCount"));
    const auto type = static_cast<DataType>(element);
    if (data_type_bits(type) == 0 || tenon::holds_addresses(type) || rank > static_cast<size_t>(Shape::kMaxRank))
      return {};
    std::vector<int64_t> dims(rank);
    TENON_TRY(library_.check(library_->GetDimensions(info, dims.data(), rank), "GetDimensions"));
    const Shape shape{std::span<const int64_t>(dims)};
    void* data = nullptr;
    TENON_TRY(library_.check(library_->GetTensorMutableData(value, &data), "GetTensorMutableData"));
    TENON_TRY_ASSIGN(const size_t bytes, tensor_size_bytes(type, shape));
    NodeValue given{.name = name, .kernel = "other"};
    TENON_TRY_ASSIGN(given.tensor, bytes > 0 ? Tensor::view(type, shape, data, bytes) : Tensor::allocate(type, shape));
    return writer.add(given);
  }

  Library library_;
  OrtEnv* env_ = nullptr;
  OrtSession* session_ = nullptr;
};

}  // namespace

Status run_in_library(const std::string& library, const std::string& model, const std::vector<std::string>& outputs,
                      const std::vector<std::pair<std::string, Tensor>>& inputs, const std::vector<std::string>& names,
                      KeptWriter& writer) {
  TENON_TRY_ASSIGN(const Library functions, Library::load(library));
  std::vector<std::string> added;
  for (const std::string& name : names)
    if (std::find(outputs.begin(), outputs.end(), name) == outputs.end()) added.push_back(name);
  TENON_TRY_ASSIGN(const std::string bytes, model_with_outputs(model, added));
  TENON_TRY_ASSIGN(const OtherSession session, OtherSession::make(functions, model, bytes));
  for (size_t first = 0; first < names.size(); first += kValuesInARun) {
    const size_t count = std::min(kValuesInARun, names.size() - first);
    TENON_TRY(session.run(inputs, std::span(names).subspan(first, count), writer));
  }
  return {};
}

}  // namespace tenon::cli
