#include "ep/cuda/compute/tuning.h"

#include <algorithm>
#include <vector>

#include "base/format.h"
#include "ep/cuda/compute/algorithm_cache.h"
#include "ep/cuda/lap.h"

namespace tenon::cuda {

namespace {

// A new shape of a model that runs already: what is left of a frame.
constexpr double kNewShapeMs = 15;
constexpr double kFirstLineMs = 1000, kNextLineMs = 4000;
// Choices whose estimate is close to the best are measured. An estimate includes what a launch costs, and misses by
// that much: of kernels that take a few microseconds more are measured, which is quick.
constexpr double kClose = 1.25, kLaunchNs = 8000, kQuickNs = 40'000;
constexpr size_t kMostMeasured = 6, kMostQuick = 24;
// A run of a measurement: so long that what a launch costs is little beside it. One whose first run takes this much
// longer than the best needs no second.
constexpr double kRunNs = 150'000, kFarFromBest = 1.05;
constexpr int kFewestCalls = 3, kMostCalls = 12, kRepeats = 2;
// Tried where there is no time: choices come with the likely ones of each library first.
constexpr size_t kFew = 3;
// So many behind the best one: where time is scarce, no further ones are tried.
constexpr size_t kUnlikely = 16;

}  // namespace

bool TuningBudget::spent() const {
  if (!limited()) return false;
  const auto state = state_.lock();
  return state->total_ms >= (state->limit_ms > 0 ? state->limit_ms : static_cast<double>(budget_ms_));
}

bool TuningBudget::scarce() const { return limited() && 2 * total_ms() >= static_cast<double>(budget_ms_); }

void TuningBudget::begin_plan(bool varies) {
  auto state = state_.lock();
  state->limit_ms = varies ? state->total_ms + kNewShapeMs : 0;
}

void TuningBudget::add(double ms) { state_.lock()->total_ms += ms; }

void TuningBudget::end_problem(double ms) {
  std::string line;
  {
    auto state = state_.lock();
    state->total_ms += ms;
    ++state->problems;
    if (!tell_ || state->total_ms < (state->told_ms == 0 ? kFirstLineMs : state->told_ms + kNextLineMs)) return;
    state->told_ms = state->total_ms;
    line = format(
        "CUDA chooses kernels by measuring: {} problems in {:.1f} s so far. Option tune_budget_ms{} limits that; "
        "choices last in the file that option algorithm_cache names.",
        state->problems, state->total_ms / 1e3, limited() ? format(" = {}", budget_ms_) : "");
  }
  tell_(line);
}

Result<Fastest> find_fastest(const CudaDevice& device, CUstream stream, size_t count, TuningBudget* budget,
                             const std::function<Status(size_t index, CUstream stream)>& queue) {
  struct Tried {
    size_t index = 0;
    double ns = 0;
  };
  Lap lap;
  const auto no_time = [&] {
    if (budget == nullptr) return false;
    budget->add(lap.ms());
    return budget->spent();
  };
  std::vector<Tried> tried;
  Status failed;
  Fastest fastest;
  size_t best = 0;  // of tried
  for (size_t i = 0; i < count; ++i) {
    const bool unlikely = budget != nullptr && tried.size() >= best + kUnlikely && budget->scarce();
    if (unlikely || (tried.size() >= kFew && no_time())) {
      fastest.hasty = true;
      break;
    }
    const Result<double> ns = estimate_ns(device, stream, [&](CUstream to) { return queue(i, to); });
    if (!ns.ok()) {
      failed = ns.status();
      continue;
    }
    tried.push_back({i, *ns});
    if (*ns < tried[best].ns) best = tried.size() - 1;
  }
  if (tried.empty()) return failed;
  std::stable_sort(tried.begin(), tried.end(), [](const Tried& a, const Tried& b) { return a.ns < b.ns; });
  const double limit = tried.front().ns * kClose + kLaunchNs;
  std::erase_if(tried, [&](const Tried& one) { return one.ns > limit; });
  tried.resize(std::min(tried.size(), tried.front().ns < kQuickNs ? kMostQuick : kMostMeasured));
  fastest.index = tried.front().index;
  double best_ns = 0;
  for (const Tried& one : tried) {
    if (tried.size() == 1) break;
    if (no_time()) {
      fastest.hasty = true;
      break;
    }
    const MeasureEffort effort{
        .calls = std::clamp(static_cast<int>(kRunNs / std::max(one.ns, 1.0)), kFewestCalls, kMostCalls),
        .repeats = kRepeats,
        .give_up_ns = best_ns * kFarFromBest};
    const Result<double> ns = measure_ns(device, stream, [&](CUstream to) { return queue(one.index, to); }, effort);
    if (!ns.ok() || (best_ns != 0 && *ns >= best_ns)) continue;
    best_ns = *ns;
    fastest.index = one.index;
  }
  if (budget != nullptr) budget->end_problem(lap.ms());
  return fastest;
}

}  // namespace tenon::cuda
