// The host holds no lock of its own while a plugin's function runs: such a function may block, and other threads use
// the host meanwhile. In each call of the library another thread does what needs the host's locks, and has to be done
// before the call returns.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <tenon/ep.h>
#include <tenon/onnxruntime_c_api.h>
#include <tenon/session.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <future>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "bad_plugin_host.h"
#include "base/guarded.h"
#include "base/testing.h"
#include "onnx_builder.h"
#include "runtime/ep_registry.h"

namespace tenon {
namespace {

using ::testing::IsEmpty;
using ::testing::IsSupersetOf;

const OrtApi& api() { return *OrtGetApiBase()->GetApi(ORT_API_VERSION); }
const OrtInteropApi& interop() { return *api().GetInteropApi(); }

void expect_ok(OrtStatus* status) {
  EXPECT_EQ(status, nullptr) << api().GetErrorMessage(status);
  api().ReleaseStatus(status);
}

// Of each function of the library that is called while this lives: whether the other thread was done in time.
class Hook {
 public:
  explicit Hook(std::function<void(const std::string& what)> other_thread) : other_thread_(std::move(other_thread)) {
    library_ = dlopen(bad_plugin::kPlugin, RTLD_NOW);
    hook_ = static_cast<void (**)(const char*)>(dlsym(library_, "tenon_bad_plugin_hook"));
    current = this;
    *hook_ = [](const char* what) { current->called(what); };
  }
  // Waits for threads that were not done in time.
  void stop() {
    *hook_ = nullptr;
    for (std::thread& thread : late_) thread.join();
    late_.clear();
  }
  ~Hook() { dlclose(library_); }
  Hook(const Hook&) = delete;
  Hook& operator=(const Hook&) = delete;

  std::set<std::string> seen, stalled;

 private:
  static constexpr std::chrono::seconds kInTime{60};

  void called(const char* what) {
    // The thread's own calls, and the plugin's calls of itself, are not looked at.
    if (busy_.exchange(true)) return;
    seen.insert(what);
    auto done = std::make_shared<std::promise<void>>();
    std::future<void> in_time = done->get_future();
    std::thread thread([this, done, what] {
      other_thread_(what);
      done->set_value();
    });
    if (in_time.wait_for(kInTime) == std::future_status::ready) {
      thread.join();
      busy_ = false;
    } else {
      stalled.insert(what);
      late_.emplace_back([this, thread = std::move(thread)]() mutable {
        thread.join();
        busy_ = false;
      });
    }
  }

  static inline Hook* current = nullptr;
  const std::function<void(const std::string& what)> other_thread_;
  void* library_ = nullptr;
  void (**hook_)(const char*) = nullptr;
  std::atomic<bool> busy_{false};
  std::vector<std::thread> late_;
};

class PluginCallback : public ::testing::Test {
 protected:
  void SetUp() override { expect_ok(api().CreateEnv(ORT_LOGGING_LEVEL_ERROR, "callback", &env_)); }
  void TearDown() override { api().ReleaseEnv(env_); }

