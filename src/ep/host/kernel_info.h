// OrtKernelInfo: the node of a kernel, for the function that creates it (OrtKernelCreateFunc,
// OrtCustomOp::CreateKernel).
//
// Ownership: self-contained. It copies the node, its types and names, and shares the constants, so that it may outlive
// the graph. The host keeps it as long as the OrtKernelImpl that was made with it, since kernels may keep the pointer.
// Threads: const access from any thread.
#pragma once

#include <tenon/onnxruntime_c_api.h>

#include <memory>
#include <string>
#include <vector>

#include "abi/objects/key_value_pairs.h"
#include "abi/objects/logger.h"
#include "ep/host/graph_view.h"

namespace tenon::abi {

class PluginProfiler;

// The session as its kernels see it: allocators, logger, config entries, EP and profile.
class KernelHost {
 public:
  virtual ~KernelHost() = default;
  // Null when the session has no allocator for such memory. The host keeps it until its kernels are gone.
  virtual OrtAllocator* allocator(OrtMemType mem_type) const = 0;
  virtual OrtAllocator* allocator(const OrtMemoryInfo& info) const = 0;
  virtual const OrtLogger* logger() const = 0;
  // The session's config entries.
  virtual const OrtKeyValuePairs& config() const = 0;
  // The EP of the node; null for the CPU EP.
  virtual const OrtEp* ep() const = 0;
  // Null unless the session writes a profile.
  virtual PluginProfiler* profiler() const { return nullptr; }
  // Kernels run in host memory, and profiles show them as the CPU EP's.
  virtual bool is_cpu_ep() const { return true; }
};

// An input or output of a node.
struct KernelParameter {
  std::string name;  // "" where absent
  OrtTypeInfo type;
  std::unique_ptr<OrtValue> constant;
};

}  // namespace tenon::abi

struct OrtKernelInfo {
  std::shared_ptr<const tenon::abi::KernelHost> host;
  tenon::Node node;
  std::vector<tenon::abi::KernelParameter> inputs;
  std::vector<tenon::abi::KernelParameter> outputs;
};

namespace tenon::abi {

Result<std::unique_ptr<OrtKernelInfo>> make_kernel_info(const Graph& graph, const Node& node,
                                                        std::shared_ptr<const KernelHost> host);

// For CopyKernelInfo; the tensors are shared.
std::unique_ptr<OrtKernelInfo> copy_kernel_info(const OrtKernelInfo& info);

}  // namespace tenon::abi
