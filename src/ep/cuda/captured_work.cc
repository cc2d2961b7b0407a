#include "ep/cuda/captured_work.h"

#include <algorithm>
#include <utility>

namespace tenon::cuda {

namespace {

// A frame loop has one number of waits and signals; its first frame may have another.
constexpr size_t kMostFenced = 4;

// The driver's arrays for one node.
template <typename Parameters, typename Node>
struct NodeArguments {
  std::vector<CUexternalSemaphore> semaphores;
  std::vector<Parameters> parameters;
  Node node{};

  explicit NodeArguments(std::span<const FencePoint> points) {
    for (const FencePoint& point : points) {
      semaphores.push_back(point.semaphore->native());
      parameters.emplace_back().params.fence.value = point.value;
    }
    node = {.extSemArray = semaphores.data(),
            .paramsArray = parameters.data(),
            .numExtSems = static_cast<unsigned>(semaphores.size())};
  }
};
using WaitArguments = NodeArguments<CUDA_EXTERNAL_SEMAPHORE_WAIT_PARAMS, CUDA_EXT_SEM_WAIT_NODE_PARAMS>;
using SignalArguments = NodeArguments<CUDA_EXTERNAL_SEMAPHORE_SIGNAL_PARAMS, CUDA_EXT_SEM_SIGNAL_NODE_PARAMS>;

}  // namespace

Status WorkFences::queue_waits() {
  while (!waits.empty()) {
    TENON_TRY(waits.front().semaphore->wait(*stream, waits.front().value));
    waits.erase(waits.begin());
  }
  return Status();
}

Status WorkFences::queue_signals() {
  while (!signals.empty()) {
    TENON_TRY(signals.front().semaphore->signal(*stream, signals.front().value));
    signals.erase(signals.begin());
  }
  return Status();
}

Result<CapturedWork> CapturedWork::capture(std::shared_ptr<CudaDevice> device, CUstream stream,
                                           const std::function<Status(CUstream)>& queue) {
  CapturedWork work(std::move(device));
  const CudaDriver& driver = work.device_->driver();
  TENON_CUDA_TRY(driver, StreamBeginCapture, stream, CU_STREAM_CAPTURE_MODE_RELAXED);
  Status queued = queue(stream);
  const CUresult ended = driver.StreamEndCapture(stream, &work.body_);
  // A call that fails may leave the stream in its capture, where no other work can go.
  if (ended != CUDA_SUCCESS && work.body_ == nullptr) (void)driver.StreamEndCapture(stream, &work.body_);
  TENON_TRY(std::move(queued));
  TENON_TRY(cuda_status(driver, ended, "cuStreamEndCapture"));
  return work;
}

CapturedWork& CapturedWork::operator=(CapturedWork&& other) noexcept {
  std::swap(device_, other.device_);
  std::swap(body_, other.body_);
  std::swap(plain_, other.plain_);
  std::swap(fenced_, other.fenced_);
  std::swap(clock_, other.clock_);
  return *this;
}

CapturedWork::~CapturedWork() { destroy_all(); }

// A graph that still runs is freed by the driver when it is done.
void CapturedWork::destroy(const Fenced& fenced) const {
  const CudaDriver& driver = device_->driver();
  if (fenced.exec != nullptr) (void)driver.GraphExecDestroy(fenced.exec);
  if (fenced.graph != nullptr) (void)driver.GraphDestroy(fenced.graph);
}

void CapturedWork::destroy_all() {
  if (device_ == nullptr) return;
  const Result<ContextScope> scope = ContextScope::enter(*device_);
  if (!scope.ok()) return;
  for (const Fenced& fenced : fenced_) destroy(fenced);
  if (plain_ != nullptr) (void)device_->driver().GraphExecDestroy(plain_);
  if (body_ != nullptr) (void)device_->driver().GraphDestroy(body_);
}

Status CapturedWork::instantiate(CUgraph graph, CUgraphExec* exec) const {
  TENON_CUDA_TRY(device_->driver(), GraphInstantiateWithFlags, exec, graph, 0);
  return Status();
}

Status CapturedWork::launch(CUstream stream) {
  if (plain_ == nullptr) TENON_TRY(instantiate(body_, &plain_));
  TENON_CUDA_TRY(device_->driver(), GraphLaunch, plain_, stream);
  return Status();
}

Status CapturedWork::build(const WorkFences& fences, Fenced* fenced) const {
  const CudaDriver& driver = device_->driver();
  TENON_CUDA_TRY(driver, GraphCreate, &fenced->graph, 0);
  if (!fences.waits.empty()) {
    const WaitArguments waits(fences.waits);
    TENON_CUDA_TRY(driver, GraphAddExternalSemaphoresWaitNode, &fenced->wait, fenced->graph, nullptr, 0, &waits.node);
  }
  CUgraphNode body = nullptr;
  TENON_CUDA_TRY(driver, GraphAddChildGraphNode, &body, fenced->graph, &fenced->wait, fenced->wait != nullptr ? 1 : 0,
                 body_);
  if (!fences.signals.empty()) {
    const SignalArguments signals(fences.signals);
    TENON_CUDA_TRY(driver, GraphAddExternalSemaphoresSignalNode, &fenced->signal, fenced->graph, &body, 1,
                   &signals.node);
  }
  return instantiate(fenced->graph, &fenced->exec);
}

Result<CapturedWork::Fenced*> CapturedWork::find(const WorkFences& fences) {
  for (Fenced& known : fenced_) {
    if (known.waits != fences.waits.size() || known.signals != fences.signals.size()) continue;
    const CudaDriver& driver = device_->driver();
    if (known.wait != nullptr) {
      const WaitArguments waits(fences.waits);
      TENON_CUDA_TRY(driver, GraphExecExternalSemaphoresWaitNodeSetParams, known.exec, known.wait, &waits.node);
    }
    if (known.signal != nullptr) {
      const SignalArguments signals(fences.signals);
      TENON_CUDA_TRY(driver, GraphExecExternalSemaphoresSignalNodeSetParams, known.exec, known.signal, &signals.node);
    }
    return &known;
  }
  Fenced made{.waits = fences.waits.size(), .signals = fences.signals.size()};
  if (Status built = build(fences, &made); !built.ok()) {
    destroy(made);
    return built;
  }
  if (fenced_.size() == kMostFenced) {
    const auto oldest = std::min_element(fenced_.begin(), fenced_.end(),
                                         [](const Fenced& a, const Fenced& b) { return a.used < b.used; });
    destroy(*oldest);
    fenced_.erase(oldest);
  }
  fenced_.push_back(made);
  return &fenced_.back();
}

Status CapturedWork::launch(WorkFences& fences) {
  if (fences.empty()) return launch(fences.stream->native());
  TENON_TRY_ASSIGN(Fenced* const fenced, find(fences));
  fenced->used = ++clock_;
  const auto launched = [&]() -> Status {
    TENON_CUDA_TRY(device_->driver(), GraphLaunch, fenced->exec, fences.stream->native());
    return Status();
  };
  TENON_TRY(fences.waits.empty()
                ? launched()
                : fences.memory->queue_wait(
                      *fences.stream, fences.waits.back().semaphore->awaited(fences.waits.back().value), launched));
  fences.waits.clear();
  fences.signals.clear();
  return Status();
}

}  // namespace tenon::cuda
