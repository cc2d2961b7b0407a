#include "problems/runner.h"

#include <tenon/plan_report.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstring>
#include <functional>

#include "base/format.h"
#include "base/status.h"
#include "problems/family.h"

namespace tenon::problems {

namespace {

using Clock = std::chrono::steady_clock;

Result<std::vector<std::pair<std::string, Tensor>>> tensors_of(const Case& test) {
  std::vector<std::pair<std::string, Tensor>> inputs;
  for (const Case::Feed& feed : test.feeds()) {
    TENON_TRY_ASSIGN(Tensor tensor, Tensor::allocate(feed.type, Shape(feed.dims)));
    if (!feed.bytes.empty()) std::memcpy(tensor.data(), feed.bytes.data(), feed.bytes.size());
    inputs.emplace_back(feed.name, std::move(tensor));
  }
  return inputs;
}

// The kernels of the plan for these inputs. `blocked`: some step has to read blocks of channels, of floats or, in a
// problem of another type, of that.
Result<std::vector<std::string>> planned_kernels(Session& session, const Case& test, const Problem& problem) {
  bool blocked = problem.has("blocked");
  std::map<std::string, Shape> shapes;
  for (const Case::Feed& feed : test.feeds()) shapes.emplace(feed.name, Shape(feed.dims));
  TENON_TRY_ASSIGN(const PlanReport report, session.plan_report(shapes, {}));
  std::vector<std::string> kernels;
  for (const PlanReport::Step& step : report.steps) {
    kernels.push_back(step.kernel);
    for (const PlanReport::Tensor& input : step.inputs)
      blocked = blocked && !(input.blocked8 && step.op_type != "Reorder" &&
                             (is_float(problem.type) || input.type == problem.type));
  }
  if (blocked) return internal_error("Nothing reads blocks of channels: {}", report.to_text());
  return kernels;
}

// Memory for an output, full of NaN or of ones, between bytes that have to stay.
class Guarded {
 public:
  explicit Guarded(size_t size_bytes) : size_bytes_(size_bytes), bytes_(size_bytes + 3 * kGuard, kMark) {
    auto address = reinterpret_cast<uintptr_t>(bytes_.data()) + kGuard;
    data_ = reinterpret_cast<std::byte*>((address + kGuard - 1) / kGuard * kGuard);
    clear();
  }
  void clear() { std::memset(data_, 0xff, size_bytes_); }
  std::byte* data() { return data_; }
  bool intact() const {
    const auto is_mark = [](std::byte byte) { return byte == kMark; };
    const std::byte* end = bytes_.data() + bytes_.size();
    return std::all_of(bytes_.data(), static_cast<const std::byte*>(data_), is_mark) &&
           std::all_of(static_cast<const std::byte*>(data_) + size_bytes_, end, is_mark);
  }

