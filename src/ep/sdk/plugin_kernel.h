// Kernels behind the ABI: the kernel context, OrtKernelImpl, and a registry of kernels.
//
// Ownership: a registry belongs to the factory or EP that made it; kernels belong to the host.
// Threads: a kernel runs on many threads at once when its EP supports concurrent runs.
#pragma once

#include <functional>
#include <memory>

#include "ep/sdk/plugin_host.h"

namespace tenon::plugin {

struct TensorArgument {
  DataType type = DataType::kUndefined;  // kUndefined: the optional input is absent
  Shape shape;
  void* data = nullptr;
  MemorySpace space;

  bool present() const { return type != DataType::kUndefined; }
};

// One call of a kernel or compiled node. Lives on the stack of that call, on one thread. Tenon's host describes all of
// its tensors at once (EpHostApi::KernelContext_GetTensors); others are asked tensor by tensor.
class KernelCall {
 public:
  KernelCall(const HostApi& host, OrtKernelContext* context) : host_(host), context_(context) {}

  Result<size_t> input_count() const;
  Result<size_t> output_count() const;
  // Type, shape and address; strings, sequences and sparse tensors are refused.
  Result<TensorArgument> input(size_t index) const;
  // Allocates output `index`; a null space's data when the output is not wanted.
  Result<TensorArgument> output(size_t index, const Shape& shape) const;
  // The native handle (SyncStream::handle()) of the stream that this call belongs to; null for a synchronous call.
  // API 28 asks KernelContext_GetSyncStream (S5.1); older hosts give the same handle through the older function.
  Result<void*> stream_handle() const;

 private:
  // Asks Tenon's host, once; tensors_ stays null in others.
  Status ask() const;
  Result<TensorArgument> make_output(size_t index, const Shape& shape) const;

  const HostApi& host_;
  OrtKernelContext* const context_;
  mutable const KernelTensors* tensors_ = nullptr;
};

// Reads one tensor value as the host describes it.
Result<TensorArgument> describe_tensor(const HostApi& host, const OrtValue* value);

class NodeKernel : private OrtKernelImpl {
 public:
  explicit NodeKernel(const HostApi& host);
  virtual ~NodeKernel() = default;
  NodeKernel(const NodeKernel&) = delete;
  NodeKernel& operator=(const NodeKernel&) = delete;

  static OrtKernelImpl* release_to_host(std::unique_ptr<NodeKernel> kernel);

 protected:
  virtual Status compute(OrtKernelContext* context) = 0;
  const HostApi& host() const { return host_; }

 private:
  const HostApi host_;
};

// The entry of one operator in a kernel registry.
struct KernelRow {
  std::string domain;  // "" for ONNX's own
  std::string op_type;
  int since = 1;
  int until = INT32_MAX;
  // Type parameter ("T") and what it may be.
  std::vector<std::pair<std::string, std::vector<DataType>>> types;
  std::vector<size_t> host_inputs;   // inputs that the kernel reads on the host
  std::vector<size_t> host_outputs;  // outputs that it writes there
  std::function<Result<std::unique_ptr<NodeKernel>>(const OrtKernelInfo* info)> create;
};

// MemcpyFromHost and MemcpyToHost, which hosts put between an EP's nodes and the CPU's. An EP with memory of its own
// needs both, also one that compiles: the host's own ones do not know its streams.
using CopyFunction = std::function<Status(const TensorArgument& src, const TensorArgument& dst, void* stream_handle)>;
std::vector<KernelRow> copy_kernel_rows(const HostApi& host, CopyFunction copy);

class KernelRegistry {
 public:
  static Result<std::unique_ptr<KernelRegistry>> create(const HostApi& host, const std::string& ep_name,
                                                        std::vector<KernelRow> rows);
  const OrtKernelRegistry* get() const { return registry_.get(); }

 private:
  KernelRegistry() = default;
  Status add(const std::string& ep_name, KernelRow row);

  struct Entry {
    HostApi host;
    KernelRow row;
  };
  HostApi host_;
  std::vector<std::unique_ptr<Entry>> entries_;  // the host keeps pointers to them: they outlive the registry
  HostPtr<OrtKernelRegistry> registry_;
};

}  // namespace tenon::plugin
