// Bound memory in sessions: an output over an input, and memory of another GPU. Every copy is counted, and named with
// its reason.
//   tenon_cuda_bound_memory PLUGIN [--fake]
// Through the C++ API of libtenon. With --fake over the fake driver, which then has two devices; on one device,
// the checks that need two are left out.
#include <dlfcn.h>
#include <tenon/ep.h>
#include <tenon/session.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <string>
#include <vector>

#include "ep/cuda/fake/fake_control.h"
#include "programs/relu_model.h"

namespace {

using namespace tenon;  // NOLINT(google-build-using-namespace)

constexpr const char* kEp = "TenonCudaExecutionProvider";
constexpr int64_t kCount = 100'000;
constexpr size_t kBytes = kCount * sizeof(float);

int complaints = 0;
void expect(bool good, const std::string& what) {
  std::printf("%s  %s\n", good ? "ok   " : "WRONG", what.c_str());
  std::fflush(stdout);
  complaints += good ? 0 : 1;
}

// The result of a call; a failure ends the process.
template <typename T>
T value(Result<T> result) {
  if (!result.ok()) {
    std::printf("WRONG  %s\n", result.status().to_string().c_str());
    std::exit(1);
  }
  return std::move(result).value();
}
void need(const Status& status) {
  if (status.ok()) return;
  std::printf("WRONG  %s\n", status.to_string().c_str());
  std::exit(1);
}

std::vector<float> numbers(int seed) {
  std::vector<float> made(kCount);
  for (int64_t i = 0; i < kCount; ++i) made[static_cast<size_t>(i)] = static_cast<float>((i * 37 + seed) % 201 - 100);
  return made;
}
Tensor on_host(std::vector<float>& values) {
  return value(Tensor::view(DataType::kFloat, Shape{static_cast<int64_t>(values.size())}, values.data(),
                            values.size() * sizeof(float)));
}

// A chain of operators on one device, run from and into memory that a test chooses.
class Case {
 public:
  Case(const std::vector<std::string>& ops, size_t device, bool disallow_copies = false) {
    SessionOptions options;
    options.disallow_copies = disallow_copies;
    options.eps = {{.ep_name = kEp, .devices = {device}}};
    const std::vector<std::byte> model = test::chain_model(ops, {kCount});
    session_ = value(Session::load_from_bytes(model, options));
  }
  Session& session() { return *session_; }
  const MemorySpace& space() const { return session_->input_spaces()[0].space; }
  Tensor allocate(const MemorySpace& space, int64_t count = kCount) {
    return value(session_->allocate(DataType::kFloat, Shape{count}, space));
  }
  Status run(const Tensor& x, const Tensor& y, RunReport* report) {
    Binding binding = value(session_->make_binding());
    need(binding.bind_input("x", x));
    need(binding.bind_output("y", y));
    return session_->run(binding, {.report = report});
  }

