// One session of a host of ONNX Runtime's C ABI, timed: the worker that bench/gpu.py starts for each host, so that ours
// and a stock onnxruntime are driven by the same code. Inputs and outputs lie on the device; a run ends with a wait for
// the device.
//
//   gpu_worker --library HOST.so --model FILE --ep NAME [--plugin FILE] [--option KEY=VALUE]... [--context]
//
// NAME is an EP of the plugin, CUDAExecutionProvider (the one that onnxruntime-gpu is built with) or
// CPUExecutionProvider, which needs no device. --context: CUDA's context exists before the session is made. The session
// is made at once; then each line of standard input is answered by one line of JSON:
//   bind DIR    inputs from DIR/<index>.bin, outputs filled with bytes that no result has; an output present.X shares
//   the
//               memory of an input past_key_values.X of its size, as onnxruntime-genai has them
//   run N       the microseconds of N runs, and of their calls alone, before the wait
//   save DIR    outputs into DIR/<index>.bin
//   sessions N  the seconds that making the session anew takes, N times
// A failure is {"error": "..."}; one while the session is made ends the worker.
#include <dlfcn.h>
#include <tenon/onnxruntime_c_api.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iostream>
#include <iterator>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

namespace {

constexpr uint32_t kApiVersion = 24;
constexpr char kCudaEp[] = "CUDAExecutionProvider", kCpuEp[] = "CPUExecutionProvider";

std::string quoted(const std::string& text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    out += static_cast<unsigned char>(c) < ' ' ? ' ' : c;
  }
  return out + "\"";
}

void answer(const std::string& line) { std::cout << line << '\n' << std::flush; }

[[noreturn]] void stop(const std::string& why) {
  answer("{\"error\": " + quoted(why) + "}");
  std::_Exit(1);
}

using Clock = std::chrono::steady_clock;
double seconds_since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

// The few functions of the driver that a program with tensors on the device needs.
class Driver {
 public:
  void open() {
    if (synchronize_ != nullptr) return;
    void* const library = ::dlopen("libcuda.so.1", RTLD_NOW | RTLD_GLOBAL);
    if (library == nullptr) stop("libcuda.so.1 is not there");
    using Find = int(const char*, void**, int, uint64_t, int*);
    auto* const find = reinterpret_cast<Find*>(::dlsym(library, "cuGetProcAddress_v2"));
    if (find == nullptr) stop("the CUDA driver is older than 12.0");
    const auto load = [&]<typename Function>(const char* name, Function*& out) {
      void* found = nullptr;
      int state = 0;
      if (find(name, &found, 12000, 0, &state) != 0 || found == nullptr) stop(std::string(name) + " is not there");
      out = reinterpret_cast<Function*>(found);
    };
    load("cuInit", init_);
    load("cuDeviceGet", device_get_);
    load("cuDevicePrimaryCtxRetain", retain_);
    load("cuCtxPushCurrent", push_current_);
    load("cuMemAlloc", allocate_);
    load("cuMemcpyAsync", copy_);
    load("cuCtxSynchronize", synchronize_);
    int device = 0;
    void* context = nullptr;
    check(init_(0), "cuInit");
    check(device_get_(&device, 0), "cuDeviceGet");
    check(retain_(&context, device), "cuDevicePrimaryCtxRetain");
    check(push_current_(context), "cuCtxPushCurrent");
  }
  void* allocate(size_t bytes) const {
    uint64_t address = 0;
    check(allocate_(&address, bytes), "cuMemAlloc");
    return reinterpret_cast<void*>(address);
  }
  void copy(void* dst, const void* src, size_t bytes) const {
    check(copy_(reinterpret_cast<uint64_t>(dst), reinterpret_cast<uint64_t>(src), bytes, nullptr), "cuMemcpyAsync");
    synchronize();
  }
  void synchronize() const { check(synchronize_(), "cuCtxSynchronize"); }