  // The library's GPU; null while it is not registered.
  const OrtEpDevice* device() {
    const OrtEpDevice* const* devices = nullptr;
    size_t count = 0;
    expect_ok(api().GetEpDevices(env_, &devices, &count));
    for (size_t i = 0; i < count; ++i)
      if (api().EpDevice_MemoryInfo(devices[i], OrtDeviceMemoryType_DEFAULT) != nullptr) return devices[i];
    return nullptr;
  }
  OrtStatus* init_graphics(const OrtEpDevice* device) {
    OrtGraphicsInteropConfig config{};
    config.version = ORT_API_VERSION;
    config.graphics_api = ORT_GRAPHICS_API_VULKAN;
    return interop().InitGraphicsInteropForEpDevice(device, &config);
  }
  // All that takes a lock of the process or of the session.
  void use_host(const std::string& what) {
    OrtEnv* env = nullptr;
    expect_ok(api().CreateEnv(ORT_LOGGING_LEVEL_ERROR, "callback", &env));
    const std::vector<EpDevice> devices = ep_devices();
    const MemorySpace& last = devices.back().memory.empty() ? MemorySpace{} : devices.back().memory.front();
    (void)EpRegistry::instance().find_transfer(MemorySpace{}, last);
    (void)EpRegistry::instance().find_allocator(last);
    if (const OrtEpDevice* const gpu = device(); gpu != nullptr) {
      OrtAllocator* allocator = nullptr;
      const OrtMemoryInfo* info = api().EpDevice_MemoryInfo(gpu, OrtDeviceMemoryType_DEFAULT);
      api().ReleaseStatus(api().GetSharedAllocator(env, info, &allocator));
      api().ReleaseStatus(init_graphics(gpu));
      api().ReleaseStatus(interop().DeinitGraphicsInteropForEpDevice(gpu));
    }
    // Not in earlier calls of a session's first run: the memory that it allocates would be there already.
    const std::shared_ptr<Session> session = *session_.lock();
    if (session != nullptr && (what == "Alloc" || what == "CopyTensors" || what == "Compute")) {
      EXPECT_THAT(run(*session), is_ok());
    }
    api().ReleaseEnv(env);
  }
  // y = Relu(c) + Relu(x), of which the library takes the Relus: c is put into its memory when a plan first needs it.
  Result<std::shared_ptr<Session>> load_model() {
    api_testing::OnnxModel model;
    model.input("x", DataType::kFloat, {3})
        .output("y", DataType::kFloat, {3})
        .initializer<float>("c", DataType::kFloat, {3}, {5, -6, 7})
        .node({"Relu", {"c"}, {"a"}})
        .node({"Relu", {"x"}, {"b"}})
        .node({"Add", {"a", "b"}, {"y"}});
    return model.load({.threads = 1, .eps = {{.ep_name = "BadEp", .devices = {1}}}});
  }
  Status run(Session& session) {
    const std::pair<std::string, Tensor> inputs[] = {{"x", api_testing::floats({3}, {-1, 2, 3})}};
    const auto outputs = session.run(inputs);
    if (outputs.ok()) {
      EXPECT_EQ(api_testing::values_of((*outputs)[0]), (std::vector<float>{5, 2, 10}));
    }
    return outputs.status();
  }

  const bad_plugin::WithDevice with_device_;
  OrtEnv* env_ = nullptr;
  Guarded<std::shared_ptr<Session>> session_;
};

TEST_F(PluginCallback, NoCallOfThePluginHoldsALockOfTheHost) {
  Hook hook([this](const std::string& what) { use_host(what); });
  ASSERT_THAT(register_ep_library("bad", bad_plugin::kPlugin), is_ok());
  expect_ok(
      api().CreateSharedAllocator(env_, device(), OrtDeviceMemoryType_DEFAULT, OrtDeviceAllocator, nullptr, nullptr));
  (void)EpRegistry::instance().find_transfer(MemorySpace{}, ep_devices().back().memory.front());
  {
    const auto session = load_model();
    ASSERT_THAT(session, is_ok());
    *session_.lock() = *session;
    EXPECT_THAT(run(**session), is_ok());
    *session_.lock() = nullptr;
  }
  expect_ok(api().ReleaseSharedAllocator(env_, device(), OrtDeviceMemoryType_DEFAULT));
  EXPECT_THAT(unregister_ep_library("bad"), is_ok());
  hook.stop();
  EXPECT_THAT(hook.seen,
              IsSupersetOf({"CreateEpFactories", "CreateAllocator", "ReleaseAllocator", "CanCopy", "Alloc",
                            "CopyTensors", "Compile", "Compute", "CreateSyncStreamForDevice", "ReleaseEpFactory"}));
  EXPECT_THAT(hook.stalled, IsEmpty());
}

TEST_F(PluginCallback, GraphicsInteropOfADeviceChangesWithoutALock) {
  Hook hook([this](const std::string& what) { use_host(what); });
  ASSERT_THAT(register_ep_library("bad", bad_plugin::kPlugin), is_ok());
  const OrtEpDevice* const gpu = device();
  for (int turn = 0; turn < 2; ++turn) {
    expect_ok(init_graphics(gpu));
    expect_ok(interop().DeinitGraphicsInteropForEpDevice(gpu));
  }
  EXPECT_THAT(unregister_ep_library("bad"), is_ok());
  hook.stop();
  EXPECT_THAT(hook.seen, IsSupersetOf({"InitGraphicsInterop", "DeinitGraphicsInterop"}));
  EXPECT_THAT(hook.stalled, IsEmpty());
}

}  // namespace
}  // namespace tenon
