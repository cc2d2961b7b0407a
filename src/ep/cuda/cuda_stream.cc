#include "ep/cuda/cuda_stream.h"

#include <algorithm>
#include <chrono>
#include <thread>

#include "device/spin.h"
#include "ep/cuda/run_settings.h"

namespace tenon::cuda {

Result<CudaEvent> CudaEvent::create(std::shared_ptr<CudaDevice> device) {
  TENON_TRY_ASSIGN(const ContextScope scope, ContextScope::enter(*device));
  CUevent event = nullptr;
  TENON_CUDA_TRY(device->driver(), EventCreate, &event, CU_EVENT_DISABLE_TIMING);
  return CudaEvent(std::move(device), event);
}

CudaEvent& CudaEvent::operator=(CudaEvent&& other) noexcept {
  std::swap(device_, other.device_);
  std::swap(event_, other.event_);
  return *this;
}

CudaEvent::~CudaEvent() {
  if (event_ == nullptr) return;
  if (const auto scope = ContextScope::enter(*device_); scope.ok()) (void)device_->driver().EventDestroy(event_);
}

Status CudaEvent::record(CUstream stream) const {
  TENON_TRY_ASSIGN(const ContextScope scope, ContextScope::enter(*device_));
  TENON_CUDA_TRY(device_->driver(), EventRecord, event_, stream);
  return Status();
}

bool CudaEvent::passed() const {
  const auto scope = ContextScope::enter(*device_);
  return !scope.ok() || device_->driver().EventQuery(event_) != CUDA_ERROR_NOT_READY;
}

Status CudaEvent::synchronize(const Deadline& deadline) const {
  TENON_TRY_ASSIGN(const ContextScope scope, ContextScope::enter(*device_));
  const CudaDriver& driver = device_->driver();
  // Polled throughout: a blocking wait of the driver needs an interrupt, which virtual machines deliver late or, where
  // the GPU itself waits for another API's timeline, not at all. A nap lasts 60 us longer than it is asked for, so
  // naps are for what takes longer than most runs.
  constexpr auto kSpin = std::chrono::milliseconds(5);
  constexpr auto kLongestNap = std::chrono::microseconds(500);
  const auto end = std::chrono::steady_clock::now() + kSpin;
  auto nap = std::chrono::microseconds(10);
  for (;;) {
    TENON_FAULT_POINT("cuEventQuery");
    const CUresult result = driver.EventQuery(event_);
    if (result != CUDA_ERROR_NOT_READY) return cuda_status(driver, result, "cuEventQuery");
    if (deadline.passed()) return timed_out("The deadline has passed.");
    if (std::chrono::steady_clock::now() < end) {
      cpu_relax();
    } else {
      std::this_thread::sleep_for(nap);
      nap = std::min(2 * nap, kLongestNap);
    }
  }
}

Result<std::shared_ptr<CudaStream>> CudaStream::create(std::shared_ptr<CudaDevice> device) {
  TENON_TRY_ASSIGN(const ContextScope scope, ContextScope::enter(*device));
  CUstream stream = nullptr;
  TENON_CUDA_TRY(device->driver(), StreamCreateWithPriority, &stream, CU_STREAM_NON_BLOCKING, 0);
  return std::shared_ptr<CudaStream>(new CudaStream(std::move(device), stream, false));
}

std::shared_ptr<CudaStream> CudaStream::borrow(std::shared_ptr<CudaDevice> device, CUstream stream) {
  return std::shared_ptr<CudaStream>(new CudaStream(std::move(device), stream, true));
}

CudaStream::~CudaStream() {
  if (borrowed_) return;
  if (const auto scope = ContextScope::enter(*device_); scope.ok()) (void)device_->driver().StreamDestroy(stream_);
}

Result<std::shared_ptr<const CudaEvent>> CudaStream::mark() const {
  if (given_back()) {
    auto event = end_.lock()->event;
    return event != nullptr ? Result<std::shared_ptr<const CudaEvent>>(std::move(event))
                            : cancelled("The stream is the program's again.");
  }
  TENON_TRY_ASSIGN(CudaEvent event, CudaEvent::create(device_));
  TENON_TRY(queue([&](CUstream stream) { return event.record(stream); }));
  return std::shared_ptr<const CudaEvent>(std::make_shared<CudaEvent>(std::move(event)));
}

Status CudaStream::queue(const std::function<Status(CUstream)>& queue) const {
  if (!borrowed_) return queue(stream_);
  const auto end = end_.lock();
  if (end->given_back) return cancelled("The stream is the program's again.");
  return queue(stream_);
}

void CudaStream::give_back() const {
  if (!borrowed_ || given_back()) return;
  Result<std::shared_ptr<const CudaEvent>> event = mark();
  auto end = end_.lock();
  end->given_back = true;
  if (event.ok()) end->event = *std::move(event);
}

Status CudaStream::synchronize() const {
  const RunSettings run = this_run();
  if (given_up_) return usable();
  if (!run.deadline.never()) {
    TENON_TRY_ASSIGN(const auto event, mark());
    Status done = event->synchronize(run.deadline);
    if (done.code() != StatusCode::kTimeout) return done;
    given_up_ = true;
    return timed_out(
        "The work of the run is not done after {} ms ({}): it waits for a fence that nobody has signalled, or takes "
        "longer.{}",
        run.timeout_ms, run.timeout_name, run.remark);
  }
  if (borrowed_) {
    TENON_TRY_ASSIGN(const auto event, mark());
    return event->synchronize();
  }
  TENON_TRY_ASSIGN(const ContextScope scope, ContextScope::enter(*device_));
  TENON_CUDA_TRY(device_->driver(), StreamSynchronize, stream_);
  return Status();
}

Status CudaStream::synchronize(const Deadline& deadline) const {
  TENON_TRY_ASSIGN(const auto event, mark());
  return event->synchronize(deadline);
}

Status CudaStream::usable() const {
  if (!given_up_) return Status();
  if (!idle())
    return timed_out("The stream still runs what a run before has left behind at its deadline ({}).",
                     this_run().timeout_name);
  given_up_ = false;
  return Status();
}

bool CudaStream::idle() const {
  const auto scope = ContextScope::enter(*device_);
  if (!scope.ok()) return true;
  const CudaDriver& driver = device_->driver();
  if (!borrowed_) return driver.StreamQuery(stream_) != CUDA_ERROR_NOT_READY;
  const auto end = end_.lock();
  if (end->given_back) return end->event == nullptr || end->event->passed();
  // A query would invalidate the capture.
  CUstreamCaptureStatus capturing = CU_STREAM_CAPTURE_STATUS_NONE;
  if (driver.StreamIsCapturing(stream_, &capturing) != CUDA_SUCCESS || capturing != CU_STREAM_CAPTURE_STATUS_NONE)
    return false;
  return driver.StreamQuery(stream_) != CUDA_ERROR_NOT_READY;
}

Status CudaStream::wait_for(const CudaStream& other) const {
  if (other.native() == native() && !other.given_back()) return Status();
  if (other.given_back()) {
    TENON_TRY_ASSIGN(const auto event, other.mark());
    return wait_for(*event);
  }
  // A wait that is queued refers to the record before it, so that the event serves again at once. It is of the device
  // that records it; streams of any may wait for it.
  auto event = other.order_.lock();
  if (!event->has_value()) {
    TENON_TRY_ASSIGN(CudaEvent made, CudaEvent::create(other.device_));
    event->emplace(std::move(made));
  }
  TENON_TRY(other.queue([&](CUstream stream) { return (*event)->record(stream); }));
  return wait_for(**event);
}

Status CudaStream::wait_for(const CudaEvent& event) const {
  TENON_TRY_ASSIGN(const ContextScope scope, ContextScope::enter(*device_));
  TENON_CUDA_TRY(device_->driver(), StreamWaitEvent, stream_, event.native(), CU_EVENT_WAIT_DEFAULT);
  return Status();
}

namespace {

// A point that no event could mark: passed when the stream has nothing to do.
constexpr uint64_t kUnmarked = UINT64_MAX;

}  // namespace

void CudaStream::retire(Points& points) {
  while (!points.pending.empty() && points.pending.front().second.passed()) {
    points.passed = points.pending.front().first;
    points.spare.push_back(std::move(points.pending.front().second));
    points.pending.pop_front();
  }
}

uint64_t CudaStream::queued() const {
  if (given_back()) return kUnmarked;
  auto points = points_.lock();
  retire(*points);
  Result<CudaEvent> event = invalid_argument("There is no spare event.");
  if (!points->spare.empty()) {
    event = std::move(points->spare.back());
    points->spare.pop_back();
  } else {
    event = CudaEvent::create(device_);
  }
  if (!event.ok() || !queue([&](CUstream stream) { return event->record(stream); }).ok()) return kUnmarked;
  const uint64_t point = ++points->last;
  points->pending.emplace_back(point, std::move(*event));
  return point;
}

bool CudaStream::passed(uint64_t point) const {
  if (point == kUnmarked) return idle();
  auto points = points_.lock();
  if (points->passed < point) retire(*points);
  return points->passed >= point;
}

void StreamList::drop_done(Streams& streams) {
  std::erase_if(streams, [](const auto& stream) { return stream.use_count() == 1 && stream->idle(); });
}

void StreamList::add(const std::shared_ptr<CudaStream>& stream) {
  auto streams = streams_.lock();
  drop_done(*streams);
  streams->push_back(stream);
}

std::shared_ptr<CudaStream> StreamList::find(CUstream native) const {
  auto streams = streams_.lock();
  // The latest: a borrowed handle's value may come again.
  for (auto stream = streams->rbegin(); stream != streams->rend(); ++stream)
    if ((*stream)->native() == native && !(*stream)->given_back()) return *stream;
  return nullptr;
}

std::vector<std::shared_ptr<CudaStream>> StreamList::all() const {
  auto streams = streams_.lock();
  drop_done(*streams);
  return *streams;
}

bool StreamList::idle() const {
  auto streams = streams_.lock();
  return std::all_of(streams->begin(), streams->end(), [](const auto& stream) { return stream->idle(); });
}

}  // namespace tenon::cuda
