#include "ep/cuda/communicator.h"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <mutex>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "base/format.h"
#include "ep/cuda/rendezvous.h"
#include "ep/cuda/run_settings.h"

namespace tenon::cuda {

namespace {

constexpr int64_t kNsAMs = 1'000'000;
constexpr auto kLongestRelease = std::chrono::seconds(1);
constexpr int64_t kTellAfterNs = 10'000 * kNsAMs;

std::string remark_for(const RankOptions& options) {
  const std::vector<int> others = other_ranks(options);
  return format(" It exchanges tensors as {}: rank{} {} may not have taken part.", options.who(),
                others.size() == 1 ? "" : "s", listed_ranks(others));
}

}  // namespace

// Shared with the thread, which may stay in a call of NCCL when the communicator is gone.
struct Communicator::State {
  State(std::shared_ptr<CudaDevice> its_device, const RankOptions& options,
        std::function<void(const std::string&)> its_tell)
      : device(std::move(its_device)), rendezvous(options), options(options), tell(std::move(its_tell)) {}

  const std::shared_ptr<CudaDevice> device;
  Rendezvous rendezvous;
  const RankOptions options;
  const std::function<void(const std::string&)> tell;

  std::mutex mutex;
  std::condition_variable changed;
  // With the mutex held.
  const Nccl* library = nullptr;
  NcclComm* native = nullptr;  // null before the ranks have met
  Status failed;               // for ever
  bool joining = false;        // the ranks have met, and NCCL connects them
  bool given_up = false;       // NCCL is to end what it does
  bool closing = false, closed = false;
  Deadline call_ends = Deadline::after(-1);  // of the call that is in NCCL

