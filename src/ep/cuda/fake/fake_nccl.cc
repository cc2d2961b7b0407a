#include "ep/cuda/fake/fake_nccl.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

namespace tenon::cuda {

namespace {

// The part of an operation that a rank has with one other rank, or with all of them.
struct Part {
  const std::byte* send = nullptr;
  std::byte* receive = nullptr;
  size_t count = 0;
};

// Queued once, and run as often as its graph is launched.
struct Operation {
  enum class Kind : uint8_t { kReduce, kGather, kExchange } kind = Kind::kReduce;
  NcclComm* communicator = nullptr;
  NcclType type = NcclType::kFloat32;
  Part all;
  std::map<int, Part> sends, receives;  // of kExchange, by peer
};

// Ranks that have reached an operation.
struct Meeting {
  std::vector<const Operation*> by_rank;
  int reached = 0, computed = 0, left = 0;
};

struct Group {
  std::mutex mutex;
  std::condition_variable changed;
  int ranks = 0, joined = 0;
  std::map<uint64_t, Meeting> meetings;
};

struct Groups {
  std::mutex mutex;
  std::map<std::string, std::shared_ptr<Group>> by_id;
  std::vector<NcclComm*> communicators;  // to the end of the process, so that a late use is found
  int made = 0;
};
Groups& groups() {
  static Groups* const all = new Groups;
  return *all;
}

std::atomic<const CudaDriver*> used_driver{nullptr};
std::atomic<int> alive{0};

// Of ncclGroupStart on this thread.
struct OpenGroup {
  int depth = 0;
  std::unique_ptr<Operation> exchange;
  CUstream stream = nullptr;
};
thread_local OpenGroup open_group;

[[noreturn]] void wrong(const char* text) {
  std::fprintf(stderr, "fake NCCL: %s\n", text);
  std::abort();
}

size_t size_of(NcclType type) {
  switch (type) {
    case NcclType::kUint8:
      return 1;
    case NcclType::kFloat16:
      return 2;
    case NcclType::kFloat32:
      return 4;
    case NcclType::kInt64:
    case NcclType::kFloat64:
      return 8;
  }
  return 0;
}

double half_value(uint16_t bits) {
  const int exponent = bits >> 10 & 31, mantissa = bits & 1023;
  const double magnitude = exponent == 31  ? (mantissa != 0 ? NAN : INFINITY)
                           : exponent == 0 ? std::ldexp(mantissa, -24)
                                           : std::ldexp(1024 + mantissa, exponent - 25);
  return (bits & 0x8000) != 0 ? -magnitude : magnitude;
}

uint16_t half_of(double value) {
  const auto sign = static_cast<uint16_t>(std::signbit(value) ? 0x8000 : 0);
  const double magnitude = std::fabs(value);
  if (std::isnan(value)) return 0x7e00;
  if (magnitude >= 65520) return sign | 0x7c00;
  const int exponent = std::max(magnitude == 0 ? -14 : std::ilogb(magnitude), -14);
  // The place of the last bit of 11; rounding may carry into the exponent, which the sum below takes in.
  const auto units = static_cast<uint16_t>(std::nearbyint(std::ldexp(magnitude, 10 - exponent)));
  return static_cast<uint16_t>(sign + (units < 1024 ? units : ((exponent + 14) << 10) + units));
}

template <typename T, typename Read, typename Write>
void add_up(const std::vector<const Operation*>& ranks, std::byte* to, Read read, Write write) {
  for (size_t i = 0; i < ranks[0]->all.count; ++i) {
    T sum = 0;
    for (const Operation* one : ranks) sum += static_cast<T>(read(one->all.send, i));
    write(to, i, sum);
  }
}

template <typename T>
void add_numbers(const std::vector<const Operation*>& ranks, std::byte* to) {
  add_up<T>(
      ranks, to, [](const std::byte* from, size_t i) { return reinterpret_cast<const T*>(from)[i]; },
      [](std::byte* out, size_t i, T sum) { reinterpret_cast<T*>(out)[i] = sum; });
}

void reduce(const std::vector<const Operation*>& ranks, std::byte* to) {
  switch (ranks[0]->type) {
    case NcclType::kFloat32:
      return add_numbers<float>(ranks, to);
    case NcclType::kFloat64:
      return add_numbers<double>(ranks, to);
    case NcclType::kInt64:
      return add_numbers<int64_t>(ranks, to);
    case NcclType::kUint8:
      return add_numbers<uint8_t>(ranks, to);
    case NcclType::kFloat16:
      return add_up<double>(
          ranks, to,
          [](const std::byte* from, size_t i) { return half_value(reinterpret_cast<const uint16_t*>(from)[i]); },
          [](std::byte* out, size_t i, double sum) { reinterpret_cast<uint16_t*>(out)[i] = half_of(sum); });
  }
}

}  // namespace

struct NcclComm {
  std::shared_ptr<Group> group;
  int rank = 0;
  // With the group's mutex held.
  uint64_t sequence = 0;
  bool aborted = false, destroyed = false;
  std::vector<std::unique_ptr<Operation>> operations;
};

namespace {

void copy(std::byte* to, const std::byte* from, size_t size) {
  if (size != 0) std::memcpy(to, from, size);
}

// What `own` receives of the others, to where it is kept until all have read.
std::vector<std::byte> result_of(const Operation& own, const std::vector<const Operation*>& ranks) {
  const size_t element = size_of(own.type);
  std::vector<std::byte> result;
  if (own.kind == Operation::Kind::kExchange) {
    for (const auto& [peer, part] : own.receives) {
      const auto sent = ranks[static_cast<size_t>(peer)]->sends.find(own.communicator->rank);
      if (sent == ranks[static_cast<size_t>(peer)]->sends.end() || sent->second.count != part.count)
        wrong("a rank receives what no rank sends.");
      result.insert(result.end(), sent->second.send, sent->second.send + part.count * element);
    }
    return result;
  }
  for (const Operation* one : ranks)
    if (one->kind != own.kind || one->type != own.type || one->all.count != own.all.count)
      wrong("the ranks' operations differ.");
  const size_t bytes = own.all.count * element;
  result.resize(own.kind == Operation::Kind::kReduce ? bytes : bytes * ranks.size());
  if (own.kind == Operation::Kind::kReduce) {
    reduce(ranks, result.data());
  } else {
    for (size_t rank = 0; rank < ranks.size(); ++rank) copy(result.data() + rank * bytes, ranks[rank]->all.send, bytes);
  }
  return result;
}

void take(const Operation& own, const std::vector<std::byte>& result) {
  if (own.kind != Operation::Kind::kExchange) return copy(own.all.receive, result.data(), result.size());
  size_t at = 0;
  for (const auto& [peer, part] : own.receives) {
    const size_t bytes = part.count * size_of(own.type);
    copy(part.receive, result.data() + at, bytes);
    at += bytes;
  }
}

// On the stream's thread.
void CUDA_CB run(void* argument) {
  const Operation& own = *static_cast<const Operation*>(argument);
  NcclComm& communicator = *own.communicator;
  Group& group = *communicator.group;
  std::unique_lock lock(group.mutex);
  if (communicator.destroyed) wrong("work of a communicator runs after it is destroyed.");
  const uint64_t sequence = communicator.sequence++;
  Meeting& meeting = group.meetings[sequence];
  meeting.by_rank.resize(static_cast<size_t>(group.ranks));
  meeting.by_rank[static_cast<size_t>(communicator.rank)] = &own;
  ++meeting.reached;
  group.changed.notify_all();
  const auto wait_for_all = [&](const int& number) {
    group.changed.wait(lock, [&] { return number == group.ranks || communicator.aborted; });
    return !communicator.aborted;
  };
  if (!wait_for_all(meeting.reached)) return;
  const std::vector<std::byte> result = result_of(own, meeting.by_rank);
  ++meeting.computed;
  group.changed.notify_all();
  if (!wait_for_all(meeting.computed)) return;
  take(own, result);
  if (++meeting.left == group.ranks) group.meetings.erase(sequence);
}

NcclResult queue(std::unique_ptr<Operation> operation, CUstream stream) {
  NcclComm& communicator = *operation->communicator;
  const Operation* const kept = operation.get();
  {
    const std::lock_guard lock(communicator.group->mutex);
    if (communicator.destroyed) return NcclResult::kInvalidUsage;
    communicator.operations.push_back(std::move(operation));
  }
  const CUresult queued = used_driver.load()->LaunchHostFunc(stream, &run, const_cast<Operation*>(kept));
  return queued == CUDA_SUCCESS ? NcclResult::kSuccess : NcclResult::kUnhandledCudaError;
}

NcclResult get_version(int* version) {
  *version = 22809;
  return NcclResult::kSuccess;
}

NcclResult get_unique_id(NcclUniqueId* id) {
  Groups& all = groups();
  const std::lock_guard lock(all.mutex);
  *id = {};
  std::snprintf(id->bytes.data(), id->bytes.size(), "group %d", ++all.made);
  return NcclResult::kSuccess;
}

NcclResult init_rank(NcclComm** communicator, int ranks, NcclUniqueId id, int rank) {
  if (rank < 0 || rank >= ranks) return NcclResult::kInvalidArgument;
  std::shared_ptr<Group> group;
  {
    Groups& all = groups();
    const std::lock_guard lock(all.mutex);
    std::shared_ptr<Group>& known = all.by_id[id.bytes.data()];
    if (known == nullptr) known = std::make_shared<Group>();
    group = known;
  }
  std::unique_lock lock(group->mutex);
  if (group->ranks != 0 && group->ranks != ranks) return NcclResult::kInvalidArgument;
  group->ranks = ranks;
  ++group->joined;
  group->changed.notify_all();
  group->changed.wait(lock, [&] { return group->joined == ranks; });
  *communicator = new NcclComm{.group = group, .rank = rank};
  {
    Groups& all = groups();
    const std::lock_guard of_all(all.mutex);
    all.communicators.push_back(*communicator);
  }
  ++alive;
  return NcclResult::kSuccess;
}

NcclResult end(NcclComm* communicator, bool abort) {
  const std::lock_guard lock(communicator->group->mutex);
  (abort ? communicator->aborted : communicator->destroyed) = true;
  communicator->group->changed.notify_all();
  --alive;
  return NcclResult::kSuccess;
}
NcclResult destroy(NcclComm* communicator) { return end(communicator, false); }
NcclResult abort(NcclComm* communicator) { return end(communicator, true); }

NcclResult all_reduce(const void* send, void* receive, size_t count, NcclType type, NcclReduction,
                      NcclComm* communicator, CUstream stream) {
  auto operation = std::make_unique<Operation>();
  operation->communicator = communicator;
  operation->type = type;
  operation->all = {static_cast<const std::byte*>(send), static_cast<std::byte*>(receive), count};
  return queue(std::move(operation), stream);
}

NcclResult all_gather(const void* send, void* receive, size_t count, NcclType type, NcclComm* communicator,
                      CUstream stream) {
  auto operation = std::make_unique<Operation>();
  operation->kind = Operation::Kind::kGather;
  operation->communicator = communicator;
  operation->type = type;
  operation->all = {static_cast<const std::byte*>(send), static_cast<std::byte*>(receive), count};
  return queue(std::move(operation), stream);
}

NcclResult group_start() {
  ++open_group.depth;
  return NcclResult::kSuccess;
}

NcclResult group_end() {
  if (open_group.depth == 0) return NcclResult::kInvalidUsage;
  if (--open_group.depth > 0 || open_group.exchange == nullptr) return NcclResult::kSuccess;
  return queue(std::move(open_group.exchange), open_group.stream);
}

// The group's one exchange. Null, where it cannot have this in it.
Operation* exchange_with(NcclType type, NcclComm* communicator, CUstream stream) {
  if (open_group.depth == 0) return nullptr;
  if (open_group.exchange == nullptr) {
    open_group.exchange = std::make_unique<Operation>();
    open_group.exchange->kind = Operation::Kind::kExchange;
    open_group.exchange->communicator = communicator;
    open_group.exchange->type = type;
    open_group.stream = stream;
  }
  Operation* const made = open_group.exchange.get();
  return made->communicator == communicator && made->type == type && open_group.stream == stream ? made : nullptr;
}

NcclResult send_to(const void* send, size_t count, NcclType type, int peer, NcclComm* communicator, CUstream stream) {
  Operation* const made = exchange_with(type, communicator, stream);
  if (made == nullptr) return NcclResult::kInvalidUsage;
  made->sends[peer] = {.send = static_cast<const std::byte*>(send), .count = count};
  return NcclResult::kSuccess;
}

NcclResult receive_from(void* receive, size_t count, NcclType type, int peer, NcclComm* communicator, CUstream stream) {
  Operation* const made = exchange_with(type, communicator, stream);
  if (made == nullptr) return NcclResult::kInvalidUsage;
  made->receives[peer] = {.receive = static_cast<std::byte*>(receive), .count = count};
  return NcclResult::kSuccess;
}

const char* last_error(NcclComm*) { return "as the fake NCCL says."; }

}  // namespace

const Nccl& fake::nccl(const CudaDriver& driver) {
  used_driver = &driver;
  static const Nccl table = {.GetVersion = &get_version,
                             .GetUniqueId = &get_unique_id,
                             .CommInitRank = &init_rank,
                             .CommDestroy = &destroy,
                             .CommAbort = &abort,
                             .GroupStart = &group_start,
                             .GroupEnd = &group_end,
                             .AllReduce = &all_reduce,
                             .AllGather = &all_gather,
                             .Send = &send_to,
                             .Recv = &receive_from,
                             .GetLastError = &last_error};
  return table;
}

int fake::live_communicators() { return alive; }

}  // namespace tenon::cuda
