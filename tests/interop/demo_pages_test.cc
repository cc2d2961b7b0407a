// S6.2, from outside: the pages of a run's imports are made unreadable again and again while it runs, and each access
// is caught. Only the first kernel may access the input, and only the last one the output.
#include <sys/mman.h>
#include <tenon/importer.h>
#include <tenon/session.h>
#include <unistd.h>

#include <atomic>
#include <cmath>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <thread>
#include <vector>

#include "base/deadline.h"
#include "base/testing.h"
#include "base/trace.h"
#include "demo/page.h"

namespace tenon::demo {
namespace {

struct Guarded {
  std::byte* begin = nullptr;
  size_t size_bytes = 0;

  bool holds(const void* address) const { return address >= begin && address < begin + size_bytes; }
  void forbid() const { ASSERT_EQ(mprotect(begin, size_bytes, PROT_NONE), 0); }
  void allow() const { ASSERT_EQ(mprotect(begin, size_bytes, PROT_READ | PROT_WRITE), 0); }
};

struct Touch {
  int64_t at_ns = 0;
  int range = 0;
};

// The state of the signal handler: the ranges that it opens and the touches that it notes.
Guarded guarded[2];  // input, output
Touch touches[65536];
std::atomic<size_t> touch_count;

// Notes who was there when, and lets it through.
void on_fault(int, siginfo_t* info, void*) {
  for (int range = 0; range < 2; ++range) {
    if (!guarded[range].holds(info->si_addr)) continue;
    const size_t index = touch_count.fetch_add(1);
    if (index < std::size(touches)) touches[index] = {monotonic_ns(), range};
    mprotect(guarded[range].begin, guarded[range].size_bytes, PROT_READ | PROT_WRITE);
    return;
  }
  signal(SIGSEGV, SIG_DFL);  // somebody else's fault: let it happen again
}

// A memfd with two mappings: the producer's own, and Tenon's import.
struct SharedMemory {
  std::byte* own = nullptr;
  std::shared_ptr<ExternalMemory> imported;

  SharedMemory(const char* name, size_t size_bytes) : size_bytes_(size_bytes) {
    OwnedHandle handle = OwnedHandle::take_fd(memfd_create(name, MFD_CLOEXEC));
    EXPECT_EQ(ftruncate(handle.fd(), static_cast<off_t>(size_bytes)), 0);
    own = static_cast<std::byte*>(mmap(nullptr, size_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, handle.fd(), 0));
    EXPECT_NE(own, MAP_FAILED);
    ExternalMemoryDescriptor descriptor;
    descriptor.kind = ExternalMemoryKind::kMappableFd;
    descriptor.size_bytes = size_bytes;
    descriptor.name = name;
    auto memory = Importer::host().import_memory(handle, descriptor);
    EXPECT_THAT(memory, is_ok());
    if (memory.ok()) imported = *memory;
  }
  ~SharedMemory() { munmap(own, size_bytes_); }
  Guarded guard() const { return {static_cast<std::byte*>(imported->data()), size_bytes_}; }

 private:
  size_t size_bytes_;
};

struct Span {
  std::string name;
  int64_t begin_ns = 0;
  int64_t end_ns = 0;
};

class DemoPages : public ::testing::Test {
 protected:
  void SetUp() override {
    const std::string model = test_variable("TENON_MODELS") + "/ppocr_v6_det.onnx";
    if (!std::filesystem::exists(model)) GTEST_SKIP() << "TENON_MODELS has no ppocr_v6_det.onnx.";
    struct sigaction action{};
    action.sa_sigaction = on_fault;
    action.sa_flags = SA_SIGINFO;
    ASSERT_EQ(sigaction(SIGSEGV, &action, &before_), 0);
    const auto page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
    ASSERT_EQ(kInputBytes % page, 0U);
    ASSERT_EQ(kMapBytes % page, 0U);

    auto session = Session::load(model, {.threads = 2});
    ASSERT_THAT(session, is_ok());
    session_ = *session;
    input_ = std::make_unique<SharedMemory>("frame", kInputBytes);
    output_ = std::make_unique<SharedMemory>("map", kMapBytes);
    auto binding = session_->make_binding();
    ASSERT_THAT(binding, is_ok());
    binding_.emplace(std::move(*binding));
    const auto x = ExternalMemory::create_tensor(input_->imported, DataType::kFloat, {1, 3, kFrameHeight, kFrameWidth});
    const auto y =
        ExternalMemory::create_tensor(output_->imported, DataType::kFloat, {1, 1, kFrameHeight, kFrameWidth});
    ASSERT_THAT(x, is_ok());
    ASSERT_THAT(y, is_ok());
    ASSERT_THAT(binding_->bind_input(session_->inputs()[0].name, *x), is_ok());
    ASSERT_THAT(binding_->bind_output(session_->outputs()[0].name, *y), is_ok());
    // Written through the producer's own mapping.
    const std::vector<float> frame = Page().draw(1);
    std::memcpy(input_->own, frame.data(), kInputBytes);
    ASSERT_THAT(session_->run(*binding_), is_ok());  // plans
    plain_map_.assign(output_->own, output_->own + kMapBytes);
    trace_path_ = std::filesystem::temp_directory_path() / format("tenon_pages_{}.json", getpid());
  }

