#include "ep/sdk/plugin_ep.h"

#include <optional>
#include <vector>

namespace tenon::plugin {

namespace {

// A shape as the host passes it; none where it is no shape.
std::optional<Shape> shape_of(const int64_t* dims, size_t rank) {
  Shape shape;
  if (rank > Shape::kMaxRank || (rank > 0 && dims == nullptr)) return std::nullopt;
  for (size_t d = 0; d < rank; ++d) shape.push_back(dims[d]);
  return shape;
}

}  // namespace

CompiledNode& CompiledNode::of(OrtNodeComputeInfo* table) {
  return *static_cast<CompiledNode*>(reinterpret_cast<InPlaceComputeInfo*>(table));
}

CompiledNode::CompiledNode(const HostApi& host) : InPlaceComputeInfo{}, host_(host) {
  info.ort_version_supported = host.version();
  info.CreateState = [](OrtNodeComputeInfo* table, OrtNodeComputeContext*, void** state) noexcept -> OrtStatus* {
    CompiledNode& node = of(table);
    return node.host_.guarded([&]() -> Status {
      TENON_INVALID_IF(state == nullptr, "The result pointer of CreateState is null.");
      *state = nullptr;
      TENON_TRY_ASSIGN(std::unique_ptr<ComputeState> created, node.create_state());
      *state = created.release();
      return Status();
    });
  };
  info.Compute = [](OrtNodeComputeInfo* table, void* state, OrtKernelContext* context) noexcept -> OrtStatus* {
    CompiledNode& node = of(table);
    return node.host_.guarded([&]() -> Status {
      TENON_INVALID_IF(state == nullptr || context == nullptr, "Compute gets no state or no kernel context.");
      return node.compute(*static_cast<ComputeState*>(state), context);
    });
  };
  info.ReleaseState = [](OrtNodeComputeInfo*, void* state) noexcept { delete static_cast<ComputeState*>(state); };
  size_bytes = sizeof(InPlaceComputeInfo);
  MayRunInPlace = [](OrtNodeComputeInfo* table, size_t input, size_t output, const int64_t* const* dims,
                     const size_t* ranks, size_t count) noexcept -> int32_t {
    if (table == nullptr || (count > 0 && (dims == nullptr || ranks == nullptr))) return 0;
    try {
      std::vector<Shape> inputs;
      for (size_t i = 0; i < count; ++i) {
        const std::optional<Shape> shape = shape_of(dims[i], ranks[i]);
        if (!shape) return 0;
        inputs.push_back(*shape);
      }
      return of(table).may_run_in_place(input, output, inputs) ? 1 : 0;
    } catch (...) {
      return 0;  // no memory: a copy is always right
    }
  };
  Describe = [](const OrtNodeComputeInfo* table) noexcept -> const char* {
    return table != nullptr ? of(const_cast<OrtNodeComputeInfo*>(table)).description() : nullptr;
  };
}

OrtNodeComputeInfo* CompiledNode::release_to_host(std::unique_ptr<CompiledNode> node) { return &node.release()->info; }

std::unique_ptr<CompiledNode> CompiledNode::take_back(OrtNodeComputeInfo* node) {
  return std::unique_ptr<CompiledNode>(node != nullptr ? &of(node) : nullptr);
}

Ep::Ep(const HostApi& host, std::string name, Features features) : OrtEp{}, host_(host), name_(std::move(name)) {
  ort_version_supported = host.version();
  OrtEp::GetName = [](const OrtEp* table) noexcept -> const char* {
    return static_cast<const Ep*>(table)->name_.c_str();
  };
  OrtEp::GetCapability = [](OrtEp* table, const OrtGraph* graph,
                            OrtEpGraphSupportInfo* support) noexcept -> OrtStatus* {
    auto& ep = *static_cast<Ep*>(table);
    return ep.host_.guarded([&]() -> Status {
      TENON_INVALID_IF(graph == nullptr || support == nullptr, "GetCapability gets no graph or no support info.");
      return ep.get_capability(graph, support);
    });
  };
  if (features.compile) {
    OrtEp::Compile = [](OrtEp* table, const OrtGraph** graphs, const OrtNode** fused_nodes, size_t count,
                        OrtNodeComputeInfo** infos, OrtNode** context_nodes) noexcept -> OrtStatus* {
      auto& ep = *static_cast<Ep*>(table);
      return ep.host_.guarded([&] { return ep.compile_all(graphs, fused_nodes, count, infos, context_nodes); });
    };
    OrtEp::ReleaseNodeComputeInfos = [](OrtEp*, OrtNodeComputeInfo** infos, size_t count) noexcept {
      for (size_t i = 0; infos != nullptr && i < count; ++i) (void)CompiledNode::take_back(infos[i]);
    };
  }
  if (features.kernel_registry) {
    OrtEp::GetKernelRegistry = [](OrtEp* table, const OrtKernelRegistry** out) noexcept -> OrtStatus* {
      auto& ep = *static_cast<Ep*>(table);
      return ep.host_.guarded([&]() -> Status {
        TENON_INVALID_IF(out == nullptr, "The result pointer of GetKernelRegistry is null.");
        *out = nullptr;
        TENON_TRY_ASSIGN(*out, ep.kernel_registry());
        return Status();
      });
    };
  }
  if (features.streams) {
    OrtEp::CreateSyncStreamForDevice = [](OrtEp* table, const OrtMemoryDevice* device,
                                          OrtSyncStreamImpl** out) noexcept -> OrtStatus* {
      auto& ep = *static_cast<Ep*>(table);
      return ep.host_.guarded([&]() -> Status {
        TENON_INVALID_IF(out == nullptr, "The result pointer of CreateSyncStreamForDevice is null.");
        *out = nullptr;
        TENON_INVALID_IF(device == nullptr, "CreateSyncStreamForDevice gets no memory device.");
        TENON_TRY_ASSIGN(auto created, ep.create_stream(device));
        *out = SyncStream::release_to_host(std::move(created));
        return Status();
      });
    };
  }
  OrtEp::CreateAllocator = [](OrtEp* table, const OrtMemoryInfo* info, OrtAllocator** out) noexcept -> OrtStatus* {
    auto& ep = *static_cast<Ep*>(table);
    return ep.host_.guarded([&]() -> Status {
      TENON_INVALID_IF(out == nullptr, "The result pointer of CreateAllocator is null.");
      *out = nullptr;
      TENON_INVALID_IF(info == nullptr, "CreateAllocator gets no memory info.");
      TENON_TRY_ASSIGN(auto created, ep.create_allocator(info));
      *out = Allocator::release_to_host(std::move(created));
      return Status();
    });
  };
  OrtEp::OnRunStart = [](OrtEp* table, const OrtRunOptions* options) noexcept -> OrtStatus* {
    auto& ep = *static_cast<Ep*>(table);
    return ep.host_.guarded([&] { return ep.on_run_start(options); });
  };
  OrtEp::OnRunEnd = [](OrtEp* table, const OrtRunOptions* options, bool sync_stream) noexcept -> OrtStatus* {
    auto& ep = *static_cast<Ep*>(table);
    return ep.host_.guarded([&] { return ep.on_run_end(options, sync_stream); });
  };
  OrtEp::IsConcurrentRunSupported = [](OrtEp* table, bool* out) noexcept -> OrtStatus* {
    auto& ep = *static_cast<Ep*>(table);
    return ep.host_.guarded([&]() -> Status {
      TENON_INVALID_IF(out == nullptr, "The result pointer of IsConcurrentRunSupported is null.");
      *out = false;
      TENON_TRY_ASSIGN(*out, ep.is_concurrent_run_supported());
      return Status();
    });
  };
  OrtEp::GetCompiledModelCompatibilityInfo = [](OrtEp* table, const OrtGraph* graph) noexcept -> const char* {
    auto& ep = *static_cast<Ep*>(table);
    try {
      ep.compatibility_info_ = ep.compatibility_info(graph);
    } catch (...) {
      return nullptr;
    }
    return ep.compatibility_info_.empty() ? nullptr : ep.compatibility_info_.c_str();
  };
  // A host below a member's version never reads it: a struct says its version first.
  OrtEp::Sync = [](OrtEp* table) noexcept -> OrtStatus* {
    auto& ep = *static_cast<Ep*>(table);
    return ep.host_.guarded([&] { return ep.sync(); });
  };
  if (features.profiler) {
    OrtEp::CreateProfiler = [](OrtEp* table, OrtEpProfilerImpl** out) noexcept -> OrtStatus* {
      auto& ep = *static_cast<Ep*>(table);
      return ep.host_.guarded([&]() -> Status {
        TENON_INVALID_IF(out == nullptr, "The result pointer of CreateProfiler is null.");
        *out = nullptr;
        TENON_TRY_ASSIGN(auto created, ep.create_profiler());
        *out = Profiler::release_to_host(std::move(created));
        return Status();
      });
    };
  }
  OrtEp::OnSessionInitializationEnd = [](OrtEp* table) noexcept -> OrtStatus* {
    auto& ep = *static_cast<Ep*>(table);
    return ep.host_.guarded([&] { return ep.on_session_initialization_end(); });
  };
  if (features.ep_context) {
    OrtEp::GetEpContextDataCallbackSupport = [](const OrtEp* table, uint32_t* flags) noexcept -> OrtStatus* {
      return static_cast<const Ep*>(table)->host_.guarded([&]() -> Status {
        TENON_INVALID_IF(flags == nullptr, "The result pointer of GetEpContextDataCallbackSupport is null.");
        *flags = OrtEpContextDataCallbackSupportFlags_READ | OrtEpContextDataCallbackSupportFlags_WRITE;
        return Status();
      });
    };
  }
}

OrtEp* Ep::release_to_host(std::unique_ptr<Ep> ep) { return ep.release(); }

std::unique_ptr<Ep> Ep::take_back(OrtEp* ep) { return std::unique_ptr<Ep>(static_cast<Ep*>(ep)); }

Status Ep::compile_all(const OrtGraph** graphs, const OrtNode** fused_nodes, size_t count, OrtNodeComputeInfo** infos,
                       OrtNode** context_nodes) {
  TENON_INVALID_IF(count != 0 && (graphs == nullptr || fused_nodes == nullptr || infos == nullptr),
                   "Compile gets a list that is null.");
  for (size_t i = 0; i < count; ++i) {
    infos[i] = nullptr;
    if (context_nodes != nullptr) context_nodes[i] = nullptr;
  }
  // Hosts differ in whether they release what a failed call leaves: so all or nothing is handed over.
  std::vector<std::unique_ptr<CompiledNode>> nodes;
  std::vector<HostPtr<OrtNode>> contexts;
  for (size_t i = 0; i < count; ++i) {
    TENON_INVALID_IF(graphs[i] == nullptr || fused_nodes[i] == nullptr, "Graph {} of {} to compile is null.", i, count);
    OrtNode* context = nullptr;
    auto node = compile(graphs[i], fused_nodes[i], context_nodes != nullptr ? &context : nullptr);
    contexts.push_back(host_.own(context, host_.ort().ReleaseNode));
    if (!node.ok()) return std::move(node).status();
    nodes.push_back(*std::move(node));
  }
  for (size_t i = 0; i < count; ++i) {
    infos[i] = CompiledNode::release_to_host(std::move(nodes[i]));
    if (context_nodes != nullptr) context_nodes[i] = contexts[i].release();
  }
  return Status();
}

Result<std::unique_ptr<CompiledNode>> Ep::compile(const OrtGraph*, const OrtNode*, OrtNode**) {
  return unsupported("{} compiles nothing.", name_);
}
Result<const OrtKernelRegistry*> Ep::kernel_registry() { return unsupported("{} has no kernel registry.", name_); }
Result<std::unique_ptr<SyncStream>> Ep::create_stream(const OrtMemoryDevice*) {
  return unsupported("{} has no streams.", name_);
}
Result<std::unique_ptr<Profiler>> Ep::create_profiler() { return unsupported("{} has no profiler.", name_); }

}  // namespace tenon::plugin
