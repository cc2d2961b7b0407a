// Work that was captured once and is launched again and again, alone or between waits for timelines of another API and
// signals of them: one graph launch either way.
//
// Ownership: holds its graphs; a launch that is queued needs them no more. It keeps no semaphore alive.
// Threads: one at a time.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "ep/cuda/cuda_importer.h"

namespace tenon::cuda {

struct FencePoint {
  std::shared_ptr<const SemaphoreImport> semaphore;
  uint64_t value = 0;
};

// The waits and signals of one call's work, and the stream that they are queued on. Whoever queues some of them takes
// them out.
struct WorkFences {
  std::shared_ptr<CudaMemory> memory;
  std::shared_ptr<CudaStream> stream;
  std::vector<FencePoint> waits, signals;

  bool empty() const { return waits.empty() && signals.empty(); }
  // On the stream, one driver call each. What was queued before a failure is taken out.
  Status queue_waits();
  Status queue_signals();
};

class CapturedWork {
 public:
  // Captures `queue` on `stream`, where nobody else works meanwhile. The device's context is current, here and below.
  static Result<CapturedWork> capture(std::shared_ptr<CudaDevice> device, CUstream stream,
                                      const std::function<Status(CUstream)>& queue);
  CapturedWork(CapturedWork&& other) noexcept { *this = std::move(other); }
  CapturedWork& operator=(CapturedWork&& other) noexcept;
  ~CapturedWork();

  Status launch(CUstream stream);
  // Waits, work and signals as one launch on the fences' stream. Takes all of them out on success, none after a
  // failure.
  Status launch(WorkFences& fences);

 private:
  // The work between a node that waits and one that signals. Semaphores and values change by launch, their number
  // cannot.
  struct Fenced {
    size_t waits = 0, signals = 0;
    CUgraph graph = nullptr;
    CUgraphExec exec = nullptr;
    CUgraphNode wait = nullptr, signal = nullptr;
    uint64_t used = 0;
  };

  explicit CapturedWork(std::shared_ptr<CudaDevice> device) : device_(std::move(device)) {}
  Status instantiate(CUgraph graph, CUgraphExec* exec) const;
  Status build(const WorkFences& fences, Fenced* fenced) const;
  Result<Fenced*> find(const WorkFences& fences);
  void destroy(const Fenced& fenced) const;
  void destroy_all();

  std::shared_ptr<CudaDevice> device_;
  CUgraph body_ = nullptr;
  CUgraphExec plain_ = nullptr;  // made by the first launch without fences
  std::vector<Fenced> fenced_;
  uint64_t clock_ = 0;
};

}  // namespace tenon::cuda
