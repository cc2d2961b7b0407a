// A device that allocates nothing in a run, so that the core's allocations can be counted: host memory that is declared
// as a device's, and streams that run their work at once.
#pragma once

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "runtime/ep_registry.h"

namespace tenon::api_testing {

inline constexpr MemorySpace kEagerSpace{.device_type = DeviceType::kNpu, .vendor_id = 0x7e51};

class EagerNotification final : public DeviceNotification {
 public:
  Status activate() override { return {}; }
  Status wait_on_device(DeviceStream&) override { return {}; }
  Status wait_on_host() override { return {}; }
};

class EagerStream final : public DeviceStream {
 public:
  Result<std::unique_ptr<DeviceNotification>> create_notification() override {
    return std::unique_ptr<DeviceNotification>(std::make_unique<EagerNotification>());
  }
  Status flush() override { return {}; }
  Status end_run() override { return {}; }
  void* native_handle() const override { return nullptr; }
};

class EagerAllocator final : public DeviceAllocator {
 public:
  const MemorySpace& space() const override { return kEagerSpace; }
  Result<std::shared_ptr<void>> allocate(size_t size_bytes, DeviceStream*) override {
    return std::shared_ptr<void>(std::malloc(size_bytes), [](void* block) { std::free(block); });
  }
};

class EagerTransfer final : public DataTransfer {
 public:
  bool can_copy(const MemorySpace&, const MemorySpace&) const override { return true; }
  Status copy(const Tensor& dst, const Tensor& src, DeviceStream*) override {
    std::memcpy(dst.data(), src.data(), src.size_bytes());
    return {};
  }
};

class EagerNeg final : public Kernel {
 public:
  explicit EagerNeg(int64_t count) : count_(count) {}
  std::string_view name() const override { return "eager neg"; }
  Status run(KernelContext& context) const override {
    std::transform(context.input<float>(0), context.input<float>(0) + count_, context.output<float>(0),
                   [](float x) { return -x; });
    return {};
  }

 private:
  int64_t count_;
};

class EagerProvider final : public DeviceProvider {
 public:
  std::string_view name() const override { return "EagerEP"; }
  Result<std::vector<Claim>> claim(const Graph& graph, IdSpan<NodeId, const bool>) override {
    std::vector<Claim> claims;
    for (NodeId n : graph.nodes.ids()) {
      if (graph.nodes[n].op_type == "Neg") claims.push_back({.nodes = {n}});
    }
    return claims;
  }
  Status compile(std::span<const Region>) override { return {}; }
  Status loaded() override { return {}; }
  std::span<const std::shared_ptr<DeviceAllocator>> allocators() const override { return allocators_; }
  DataTransfer* transfer() const override { return &transfer_; }
  SpaceChoice choose_spaces(const KernelNode&) const override { return {{AllocatorId(0)}, {AllocatorId(0)}}; }
  Result<std::unique_ptr<Kernel>> create_kernel(const KernelNode& node) const override {
    return std::unique_ptr<Kernel>(std::make_unique<EagerNeg>(node.inputs[0].shape.element_count()));
  }
  Result<std::unique_ptr<DeviceStream>> create_stream() override {
    return std::unique_ptr<DeviceStream>(std::make_unique<EagerStream>());
  }
  bool concurrent_runs() const override { return true; }
  Status run_start(const RunInfo&) override { return {}; }
  Status run_end(const RunInfo&, bool) override { return {}; }

 private:
  std::vector<std::shared_ptr<DeviceAllocator>> allocators_ = {std::make_shared<EagerAllocator>()};
  mutable EagerTransfer transfer_;
};

class EagerFactory final : public EpFactory {
 public:
  const std::string& name() const override { return name_; }
  std::span<const EpDevice> devices() const override { return devices_; }
  Result<std::unique_ptr<DeviceProvider>> create_provider(const EpChoice&, std::span<const size_t>,
                                                          const SessionOptions&) override {
    return std::unique_ptr<DeviceProvider>(std::make_unique<EagerProvider>());
  }
  std::vector<std::shared_ptr<DeviceAllocator>> shared_allocators(size_t) override { return {}; }
  DataTransfer* transfer() override { return nullptr; }

 private:
  std::string name_ = "EagerEP";
  std::vector<EpDevice> devices_ = {{.ep_name = "EagerEP"}};
};

}  // namespace tenon::api_testing
