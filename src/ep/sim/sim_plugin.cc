// The exported functions of the plugin's library.
#include "ep/sim/nt_handles.h"
#include "ep/sim/sim_factory.h"
#include "ep/sim/sim_test_api.h"

namespace {

using namespace tenon::sim;  // NOLINT(google-build-using-namespace)

template <typename T>
int answer(const tenon::Result<T>& result) {
  return result.ok() ? 1 : 0;
}

const TenonSimTestApi kTestApi = {
    .version = TENON_SIM_TEST_API_VERSION,
    .counter = [](const char* name) { return name != nullptr ? counters().value(name) : -1; },
    .fail_at =
        [](const char* step, int64_t nth) {
          const bool any = step == nullptr || *step == '\0';
          const SimStep* found = any ? nullptr : find_step(step);
          if (!any && found == nullptr) return 0;
          process_faults().arm(found, nth);
          return 1;
        },
    .fault_fired = [] { return process_faults().fired() ? 1 : 0; },
    .nt_create_memory = [](size_t size_bytes) -> uint64_t {
      const auto handle = nt_create_memory(size_bytes);
      return handle.ok() ? *handle : 0;
    },
    .nt_create_fence = [](uint64_t initial_value) -> uint64_t {
      const auto handle = nt_create_fence(initial_value);
      return handle.ok() ? *handle : 0;
    },
    .nt_duplicate = [](uint64_t handle) -> uint64_t {
      const auto copy = nt_duplicate(handle);
      return copy.ok() ? *copy : 0;
    },
    .nt_close = [](uint64_t handle) { return nt_close(handle).ok() ? 1 : 0; },
    .nt_map = [](uint64_t handle) -> void* {
      const auto object = nt_open(handle);
      return object.ok() ? object->memory.get() : nullptr;
    },
    .nt_fence_signal =
        [](uint64_t handle, uint64_t value) {
          const auto object = nt_open(handle);
          return object.ok() && object->fence != nullptr && object->fence->signal(value).ok() ? 1 : 0;
        },
    .nt_fence_value =
        [](uint64_t handle, uint64_t* value) {
          const auto object = nt_open(handle);
          if (!object.ok() || object->fence == nullptr || value == nullptr) return 0;
          const auto reached = object->fence->value();
          if (reached.ok()) *value = *reached;
          return answer(reached);
        },
};

}  // namespace

extern "C" {

[[gnu::visibility("default")]] OrtStatus* CreateEpFactories(const char*, const OrtApiBase* base, const OrtLogger*,
                                                            OrtEpFactory** factories, size_t room,
                                                            size_t* count) noexcept {
  using tenon::plugin::EpFactory;
  return EpFactory::create_single(base, factories, room, count,
                                  [](const auto& host) -> tenon::Result<std::unique_ptr<EpFactory>> {
                                    TENON_TRY_ASSIGN(auto factory, SimFactory::create(host));
                                    return std::unique_ptr<EpFactory>(std::move(factory));
                                  });
}

[[gnu::visibility("default")]] OrtStatus* ReleaseEpFactory(OrtEpFactory* factory) noexcept {
  (void)tenon::plugin::EpFactory::take_back(factory);
  return nullptr;
}

[[gnu::visibility("default")]] const TenonSimTestApi* TenonSimGetTestApi(uint32_t version) noexcept {
  return version == TENON_SIM_TEST_API_VERSION ? &kTestApi : nullptr;
}

}  // extern "C"