  // With `lock` held.
  void give_up_locked(Status why) {
    if (failed.ok()) failed = std::move(why);
    given_up = true;
    changed.notify_all();
  }
};

Communicator::Communicator(std::shared_ptr<CudaDevice> device, RankOptions options,
                           std::function<void(const std::string&)> tell)
    : options_(std::move(options)),
      remark_(remark_for(options_)),
      state_(std::make_shared<State>(std::move(device), options_, std::move(tell))) {}

Communicator::~Communicator() {
  state_->rendezvous.stop();
  std::unique_lock lock(state_->mutex);
  if (state_->library == nullptr) return;
  state_->closing = true;
  state_->changed.notify_all();
  // A rank that is waited for in NCCL may never come; the thread is then left to itself.
  (void)state_->changed.wait_for(lock, kLongestRelease, [&] { return state_->closed; });
}

Status Communicator::start(const Nccl& library) {
  TENON_UNSUPPORTED_IF(state_->device->in_graphics(),
                       "NCCL does not work inside a graphics API's context, which that of CUDA device {} is.",
                       state_->device->ordinal());
  const std::lock_guard lock(state_->mutex);
  if (state_->library != nullptr) return Status();
  try {
    state_->library = &library;
    std::thread([state = state_] { work(state); }).detach();
  } catch (const std::system_error& error) {
    state_->library = nullptr;
    return resource_exhausted("There is no thread to meet other ranks: {}.", error.what());
  }
  return Status();
}

bool Communicator::started() const {
  const std::lock_guard lock(state_->mutex);
  return state_->library != nullptr;
}

void Communicator::work(const std::shared_ptr<State>& state) {
  const Nccl& library = *state->library;
  const auto join = [&]() -> Result<NcclComm*> {
    // NCCL takes the device from the thread's context.
    TENON_TRY_ASSIGN(const ContextScope scope, ContextScope::enter(*state->device));
    NcclUniqueId id;
    if (state->options.rank == 0) TENON_NCCL_TRY(library, GetUniqueId, &id);
    std::vector<char> bytes(id.bytes.begin(), id.bytes.end());
    TENON_TRY(state->rendezvous.meet(bytes));
    if (bytes.size() != id.bytes.size()) return internal_error("Rank 0 gives {} bytes for an id.", bytes.size());
    std::copy(bytes.begin(), bytes.end(), id.bytes.begin());
    {
      const std::lock_guard lock(state->mutex);
      state->joining = true;
    }
    NcclComm* made = nullptr;
    TENON_NCCL_TRY(library, CommInitRank, &made, state->options.ranks, id, state->options.rank);
    return made;
  };
  Result<NcclComm*> joined = join();
  std::unique_lock lock(state->mutex);
  if (!joined.ok()) {
    state->give_up_locked(
        std::move(joined).status().with_context(format("while {} joins the others", state->options.who())));
  } else {
    state->native = *joined;
    state->changed.notify_all();
    const auto asked = [&] { return state->given_up || state->closing; };
    while (!asked()) {
      if (state->call_ends.never()) {
        state->changed.wait(lock);
      } else {
        (void)state->changed.wait_for(lock, std::chrono::nanoseconds(state->call_ends.remaining_ns(kTellAfterNs)));
        if (!asked() && state->call_ends.passed())
          state->give_up_locked(
              timed_out("A call of NCCL has waited for other ranks for {} ms.", state->options.timeout_ms));
      }
    }
    NcclComm* const native = std::exchange(state->native, nullptr);
    const bool abort = state->given_up;
    lock.unlock();
    // Both wait for the graphs that hold operations of this communicator.
    {
      const Result<ContextScope> scope = ContextScope::enter(*state->device);
      (void)(abort ? library.CommAbort(native) : library.CommDestroy(native));
    }
    lock.lock();
  }
  state->closed = true;
  state->changed.notify_all();
}

Deadline Communicator::deadline() const {
  const Deadline own = Deadline::after(options_.timeout_ms > 0 ? options_.timeout_ms * kNsAMs : -1);
  const Deadline run = this_run().deadline;
  return run.at_ns() < own.at_ns() ? run : own;
}

Status Communicator::ready() {
  const Deadline ends = deadline();
  const int64_t began = monotonic_ns();
  bool told = false;
  const auto who_is_missing = [&] {
    return state_->joining ? format("Rank {} of {} waits for NCCL to connect the ranks.", options_.rank, options_.ranks)
                           : state_->rendezvous.who_is_missing();
  };
  std::unique_lock lock(state_->mutex);
  while (state_->native == nullptr && state_->failed.ok()) {
    const int64_t waited_ns = monotonic_ns() - began;
    const auto sentence = [&] {
      return format("{} This is {}, which has waited for {:.1f} s.", who_is_missing(), options_.who(),
                    static_cast<double>(waited_ns) * 1e-9);
    };
    if (ends.passed()) return timed_out("{}", sentence());
    if (!told && waited_ns >= kTellAfterNs && state_->tell) {
      told = true;
      const std::string line = sentence();
      lock.unlock();
      state_->tell(line);
      lock.lock();
      continue;
    }
    (void)state_->changed.wait_for(lock,
                                   std::chrono::nanoseconds(std::max<int64_t>(ends.remaining_ns(kTellAfterNs), 1)));
  }
  return state_->failed;
}

void Communicator::give_up(const std::string& why) {
  const std::lock_guard lock(state_->mutex);
  if (state_->library == nullptr) return;
  state_->give_up_locked(
      device_error("The ranks' communicator is given up, and the session is of no more use: {}", why));
}

Status Communicator::call(const std::function<Status(const Nccl& library, NcclComm* native)>& queue) {
  NcclComm* native = nullptr;
  {
    const std::lock_guard lock(state_->mutex);
    TENON_TRY(state_->failed);
    if (state_->native == nullptr) return internal_error("The ranks have not met.");
    native = state_->native;
    state_->call_ends = deadline();
    state_->changed.notify_all();
  }
  Status queued = queue(*state_->library, native);
  const std::lock_guard lock(state_->mutex);
  state_->call_ends = Deadline::after(-1);
  // Given up meanwhile: that is the reason of whatever NCCL says.
  return state_->failed.ok() ? std::move(queued) : state_->failed;
}

Status Communicator::all_reduce(CUdeviceptr send, CUdeviceptr receive, size_t count, NcclType type, CUstream stream) {
  return call([&](const Nccl& library, NcclComm* native) -> Status {
    TENON_NCCL_TRY(library, AllReduce, reinterpret_cast<const void*>(send), reinterpret_cast<void*>(receive), count,
                   type, NcclReduction::kSum, native, stream);
    return Status();
  });
}

Status Communicator::all_gather(CUdeviceptr send, CUdeviceptr receive, size_t count, NcclType type, CUstream stream) {
  return call([&](const Nccl& library, NcclComm* native) -> Status {
    TENON_NCCL_TRY(library, AllGather, reinterpret_cast<const void*>(send), reinterpret_cast<void*>(receive), count,
                   type, native, stream);
    return Status();
  });
}

Status Communicator::all_to_all(CUdeviceptr send, CUdeviceptr receive, size_t count, NcclType type,
                                size_t element_bytes, CUstream stream) {
  return call([&](const Nccl& library, NcclComm* native) -> Status {
    TENON_NCCL_TRY(library, GroupStart);
    const auto exchange = [&]() -> Status {
      for (int rank = 0; rank < options_.ranks; ++rank) {
        const size_t offset = static_cast<size_t>(rank) * count * element_bytes;
        TENON_NCCL_TRY(library, Send, reinterpret_cast<const void*>(send + offset), count, type, rank, native, stream);
        TENON_NCCL_TRY(library, Recv, reinterpret_cast<void*>(receive + offset), count, type, rank, native, stream);
      }
      return Status();
    };
    Status queued = exchange();
    // In any case: a group that is open would take all later calls of this thread.
    const NcclResult ended = library.GroupEnd();
    TENON_TRY(std::move(queued));
    return ended == NcclResult::kSuccess ? Status() : nccl_error(library, ended, "ncclGroupEnd");
  });
}

}  // namespace tenon::cuda