 private:
  static void check(int result, const char* call) {
    if (result != 0) stop(std::string(call) + " fails with " + std::to_string(result));
  }
  int (*init_)(unsigned) = nullptr;
  int (*device_get_)(int*, int) = nullptr;
  int (*retain_)(void**, int) = nullptr;
  int (*push_current_)(void*) = nullptr;
  int (*allocate_)(uint64_t*, size_t) = nullptr;
  int (*copy_)(uint64_t, uint64_t, size_t, void*) = nullptr;
  int (*synchronize_)() = nullptr;
};

struct Arguments {
  std::string library, model, ep, plugin;
  std::vector<std::pair<std::string, std::string>> options;
  bool context = false;
};

class Worker {
 public:
  explicit Worker(Arguments arguments) : arguments_(std::move(arguments)), on_device_(arguments_.ep != kCpuEp) {
    if (arguments_.context) driver_.open();
    const auto start = Clock::now();
    void* const library = ::dlopen(arguments_.library.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) stop(::dlerror());
    auto* const base = reinterpret_cast<const OrtApiBase* (*)()>(::dlsym(library, "OrtGetApiBase"));
    if (base == nullptr) stop(arguments_.library + " has no OrtGetApiBase");
    api_ = base()->GetApi(kApiVersion);
    if (api_ == nullptr) stop("the library has no API version " + std::to_string(kApiVersion));
    check(api_->CreateEnv(ORT_LOGGING_LEVEL_ERROR, "gpu_worker", &env_));
    if (!arguments_.plugin.empty())
      check(api_->RegisterExecutionProviderLibrary(env_, "worker", arguments_.plugin.c_str()));
    find_devices();
    const double environment = seconds_since(start);
    const double session = make_session();
    if (on_device_) driver_.open();
    answer("{\"ready\": " + quoted(base()->GetVersionString()) + ", \"environment_s\": " + std::to_string(environment) +
           ", \"session_s\": " + std::to_string(session) + "}");
  }

  void serve() {
    for (std::string line; std::getline(std::cin, line);) {
      std::istringstream words(line);
      std::string command, argument;
      words >> command >> argument;
      if (command == "bind") {
        bind(argument);
        answer("{}");
      } else if (command == "run") {
        run(std::atoi(argument.c_str()));
      } else if (command == "save") {
        save(argument);
        answer("{}");
      } else if (command == "sessions") {
        std::string times;
        for (int i = std::atoi(argument.c_str()); i > 0; --i)
          times += (times.empty() ? "" : ", ") + std::to_string(make_session());
        answer("{\"session_s\": [" + times + "]}");
      } else {
        stop("there is no command \"" + line + "\"");
      }
    }
  }

 private:
  struct Bound {
    std::string name;
    void* memory = nullptr;
    size_t size_bytes = 0;
    bool shared = false;  // an input's memory
  };

  void check(OrtStatus* status) const {
    if (status != nullptr) stop(api_->GetErrorMessage(status));
  }

  void find_devices() {
    if (arguments_.ep == kCpuEp || arguments_.ep == kCudaEp) return;
    const OrtEpDevice* const* all = nullptr;
    size_t count = 0;
    check(api_->GetEpDevices(env_, &all, &count));
    for (size_t i = 0; i < count && ep_device_ == nullptr; ++i)
      if (arguments_.ep == api_->EpDevice_EpName(all[i])) ep_device_ = all[i];
    if (ep_device_ == nullptr) stop("no device of " + arguments_.ep);
  }

