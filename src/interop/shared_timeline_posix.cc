#include <fcntl.h>
#include <linux/futex.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <tenon/external_memory.h>
#include <tenon/fence.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/deadline.h"
#include "base/fault.h"
#include "base/guarded.h"
#include "device/spin.h"
#include "device/timeline_errors.h"
#include "interop/process_watch_posix.h"
#include "interop/shared_timeline_page.h"

namespace tenon {

namespace {

constexpr uint64_t kPeerLeft = ~uint64_t{0};
// Between two looks at the peer; a dead one is noticed within this time.
constexpr int64_t kPeerCheckNs = 25'000'000;
constexpr unsigned kNeededSeals = F_SEAL_SHRINK;
constexpr unsigned kOurSeals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;

enum PoisonState : uint32_t { kNoPoison = 0, kPoisonWriting = 1, kPoisonComplete = 2 };

template <typename T>
std::atomic_ref<T> at(T& field) {
  return std::atomic_ref<T>(field);
}

void futex_wait(uint32_t* word, uint32_t expected, int64_t timeout_ns) {
  const timespec timeout = {.tv_sec = timeout_ns / 1'000'000'000, .tv_nsec = timeout_ns % 1'000'000'000};
  // Every result means the same to the caller: look again.
  (void)::syscall(SYS_futex, word, FUTEX_WAIT, expected, &timeout, nullptr, 0);
}

void futex_wake_all(uint32_t* word) { (void)::syscall(SYS_futex, word, FUTEX_WAKE, INT32_MAX, nullptr, nullptr, 0); }

class Mapping {
 public:
  static Result<Mapping> map(int fd, const std::string& name) {
    TENON_FAULT_POINT("mmap");
    void* address = ::mmap(nullptr, kSharedTimelineBytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (address == MAP_FAILED) {
      const int error = errno;
      const StatusCode code = error == ENOMEM ? StatusCode::kResourceExhausted : StatusCode::kInvalidArgument;
      return make_status(code, "The page of {} cannot be mapped for reading and writing: {}.", name,
                         errno_text("mmap", error));
    }
    Mapping mapping;
    mapping.page_ = static_cast<SharedTimelinePage*>(address);
    return mapping;
  }
  Mapping() = default;
  Mapping(Mapping&& other) noexcept : page_(std::exchange(other.page_, nullptr)) {}
  Mapping& operator=(Mapping&&) = delete;
  ~Mapping() {
    if (page_ != nullptr) ::munmap(page_, kSharedTimelineBytes);
  }
  SharedTimelinePage* page() const { return page_; }

 private:
  SharedTimelinePage* page_ = nullptr;
};

Status check_header(SharedTimelinePage& page, const std::string& name) {
  const uint64_t magic = at(page.magic).load(std::memory_order_relaxed);
  const uint32_t version = at(page.version).load(std::memory_order_relaxed);
  const uint32_t size = at(page.size_bytes).load(std::memory_order_relaxed);
  TENON_INVALID_IF(magic != kSharedTimelineMagic, "The page of {} does not begin with TENONTL1 (but {:#018x}).", name,
                   magic);
  TENON_UNSUPPORTED_IF(version != kSharedTimelineVersion, "The page of {} has version {}; this build knows {}.", name,
                       version, kSharedTimelineVersion);
  TENON_INVALID_IF(size != kSharedTimelineBytes, "The page of {} says that it has {} bytes instead of {}.", name, size,
                   kSharedTimelineBytes);
  return Status();
}

class SharedTimelineImpl final : public SharedTimeline {
 public:
  SharedTimelineImpl(std::string name, OwnedHandle handle, Mapping mapping, int side)
      : name_(std::move(name)), handle_(std::move(handle)), mapping_(std::move(mapping)), side_(side) {}

  ~SharedTimelineImpl() override {
    // In a forked child this object is a copy: the registration is the parent's.
    if (registered_.packed == 0 || registered_.pid() != ::getpid()) return;
    uint64_t expected = registered_.packed;
    at(page().peers[side_].process).compare_exchange_strong(expected, kPeerLeft);
    wake_waiters();
  }

