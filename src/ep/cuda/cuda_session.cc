#include "ep/cuda/cuda_session.h"

#include <utility>

#include "ep/cuda/run_settings.h"

namespace tenon::cuda {

namespace {

constexpr size_t kKeptScratchBytes = size_t{256} << 20;
// A session ends also while its stream waits for what nobody signals.
constexpr int64_t kLongestEndNs = 1'000'000'000;

}  // namespace

Status until_code_loads(const CudaMemory& memory, int64_t timeout_ms) {
  const RunSettings run = this_run();
  const bool in_run = !run.deadline.never();
  constexpr int64_t kNsAMs = 1'000'000;
  const Deadline deadline = in_run ? run.deadline : Deadline::after(timeout_ms > 0 ? timeout_ms * kNsAMs : -1);
  TENON_TRY_CONTEXT(memory.until_nobody_waits(deadline), "after {} ms ({})", in_run ? run.timeout_ms : timeout_ms,
                    in_run ? "tenon.timeout_ms" : "option load_timeout_ms; 0 waits for ever");
  return Status();
}

Result<std::shared_ptr<CudaSession>> CudaSession::create(const plugin::HostApi& host,
                                                         std::shared_ptr<CudaMemory> memory, CudaOptions options,
                                                         const OrtLogger* logger) {
  std::shared_ptr<CudaSession> session(new CudaSession(host, std::move(memory), std::move(options), logger));
  const CudaOptions& wanted = session->options_;
  const std::shared_ptr<CudaDevice>& device = session->device();
  const CudaDriver& driver = device->driver();
  if (wanted.user_stream) {
    const auto native = reinterpret_cast<CUstream>(static_cast<uintptr_t>(*wanted.user_stream));
    TENON_TRY_ASSIGN(const ContextScope scope, ContextScope::enter(*device));
    if (*wanted.user_stream > 2) {  // 0 to 2 are CUDA's default streams
      CUcontext context = nullptr;
      TENON_TRY_CONTEXT(cuda_status(driver, driver.StreamGetCtx(native, &context), "cuStreamGetCtx"),
                        "while reading option \"user_compute_stream\" = {:#x}", *wanted.user_stream);
      TENON_INVALID_IF(
          context != device->context(),
          "Option \"user_compute_stream\" = {:#x} is a stream of another context than device {}'s primary one.",
          *wanted.user_stream, device->ordinal());
    }
    session->unified_ = CudaStream::borrow(device, native);
  } else if (wanted.unified_stream) {
    TENON_TRY_ASSIGN(session->unified_, CudaStream::create(device));
  }
  if (session->unified_ != nullptr) session->memory_->streams().add(session->unified_);
  // All of the session runs on a stream that the program gave (S4.1), copies too.
  if (!wanted.copy_in_compute_stream && !wanted.user_stream) {
    TENON_TRY_ASSIGN(session->copies_, CudaStream::create(device));
    session->memory_->streams().add(session->copies_);
  }
  if (session->unified_ == nullptr) {
    TENON_TRY_ASSIGN(session->own_, CudaStream::create(device));
    session->memory_->streams().add(session->own_);
  }
  session->device_memory_ = std::make_shared<SessionMemory>(session->memory_, wanted, session->unified_);
  session->scratch_ = std::make_unique<plugin::ScratchPool>(session->device_memory_, kKeptScratchBytes);
  if (wanted.ranks.ranks > 1)
    session->communicator_ = std::make_shared<Communicator>(
        device, wanted.ranks,
        [host, logger](const std::string& line) { host.log(logger, ORT_LOGGING_LEVEL_WARNING, line); });
  return session;
}

CudaSession::~CudaSession() {
  // Free scratch memory goes back to the program's allocator at once, so the stream has to be through with it.
  if (options_.external_allocator.given() && unified_ != nullptr)
    (void)unified_->synchronize(Deadline::after(kLongestEndNs));
  // The device's list keeps it until its work is done: what is freed from now on may still be used there.
  if (unified_ != nullptr) unified_->give_back();
}

Result<CallStream> CudaSession::call_stream(const plugin::KernelCall& call, WorkFences* fences) {
  TENON_TRY_ASSIGN(void* native, call.stream_handle());
  TENON_TRY_ASSIGN(CallStream stream, find_stream(native));
  *fences = fences_.take(stream.stream, stream.behind());
  return stream;
}

Status CudaSession::begin_work(const CallStream& call) const {
  return call.run != nullptr ? call.stream->wait_for(*call.run) : Status();
}

Status CudaSession::end_work(const CallStream& call, Status worked) const {
  // Also after a failure: some of the work may be queued.
  Status ordered = call.run != nullptr ? call.run->wait_for(*call.stream) : Status();
  TENON_TRY(std::move(worked));
  TENON_TRY(std::move(ordered));
  return call.synchronous ? call.stream->synchronize() : Status();
}

namespace {

// The program waits for its own stream itself (S4.1).
plugin::RunEndWait end_wait(const CudaStream& stream) {
  return stream.borrowed() ? plugin::RunEndWait::kNever : plugin::RunEndWait::kWhenSynchronized;
}

}  // namespace

Result<CallStream> CudaSession::stream_of(void* native) {
  TENON_TRY_ASSIGN(CallStream call, find_stream(native));
  TENON_TRY(fences_.queue_waits(call.stream, call.behind()));
  return call;
}

Result<CallStream> CudaSession::find_stream(void* native) {
  CallStream call;
  if (native != nullptr && (unified_ == nullptr || native != unified_->native())) {
    call.run = memory_->streams().find(static_cast<CUstream>(native));
    TENON_INVALID_IF(call.run == nullptr, "The host passes a stream ({:#x}) that this EP did not make.",
                     reinterpret_cast<uintptr_t>(native));
    TENON_TRY(call.run->usable());
  }
  if (unified_ != nullptr) {
    call.stream = unified_;
    if (call.run != nullptr) device_memory_->used_on(call.run);
  } else if (call.run != nullptr) {
    call.stream = std::exchange(call.run, nullptr);
  } else {
    call.stream = own_;
    call.synchronous = true;
  }
  TENON_TRY(call.stream->usable());
  runs_.use(call.stream, end_wait(*call.stream));
  return call;
}

Result<std::shared_ptr<CudaStream>> CudaSession::make_stream() {
  if (unified_ != nullptr) return unified_;
  TENON_TRY_ASSIGN(auto stream, CudaStream::create(device()));
  memory_->streams().add(stream);
  return stream;
}

Status CudaSession::copy(const plugin::TensorArgument& src, const plugin::TensorArgument& dst, void* stream_handle) {
  TENON_TRY_ASSIGN(const CallStream call, stream_of(stream_handle));
  return end_work(call, queue_copy(src, dst, call));
}

Status CudaSession::queue_copy(const plugin::TensorArgument& src, const plugin::TensorArgument& dst,
                               const CallStream& call) {
  TENON_TRY_ASSIGN(const size_t size_bytes, tensor_size_bytes(src.type, src.shape));
  TENON_TRY(begin_work(call));
  const std::shared_ptr<CudaStream>& stream = copies_ != nullptr ? copies_ : call.stream;
  if (copies_ != nullptr) TENON_TRY(copies_->wait_for(*call.stream));
  // The driver waits for the stream itself before it copies memory that is not page-locked, and knows no deadline.
  const auto pageable = [](const MemorySpace& space) { return space.device_type == DeviceType::kCpu; };
  if (!this_run().deadline.never() && (pageable(src.space) || pageable(dst.space))) TENON_TRY(stream->synchronize());
  if (size_bytes != 0) {
    TENON_TRY_ASSIGN(const ContextScope scope, ContextScope::enter(*device()));
    TENON_CUDA_TRY(device()->driver(), MemcpyAsync, reinterpret_cast<CUdeviceptr>(dst.data),
                   reinterpret_cast<CUdeviceptr>(src.data), size_bytes, stream->native());
  }
  if (copies_ != nullptr) {
    TENON_TRY(call.stream->wait_for(*copies_));
    runs_.use(copies_, end_wait(*copies_));
  }
  // Whoever reads host memory next may do so without asking the stream.
  if (dst.space.device_type == DeviceType::kCpu || dst.space.kind == MemoryKind::kHostAccessible)
    runs_.use(call.stream, plugin::RunEndWait::kAlways);
  return Status();
}

Status CudaSession::start_fences(const OrtRunOptions* options) {
  TENON_TRY_ASSIGN(const plugin::FencesOfRun fences, plugin::FencesOfRun::read(host_, options));
  return fences_.start(memory_, fences);
}

Status CudaSession::synchronize() {
  for (const auto& stream : {unified_, copies_, own_})
    if (stream != nullptr) TENON_TRY(stream->synchronize());
  return Status();
}

}  // namespace tenon::cuda
