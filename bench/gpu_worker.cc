// Sessions of a host of ONNX Runtime's C ABI, timed: the worker that bench/gpu.py starts for each host, so that ours
// and a stock onnxruntime are driven by the same code. Inputs and outputs lie on the device; a run ends with a wait for
// the device.
//
//   gpu_worker --library HOST.so --model FILE --ep NAME [--plugin FILE] [--option KEY=VALUE]... [--context]
//              [--devices 0,1...] [--fake-devices N]
//
// There is a session on each of the devices, by CUDA's numbers; without --devices one on the first. In FILE and VALUE
// of a session {} is its place in that list, from 0 on, such as the rank of a divided model. --fake-devices: the driver
// is the tests' own (tests/README.md), which shows so many. NAME is an EP of the plugin, CUDAExecutionProvider (the one
// that onnxruntime-gpu is built with) or CPUExecutionProvider, which needs no device. --context: CUDA's context exists
// before the session is made. The session is made at once; then each line of standard input is answered by one line of
// JSON:
//   bind DIR    inputs from DIR/<index>.bin, zeros where there is none, and outputs filled with bytes that no result
//               has; an output present.X shares the memory of an input past_key_values.X of its size, as
//               onnxruntime-genai has them, and an output next.X that of an input X
//   run N       N runs of all sessions at once: the microseconds of the first one's, and of their calls alone, before
//               the wait
//   save DIR I  outputs of session I, or of the first one, into DIR/<index>.bin
//   sizes N A=2 B=7...
//               N runs of the first session with inputs whose symbolic sizes A, B... are these, and outputs that the
//               session allocates: the microseconds of each, and a checksum of the last one's outputs. Integers are
//               one, floats random numbers that the sizes decide
//   sessions N  the seconds that making the first session anew takes, N times
//   try I       a run of session I, whose failure is {"failed": "..."} and ends nothing
//   release I   the seconds that the end of session I takes; all commands for it are over
//   rate S I... the runs a second of the sessions I... at once, each by a thread of its own, within S seconds
// A failure is {"error": "..."}; one while the session is made ends the worker.
#include <dlfcn.h>
#include <tenon/onnxruntime_c_api.h>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iostream>
#include <iterator>
#include <map>
#include <memory>
#include <random>
#include <sstream>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "ep/cuda/fake/fake_control.h"

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
  explicit Driver(int device) : device_(device) {}
  // The device's context is the calling thread's from then on.
  void open() {
    if (synchronize_ != nullptr) return check(push_current_(context_), "cuCtxPushCurrent");
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
    load("cuMemFree", free_);
    load("cuMemcpyAsync", copy_);
    load("cuCtxSynchronize", synchronize_);
    int device = 0;
    check(init_(0), "cuInit");
    check(device_get_(&device, device_), "cuDeviceGet");
    check(retain_(&context_, device), "cuDevicePrimaryCtxRetain");
    check(push_current_(context_), "cuCtxPushCurrent");
  }
  void* allocate(size_t bytes) const {
    uint64_t address = 0;
    check(allocate_(&address, bytes), "cuMemAlloc");
    return reinterpret_cast<void*>(address);
  }
  void free(void* memory) const { check(free_(reinterpret_cast<uint64_t>(memory)), "cuMemFree"); }
  void copy(void* dst, const void* src, size_t bytes) const {
    check(copy_(reinterpret_cast<uint64_t>(dst), reinterpret_cast<uint64_t>(src), bytes, nullptr), "cuMemcpyAsync");
    synchronize();
  }
  void synchronize() const { check(synchronize_(), "cuCtxSynchronize"); }

 private:
  static void check(int result, const char* call) {
    if (result != 0) stop(std::string(call) + " fails with " + std::to_string(result));
  }
  const int device_;
  void* context_ = nullptr;
  int (*init_)(unsigned) = nullptr;
  int (*device_get_)(int*, int) = nullptr;
  int (*retain_)(void**, int) = nullptr;
  int (*push_current_)(void*) = nullptr;
  int (*allocate_)(uint64_t*, size_t) = nullptr;
  int (*free_)(uint64_t) = nullptr;
  int (*copy_)(uint64_t, uint64_t, size_t, void*) = nullptr;
  int (*synchronize_)() = nullptr;
};

struct Arguments {
  std::string library, model, ep, plugin;
  std::vector<std::pair<std::string, std::string>> options;
  bool context = false;
  std::vector<int> devices;
};

