// Objects of the program are released with no lock held: its functions may wait for a lock of the program's,
// Python's for example, whose holder uses the device meanwhile.
#include <atomic>
#include <chrono>
#include <functional>
#include <mutex>
#include <thread>

#include "ep/cuda/cuda_session.h"
#include "ep/cuda/gate_testing.h"
#include "ep/cuda/importer_testing.h"
#include "interop/dlpack_types.h"

namespace tenon::cuda {
namespace {

// A lock of the program's. A release waits for it, but not for ever: a deadlock fails the test and ends.
struct ProgramLock {
  std::timed_mutex mutex;
  std::atomic<int> entered = 0, released = 0;

  void release() {
    ++entered;
    const std::unique_lock held(mutex, std::chrono::seconds(3));
    if (held.owns_lock()) ++released;
  }
};
ProgramLock* program_lock = nullptr;

void* program_alloc(size_t size_bytes) { return std::malloc(size_bytes); }
void program_free(void* memory) {
  program_lock->release();
  std::free(memory);
}

class LateRelease : public CudaImporterTest {
 protected:
  LateRelease() { program_lock = &lock_; }
  ~LateRelease() override { program_lock = nullptr; }

  // Another thread calls `release` until a function of the program has begun, while this one holds the program's lock
  // and uses the device.
  void check(const std::function<void()>& release) {
    const auto stream = make_stream();
    std::unique_lock held(lock_.mutex);
    std::thread other([&] {
      for (int i = 0; i < 1000 && lock_.entered == 0; ++i) release();
    });
    while (lock_.entered == 0) std::this_thread::yield();
    void* const block = memory_->allocate(1024, stream).value();
    const auto timeline = std::make_shared<const std::string>("timeline of a test");
    EXPECT_THAT(memory_->queue_wait(*stream, {timeline, 1}, [] { return Status(); }), is_ok());
    EXPECT_THAT(memory_->until_nobody_waits(Deadline::after(1'000'000'000)), is_ok());
    bool unused = false;
    memory_->when_unused([&](const CudaDriver&) { unused = true; });
    memory_->free(block);
    memory_->collect();
    EXPECT_TRUE(unused);
    held.unlock();
    other.join();
    EXPECT_EQ(lock_.entered, 1);
    EXPECT_EQ(lock_.released, 1) << "The program's function waited for a thread that waited for it.";
  }

  ProgramLock lock_;
};

// S2: the deleter of a tensor from Python takes the interpreter's lock.
TEST_F(LateRelease, ADlpackDeleterMayWaitForAThreadThatUsesTheDevice) {
  void* const block = memory_->allocate(kImportBytes, nullptr).value();
  int64_t size = kImportBytes, stride = 1;
  DLManagedTensorVersioned managed{};
  managed.dl_tensor.data = block;
  const int32_t cuda = 2;
  std::memcpy(&managed.dl_tensor.device.device_type, &cuda, sizeof(cuda));
  managed.dl_tensor.ndim = 1;
  managed.dl_tensor.dtype = {.code = kDlpackUint, .bits = 8, .lanes = 1};
  managed.dl_tensor.shape = &size;
  managed.dl_tensor.strides = &stride;
  managed.version = {.major = kDlpackMajor, .minor = 0};
  managed.deleter = [](DLManagedTensorVersioned*) { program_lock->release(); };
  ExternalHandle handle{.kind = ExternalMemoryKind::kDlpack, .type = HandleType::kDlpack};
  handle.pointer = &managed;
  handle.dlpack_versioned = true;
  auto imported = import(handle);
  ASSERT_THAT(imported, is_ok());
  check([&] {
    imported = invalid_argument("released");
    memory_->collect();
  });
  memory_->free(block);
}

CudaOptions external_options() {
  CudaOptions options;
  options.external_allocator = {&program_alloc, &program_free, nullptr};
  options.unified_stream = true;
  return options;
}

// S4.3: a session's plan goes late, as its kernels' modules do, and its blocks with it.
TEST_F(LateRelease, AnExternalFreeMayWaitForAThreadThatUsesTheDevice) {
  const auto session = CudaSession::create(plugin::HostApi(), memory_, external_options(), nullptr).value();
  const auto memory = session->device_memory();
  std::shared_ptr<void> plan(memory->allocate(100).value(), [memory](void* block) { memory->free(block); });
  check([&] {
    if (plan != nullptr) memory_->release_when_nobody_waits(std::move(plan));
  });
}

// The plan may be what the session's memory was left for.
TEST_F(LateRelease, TheLastHolderOfASessionsMemoryMayWaitToo) {
  auto session = CudaSession::create(plugin::HostApi(), memory_, external_options(), nullptr).value();
  auto memory = session->device_memory();
  const auto stream = session->stream_of(nullptr).value().stream;
  void* const block = memory->allocate(100).value();
  {
    fake::Gate gate(*stream);
    memory->free(block);
    gate.open();
    ASSERT_THAT(stream->synchronize(), is_ok());
  }
  EXPECT_EQ(lock_.entered, 0);
  session = nullptr;
  EXPECT_EQ(lock_.entered, 0);
  check([&] {
    if (memory != nullptr) memory_->release_when_nobody_waits(std::move(memory));
  });
}

}  // namespace
}  // namespace tenon::cuda
