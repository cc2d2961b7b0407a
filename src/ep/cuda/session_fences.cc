#include "ep/cuda/session_fences.h"

#include <utility>

namespace tenon::cuda {

namespace {

// `what`: "Waits".
Result<std::vector<FencePoint>> find_points(const char* what, const char* key, std::span<const RunFence> fences,
                                            const std::shared_ptr<CudaMemory>& memory) {
  std::vector<FencePoint> points;
  points.reserve(fences.size());
  for (const RunFence& fence : fences) {
    const auto handle = reinterpret_cast<uintptr_t>(fence.semaphore);
    FencePoint point{.semaphore = find_semaphore(handle), .value = fence.value};
    TENON_INVALID_IF(point.semaphore == nullptr,
                     "{} of the run (\"{}\") name {:#x}, which is no semaphore of this EP, or one that is released.",
                     what, key, handle);
    TENON_INVALID_IF(point.semaphore->memory() != memory,
                     "{} of the run (\"{}\") name a semaphore of CUDA device {}; the session runs on device {}.", what,
                     key, point.semaphore->memory()->device()->ordinal(), memory->device()->ordinal());
    points.push_back(std::move(point));
  }
  return points;
}

}  // namespace

Status SessionFences::start(const std::shared_ptr<CudaMemory>& memory, const plugin::FencesOfRun& fences) {
  if (fences.empty()) return Status();
  Run run;
  run.fences.memory = memory;
  TENON_TRY_ASSIGN(run.fences.waits, find_points("Waits", kRunWaitsKey, fences.waits, memory));
  TENON_TRY_ASSIGN(run.fences.signals, find_points("Signals", kRunSignalsKey, fences.signals, memory));
  run.one_call = fences.calls == 1;
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