// The library, with the plugin.
struct Host {
  explicit Host(const Arguments& arguments) {
    void* const library = ::dlopen(arguments.library.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) stop(::dlerror());
    auto* const base = reinterpret_cast<const OrtApiBase* (*)()>(::dlsym(library, "OrtGetApiBase"));
    if (base == nullptr) stop(arguments.library + " has no OrtGetApiBase");
    version = base()->GetVersionString();
    api = base()->GetApi(kApiVersion);
    if (api == nullptr) stop("the library has no API version " + std::to_string(kApiVersion));
    check(api->CreateEnv(ORT_LOGGING_LEVEL_ERROR, "gpu_worker", &env));
    if (!arguments.plugin.empty())
      check(api->RegisterExecutionProviderLibrary(env, "worker", arguments.plugin.c_str()));
  }

  void check(OrtStatus* status) const {
    if (status != nullptr) stop(api->GetErrorMessage(status));
  }

  // Null for EPs that the library is built with.
  const OrtEpDevice* find_device(const std::string& ep, int device) const {
    if (ep == kCpuEp || ep == kCudaEp) return nullptr;
    const OrtEpDevice* const* all = nullptr;
    size_t count = 0;
    check(api->GetEpDevices(env, &all, &count));
    int first = 0;
    for (size_t i = 0; i < count; ++i) {
      if (ep != api->EpDevice_EpName(all[i])) continue;
      const char* const number = api->GetKeyValue(api->EpDevice_EpMetadata(all[i]), "cuda_device_id");
      if ((number != nullptr ? std::atoi(number) : first++) == device) return all[i];
    }
    stop("no device " + std::to_string(device) + " of " + ep);
  }

  const OrtApi* api = nullptr;
  OrtEnv* env = nullptr;
  std::string version;
};

class Session {
 public:
  Session(const Host& host, const Arguments& arguments, size_t place, int device)
      : arguments_(arguments),
        on_device_(arguments.ep != kCpuEp),
        place_(std::to_string(place)),
        device_(device),
        driver_(device),
        api_(host.api),
        env_(host.env),
        ep_device_(host.find_device(arguments.ep, device)) {}

  void open_context() {
    if (on_device_) driver_.open();
  }

