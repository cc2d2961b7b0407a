// Streams and events of the fake driver, and the work that is queued on them.
#include <cstring>
#include <thread>

#include "ep/cuda/fake/fake_state.h"

namespace tenon::cuda::fake {

struct FakeStream::Shared {
  std::mutex mutex;
  std::condition_variable changed;
  std::deque<std::pair<Work, bool>> work;
  bool busy = false;
  bool closed = false;
  bool captured = false;
  std::vector<Queued> capture;
};

std::shared_ptr<FakeStream> FakeStream::start() {
  struct Closer {
    std::shared_ptr<Shared> shared;
  };
  auto shared = std::make_shared<Shared>();
  // Detached: work that waits for something nobody signals must not keep the process alive.
  std::thread([shared] {
    std::unique_lock lock(shared->mutex);
    for (;;) {
      shared->changed.wait(lock, [&] { return !shared->work.empty() || shared->closed; });
      if (shared->work.empty()) return;
      auto [work, always] = std::move(shared->work.front());
      shared->work.pop_front();
      shared->busy = true;
      lock.unlock();
      CUresult failed = CUDA_SUCCESS;
      {
        const std::lock_guard all(state().mutex);
        failed = state().sticky;
      }
      if (failed == CUDA_SUCCESS || always) failed = work();
      work = nullptr;
      if (failed != CUDA_SUCCESS) {
        const std::lock_guard all(state().mutex);
        if (state().sticky == CUDA_SUCCESS) state().sticky = failed;
      }
      lock.lock();
      shared->busy = false;
      shared->changed.notify_all();
    }
  }).detach();
  auto stream = std::shared_ptr<FakeStream>(new FakeStream, [](FakeStream* gone) {
    {
      const std::lock_guard lock(gone->shared_->mutex);
      gone->shared_->closed = true;
    }
    gone->shared_->changed.notify_all();
    delete gone;
  });
  stream->shared_ = std::move(shared);
  return stream;
}

void FakeStream::queue(Work work, bool always) {
  {
    const std::lock_guard lock(shared_->mutex);
    if (shared_->captured) return (void)shared_->capture.emplace_back(std::move(work), always);
    shared_->work.emplace_back(std::move(work), always);
  }
  shared_->changed.notify_all();
}

bool FakeStream::begin_capture() {
  const std::lock_guard lock(shared_->mutex);
  return !std::exchange(shared_->captured, true);
}

bool FakeStream::capturing() const {
  const std::lock_guard lock(shared_->mutex);
  return shared_->captured;
}

std::vector<FakeStream::Queued> FakeStream::end_capture() {
  const std::lock_guard lock(shared_->mutex);
  shared_->captured = false;
  return std::exchange(shared_->capture, {});
}

bool FakeStream::idle() const {
  const std::lock_guard lock(shared_->mutex);
  return shared_->work.empty() && !shared_->busy;
}

void FakeStream::synchronize() {
  std::unique_lock lock(shared_->mutex);
  shared_->changed.wait(lock, [&] { return shared_->work.empty() && !shared_->busy; });
}

std::shared_ptr<FakeStream> find_stream(CUstream stream) {
  if (reinterpret_cast<uintptr_t>(stream) <= 2) {
    static const std::shared_ptr<FakeStream>* const default_stream =
        new std::shared_ptr<FakeStream>(FakeStream::start());
    return *default_stream;
  }
  bool known = false;
  {
    const std::lock_guard lock(state().mutex);
    const auto found = state().streams.find(reinterpret_cast<FakeStream*>(stream));
    if (found != state().streams.end() && found->second->context == current_context()) return found->second;
    known = found != state().streams.end();
  }
  if (known) {
    violation(format("The stream {:#x} is used while the context of another device is current.",
                     reinterpret_cast<uintptr_t>(stream)));
    return nullptr;
  }
  violation(format("{:#x} is used as a stream, and is none.", reinterpret_cast<uintptr_t>(stream)));
  return nullptr;
}

namespace {

std::shared_ptr<FakeEvent> find_event(CUevent event) {
  {
    const std::lock_guard lock(state().mutex);
    const auto found = state().events.find(reinterpret_cast<FakeEvent*>(event));
    if (found != state().events.end()) return found->second;
  }
  violation(format("{:#x} is used as an event, and is none.", reinterpret_cast<uintptr_t>(event)));
  return nullptr;
}

CUresult sticky() {
  const std::lock_guard lock(state().mutex);
  return state().sticky;
}

CUresult CUDAAPI stream_create(CUstream* out, unsigned, int) {
  TENON_FAKE_CONTEXT("cuStreamCreateWithPriority");
  auto stream = FakeStream::start();
  stream->context = current_context();
  const std::lock_guard lock(state().mutex);
  *out = reinterpret_cast<CUstream>(stream.get());
  state().streams[stream.get()] = stream;
  return CUDA_SUCCESS;
}

CUresult CUDAAPI stream_destroy(CUstream stream) {
  TENON_FAKE_CONTEXT("cuStreamDestroy");
  const auto found = find_stream(stream);
  if (found == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  const std::lock_guard lock(state().mutex);
  state().streams.erase(found.get());
  return CUDA_SUCCESS;
}

// An error, and a violation, while `stream` is captured: `function` would invalidate the capture.
CUresult refuse_capture(const FakeStream& stream, const char* function) {
  if (!stream.capturing()) return CUDA_SUCCESS;
  violation(format("{} is called for a stream that is captured.", function));
  return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
}

CUresult CUDAAPI stream_query(CUstream stream) {
  TENON_FAKE_CONTEXT("cuStreamQuery");
  const auto found = find_stream(stream);
  if (found == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  if (const CUresult bad = refuse_capture(*found, "cuStreamQuery"); bad != CUDA_SUCCESS) return bad;
  return found->idle() ? sticky() : CUDA_ERROR_NOT_READY;
}

CUresult CUDAAPI stream_is_capturing(CUstream stream, CUstreamCaptureStatus* status) {
  TENON_FAKE_CONTEXT("cuStreamIsCapturing");
  const auto found = find_stream(stream);
  if (found == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  *status = found->capturing() ? CU_STREAM_CAPTURE_STATUS_ACTIVE : CU_STREAM_CAPTURE_STATUS_NONE;
  return CUDA_SUCCESS;
}

CUresult CUDAAPI stream_synchronize(CUstream stream) {
  TENON_FAKE_CONTEXT("cuStreamSynchronize");
  const auto found = find_stream(stream);
  if (found == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  if (const CUresult bad = refuse_capture(*found, "cuStreamSynchronize"); bad != CUDA_SUCCESS) return bad;
  found->synchronize();
  return sticky();
}

CUresult CUDAAPI stream_wait_event(CUstream stream, CUevent event, unsigned) {
  TENON_FAKE_CONTEXT("cuStreamWaitEvent");
  const auto found = find_stream(stream);
  const auto waited = find_event(event);
  if (found == nullptr || waited == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  uint64_t target = 0;
  {
    const std::lock_guard lock(state().mutex);
    target = waited->recorded;
  }
  found->queue([waited, target] {
    std::unique_lock lock(state().mutex);
    state().changed.wait(lock, [&] { return waited->completed >= target; });
    return CUDA_SUCCESS;
  });
  return CUDA_SUCCESS;
}

CUresult CUDAAPI launch_host_function(CUstream stream, CUhostFn function, void* argument) {
  TENON_FAKE_CONTEXT("cuLaunchHostFunc");
  const auto found = find_stream(stream);
  if (found == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  found->queue([function, argument] {
    function(argument);
    return CUDA_SUCCESS;
  });
  return CUDA_SUCCESS;
}

CUresult CUDAAPI event_create(CUevent* out, unsigned) {
  TENON_FAKE_CONTEXT("cuEventCreate");
  auto event = std::make_shared<FakeEvent>();
  event->context = current_context();
  const std::lock_guard lock(state().mutex);
  *out = reinterpret_cast<CUevent>(event.get());
  state().events[event.get()] = event;
  return CUDA_SUCCESS;
}

CUresult CUDAAPI event_destroy(CUevent event) {
  TENON_FAKE_CONTEXT("cuEventDestroy");
  const auto found = find_event(event);
  if (found == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  const std::lock_guard lock(state().mutex);
  state().events.erase(found.get());
  return CUDA_SUCCESS;
}

CUresult CUDAAPI event_record(CUevent event, CUstream stream) {
  TENON_FAKE_CONTEXT("cuEventRecord");
  const auto found = find_event(event);
  const auto queue = find_stream(stream);
  if (found == nullptr || queue == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  if (found->context != current_context()) {
    violation("An event is recorded on a stream of another device.");
    return CUDA_ERROR_INVALID_HANDLE;
  }
  uint64_t number = 0;
  {
    const std::lock_guard lock(state().mutex);
    number = ++found->recorded;
  }
  queue->queue(
      [found, number] {
        {
          const std::lock_guard lock(state().mutex);
          found->completed = std::max(found->completed, number);
        }
        state().changed.notify_all();
        return CUDA_SUCCESS;
      },
      true);
  return CUDA_SUCCESS;
}

CUresult CUDAAPI event_query(CUevent event) {
  TENON_FAKE_CONTEXT("cuEventQuery");
  const auto found = find_event(event);
  if (found == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  const std::lock_guard lock(state().mutex);
  return found->completed >= found->recorded ? state().sticky : CUDA_ERROR_NOT_READY;
}

CUresult CUDAAPI event_synchronize(CUevent event) {
  TENON_FAKE_CONTEXT("cuEventSynchronize");
  const auto found = find_event(event);
  if (found == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  std::unique_lock lock(state().mutex);
  state().changed.wait(lock, [&] { return found->completed >= found->recorded; });
  return state().sticky;
}

CUresult CUDAAPI context_synchronize() {
  TENON_FAKE_CONTEXT("cuCtxSynchronize");
  std::vector<std::shared_ptr<FakeStream>> all{find_stream(nullptr)};  // the default one is none of those below
  {
    const std::lock_guard lock(state().mutex);
    for (const auto& [key, stream] : state().streams)
      if (stream->context == nullptr || stream->context == current_context()) all.push_back(stream);
  }
  for (const auto& stream : all) stream->synchronize();
  return sticky();
}

}  // namespace

void add_stream_functions(Table& table) {
  add_function(table, "cuStreamCreateWithPriority", &stream_create);
  add_function(table, "cuStreamDestroy", &stream_destroy);
  add_function(table, "cuStreamQuery", &stream_query);
  add_function(table, "cuStreamIsCapturing", &stream_is_capturing);
  add_function(table, "cuStreamSynchronize", &stream_synchronize);
  add_function(table, "cuStreamWaitEvent", &stream_wait_event);
  add_function(table, "cuLaunchHostFunc", &launch_host_function);
  add_function(table, "cuEventCreate", &event_create);
  add_function(table, "cuEventDestroy", &event_destroy);
  add_function(table, "cuEventRecord", &event_record);
  add_function(table, "cuEventQuery", &event_query);
  add_function(table, "cuEventSynchronize", &event_synchronize);
  add_function(table, "cuCtxSynchronize", &context_synchronize);
}

}  // namespace tenon::cuda::fake
