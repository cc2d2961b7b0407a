#include "abi/thread_callbacks.h"

#include <algorithm>
#include <array>
#include <utility>

#include "abi/objects/env.h"
#include "abi/objects/slots.h"
#include "abi/objects/status.h"

namespace tenon::abi {

namespace {

// As many as a pool of 16 threads makes of one region; larger pools get larger chunks.
constexpr int64_t kMostItems = 128;
constexpr int64_t kItemsPerThread = 8;

class ObservedPool final : public ThreadPool {
 public:
  ObservedPool(std::shared_ptr<ThreadPool> pool, const OrtThreadPoolCallbacksConfig& callbacks)
      : pool_(std::move(pool)), callbacks_(callbacks) {}

  int threads() const override { return pool_->threads(); }
  void enter_run() override { pool_->enter_run(); }
  void leave_run() override { pool_->leave_run(); }

 protected:
  void for_chunks(int64_t count, int64_t grain, Chunk chunk, const void* context) override {
    if (count <= 0) return;
    grain = std::max<int64_t>(grain, 1);
    const int64_t most = std::min(pool_->threads() * kItemsPerThread, kMostItems);
    const int64_t grains = (count - 1) / grain + 1;
    const int64_t size = ((grains - 1) / most + 1) * grain;
    const int64_t items = (count - 1) / size + 1;
    // The pool runs one piece of work, and work inside of a piece, on the caller: no thread is handed anything.
    if (pool_->threads() == 1 || items == 1 || inside_item) return chunk(context, 0, count);
    std::array<void*, kMostItems> data{};
    if (callbacks_.on_enqueue != nullptr) {
      for (int64_t i = 0; i < items; ++i) data[static_cast<size_t>(i)] = callbacks_.on_enqueue(callbacks_.user_context);
    }
    pool_->parallel_for(items, 1, [&](int64_t first, int64_t end) {
      for (int64_t i = first; i < end; ++i) {
        void* const item = data[static_cast<size_t>(i)];
        if (callbacks_.on_start_work != nullptr) callbacks_.on_start_work(callbacks_.user_context, item);
        inside_item = true;
        chunk(context, i * size, std::min(count, (i + 1) * size));
        inside_item = false;
        if (callbacks_.on_stop_work != nullptr) callbacks_.on_stop_work(callbacks_.user_context, item);
      }
    });
  }

 private:
  static thread_local bool inside_item;

  const std::shared_ptr<ThreadPool> pool_;
  const OrtThreadPoolCallbacksConfig callbacks_;
};

thread_local bool ObservedPool::inside_item = false;

}  // namespace

std::shared_ptr<ThreadPool> make_observed_pool(std::shared_ptr<ThreadPool> pool,
                                               const OrtThreadPoolCallbacksConfig& callbacks) {
  return std::make_shared<ObservedPool>(std::move(pool), callbacks);
}

// For sessions that are made from here on and have threads of their own. ONNX Runtime's releases are built without this
// function; the checks are theirs.
OrtStatus* ort_api::SetPerSessionThreadPoolCallbacks(OrtEnv* env, const OrtThreadPoolCallbacksConfig* config) noexcept {
  if (config == nullptr) return make_ort_status(ORT_INVALID_ARGUMENT, "config must not be null");
  if (config->version == 0 || config->version > ORT_API_VERSION)
    return make_ort_status(ORT_INVALID_ARGUMENT,
                           "OrtThreadPoolCallbacksConfig requires version set to ORT_API_VERSION");
  if (OrtStatus* bad = check_pointers("SetPerSessionThreadPoolCallbacks", {{"env", env}})) return bad;
  return guarded([&]() -> OrtStatus* {
    *env->thread_callbacks.lock() = *config;
    return nullptr;
  });
}

}  // namespace tenon::abi
