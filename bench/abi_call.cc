// Measures the nanoseconds of a run of a small model through the C++ API, through the C ABI of libtenon, and through
// the same ABI of a libonnxruntime that is given by path, in one process, round by round. Prints one JSON line.
//
//   abi_call MODEL LIBONNXRUNTIME [ROUNDS] [RUNS]
//
// The model has one float input "x" of 1x8 and one float output "y" (bench/abi_call.py makes it). One thread each.
#include <dlfcn.h>
#include <tenon/onnxruntime_c_api.h>
#include <tenon/session.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <string>
#include <vector>

namespace {

constexpr size_t kElements = 8;
constexpr std::array<int64_t, 2> kDims = {1, kElements};
std::array<float, kElements> input = {1, -2, 3, -4, 5, -6, 7, -8};

[[noreturn]] void stop(const std::string& why) {
  std::fprintf(stderr, "abi_call: %s\n", why.c_str());
  std::exit(1);
}

// One library behind the C ABI with a session of the model.
class Abi {
 public:
  Abi(const OrtApiBase* base, const char* model) : api_(base->GetApi(24)) {
    if (api_ == nullptr) stop("the library has no API version 24");
    OrtEnv* env = nullptr;
    check(api_->CreateEnv(ORT_LOGGING_LEVEL_ERROR, "abi_call", &env));
    OrtSessionOptions* options = nullptr;
    check(api_->CreateSessionOptions(&options));
    check(api_->SetIntraOpNumThreads(options, 1));
    check(api_->SetInterOpNumThreads(options, 1));
    check(api_->CreateSession(env, model, options, &session_));
    OrtMemoryInfo* info = nullptr;
    check(api_->CreateCpuMemoryInfo(OrtArenaAllocator, OrtMemTypeDefault, &info));
    x_ = value(info, input.data());
    y_ = value(info, output.data());
    check(api_->CreateIoBinding(session_, &binding_));
    check(api_->BindInput(binding_, "x", x_));
    check(api_->BindOutput(binding_, "y", y_));
  }

  void run_into_given() { check(api_->Run(session_, nullptr, &kX, &x_, 1, &kY, 1, &y_)); }
  void run_into_new() {
    OrtValue* made = nullptr;
    check(api_->Run(session_, nullptr, &kX, &x_, 1, &kY, 1, &made));
    api_->ReleaseValue(made);
  }
  void run_binding() { check(api_->RunWithBinding(session_, nullptr, binding_)); }

  std::array<float, kElements> output{};

 private:
  static constexpr const char* kX = "x";
  static constexpr const char* kY = "y";

  void check(OrtStatus* status) {
    if (status != nullptr) stop(api_->GetErrorMessage(status));
  }
  OrtValue* value(const OrtMemoryInfo* info, float* data) {
    OrtValue* made = nullptr;
    check(api_->CreateTensorWithDataAsOrtValue(info, data, kElements * sizeof(float), kDims.data(), kDims.size(),
                                               ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT, &made));
    return made;
  }

  const OrtApi* api_;
  OrtSession* session_ = nullptr;
  OrtIoBinding* binding_ = nullptr;
  OrtValue* x_ = nullptr;
  OrtValue* y_ = nullptr;
};

struct Case {
  std::string name;
  std::function<void()> run;
  std::vector<double> ns;
};

double measure(const std::function<void()>& run, int runs) {
  const auto begin = std::chrono::steady_clock::now();
  for (int i = 0; i < runs; ++i) run();
  return std::chrono::duration<double, std::nano>(std::chrono::steady_clock::now() - begin).count() / runs;
}

double quantile(std::vector<double> values, double at) {
  std::sort(values.begin(), values.end());
  return values[static_cast<size_t>(at * static_cast<double>(values.size() - 1))];
}

template <typename T>
T must(tenon::Result<T> result) {
  if (!result.ok()) stop(result.status().to_string());
  return std::move(result).value();
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3) stop("usage: abi_call MODEL LIBONNXRUNTIME [ROUNDS] [RUNS]");
  const int rounds = argc > 3 ? std::atoi(argv[3]) : 60;
  const int runs = argc > 4 ? std::atoi(argv[4]) : 2000;
  if (rounds < 1 || runs < 1) stop("ROUNDS and RUNS are counts");

  void* library = dlopen(argv[2], RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) stop(dlerror());
  const auto entry = reinterpret_cast<const OrtApiBase* (*)()>(dlsym(library, "OrtGetApiBase"));
  if (entry == nullptr) stop("the library has no OrtGetApiBase");

  const auto session = must(tenon::Session::load(argv[1], {.threads = 1}));
  auto binding = must(session->make_binding());
  std::array<float, kElements> output{};
  const auto view = [](float* data) {
    return must(tenon::Tensor::view(tenon::DataType::kFloat, tenon::Shape(kDims), data, kElements * sizeof(float)));
  };
  const tenon::Tensor x = view(input.data()), y = view(output.data());
  const auto check = [](const tenon::Status& status) {
    if (!status.ok()) stop(status.to_string());
  };
  check(binding.bind_input("x", x));
  check(binding.bind_output("y", y));
  Abi ours(OrtGetApiBase(), argv[1]), stock(entry(), argv[1]);

  std::vector<Case> cases = {
      {"cpp_run", [&] { check(session->run(binding)); }, {}},
      {"cpp_bind_and_run",
       [&] {
         check(binding.bind_input("x", x));
         check(binding.bind_output("y", y));
         check(session->run(binding));
       },
       {}},
      {"tenon_run_given", [&] { ours.run_into_given(); }, {}},
      {"tenon_run_new", [&] { ours.run_into_new(); }, {}},
      {"tenon_binding", [&] { ours.run_binding(); }, {}},
      {"stock_run_given", [&] { stock.run_into_given(); }, {}},
      {"stock_run_new", [&] { stock.run_into_new(); }, {}},
      {"stock_binding", [&] { stock.run_binding(); }, {}},
  };
  for (Case& one : cases) measure(one.run, runs);
  for (size_t i = 0; i < kElements; ++i) {
    if (output[i] != stock.output[i] || ours.output[i] != stock.output[i]) stop("the libraries disagree on the result");
  }
  for (int round = 0; round < rounds; ++round) {
    for (Case& one : cases) one.ns.push_back(measure(one.run, runs));
  }
  std::printf("{\"rounds\": %d, \"runs\": %d", rounds, runs);
  for (const Case& one : cases) {
    std::printf(", \"%s\": {\"median_ns\": %.0f, \"p10_ns\": %.0f, \"p90_ns\": %.0f}", one.name.c_str(),
                quantile(one.ns, 0.5), quantile(one.ns, 0.1), quantile(one.ns, 0.9));
  }
  std::printf("}\n");
  // Sessions and values go with the process: only runs are measured.
  std::_Exit(std::fflush(stdout));
}