 private:
  std::shared_ptr<Session> session_;
};

std::string text_of(const RunReport& report) {
  std::string text;
  for (const CopyRecord& copy : report.copies.records)
    text += std::string(text.empty() ? "" : ", ") + "\"" + copy.what + "\" from " + copy.source.to_string() + " to " +
            copy.target.to_string() + ": " + std::string(copy_reason_name(copy.reason));
  return text.empty() ? "no copies" : text;
}

bool relu_of(const std::vector<float>& got, const std::vector<float>& x) {
  for (size_t i = 0; i < got.size(); ++i)
    if (got[i] != std::max(x[i], 0.0F)) return false;
  return true;
}

// Elements [from, from + kCount) of a larger tensor.
Tensor part(const Tensor& whole, int64_t from) {
  return value(Tensor::view(DataType::kFloat, Shape{kCount},
                            static_cast<std::byte*>(whole.data()) + static_cast<size_t>(from) * sizeof(float), kBytes,
                            whole.owner(), whole.space()));
}

// S3.2: an operator that reads each element before it writes it runs where its input lies; the third run of a binding
// is a captured one.
void test_output_over_input() {
  Case relu({"Relu"}, 0, /*disallow_copies=*/true);
  const Tensor memory = relu.allocate(relu.space());
  for (int turn = 0; turn < 4; ++turn) {
    std::vector<float> x = numbers(turn), y(kCount);
    need(copy(memory, on_host(x)));
    RunReport report;
    const Status ran = relu.run(memory, memory, &report);
    need(copy(on_host(y), memory));
    expect(ran.ok() && report.copies.bytes_copied() == 0 && relu_of(y, x),
           "run " + std::to_string(turn) + " of Relu in place: " + (ran.ok() ? text_of(report) : ran.to_string()));
  }
}

// The output begins inside the input: it is made elsewhere and copied, and strict mode says so.
void test_partial_overlap() {
  Case relu({"Relu"}, 0), strict({"Relu"}, 0, /*disallow_copies=*/true);
  const Tensor memory = relu.allocate(relu.space(), 2 * kCount);
  for (const auto& [from, to] : {std::pair<int64_t, int64_t>{0, 1000}, {1000, 0}, {0, kCount - 64}}) {
    std::vector<float> x = numbers(static_cast<int>(to)), y(kCount);
    need(copy(part(memory, from), on_host(x)));
    RunReport report;
    const Status ran = relu.run(part(memory, from), part(memory, to), &report);
    need(copy(on_host(y), part(memory, to)));
    const bool counted = report.copies.records.size() == 1 && report.copies.bytes_copied() == kBytes &&
                         report.copies.records[0].reason == CopyReason::kOverlap;
    expect(ran.ok() && counted && relu_of(y, x), "input at " + std::to_string(from) + ", output at " +
                                                     std::to_string(to) + ": " +
                                                     (ran.ok() ? text_of(report) : ran.to_string()));
  }
  const Status refused = strict.run(part(memory, 0), part(memory, 1000), nullptr);
  expect(refused.message().find("overlaps input \"x\"") != std::string::npos, "strict: " + refused.to_string());
  std::vector<float> x = numbers(5), y(kCount);
  need(copy(part(memory, 0), on_host(x)));
  RunReport report;
  need(relu.run(part(memory, 0), part(memory, kCount), &report));
  need(copy(on_host(y), part(memory, kCount)));
  expect(report.copies.records.empty() && relu_of(y, x), "side by side: " + text_of(report));
}

// Host memory is copied to the device and back, over itself too.
void test_host_memory_over_itself() {
  Case relu({"Relu"}, 0);
  std::vector<float> x = numbers(3);
  std::vector<float> memory = x;
  RunReport report;
  const Status ran = relu.run(on_host(memory), on_host(memory), &report);
  expect(ran.ok() && report.copies.bytes_copied() == 2 * kBytes && relu_of(memory, x),
         "host memory in place: " + (ran.ok() ? text_of(report) : ran.to_string()));
}

// S6.1: kernels take multiples of 16 bytes. What begins elsewhere is copied by the host, which explains and counts it;
// strict mode refuses it with the address. The EP says "CUDA copies" if it meets one all the same (devices_test.py).
void test_addresses_that_kernels_do_not_take() {
  Case relu({"Relu"}, 0), strict({"Relu"}, 0, /*disallow_copies=*/true);
  MemorySpace pinned = relu.space();
  pinned.kind = MemoryKind::kHostAccessible;
  for (const MemorySpace& memory_space : {relu.space(), pinned}) {
    const Tensor in = relu.allocate(memory_space, 2 * kCount), out = relu.allocate(memory_space, 2 * kCount);
    for (const int64_t from : {0, 1, 2, 3, 4})
      for (const int64_t to : {0, 1, 2, 4}) {
        std::vector<float> x = numbers(static_cast<int>(from + to)), y(kCount);
        need(copy(part(in, from), on_host(x)));
        const bool copies_in = from % 4 != 0, copies_out = to % 4 != 0;
        const auto placed = [&](int64_t at) {
          MemorySpace space = memory_space;
          space.alignment = at % 4 == 0 ? 16 : at % 2 == 0 ? 8 : 4;
          return space;
        };
        const ExplainedCopies explained =
            value(relu.session().explain_copies({}, {{"x", placed(from)}, {"y", placed(to)}}));
        for (int turn = 0; turn < 3; ++turn) {
          RunReport report;
          const Status ran = relu.run(part(in, from), part(out, to), &report);
          need(copy(on_host(y), part(out, to)));
          bool right = ran.ok() && relu_of(y, x) && report.copies.records == explained.ledger.records &&
                       report.copies.records.size() == (copies_in ? 1U : 0U) + (copies_out ? 1U : 0U);
          for (const CopyRecord& record : report.copies.records)
            right = right && record.reason == CopyReason::kAlignment && record.bytes == kBytes;
          expect(right, "input at " + std::to_string(from) + ", output at " + std::to_string(to) + " of " +
                            memory_space.to_string() + ": " + (ran.ok() ? text_of(report) : ran.to_string()));
        }
        const Status refused = strict.run(part(in, from), part(out, to), nullptr);
        expect((copies_in || copies_out) ? refused.message().find("no multiple of the 16 bytes") != std::string::npos
                                         : refused.ok(),
               "strict: " + refused.to_string());
      }
  }
}

// Memory of another device is copied by the EP, and the plan says so before anything runs.
void test_two_devices() {
  size_t devices = 0;
  for (const EpDevice& device : ep_devices()) devices += device.ep_name == kEp ? 1 : 0;
  if (devices < 2) {
    std::printf("       one device only\n");
    return;
  }
  Case relus[] = {Case({"Relu"}, 0), Case({"Relu"}, 1)};
  const MemorySpace spaces[] = {relus[0].space(), relus[1].space()};
  expect(spaces[0].device_id != spaces[1].device_id, spaces[0].to_string() + " and " + spaces[1].to_string());
  for (size_t on = 0; on < 2; ++on)
    for (size_t from = 0; from < 2; ++from)
      for (size_t to = 0; to < 2; ++to) {
        const Tensor src = relus[from].allocate(spaces[from]), dst = relus[to].allocate(spaces[to]);
        std::vector<float> x = numbers(static_cast<int>(4 * on + 2 * from + to)), y(kCount);
        need(copy(src, on_host(x)));
        RunReport report;
        const Status ran = relus[on].run(src, dst, &report);
        need(copy(on_host(y), dst));
        const size_t wanted = (from != on ? 1 : 0) + (to != on ? 1 : 0);
        bool right = ran.ok() && relu_of(y, x) && report.copies.records.size() == wanted;
        for (const CopyRecord& record : report.copies.records)
          right = right && record.reason == CopyReason::kNotCompatible && record.bytes == kBytes &&
                  record.source.device_id != record.target.device_id;
        expect(right,
               "session on device " + std::to_string(on) + ": " + (ran.ok() ? text_of(report) : ran.to_string()));
      }
  const std::string plan = value(relus[0].session().explain({}, {{"x", spaces[1]}, {"y", spaces[1]}}));
  const std::string there = "from " + spaces[1].to_string() + " to " + spaces[0].to_string();
  const std::string back = "from " + spaces[0].to_string() + " to " + spaces[1].to_string();
  expect(plan.find(there) != std::string::npos && plan.find(back) != std::string::npos, "explained: " + plan);
  Case strict({"Relu"}, 0, /*disallow_copies=*/true);
  const Status refused = strict.run(relus[1].allocate(spaces[1]), strict.allocate(spaces[0]), nullptr);
  expect(refused.message().find(spaces[1].to_string()) != std::string::npos, "strict: " + refused.to_string());
  // An output that the session is to make on the other device.
  Binding binding = value(relus[0].session().make_binding());
  std::vector<float> x = numbers(9), y(kCount);
  need(binding.bind_input("x", on_host(x)));
  need(binding.bind_output_auto("y", spaces[1]));
  const Status ran = relus[0].session().run(binding);
  if (ran.ok()) need(copy(on_host(y), binding.output("y")));
  expect(ran.ok() && binding.output("y").space().device_id == spaces[1].device_id && relu_of(y, x),
         "an output that is made on the other device: " + ran.to_string());
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) {
    std::fprintf(stderr, "usage: %s PLUGIN [--fake]\n", argv[0]);
    return 2;
  }
  if (argc > 2 && std::strcmp(argv[2], "--fake") == 0) {
    void* const driver = ::dlopen("libcuda.so.1", RTLD_NOW);
    void* const control = driver != nullptr ? ::dlsym(driver, cuda::fake::kFakeControl) : nullptr;
    if (control == nullptr) {
      std::fprintf(stderr, "libcuda.so.1 is not the fake driver\n");
      return 2;
    }
    static_cast<const cuda::fake::FakeControl*>(control)->show_devices(2);
  }
  need(register_ep_library("cuda", argv[1]));
  test_output_over_input();
  test_partial_overlap();
  test_host_memory_over_itself();
  test_addresses_that_kernels_do_not_take();
  test_two_devices();
  return complaints == 0 ? 0 : 1;
}