  double make_session() {
    OrtSessionOptions* options = nullptr;
    check(api_->CreateSessionOptions(&options));
    std::vector<const char*> keys, values;
    for (const auto& [key, value] : arguments_.options) {
      keys.push_back(key.c_str());
      values.push_back(value.c_str());
    }
    const auto start = Clock::now();
    if (ep_device_ != nullptr) {
      check(api_->AddSessionConfigEntry(options, "session.disable_cpu_ep_fallback", "1"));
      check(api_->SessionOptionsAppendExecutionProvider_V2(options, env_, &ep_device_, 1, keys.data(), values.data(),
                                                           keys.size()));
    } else if (arguments_.ep == kCudaEp) {
      OrtCUDAProviderOptionsV2* cuda = nullptr;
      check(api_->CreateCUDAProviderOptions(&cuda));
      check(api_->UpdateCUDAProviderOptions(cuda, keys.data(), values.data(), keys.size()));
      check(api_->SessionOptionsAppendExecutionProvider_CUDA_V2(options, cuda));
      api_->ReleaseCUDAProviderOptions(cuda);
    }
    OrtSession* session = nullptr;
    check(api_->CreateSession(env_, arguments_.model.c_str(), options, &session));
    const double seconds = seconds_since(start);
    api_->ReleaseSessionOptions(options);
    // The first one stays: what is bound is bound to it.
    if (session_ == nullptr) {
      session_ = session;
    } else {
      api_->ReleaseSession(session);
    }
    return seconds;
  }

  // Where the caches that an output continues are.
  void* shared_memory(const Bound& output) const {
    const std::string from = "present.", to = "past_key_values.";
    if (output.name.rfind(from, 0) != 0) return nullptr;
    for (const Bound& input : inputs_)
      if (input.name == to + output.name.substr(from.size()) && input.size_bytes == output.size_bytes)
        return input.memory;
    return nullptr;
  }

  // A tensor of the session's input or output on the device, of the shape that the model says.
  Bound add(bool input, size_t index) {
    OrtAllocator* allocator = nullptr;
    check(api_->GetAllocatorWithDefaultOptions(&allocator));
    char* name = nullptr;
    OrtTypeInfo* type_info = nullptr;
    if (input) {
      check(api_->SessionGetInputName(session_, index, allocator, &name));
      check(api_->SessionGetInputTypeInfo(session_, index, &type_info));
    } else {
      check(api_->SessionGetOutputName(session_, index, allocator, &name));
      check(api_->SessionGetOutputTypeInfo(session_, index, &type_info));
    }
    const OrtTensorTypeAndShapeInfo* info = nullptr;
    check(api_->CastTypeInfoToTensorInfo(type_info, &info));
    ONNXTensorElementDataType type = ONNX_TENSOR_ELEMENT_DATA_TYPE_UNDEFINED;
    size_t rank = 0;
    check(api_->GetTensorElementType(info, &type));
    check(api_->GetDimensionsCount(info, &rank));
    std::vector<int64_t> dims(rank);
    check(api_->GetDimensions(info, dims.data(), rank));
    Bound bound{.name = name, .size_bytes = element_bytes(type)};
    for (const int64_t dim : dims) {
      if (dim < 0) stop("\"" + bound.name + "\" has no fixed shape");
      bound.size_bytes *= static_cast<size_t>(dim);
    }
    bound.memory = input ? nullptr : shared_memory(bound);
    bound.shared = bound.memory != nullptr;
    if (!bound.shared) bound.memory = on_device_ ? driver_.allocate(bound.size_bytes) : std::malloc(bound.size_bytes);
    OrtMemoryInfo* space = nullptr;
    if (ep_device_ == nullptr)
      check(api_->CreateMemoryInfo(on_device_ ? "Cuda" : "Cpu", OrtDeviceAllocator, 0, OrtMemTypeDefault, &space));
    OrtValue* value = nullptr;
    check(api_->CreateTensorWithDataAsOrtValue(
        ep_device_ != nullptr ? api_->EpDevice_MemoryInfo(ep_device_, OrtDeviceMemoryType_DEFAULT) : space,
        bound.memory, bound.size_bytes, dims.data(), dims.size(), type, &value));
    check(input ? api_->BindInput(binding_, name, value) : api_->BindOutput(binding_, name, value));
    api_->ReleaseValue(value);
    if (space != nullptr) api_->ReleaseMemoryInfo(space);
    api_->ReleaseTypeInfo(type_info);
    check(api_->AllocatorFree(allocator, name));
    return bound;
  }