 private:
  static constexpr size_t kGuard = 64;
  static constexpr std::byte kMark{0xa5};
  size_t size_bytes_;
  std::vector<std::byte> bytes_;
  std::byte* data_ = nullptr;
};

// A transform of Winograd's adds several products of neighbouring pixels before they are taken apart again.
constexpr double kWinograd = 16;

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

std::string duration(double seconds) {
  return seconds < 1e-3 ? format("{:.1f} us", seconds * 1e6) : format("{:.3f} ms", seconds * 1e3);
}

}  // namespace

Comparison compare(const Array& wanted, const void* got, double widened) {
  double largest = 0;
  if (widened > 1)
    for (double bound : wanted.e) largest = std::max(largest, bound);
  const size_t size = data_type_size(wanted.type);
  Comparison worst;
  double worst_ratio = -1;
  for (int64_t i = 0; i < wanted.count(); ++i) {
    const double value = decode(static_cast<const std::byte*>(got) + static_cast<size_t>(i) * size, wanted.type);
    const double want = wanted[i], bound = widened > 1 ? widened * largest : wanted.error(i);
    bool within = std::isnan(want)
                      ? std::isnan(value)
                      : value >= round_to(want - bound, wanted.type) && value <= round_to(want + bound, wanted.type);
    const double error = std::isnan(value) != std::isnan(want) ? INFINITY
                         : value == want || std::isnan(want)   ? 0
                                                               : std::fabs(value - want);
    const double ratio = within ? (error == 0 ? 0 : std::min(1.0, error / std::max(bound, error))) : 2 + error;
    if (ratio <= worst_ratio) continue;
    worst_ratio = ratio;
    worst = {within, i, value, want, error, bound};
  }
  return worst;
}

std::string Comparison::text(const std::string& name, const Dims& dims) const {
  if (element < 0) return format("{} is empty", name);
  std::string index;
  for (int64_t one : index_of(element, dims)) index += format("{}{}", index.empty() ? "" : ",", one);
  return format("error {:.2e} of {:.2e} allowed at {}[{}]: {} instead of {}", error, bound, name, index, got, wanted);
}

Result<Runner> Runner::create(const RunnerOptions& options) {
  Runner runner;
  runner.options_ = options;
  for (int threads : options.threads) {
    TENON_TRY_ASSIGN(std::shared_ptr<ThreadPool> pool, ThreadPool::create({.threads = threads}));
    runner.pools_.push_back(std::move(pool));
  }
  if (!options.stock.empty()) {
    TENON_TRY_ASSIGN(runner.stock_, open_stock(options.stock));
  }
  if (options.ep == "cpu") return runner;
  const size_t equals = options.ep.find('=');
  const std::string name = options.ep.substr(0, equals);
  const std::string library =
      equals == std::string::npos ? format("libtenon_ep_{}.so", name) : options.ep.substr(equals + 1);
  TENON_TRY(register_ep_library(name, library));
  for (const EpDevice& device : ep_devices())
    if (device.library == name && runner.ep_name_.empty()) runner.ep_name_ = device.ep_name;
  if (runner.ep_name_.empty()) return not_found("The library {} offers no device on this machine.", library);
  return runner;
}

SessionOptions Runner::session_options(size_t pool) const {
  SessionOptions options;
  options.pool = pools_[pool];
  if (!ep_name_.empty()) options.eps = {{.ep_name = ep_name_, .options = options_.ep_options}};
  return options;
}

Outcome Runner::run(const Problem& problem) const {
  Case test(problem, options_.seed);
  if (const Status status = problem.family->build(problem, test); !status.ok())
    return {Verdict::kFailed, format("this is no problem of {}: {}", problem.family->name, status.message())};
  Result<Outcome> outcome = run_case(problem, test);
  if (outcome.ok()) return *outcome;
  const bool missing = outcome.status().code() == StatusCode::kUnsupported;
  return {missing ? Verdict::kUnsupported : Verdict::kFailed, outcome.status().to_string()};
}

Result<Outcome> Runner::run_case(const Problem& problem, const Case& test) const {
  TENON_TRY_ASSIGN(const auto inputs, tensors_of(test));
  const std::string model = test.model();
  Outcome outcome{Verdict::kPassed, ""};
  double worst = -1;
  for (size_t pool = 0; pool < pools_.size(); ++pool) {
    TENON_TRY_ASSIGN(const std::shared_ptr<Session> session,
                     Session::load_from_bytes(std::as_bytes(std::span(model)), session_options(pool)));
    double widened = 1;
    if (!ep_name_.empty()) {
      const auto& parts = session->assignments();
      if (std::none_of(parts.begin(), parts.end(), [&](const EpAssignment& part) { return part.ep_name == ep_name_; }))
        return Outcome{Verdict::kElsewhere, format("{} takes no node of it", ep_name_)};
    } else if (problem.family->name == "conv" || problem.has("cpu") || problem.has("blocked")) {
      TENON_TRY_ASSIGN(const std::vector<std::string> kernels, planned_kernels(*session, test, problem));
      std::string listed;
      bool found = !problem.has("cpu");
      for (const std::string& kernel : kernels) {
        if (kernel.find("winograd") != std::string::npos) widened = kWinograd;
        std::string name = kernel;
        std::replace(name.begin(), name.end(), ' ', '_');
        found = found || name == problem.word("cpu");
        listed += format("{}{}", listed.empty() ? "" : ", ", kernel);
      }
      if (!found)
        return Outcome{Verdict::kFailed, format("the plan has no kernel {}, but {}", problem.word("cpu"), listed)};
    }
    TENON_TRY_ASSIGN(Binding binding, session->make_binding());
    for (const auto& [name, tensor] : inputs) TENON_TRY(binding.bind_input(name, tensor));
    std::vector<std::unique_ptr<Guarded>> memory;
    for (size_t i = 0; i < test.expected().size(); ++i) {
      const Array& wanted = test.expected()[i].data;
      const size_t size_bytes = wanted.v.size() * data_type_size(wanted.type);
      memory.push_back(std::make_unique<Guarded>(size_bytes));
      TENON_TRY_ASSIGN(Tensor tensor, Tensor::view(wanted.type, Shape(wanted.dims), memory[i]->data(), size_bytes));
      TENON_TRY(binding.bind_output(i, std::move(tensor)));
    }
    // A second run finds the memory as the first one left it. A device captures a binding that comes again, and
    // launches the graph when it comes once more.
    const int runs = ep_name_.empty() ? 2 : 3;
    for (int run = 0; run < runs; ++run) {
      for (const auto& output : memory) output->clear();
      TENON_TRY(session->run(binding));
      for (size_t i = 0; i < test.expected().size(); ++i) {
        const Value& wanted = test.expected()[i];
        const Tensor output = binding.output(i);
        const auto which = [&] { return format(" ({} threads, run {})", options_.threads[pool], run + 1); };
        if (!memory[i]->intact())
          return Outcome{Verdict::kFailed, format("bytes beside output {} were written", i) + which()};
        if (output.type() != wanted.data.type || output.shape() != Shape(wanted.data.dims))
          return Outcome{Verdict::kFailed, format("output {} is {}{} instead of {}{}", i, data_type_name(output.type()),
                                                  output.shape().to_string(), data_type_name(wanted.data.type),
                                                  Shape(wanted.data.dims).to_string())};
        const Comparison compared = compare(wanted.data, output.data(), widened);
        const std::string name = test.expected().size() == 1 ? "y" : format("y{}", i);
        if (!compared.within) return Outcome{Verdict::kFailed, compared.text(name, wanted.data.dims) + which()};
        const double ratio = compared.error == 0 ? 0 : compared.error / compared.bound;
        if (ratio <= worst) continue;
        worst = ratio;
        outcome.text = compared.text(name, wanted.data.dims);
      }
    }
  }
  if (options_.time) {
    TENON_TRY_ASSIGN(const std::string times, time(test));
    outcome.text = times + "; " + outcome.text;
  }
  return outcome;
}

Result<std::string> Runner::time(const Case& test) const {
  const std::string model = test.model();
  TENON_TRY_ASSIGN(const std::shared_ptr<Session> session,
                   Session::load_from_bytes(std::as_bytes(std::span(model)), session_options(0)));
  TENON_TRY_ASSIGN(Binding binding, session->make_binding());
  TENON_TRY_ASSIGN(const auto inputs, tensors_of(test));
  for (const auto& [name, tensor] : inputs) TENON_TRY(binding.bind_input(name, tensor));
  std::unique_ptr<StockSession> stock;
  std::string refused;
  if (stock_ != nullptr) {
    Result<std::unique_ptr<StockSession>> loaded = stock_->load(test, options_.threads[0]);
    if (loaded.ok()) {
      stock = std::move(*loaded);
    } else {
      refused = loaded.status().message();
    }
  }
  // In turn, so that both meet the same machine. The first runs plan.
  std::vector<double> own, other;
  const Clock::time_point begin = Clock::now();
  for (int run = 0; run < 2000; ++run) {
    const auto timed = [&](std::vector<double>& times, const std::function<Status()>& call) -> Status {
      const Clock::time_point start = Clock::now();
      TENON_TRY(call());
      if (run >= 3) times.push_back(std::chrono::duration<double>(Clock::now() - start).count());
      return {};
    };
    TENON_TRY(timed(own, [&] { return session->run(binding); }));
    if (stock != nullptr) TENON_TRY(timed(other, [&] { return stock->run(); }));
    if (run >= 20 && Clock::now() - begin > std::chrono::milliseconds(300)) break;
  }
  // Beside other work on the machine the least times say more than the medians.
  const auto least = [](const std::vector<double>& times) { return *std::min_element(times.begin(), times.end()); };
  std::string text = format("median {}, least {}", duration(median(own)), duration(least(own)));
  if (!other.empty()) {
    text += format(", onnxruntime {}, least {}, ratio {:.2f}, of the least {:.2f}", duration(median(other)),
                   duration(least(other)), median(own) / median(other), least(own) / least(other));
  }
  if (!refused.empty()) text += format(", onnxruntime refuses it ({})", refused);
  return text;
}

}  // namespace tenon::problems
