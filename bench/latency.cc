// Measures how long each run of a model takes that must answer in time: a voice detector by chunks of 32 ms, a noise
// suppressor frame by frame. Tenon and a stock libonnxruntime run in one process through the same C ABI, block by block
// in turns, on the caller's thread alone. Prints one JSON line.
//
//   latency MODEL LIBONNXRUNTIME RUNS INPUT... [-- STATE]
//
// INPUT is NAME:TYPE:DIMS with the type f32 or i64 (`sr:i64:` is a scalar; its value is 16000): float32 inputs get a
// tone that goes on from run to run. STATE is OUTPUT=INPUT:DIMS: what one run writes to the output is what the next one
// reads; two bindings take turns.
#include <dlfcn.h>
#include <tenon/onnxruntime_c_api.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <numeric>
#include <string>
#include <vector>

namespace {

constexpr int64_t kRate = 16000;
constexpr double kTone = 440;
constexpr int kBlock = 500;
constexpr int kWarmRuns = 50;

[[noreturn]] void stop(const std::string& why) {
  std::fprintf(stderr, "latency: %s\n", why.c_str());
  std::exit(1);
}

struct TensorSpec {
  std::string name;
  bool is_float = true;
  std::vector<int64_t> dims;
  size_t count() const {
    return static_cast<size_t>(std::accumulate(dims.begin(), dims.end(), int64_t{1}, std::multiplies<>()));
  }
};

std::vector<int64_t> read_dims(const std::string& text) {
  std::vector<int64_t> dims;
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find('x', at), text.size());
    dims.push_back(std::atoll(text.substr(at, end - at).c_str()));
    if (dims.back() < 1) stop("dimensions are numbers from 1: " + text);
    at = end + 1;
  }
  return dims;
}

struct Job {
  std::string model;
  std::vector<TensorSpec> inputs;
  std::string state_output;  // empty: the model keeps no state
  TensorSpec state;
};

Job read_job(int argc, char** argv) {
  Job job;
  job.model = argv[1];
  int at = 4;
  for (; at < argc && std::strcmp(argv[at], "--") != 0; ++at) {
    const std::string text = argv[at];
    const size_t first = text.find(':'), second = text.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) stop("an input is NAME:TYPE:DIMS: " + text);
    const std::string type = text.substr(first + 1, second - first - 1);
    if (type != "f32" && type != "i64") stop("the type of an input is f32 or i64: " + text);
    job.inputs.push_back({text.substr(0, first), type == "f32", read_dims(text.substr(second + 1))});
  }
  if (at + 1 < argc) {
    const std::string text = argv[at + 1];
    const size_t equals = text.find('='), colon = text.find(':');
    if (equals == std::string::npos || colon == std::string::npos) stop("a state is OUTPUT=INPUT:DIMS: " + text);
    job.state_output = text.substr(0, equals);
    job.state = {text.substr(equals + 1, colon - equals - 1), true, read_dims(text.substr(colon + 1))};
  }
  return job;
}

// A library behind the C ABI with a session of the model.
class Engine {
 public:
  Engine(const OrtApiBase* base, const Job& job) : job_(job), api_(base->GetApi(24)) {
    if (api_ == nullptr) stop("the library has no API version 24");
    OrtEnv* env = nullptr;
    check(api_->CreateEnv(ORT_LOGGING_LEVEL_ERROR, "latency", &env));
    OrtSessionOptions* options = nullptr;
    check(api_->CreateSessionOptions(&options));
    check(api_->SetIntraOpNumThreads(options, 1));
    check(api_->SetInterOpNumThreads(options, 1));
    check(api_->CreateSession(env, job.model.c_str(), options, &session_));
    check(api_->CreateCpuMemoryInfo(OrtArenaAllocator, OrtMemTypeDefault, &memory_));
    floats_.resize(job.inputs.size());
    for (size_t i = 0; i < job.inputs.size(); ++i) {
      const TensorSpec& input = job.inputs[i];
      floats_[i].assign(input.count(), 0.0f);
      values_.push_back(input.is_float ? value(floats_[i].data(), input) : value(&rate_, input));
    }
    for (auto& state : states_) {
      state.assign(job.state_output.empty() ? 0 : job.state.count(), 0.0f);
      if (!state.empty()) state_values_.push_back(value(state.data(), job.state));
    }
    for (size_t turn = 0; turn < 2; ++turn) bind(turn);
  }