  void TearDown() override {
    sigaction(SIGSEGV, &before_, nullptr);
    std::filesystem::remove(trace_path_);
  }

  // One run with both imports forbidden over and over, from before its start. `meanwhile` is called from another thread
  // when the run is about half done.
  void run_guarded(const std::function<void()>& meanwhile) {
    std::memset(output_->own, 0, kMapBytes);
    guarded[0] = input_->guard();
    guarded[1] = output_->guard();
    touch_count = 0;
    ASSERT_THAT(open_trace_file(trace_path_), is_ok());
    guarded[0].forbid();
    guarded[1].forbid();
    std::atomic<bool> running = true;
    std::thread guard([&] {
      while (running) {
        usleep(200);
        if (!running) break;
        guarded[0].forbid();
        guarded[1].forbid();
      }
    });
    RunReport report;
    std::thread other([&] { meanwhile(); });
    const Status status = session_->run(*binding_, {.report = &report});
    running = false;
    guard.join();
    other.join();
    guarded[0].allow();
    guarded[1].allow();
    close_trace_file();
    ASSERT_THAT(status, is_ok());
    EXPECT_EQ(report.copies.bytes_copied(), 0U);
    run_ns_ = report.infer_ns;
    read_spans();
    ASSERT_LT(touch_count, std::size(touches));
  }

  void read_spans() {
    kernels_.clear();
    std::ifstream file(trace_path_);
    const auto spans = nlohmann::json::parse(file, nullptr, false);
    ASSERT_TRUE(spans.is_array());
    for (const auto& span : spans) {
      if (span.value("cat", "") != "kernel") continue;  // names of threads have none
      const auto begin_ns = std::llround(span["ts"].get<double>() * 1000);
      kernels_.push_back({span["name"], begin_ns, begin_ns + std::llround(span["dur"].get<double>() * 1000)});
    }
    ASSERT_GT(kernels_.size(), 50U);
  }

  // The kernels that ran while `range` was touched; -1 for none of them.
  std::vector<int> touched_by(int range) const {
    std::vector<int> found;
    for (size_t i = 0; i < touch_count; ++i) {
      if (touches[i].range != range) continue;
      int kernel = -1;
      for (size_t k = 0; k < kernels_.size(); ++k)
        if (touches[i].at_ns >= kernels_[k].begin_ns && touches[i].at_ns <= kernels_[k].end_ns)
          kernel = static_cast<int>(k);
      if (std::find(found.begin(), found.end(), kernel) == found.end()) found.push_back(kernel);
    }
    return found;
  }

  std::shared_ptr<Session> session_;
  std::unique_ptr<SharedMemory> input_;
  std::unique_ptr<SharedMemory> output_;
  std::optional<Binding> binding_;
  std::vector<std::byte> plain_map_;
  std::filesystem::path trace_path_;
  std::vector<Span> kernels_;
  int64_t run_ns_ = 0;
  struct sigaction before_{};
};

TEST_F(DemoPages, OnlyTheFirstKernelReadsTheFrameAndOnlyTheLastWritesTheMap) {
  run_guarded([] {});
  EXPECT_EQ(touched_by(0), std::vector<int>{0}) << "the first kernel is " << kernels_.front().name;
  EXPECT_EQ(touched_by(1), std::vector<int>{static_cast<int>(kernels_.size()) - 1})
      << "the last kernel is " << kernels_.back().name;
  // Nobody carried the result there another way: it is complete, and seen through the producer's own mapping.
  EXPECT_EQ(std::memcmp(output_->own, plain_map_.data(), kMapBytes), 0);
}

// The test above can fail: a read of the frame in the middle of the run is caught.
TEST_F(DemoPages, ATouchInTheMiddleIsSeen) {
  run_guarded([] {});
  const int64_t middle_ns = run_ns_ / 2;
  bool seen = false;
  for (int attempt = 0; attempt < 50 && !seen; ++attempt) {  // the thread may wake too late on a loaded machine
    run_guarded([&] {
      usleep(static_cast<useconds_t>(middle_ns / 1000));
      (void)*static_cast<volatile std::byte*>(input_->imported->data());
    });
    const std::vector<int> touched = touched_by(0);
    seen = std::any_of(touched.begin(), touched.end(), [](int kernel) { return kernel != 0; });
  }
  EXPECT_TRUE(seen);
}

}  // namespace
}  // namespace tenon::demo