  // Takes this side of the page, which must be free or held by a process that is gone.
  Status join() {
    const ProcessId self = ProcessId::self();
    SharedTimelinePeer& slot = page().peers[side_];
    uint64_t holder = at(slot.process).load();
    ProcessWatch watch;
    while (true) {
      if (holder == self.packed) return Status();  // opened a second time here; the first one's registration stands
      const ProcessId other{holder, at(slot.pid_namespace).load()};
      if (holder != 0 && holder != kPeerLeft && watch.alive(other))
        return resource_exhausted("{} is already open in another process (pid {}); it joins two processes only.", name_,
                                  other.pid());
      if (at(slot.process).compare_exchange_strong(holder, self.packed)) break;
    }
    at(slot.pid_namespace).store(self.pid_namespace);
    registered_ = self;
    return Status();
  }

  Result<uint64_t> value() override {
    TENON_TRY(check_header(page(), name_));
    return current();
  }

  Status wait(uint64_t value, int64_t timeout_ns) override {
    TENON_TRY(check_timeout(name_, timeout_ns));
    TENON_TRY(check_header(page(), name_));
    const Deadline deadline = Deadline::after(timeout_ns);
    const auto reached = [&] { return current() >= value || poison_state() != kNoPoison; };
    spin_until(deadline.remaining_ns(kWaitSpinNs), reached);
    if (current() >= value && poison_state() == kNoPoison) return Status();
    at(page().waiters).fetch_add(1);
    const Status status = blocking_wait(value, timeout_ns, deadline);
    at(page().waiters).fetch_sub(1);
    return status;
  }

  Status signal(uint64_t value) override {
    TENON_TRY(check_header(page(), name_));
    uint64_t reached = current();
    do {
      if (value <= reached) return signal_goes_back(name_, value, reached);
    } while (!at(page().value).compare_exchange_weak(reached, value));
    wake_waiters();
    return Status();
  }

  void poison(uint64_t value, const Status& why) override {
    SharedTimelinePage& page = this->page();
    uint64_t reached = current();
    uint32_t none = kNoPoison;
    if (!why.ok() && at(page.poison_state).compare_exchange_strong(none, kPoisonWriting)) {
      const std::string& text = why.message();
      const size_t size = std::min(text.size(), kPoisonTextBytes);
      std::memcpy(page.poison_text, text.data(), size);
      at(page.poison_text_bytes).store(static_cast<uint32_t>(size));
      at(page.poison_code).store(static_cast<uint32_t>(why.code()));
      at(page.poison_from).store(reached < value ? reached + 1 : value);
      at(page.poison_state).store(kPoisonComplete);
    }
    while (reached < value && !at(page.value).compare_exchange_weak(reached, value)) {
    }
    wake_waiters();
  }

  Status status() override {
    TENON_TRY(check_header(page(), name_));
    return poison_at(~uint64_t{0});
  }

  std::string name() const override { return name_; }
  int fd() const override { return handle_.fd(); }

 private:
  SharedTimelinePage& page() const { return *mapping_.page(); }
  uint64_t current() const { return at(page().value).load(std::memory_order_acquire); }
  uint32_t poison_state() const { return at(page().poison_state).load(std::memory_order_acquire); }

  void wake_waiters() {
    at(page().wake).fetch_add(1);
    if (at(page().waiters).load() != 0) futex_wake_all(&page().wake);
  }

  Status blocking_wait(uint64_t value, int64_t timeout_ns, const Deadline& deadline) {
    while (true) {
      const uint32_t seen = at(page().wake).load();
      // The poison is complete before it moves the value: read the value first.
      const uint64_t reached = current();
      TENON_TRY(poison_at(value));
      if (reached >= value) return Status();
      if (deadline.passed()) return wait_timed_out(name_, value, reached, timeout_ns);
      TENON_TRY(check_header(page(), name_));
      if (Status lost = check_peer(); !lost.ok()) {
        // Its last signal may lie between our look at the value and its death.
        if (current() >= value && poison_state() == kNoPoison) return Status();
        return lost;
      }
      futex_wait(&page().wake, seen, deadline.remaining_ns(kPeerCheckNs));
    }
  }

  Status check_peer() {
    SharedTimelinePeer& slot = page().peers[1 - side_];
    const ProcessId peer{at(slot.process).load(), at(slot.pid_namespace).load()};
    if (peer.packed == 0) return Status();
    if (peer.packed == kPeerLeft) return device_lost("The other process has closed {}.", name_);
    if (!watch_.lock()->alive(peer))
      return device_lost("The process (pid {}) on the other side of {} is gone.", peer.pid(), name_);
    return Status();
  }

