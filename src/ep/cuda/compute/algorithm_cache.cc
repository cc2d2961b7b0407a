#include "ep/cuda/compute/algorithm_cache.h"

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>

#include "base/format.h"

namespace tenon::cuda {

namespace {

std::map<std::string, std::string> read_choices(const std::string& path) {
  std::map<std::string, std::string> choices;
  std::ifstream file(path);
  std::string line;
  while (std::getline(file, line)) {
    const size_t tab = line.find('\t');
    if (tab != std::string::npos) choices[line.substr(0, tab)] = line.substr(tab + 1);
  }
  return choices;
}

}  // namespace

AlgorithmCache::AlgorithmCache(std::string path, std::string environment)
    : path_(std::move(path)), environment_(std::move(environment)) {
  if (!path_.empty()) state_.lock()->choices = read_choices(path_);
}

std::optional<std::string> AlgorithmCache::find(const std::string& problem) const {
  const auto state = state_.lock();
  const auto found = state->choices.find(environment_ + "|" + problem);
  return found != state->choices.end() ? std::optional(found->second) : std::nullopt;
}

AlgorithmCache::Kept AlgorithmCache::kept(std::string_view words, std::initializer_list<std::string_view> ours) const {
  const auto state = state_.lock();
  const std::string prefix = environment_ + "|";
  Kept result = Kept::kNothing;
  for (const auto& [problem, choice] : state->choices) {
    if (!problem.starts_with(prefix) || problem.find(words, prefix.size()) == std::string::npos) continue;
    const auto begins = [&choice = choice](std::string_view word) { return choice.starts_with(word); };
    if (std::any_of(ours.begin(), ours.end(), begins)) return Kept::kOurs;
    result = Kept::kOthers;
  }
  return result;
}

void AlgorithmCache::add(const std::string& problem, std::string choice) {
  auto state = state_.lock();
  state->choices[environment_ + "|" + problem] = std::move(choice);
  state->changed = true;
  ++state->measured;
}

void AlgorithmCache::add_member(const ProblemFamily& family, const std::string& choice) {
  if (!family.text.empty()) state_.lock()->families[family.text][family.size] = choice;
}

std::vector<std::string> AlgorithmCache::near(const ProblemFamily& family) const {
  constexpr size_t kMost = 3;
  const auto state = state_.lock();
  const auto found = state->families.find(family.text);
  if (found == state->families.end()) return {};
  std::vector<std::pair<double, const std::string*>> members;  // by how many times they are larger or smaller
  for (auto member = found->second.lower_bound((family.size + 1) / 2);
       member != found->second.end() && member->first <= 2 * family.size; ++member) {
    const double ratio = static_cast<double>(member->first) / static_cast<double>(std::max<int64_t>(family.size, 1));
    members.emplace_back(std::max(ratio, 1 / std::max(ratio, 1e-9)), &member->second);
  }
  std::stable_sort(members.begin(), members.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  std::vector<std::string> choices;
  for (const auto& [distance, choice] : members)
    if (choices.size() < kMost && std::find(choices.begin(), choices.end(), *choice) == choices.end())
      choices.push_back(*choice);
  return choices;
}

std::optional<std::string> AlgorithmCache::find_borrowed(const std::string& problem) const {
  const auto state = state_.lock();
  const auto found = state->borrowed.find(problem);
  return found != state->borrowed.end() ? std::optional(found->second) : std::nullopt;
}

void AlgorithmCache::borrow(const std::string& problem, std::string choice) {
  state_.lock()->borrowed[problem] = std::move(choice);
}

size_t AlgorithmCache::measured() const { return state_.lock()->measured; }

void AlgorithmCache::save() {
  auto state = state_.lock();
  if (path_.empty() || !state->changed) return;
  std::map<std::string, std::string> all = read_choices(path_);
  for (const auto& [problem, choice] : state->choices) all[problem] = choice;
  std::error_code ignored;
  const std::filesystem::path path(path_);
  if (path.has_parent_path()) std::filesystem::create_directories(path.parent_path(), ignored);
  const std::string temporary = format("{}.{}", path_, static_cast<const void*>(this));
  {
    std::ofstream file(temporary, std::ios::trunc);
    for (const auto& [problem, choice] : all) file << problem << '\t' << choice << '\n';
    if (!file.good()) return;
  }
  std::filesystem::rename(temporary, path_, ignored);
  if (ignored) std::filesystem::remove(temporary, ignored);
  state->changed = false;
}

namespace {

struct Measurement {
  const CudaDriver& driver;
  CUgraph graph = nullptr;
  CUgraphExec exec = nullptr;
  CUevent begin = nullptr, end = nullptr;
  ~Measurement() {
    if (exec != nullptr) (void)driver.GraphExecDestroy(exec);
    if (graph != nullptr) (void)driver.GraphDestroy(graph);
    if (begin != nullptr) (void)driver.EventDestroy(begin);
    if (end != nullptr) (void)driver.EventDestroy(end);
  }
  // Of one of `calls`.
  Result<double> time_ns(CUstream stream, const std::function<Status(CUstream)>& queue, int calls) {
    for (CUevent* event : {&begin, &end})
      if (*event == nullptr) TENON_CUDA_TRY(driver, EventCreate, event, CU_EVENT_DEFAULT);
    TENON_CUDA_TRY(driver, EventRecord, begin, stream);
    for (int i = 0; i < calls; ++i) TENON_TRY(queue(stream));
    TENON_CUDA_TRY(driver, EventRecord, end, stream);
    TENON_CUDA_TRY(driver, EventSynchronize, end);
    float milliseconds = 0;
    TENON_CUDA_TRY(driver, EventElapsedTime, &milliseconds, begin, end);
    return static_cast<double>(milliseconds) * 1e6 / calls;
  }
};

}  // namespace

Result<double> measure_ns(const CudaDevice& device, CUstream stream, const std::function<Status(CUstream)>& queue) {
  constexpr int kCalls = 12, kRepeats = 3;
  const CudaDriver& driver = device.driver();
  Measurement m{.driver = driver};
  TENON_CUDA_TRY(driver, StreamBeginCapture, stream, CU_STREAM_CAPTURE_MODE_RELAXED);
  Status queued;
  for (int i = 0; i < kCalls && queued.ok(); ++i) queued = queue(stream);
  const CUresult ended = driver.StreamEndCapture(stream, &m.graph);
  TENON_TRY(std::move(queued));
  TENON_TRY(cuda_status(driver, ended, "cuStreamEndCapture"));
  TENON_CUDA_TRY(driver, GraphInstantiateWithFlags, &m.exec, m.graph, 0);
  TENON_CUDA_TRY(driver, GraphLaunch, m.exec, stream);
  const auto launch = [&](CUstream to) -> Status {
    TENON_CUDA_TRY(driver, GraphLaunch, m.exec, to);
    return Status();
  };
  double best = 0;
  for (int i = 0; i < kRepeats; ++i) {
    TENON_TRY_ASSIGN(const double ns, m.time_ns(stream, launch, 1));
    best = i == 0 ? ns : std::min(best, ns);
  }
  return best / kCalls;
}

Result<double> estimate_ns(const CudaDevice& device, CUstream stream, const std::function<Status(CUstream)>& queue) {
  Measurement m{.driver = device.driver()};
  TENON_TRY(queue(stream));
  return m.time_ns(stream, queue, 2);
}

}  // namespace tenon::cuda
