#include "ep/cuda/session_fences.h"

#include <string_view>
#include <utility>

#include "ep/api/run_fences.h"

namespace tenon::cuda {

namespace {

Result<std::vector<FencePoint>> read_points(const char* key, const char* text,
                                            const std::shared_ptr<CudaMemory>& memory) {
  TENON_TRY_ASSIGN(const std::vector<RunFenceEntry> entries, parse_run_fences(key, text));
  std::vector<FencePoint> points;
  for (const RunFenceEntry& entry : entries) {
    FencePoint point{.semaphore = find_semaphore(entry.semaphore), .value = entry.value};
    TENON_INVALID_IF(point.semaphore == nullptr,
                     "Run entry \"{}\" names {:#x}, which is no semaphore of this EP, or one that is released.", key,
                     entry.semaphore);
    TENON_INVALID_IF(point.semaphore->memory() != memory,
                     "Run entry \"{}\" names a semaphore of CUDA device {}; the session runs on device {}.", key,
                     point.semaphore->memory()->device()->ordinal(), memory->device()->ordinal());
    points.push_back(std::move(point));
  }
  return points;
}

}  // namespace

Status SessionFences::start(const std::shared_ptr<CudaMemory>& memory, const Entries& entries) {
  if (entries.waits == nullptr && entries.signals == nullptr) return Status();
  Run run;
  run.fences.memory = memory;
  TENON_TRY_ASSIGN(run.fences.waits, read_points(kRunWaitsKey, entries.waits, memory));
  TENON_TRY_ASSIGN(run.fences.signals, read_points(kRunSignalsKey, entries.signals, memory));
  if (run.fences.empty()) return Status();
  run.one_call = entries.calls != nullptr && std::string_view(entries.calls) == "1";
  auto runs = runs_.lock();
  (*runs)[std::this_thread::get_id()] = std::move(run);
  count_ = runs->size();
  return Status();
}

WorkFences SessionFences::take(const std::shared_ptr<CudaStream>& stream, const std::shared_ptr<CudaStream>& behind) {
  WorkFences taken{.stream = stream};
  if (count_ == 0) return taken;
  auto runs = runs_.lock();
  const auto run = runs->find(std::this_thread::get_id());
  if (run == runs->end()) return taken;
  WorkFences& fences = run->second.fences;
  fences.stream = behind != nullptr ? behind : stream;
  taken.memory = fences.memory;
  taken.waits = std::exchange(fences.waits, {});
  if (run->second.one_call) taken.signals = std::exchange(fences.signals, {});
  return taken;
}

void SessionFences::give_back(WorkFences fences) {
  if (fences.empty()) return;
  auto runs = runs_.lock();
  const auto run = runs->find(std::this_thread::get_id());
  if (run == runs->end()) return;
  WorkFences& left = run->second.fences;
  left.waits.insert(left.waits.begin(), fences.waits.begin(), fences.waits.end());
  left.signals.insert(left.signals.begin(), fences.signals.begin(), fences.signals.end());
}

Status SessionFences::queue_waits(const std::shared_ptr<CudaStream>& stream,
                                  const std::shared_ptr<CudaStream>& behind) {
  if (count_ == 0) return Status();
  WorkFences waits;
  {
    auto runs = runs_.lock();
    const auto run = runs->find(std::this_thread::get_id());
    if (run == runs->end()) return Status();
    run->second.fences.stream = behind != nullptr ? behind : stream;
    waits.stream = stream;
    waits.waits = std::exchange(run->second.fences.waits, {});
  }
  Status queued = waits.queue_waits();
  if (!queued.ok()) give_back(std::move(waits));
  return queued;
}

Status SessionFences::end(const std::shared_ptr<CudaStream>& otherwise) {
  if (count_ == 0) return Status();
  WorkFences left;
  {
    auto runs = runs_.lock();
    const auto run = runs->find(std::this_thread::get_id());
    if (run == runs->end()) return Status();
    left = std::move(run->second.fences);
    runs->erase(run);
    count_ = runs->size();
  }
  if (left.stream == nullptr) left.stream = otherwise;
  // Also after a failure the signals come behind the waits: both may be of one timeline, whose values only grow.
  Status queued = left.queue_waits();
  Status signalled = left.queue_signals();
  return queued.ok() ? std::move(signalled) : std::move(queued);
}

}  // namespace tenon::cuda