  // The samples of the next run into the inputs.
  void feed() {
    for (size_t i = 0; i < job_.inputs.size(); ++i) {
      if (!job_.inputs[i].is_float) continue;
      for (float& sample : floats_[i])
        sample = static_cast<float>(0.3 * std::sin(2 * M_PI * kTone * static_cast<double>(sample_++) / kRate));
    }
  }
  double run_us() {
    const auto begin = std::chrono::steady_clock::now();
    check(api_->RunWithBinding(session_, nullptr, bindings_[turn_]));
    const double took = std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - begin).count();
    turn_ = 1 - turn_;
    return took;
  }
  const std::vector<float>& last_state() const { return states_[turn_]; }
  // Of the first output.
  std::vector<float> result() {
    OrtAllocator* allocator = nullptr;
    check(api_->GetAllocatorWithDefaultOptions(&allocator));
    OrtValue** outputs = nullptr;
    size_t count = 0;
    check(api_->GetBoundOutputValues(bindings_[1 - turn_], allocator, &outputs, &count));
    float* data = nullptr;
    check(api_->GetTensorMutableData(outputs[0], reinterpret_cast<void**>(&data)));
    OrtTensorTypeAndShapeInfo* info = nullptr;
    check(api_->GetTensorTypeAndShape(outputs[0], &info));
    size_t elements = 0;
    check(api_->GetTensorShapeElementCount(info, &elements));
    return {data, data + elements};
  }

 private:
  void check(OrtStatus* status) const {
    if (status != nullptr) stop(api_->GetErrorMessage(status));
  }
  template <typename T>
  OrtValue* value(T* data, const TensorSpec& spec) {
    OrtValue* made = nullptr;
    const auto type = spec.is_float ? ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT : ONNX_TENSOR_ELEMENT_DATA_TYPE_INT64;
    check(api_->CreateTensorWithDataAsOrtValue(memory_, data, spec.count() * (spec.is_float ? 4 : 8), spec.dims.data(),
                                               spec.dims.size(), type, &made));
    return made;
  }
  void bind(size_t turn) {
    OrtIoBinding* binding = nullptr;
    check(api_->CreateIoBinding(session_, &binding));
    for (size_t i = 0; i < values_.size(); ++i)
      check(api_->BindInput(binding, job_.inputs[i].name.c_str(), values_[i]));
    OrtAllocator* allocator = nullptr;
    check(api_->GetAllocatorWithDefaultOptions(&allocator));
    size_t count = 0;
    check(api_->SessionGetOutputCount(session_, &count));
    for (size_t i = 0; i < count; ++i) {
      char* name = nullptr;
      check(api_->SessionGetOutputName(session_, i, allocator, &name));
      if (name != job_.state_output) check(api_->BindOutputToDevice(binding, name, memory_));
    }
    if (!job_.state_output.empty()) {
      check(api_->BindInput(binding, job_.state.name.c_str(), state_values_[turn]));
      check(api_->BindOutput(binding, job_.state_output.c_str(), state_values_[1 - turn]));
    }
    bindings_[turn] = binding;
  }

  const Job& job_;
  const OrtApi* api_;
  OrtSession* session_ = nullptr;
  OrtMemoryInfo* memory_ = nullptr;
  OrtIoBinding* bindings_[2] = {};
  std::vector<std::vector<float>> floats_;
  std::vector<OrtValue*> values_, state_values_;
  std::vector<float> states_[2];
  int64_t rate_ = kRate;
  int64_t sample_ = 0;
  size_t turn_ = 0;
};

void print_times(const char* name, std::vector<double> times) {
  std::sort(times.begin(), times.end());
  const auto at = [&](double part) { return times[static_cast<size_t>(part * static_cast<double>(times.size() - 1))]; };
  std::printf(", \"%s\": {\"p50_us\": %.2f, \"p99_us\": %.2f, \"p999_us\": %.2f, \"max_us\": %.2f}", name, at(0.5),
              at(0.99), at(0.999), times.back());
}

double largest_difference(const std::vector<float>& a, const std::vector<float>& b) {
  if (a.size() != b.size()) stop("the libraries' outputs have other sizes");
  double largest = 0;
  for (size_t i = 0; i < a.size(); ++i)
    largest = std::max(largest, std::fabs(double{a[i]} - double{b[i]}) / std::max(1.0, std::fabs(double{b[i]})));
  return largest;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 5) stop("usage: latency MODEL LIBONNXRUNTIME RUNS INPUT... [-- STATE]");
  const int runs = std::atoi(argv[3]);
  if (runs < kBlock) stop("RUNS is a count of at least 500");
  const Job job = read_job(argc, argv);
  void* library = dlopen(argv[2], RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) stop(dlerror());
  const auto entry = reinterpret_cast<const OrtApiBase* (*)()>(dlsym(library, "OrtGetApiBase"));
  if (entry == nullptr) stop("the library has no OrtGetApiBase");
  Engine engines[] = {{OrtGetApiBase(), job}, {entry(), job}};
  std::vector<double> times[2];
  for (auto& list : times) list.reserve(static_cast<size_t>(runs));
  for (int first = 0; first < runs; first += kBlock) {
    for (int e = 0; e < 2; ++e) {
      Engine& engine = engines[e];
      // The other engine's block has emptied the caches.
      for (int i = 0; i < (first == 0 ? kWarmRuns : 2); ++i) {
        engine.feed();
        (void)engine.run_us();
      }
      for (int i = first; i < std::min(first + kBlock, runs); ++i) {
        engine.feed();
        times[e].push_back(engine.run_us());
      }
    }
  }
  const double difference = std::max(largest_difference(engines[0].result(), engines[1].result()),
                                     largest_difference(engines[0].last_state(), engines[1].last_state()));
  if (!(difference < 1e-3)) stop("the libraries disagree on the last result by " + std::to_string(difference));
  std::printf("{\"runs\": %d, \"difference\": %.2e", runs, difference);
  print_times("tenon", std::move(times[0]));
  print_times("onnxruntime", std::move(times[1]));
  std::printf("}\n");
  // Sessions and values go with the process: only runs are measured.
  std::_Exit(std::fflush(stdout));
}