  // Why the timeline is poisoned for `value`. Nothing in the page is believed: codes, lengths and text are checked.
  Status poison_at(uint64_t value) const {
    SharedTimelinePage& page = this->page();
    const uint32_t state = poison_state();
    if (state == kNoPoison || state == kPoisonWriting) return Status();
    if (state != kPoisonComplete) return device_error("The page of {} is damaged: poison state {}.", name_, state);
    if (value < at(page.poison_from).load()) return Status();
    const uint32_t code = at(page.poison_code).load();
    if (code == 0 || code > static_cast<uint32_t>(StatusCode::kTimeout))
      return device_error("The page of {} is damaged: status code {}.", name_, code);
    const size_t size = std::min<size_t>(at(page.poison_text_bytes).load(), kPoisonTextBytes);
    std::string text(page.poison_text, size);
    for (char& c : text)
      if (static_cast<unsigned char>(c) < 0x20) c = '?';
    return Status(static_cast<StatusCode>(code), std::move(text));
  }

  const std::string name_;
  const OwnedHandle handle_;
  const Mapping mapping_;
  const int side_;
  ProcessId registered_;
  Guarded<ProcessWatch> watch_;
};

}  // namespace

Result<std::shared_ptr<SharedTimeline>> SharedTimeline::create(std::string name, uint64_t initial_value) {
  name = format("timeline \"{}\"", name);
  TENON_FAULT_POINT("memfd_create");
  OwnedHandle handle = OwnedHandle::take_fd(::memfd_create("tenon-timeline", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!handle.valid())
    return resource_exhausted("The page of {} cannot be made: {}.", name, errno_text("memfd_create", errno));
  TENON_FAULT_POINT("ftruncate");
  if (::ftruncate(handle.fd(), kSharedTimelineBytes) != 0)
    return resource_exhausted("The page of {} cannot be made: {}.", name, errno_text("ftruncate", errno));
  TENON_FAULT_POINT("seal");
  if (::fcntl(handle.fd(), F_ADD_SEALS, kOurSeals) != 0)
    return device_error("The page of {} cannot be sealed: {}.", name, errno_text("fcntl", errno));
  TENON_TRY_ASSIGN(Mapping mapping, Mapping::map(handle.fd(), name));
  SharedTimelinePage& page = *mapping.page();
  at(page.version).store(kSharedTimelineVersion);
  at(page.size_bytes).store(static_cast<uint32_t>(kSharedTimelineBytes));
  at(page.value).store(initial_value);
  at(page.magic).store(kSharedTimelineMagic);
  auto timeline = std::make_shared<SharedTimelineImpl>(std::move(name), std::move(handle), std::move(mapping), 0);
  TENON_TRY(timeline->join());
  return std::shared_ptr<SharedTimeline>(std::move(timeline));
}

Result<std::shared_ptr<SharedTimeline>> SharedTimeline::open(std::string name, int fd) {
  name = format("timeline \"{}\"", name);
  TENON_INVALID_IF(fd < 0, "File descriptor {} of {} is not valid.", fd, name);
  struct stat info;
  TENON_INVALID_IF(::fstat(fd, &info) != 0, "File descriptor {} of {} is not open.", fd, name);
  TENON_INVALID_IF(static_cast<uint64_t>(info.st_size) != kSharedTimelineBytes,
                   "File descriptor {} of {} has {} bytes; a timeline's page has {}.", fd, name,
                   static_cast<int64_t>(info.st_size), kSharedTimelineBytes);
  // A page that its owner may cut off would end this process with SIGBUS at any access.
  const int seals = ::fcntl(fd, F_GET_SEALS);
  TENON_INVALID_IF(seals < 0 || (static_cast<unsigned>(seals) & kNeededSeals) != kNeededSeals,
                   "File descriptor {} of {} is no memfd that is sealed against shrinking.", fd, name);
  TENON_TRY_ASSIGN(OwnedHandle handle, OwnedHandle::duplicate_fd(fd));
  TENON_TRY_ASSIGN(Mapping mapping, Mapping::map(handle.fd(), name));
  TENON_TRY(check_header(*mapping.page(), name));
  auto timeline = std::make_shared<SharedTimelineImpl>(std::move(name), std::move(handle), std::move(mapping), 1);
  TENON_TRY(timeline->join());
  return std::shared_ptr<SharedTimeline>(std::move(timeline));
}

}  // namespace tenon