  double make() {
    OrtSessionOptions* options = nullptr;
    check(api_->CreateSessionOptions(&options));
    std::vector<const char*> keys, values;
    const std::string device_id = std::to_string(device_);
    if (arguments_.ep == kCudaEp) {
      keys.push_back("device_id");
      values.push_back(device_id.c_str());
    }
    std::vector<std::string> own;
    own.reserve(arguments_.options.size());
    for (const auto& [key, value] : arguments_.options) own.push_back(with_place(value));
    for (size_t i = 0; i < own.size(); ++i) {
      keys.push_back(arguments_.options[i].first.c_str());
      values.push_back(own[i].c_str());
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
    check(api_->CreateSession(env_, with_place(arguments_.model).c_str(), options, &session));
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

  void bind(const std::string& folder) {
    check(api_->CreateIoBinding(session_, &binding_));
    size_t inputs = 0, outputs = 0;
    check(api_->SessionGetInputCount(session_, &inputs));
    check(api_->SessionGetOutputCount(session_, &outputs));
    for (size_t i = 0; i < inputs; ++i) {
      std::ifstream file(folder + "/" + std::to_string(i) + ".bin", std::ios::binary);
      inputs_.push_back(add(true, i));
      put(inputs_.back(), file ? std::vector<char>(std::istreambuf_iterator<char>(file), {})
                               : std::vector<char>(inputs_.back().size_bytes));
    }
    for (size_t i = 0; i < outputs; ++i) {
      outputs_.push_back(add(false, i));
      if (!outputs_.back().shared) put(outputs_.back(), std::vector<char>(outputs_.back().size_bytes, '\xff'));
    }
  }

  // Inputs for these symbolic sizes, and outputs that the session allocates on the device.
  void bind_sizes(const std::map<std::string, int64_t>& sizes) {
    if (binding_ != nullptr) api_->ReleaseIoBinding(binding_);
    for (Bound& input : std::exchange(inputs_, {})) driver_.free(input.memory);
    check(api_->CreateIoBinding(session_, &binding_));
    size_t inputs = 0, outputs = 0;
    check(api_->SessionGetInputCount(session_, &inputs));
    check(api_->SessionGetOutputCount(session_, &outputs));
    for (size_t i = 0; i < inputs; ++i) {
      inputs_.push_back(add(true, i, sizes));
      put(inputs_.back(), made_up(inputs_.back()));
    }
    for (size_t i = 0; i < outputs; ++i) {
      OrtMemoryInfo* own = nullptr;
      check(api_->BindOutputToDevice(binding_, describe(false, i).name.c_str(), memory_info(&own)));
      if (own != nullptr) api_->ReleaseMemoryInfo(own);
    }
  }

  // FNV-1a of the outputs that the session has allocated.
  uint64_t checksum() const {
    OrtAllocator* allocator = nullptr;
    check(api_->GetAllocatorWithDefaultOptions(&allocator));
    OrtValue** values = nullptr;
    size_t count = 0;
    check(api_->GetBoundOutputValues(binding_, allocator, &values, &count));
    uint64_t sum = 0xcbf29ce484222325;
    for (size_t i = 0; i < count; ++i) {
      size_t size_bytes = 0;
      const void* data = nullptr;
      check(api_->GetTensorSizeInBytes(values[i], &size_bytes));
      check(api_->GetTensorData(values[i], &data));
      std::vector<unsigned char> bytes(size_bytes);
      if (size_bytes != 0) driver_.copy(bytes.data(), data, size_bytes);
      for (const unsigned char byte : bytes) sum = (sum ^ byte) * 0x100000001b3;
      api_->ReleaseValue(values[i]);
    }
    if (values != nullptr) check(api_->AllocatorFree(allocator, values));
    return sum;
  }

  void release() {
    if (binding_ != nullptr) api_->ReleaseIoBinding(binding_);
    api_->ReleaseSession(session_);
    binding_ = nullptr;
    session_ = nullptr;
  }

  // "" without a failure.
  std::string try_call() const {
    OrtStatus* const status = api_->RunWithBinding(session_, nullptr, binding_);
    if (status == nullptr) return "";
    std::string why = api_->GetErrorMessage(status);
    api_->ReleaseStatus(status);
    return why;
  }
  void call() const { check(api_->RunWithBinding(session_, nullptr, binding_)); }
  void wait() const {
    if (on_device_) driver_.synchronize();
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

 private:
  struct Bound {
    std::string name;
    ONNXTensorElementDataType type = ONNX_TENSOR_ELEMENT_DATA_TYPE_UNDEFINED;
    void* memory = nullptr;
    size_t size_bytes = 0;
    bool shared = false;  // an input's memory
  };

  void check(OrtStatus* status) const {
    if (status != nullptr) stop(api_->GetErrorMessage(status));
  }

  std::string with_place(std::string text) const {
    if (const size_t at = text.find("{}"); at != std::string::npos) text.replace(at, 2, place_);
    return text;
  }

  // Where the input is that an output continues.
  void* shared_memory(const Bound& output) const {
    for (const auto& [from, to] :
         {std::pair<std::string, std::string>("present.", "past_key_values."), {"next.", ""}}) {
      if (output.name.rfind(from, 0) != 0) continue;
      for (const Bound& input : inputs_)
        if (input.name == to + output.name.substr(from.size()) && input.size_bytes == output.size_bytes)
          return input.memory;
    }
    return nullptr;
  }

  // What the model says of an input or output.
  struct Described {
    std::string name;
    ONNXTensorElementDataType type = ONNX_TENSOR_ELEMENT_DATA_TYPE_UNDEFINED;
    std::vector<int64_t> dims;         // -1: a symbol
    std::vector<std::string> symbols;  // "" for numbers
  };
  Described describe(bool input, size_t index) const {
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
    Described described{.name = name, .dims = {}, .symbols = {}};
    size_t rank = 0;
    check(api_->GetTensorElementType(info, &described.type));
    check(api_->GetDimensionsCount(info, &rank));
    described.dims.resize(rank);
    std::vector<const char*> symbols(rank);
    check(api_->GetDimensions(info, described.dims.data(), rank));
    check(api_->GetSymbolicDimensions(info, symbols.data(), rank));
    described.symbols.assign(symbols.begin(), symbols.end());
    api_->ReleaseTypeInfo(type_info);
    check(api_->AllocatorFree(allocator, name));
    return described;
  }

  // A tensor of the session's input or output on the device, of the shape that the model says, with these sizes for its
  // symbols.
  Bound add(bool input, size_t index, const std::map<std::string, int64_t>& sizes = {}) {
    Described described = describe(input, index);
    Bound bound{.name = described.name, .type = described.type, .size_bytes = element_bytes(described.type)};
    for (size_t i = 0; i < described.dims.size(); ++i) {
      int64_t& dim = described.dims[i];
      if (const auto given = sizes.find(described.symbols[i]); dim < 0 && given != sizes.end()) dim = given->second;
      if (dim < 0) stop("\"" + bound.name + "\" has no fixed shape: \"" + described.symbols[i] + "\" is open");
      bound.size_bytes *= static_cast<size_t>(dim);
    }
    bound.memory = input ? nullptr : shared_memory(bound);
    bound.shared = bound.memory != nullptr;
    if (!bound.shared) bound.memory = on_device_ ? driver_.allocate(bound.size_bytes) : std::malloc(bound.size_bytes);
    OrtMemoryInfo* own = nullptr;
    OrtValue* value = nullptr;
    check(api_->CreateTensorWithDataAsOrtValue(memory_info(&own), bound.memory, bound.size_bytes, described.dims.data(),
                                               described.dims.size(), bound.type, &value));
    check(input ? api_->BindInput(binding_, bound.name.c_str(), value)
                : api_->BindOutput(binding_, bound.name.c_str(), value));
    api_->ReleaseValue(value);
    if (own != nullptr) api_->ReleaseMemoryInfo(own);
    return bound;
  }

  // Of the device's memory; `own` is the caller's where it is set.
  const OrtMemoryInfo* memory_info(OrtMemoryInfo** own) const {
    if (ep_device_ != nullptr) return api_->EpDevice_MemoryInfo(ep_device_, OrtDeviceMemoryType_DEFAULT);
    check(api_->CreateMemoryInfo(on_device_ ? "Cuda" : "Cpu", OrtDeviceAllocator, on_device_ ? device_ : 0,
                                 OrtMemTypeDefault, own));
    return *own;
  }

  // Numbers from -1 to 1, or ones.
  static std::vector<char> made_up(const Bound& input) {
    std::vector<char> bytes(input.size_bytes);
    std::minstd_rand random(static_cast<unsigned>(input.size_bytes));
    const auto fill = [&](auto one, auto next) {
      for (size_t at = 0; at < bytes.size(); at += sizeof(one)) {
        one = next();
        std::memcpy(&bytes[at], &one, sizeof(one));
      }
    };
    const auto number = [&] { return static_cast<float>(random() % 2001) / 1000 - 1; };
    switch (input.type) {
      case ONNX_TENSOR_ELEMENT_DATA_TYPE_INT64:
        fill(int64_t{}, [] { return 1; });
        break;
      case ONNX_TENSOR_ELEMENT_DATA_TYPE_INT32:
        fill(int32_t{}, [] { return 1; });
        break;
      case ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT:
        fill(float{}, number);
        break;
      default:  // 16 bits: numbers near one, whatever the type is
        fill(uint16_t{}, [&] {
          const uint16_t one = input.type == ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT16 ? 0x3800 : 0x3f00;
          return static_cast<uint16_t>((one + random() % 128) | (random() % 2 << 15));
        });
    }
    return bytes;
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

  const Arguments& arguments_;
  const bool on_device_;
  const std::string place_;
  const int device_;
  Driver driver_;
  const OrtApi* const api_;
  OrtEnv* const env_;
  const OrtEpDevice* const ep_device_;
  OrtSession* session_ = nullptr;
  OrtIoBinding* binding_ = nullptr;
  std::vector<Bound> inputs_, outputs_;
};

class Worker {
 public:
  explicit Worker(Arguments arguments) : arguments_(std::move(arguments)) {
    if (arguments_.devices.empty()) arguments_.devices.push_back(0);
    if (arguments_.context) Driver(arguments_.devices[0]).open();
    const auto start = Clock::now();
    const Host host(arguments_);
    for (const int device : arguments_.devices)
      sessions_.push_back(std::make_unique<Session>(host, arguments_, sessions_.size(), device));
    const double environment = seconds_since(start);
    double seconds = 0;
    for (const auto& session : sessions_) seconds += session->make();
    answer("{\"ready\": " + quoted(host.version) + ", \"environment_s\": " + std::to_string(environment) +
           ", \"session_s\": " + std::to_string(seconds) + "}");
  }

  void serve() {
    for (std::string line; std::getline(std::cin, line);) {
      std::istringstream words(line);
      std::string command, argument;
      words >> command >> argument;
      if (command == "bind") {
        for (const auto& session : sessions_) {
          session->open_context();
          session->bind(argument);
        }
        answer("{}");
      } else if (command == "run") {
        run(std::atoi(argument.c_str()));
      } else if (command == "save") {
        size_t index = 0;
        words >> index;
        sessions_.at(index)->open_context();
        sessions_[index]->save(argument);
        answer("{}");
      } else if (command == "sizes") {
        std::map<std::string, int64_t> sizes;
        for (std::string size; words >> size;)
          sizes[size.substr(0, size.find('='))] = std::atoll(size.substr(size.find('=') + 1).c_str());
        sessions_[0]->open_context();
        sessions_[0]->bind_sizes(sizes);
        run(std::atoi(argument.c_str()), true);
      } else if (command == "sessions") {
        std::string times;
        for (int i = std::atoi(argument.c_str()); i > 0; --i)
          times += (times.empty() ? "" : ", ") + std::to_string(sessions_[0]->make());
        answer("{\"session_s\": [" + times + "]}");
      } else if (command == "try") {
        const std::string failed = sessions_.at(static_cast<size_t>(std::atoi(argument.c_str())))->try_call();
        answer(failed.empty() ? "{}" : "{\"failed\": " + quoted(failed) + "}");
      } else if (command == "release") {
        const auto start = Clock::now();
        sessions_.at(static_cast<size_t>(std::atoi(argument.c_str())))->release();
        answer("{\"release_s\": " + std::to_string(seconds_since(start)) + "}");
      } else if (command == "rate") {
        std::vector<Session*> chosen;
        for (size_t index = 0; words >> index;) chosen.push_back(sessions_.at(index).get());
        rate(std::atof(argument.c_str()), chosen);
      } else {
        stop("there is no command \"" + line + "\"");
      }
    }
  }

 private:
  void run(int count, bool checksum = false) const {
    std::vector<std::thread> others;
    for (size_t other = 1; other < sessions_.size(); ++other)
      others.emplace_back([&session = *sessions_[other], count] {
        session.open_context();
        for (int i = 0; i < count; ++i) {
          session.call();
          session.wait();
        }
      });
    sessions_[0]->open_context();
    const Session& session = *sessions_[0];
    std::string times, calls;
    for (int i = 0; i < count; ++i) {
      const char* const comma = i == 0 ? "" : ", ";
      const auto start = Clock::now();
      session.call();
      calls += comma + std::to_string(seconds_since(start) * 1e6);
      session.wait();
      times += comma + std::to_string(seconds_since(start) * 1e6);
    }
    for (std::thread& other : others) other.join();
    const std::string sum = checksum ? ", \"checksum\": " + std::to_string(session.checksum()) : "";
    answer("{\"us\": [" + times + "], \"call_us\": [" + calls + "]" + sum + "}");
  }

  static void rate(double seconds, const std::vector<Session*>& sessions) {
    std::vector<double> rates(sessions.size());
    std::vector<std::thread> threads;
    threads.reserve(sessions.size());
    std::atomic<size_t> ready{0};
    for (size_t i = 0; i < sessions.size(); ++i)
      threads.emplace_back([&, i] {
        Session& session = *sessions[i];
        session.open_context();
        constexpr int kFirstRuns = 10;
        for (int run = 0; run < kFirstRuns; ++run) session.call();
        session.wait();
        // All begin at once.
        for (++ready; ready < sessions.size();) std::this_thread::yield();
        const auto start = Clock::now();
        int runs = 0;
        for (; seconds_since(start) < seconds; ++runs) {
          session.call();
          session.wait();
        }
        rates[i] = runs / seconds_since(start);
      });
    for (std::thread& thread : threads) thread.join();
    std::string text;
    for (const double one : rates) text += (text.empty() ? "" : ", ") + std::to_string(one);
    answer("{\"runs_per_s\": [" + text + "]}");
  }

  Arguments arguments_;
  std::vector<std::unique_ptr<Session>> sessions_;
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
    } else if (name == "--devices") {
      std::istringstream list(next);
      for (std::string device; std::getline(list, device, ',');) arguments.devices.push_back(std::atoi(device.c_str()));
    } else if (name == "--fake-devices") {
      void* const driver = ::dlopen("libcuda.so.1", RTLD_NOW | RTLD_GLOBAL);
      auto* const control = driver != nullptr ? ::dlsym(driver, tenon::cuda::fake::kFakeControl) : nullptr;
      if (control == nullptr) stop("libcuda.so.1 is not the tests' driver");
      static_cast<const tenon::cuda::fake::FakeControl*>(control)->show_devices(std::atoi(next.c_str()));
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