  static size_t element_bytes(ONNXTensorElementDataType type) {
    switch (type) {
      case ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT:
      case ONNX_TENSOR_ELEMENT_DATA_TYPE_INT32:
        return 4;
      case ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT16:
      case ONNX_TENSOR_ELEMENT_DATA_TYPE_BFLOAT16:
        return 2;
      case ONNX_TENSOR_ELEMENT_DATA_TYPE_INT64:
        return 8;
      default:
        stop("tensors of type " + std::to_string(type) + " are not known here");
    }
  }

  void put(const Bound& to, const std::vector<char>& bytes) const {
    if (bytes.size() != to.size_bytes)
      stop("\"" + to.name + "\" takes " + std::to_string(to.size_bytes) + " bytes; there are " +
           std::to_string(bytes.size()));
    if (on_device_) {
      driver_.copy(to.memory, bytes.data(), bytes.size());
    } else {
      std::memcpy(to.memory, bytes.data(), bytes.size());
    }
  }

  void bind(const std::string& folder) {
    check(api_->CreateIoBinding(session_, &binding_));
    size_t inputs = 0, outputs = 0;
    check(api_->SessionGetInputCount(session_, &inputs));
    check(api_->SessionGetOutputCount(session_, &outputs));
    for (size_t i = 0; i < inputs; ++i) {
      std::ifstream file(folder + "/" + std::to_string(i) + ".bin", std::ios::binary);
      inputs_.push_back(add(true, i));
      put(inputs_.back(), std::vector<char>(std::istreambuf_iterator<char>(file), {}));
    }
    for (size_t i = 0; i < outputs; ++i) {
      outputs_.push_back(add(false, i));
      if (!outputs_.back().shared) put(outputs_.back(), std::vector<char>(outputs_.back().size_bytes, '\xff'));
    }
  }

  void run(int count) {
    std::string times, calls;
    for (int i = 0; i < count; ++i) {
      const char* const comma = i == 0 ? "" : ", ";
      const auto start = Clock::now();
      check(api_->RunWithBinding(session_, nullptr, binding_));
      calls += comma + std::to_string(seconds_since(start) * 1e6);
      if (on_device_) driver_.synchronize();
      times += comma + std::to_string(seconds_since(start) * 1e6);
    }
    answer("{\"us\": [" + times + "], \"call_us\": [" + calls + "]}");
  }

  void save(const std::string& folder) const {
    for (size_t i = 0; i < outputs_.size(); ++i) {
      std::vector<char> bytes(outputs_[i].size_bytes);
      if (on_device_) {
        driver_.copy(bytes.data(), outputs_[i].memory, bytes.size());
      } else {
        std::memcpy(bytes.data(), outputs_[i].memory, bytes.size());
      }
      std::ofstream(folder + "/" + std::to_string(i) + ".bin", std::ios::binary)
          .write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
    }
  }

  const Arguments arguments_;
  const bool on_device_;
  Driver driver_;
  const OrtApi* api_ = nullptr;
  OrtEnv* env_ = nullptr;
  const OrtEpDevice* ep_device_ = nullptr;
  OrtSession* session_ = nullptr;
  OrtIoBinding* binding_ = nullptr;
  std::vector<Bound> inputs_, outputs_;
};

}  // namespace

int main(int argc, char** argv) {
  Arguments arguments;
  for (int i = 1; i < argc; ++i) {
    const std::string name = argv[i];
    const std::string next = i + 1 < argc ? argv[i + 1] : "";
    if (name == "--context") {
      arguments.context = true;
      continue;
    }
    ++i;
    if (name == "--library") {
      arguments.library = next;
    } else if (name == "--model") {
      arguments.model = next;
    } else if (name == "--ep") {
      arguments.ep = next;
    } else if (name == "--plugin") {
      arguments.plugin = next;
    } else if (name == "--option") {
      arguments.options.emplace_back(next.substr(0, next.find('=')), next.substr(next.find('=') + 1));
    } else {
      stop("there is no argument " + name);
    }
  }
  Worker(std::move(arguments)).serve();
  // The process ends here: what the EPs' libraries would do at exit is not measured.
  std::fflush(nullptr);
  std::_Exit(0);
}
