#include "problems/stock.h"

#include <dlfcn.h>
#include <tenon/onnxruntime_c_api.h>

#include <cstdlib>
#include <vector>

namespace tenon::problems {

namespace {

struct Api {
  const OrtApi* ort = nullptr;
  OrtEnv* env = nullptr;

  Status check(OrtStatus* status) const {
    if (status == nullptr) return {};
    const Status failed = unsupported("ONNX Runtime: {}", ort->GetErrorMessage(status));
    ort->ReleaseStatus(status);
    return failed;
  }
};

class Session final : public StockSession {
 public:
  explicit Session(const Api& api) : api_(api) {}
  ~Session() override {
    for (OrtValue* value : inputs_) api_.ort->ReleaseValue(value);
    if (memory_ != nullptr) api_.ort->ReleaseMemoryInfo(memory_);
    if (session_ != nullptr) api_.ort->ReleaseSession(session_);
    if (options_ != nullptr) api_.ort->ReleaseSessionOptions(options_);
  }

  Status load(const Case& test, int threads) {
    const OrtApi& ort = *api_.ort;
    TENON_TRY(api_.check(ort.CreateSessionOptions(&options_)));
    TENON_TRY(api_.check(ort.SetIntraOpNumThreads(options_, threads)));
    TENON_TRY(api_.check(ort.SetSessionLogSeverityLevel(options_, 3)));
    const std::string model = test.model();
    TENON_TRY(api_.check(ort.CreateSessionFromArray(api_.env, model.data(), model.size(), options_, &session_)));
    TENON_TRY(api_.check(ort.CreateCpuMemoryInfo(OrtDeviceAllocator, OrtMemTypeDefault, &memory_)));
    for (const Case::Feed& feed : test.feeds()) {
      names_.push_back(feed.name);
      bytes_.push_back(feed.bytes);
      bytes_.back().resize(std::max<size_t>(1, feed.bytes.size()));
      OrtValue* value = nullptr;
      TENON_TRY(api_.check(ort.CreateTensorWithDataAsOrtValue(
          memory_, bytes_.back().data(), feed.bytes.size(), feed.dims.data(), feed.dims.size(),
          static_cast<ONNXTensorElementDataType>(feed.type), &value)));
      inputs_.push_back(value);
    }
    for (const Value& one : test.expected()) outputs_.push_back(one.name);
    return {};
  }

  Status run() override {
    std::vector<const char*> inputs, outputs;
    for (const std::string& name : names_) inputs.push_back(name.c_str());
    for (const std::string& name : outputs_) outputs.push_back(name.c_str());
    std::vector<OrtValue*> results(outputs.size());
    const Status status = api_.check(api_.ort->Run(session_, nullptr, inputs.data(), inputs_.data(), inputs.size(),
                                                   outputs.data(), outputs.size(), results.data()));
    for (OrtValue* value : results)
      if (value != nullptr) api_.ort->ReleaseValue(value);
    return status;
  }

 private:
  Api api_;
  OrtSessionOptions* options_ = nullptr;
  OrtSession* session_ = nullptr;
  OrtMemoryInfo* memory_ = nullptr;
  std::vector<std::string> names_, outputs_;
  std::vector<std::vector<std::byte>> bytes_;
  std::vector<OrtValue*> inputs_;
};

// The library stays loaded: its threads may outlive its last session.
class Host final : public StockHost {
 public:
  explicit Host(const Api& api) : api_(api) {}
  ~Host() override { api_.ort->ReleaseEnv(api_.env); }

  Result<std::unique_ptr<StockSession>> load(const Case& test, int threads) override {
    auto session = std::make_unique<Session>(api_);
    TENON_TRY(session->load(test, threads));
    return std::unique_ptr<StockSession>(std::move(session));
  }

 private:
  Api api_;
};

}  // namespace

Result<std::unique_ptr<StockHost>> open_stock(const std::string& library) {
  void* handle = dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) return not_found("ONNX Runtime cannot be loaded: {}.", dlerror());
  const auto base = reinterpret_cast<const OrtApiBase* (*)()>(dlsym(handle, "OrtGetApiBase"));
  if (base == nullptr) return not_found("{} has no function OrtGetApiBase.", library);
  // "1.28.0" has the API of version 28.
  const char* version = base()->GetVersionString();
  const int minor = std::atoi(version + 2);
  Api api;
  api.ort = base()->GetApi(static_cast<uint32_t>(std::min(minor, ORT_API_VERSION)));
  if (api.ort == nullptr) return not_found("{} is version {}, whose API is not known here.", library, version);
  TENON_TRY(api.check(api.ort->CreateEnv(ORT_LOGGING_LEVEL_ERROR, "problems", &api.env)));
  return std::unique_ptr<StockHost>(std::make_unique<Host>(api));
}

}  // namespace tenon::problems
