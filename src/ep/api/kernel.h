// The interface of an execution provider (EP) for one node: match says why not, create prepares everything, run only
// computes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <tenon/thread_pool.h>
#include <tenon/types.h>

#include "base/status.h"
#include "graph/graph.h"

namespace tenon {

class DeviceStream;

// A tensor as a kernel meets it: the logical shape (N, C, spatial...), and how its elements lie.
struct TensorSpec {
  DataType type = DataType::kUndefined;  // kUndefined: the optional input or output is absent
  Shape shape;
  Layout layout = Layout::kPlain;
  bool dynamic = false;  // outputs: the size is known only after the kernel has run; see KernelContext::allocate_output

  bool present() const { return type != DataType::kUndefined; }
  // Bytes in memory: channels padded to 8 for kBlocked8. Sizes were checked when the plan was made.
  size_t size_bytes() const;
};

// Writes the packed form of a weight, whose bytes may lie unaligned in the model: Constant::data.read() aligns them.
using PackFunction = std::function<void(const Constant& weight, std::byte* packed)>;

// Packs constant weights once for a session, whatever number of plans use them.
// Threads: any; two plans that ask for the same key at once get the same object.
class WeightCache {
 public:
  virtual ~WeightCache() = default;
  // `constants` are all that `pack` reads, the weight first; null where an optional one is absent. `format` names the
  // packing and its parameters ("gemm_b16", "winograd_f4x4"); `pack` fills `bytes` of zeroed memory, aligned to 64. The
  // same constants and format give the same packing; across sessions and processes, constants of the same type, shape
  // and bytes are the same, so nothing else may enter it but the instruction set. The weight's pages are dropped from
  // residency afterwards when they lie in the model file.
  virtual Result<std::shared_ptr<const std::byte>> get(std::span<const ConstantRef> constants, std::string_view format,
                                                       size_t bytes, const PackFunction& pack) = 0;
};

// A node as seen by match and create.
struct KernelNode {
  const Graph* graph = nullptr;
  const Node* node = nullptr;
  std::span<const TensorSpec> inputs;
  std::span<const TensorSpec> outputs;
  std::span<const ConstantRef> constants;  // one an input; null where the value is only known at run time
  ThreadPool* pool = nullptr;              // for packing in parallel, and to know the number of threads; may be null
  WeightCache* weights = nullptr;          // may be null (folding): pack for yourself
  bool winograd = true;
  bool outputs_read_plain = false;  // asking for layouts: every reader of the outputs takes them in the plain one
};

struct RunInfo;

// The arguments of run(). Pointers are aligned to 64 bytes, except those of external tensors (aligned to an element).
class KernelContext {
 public:
  virtual ~KernelContext() = default;
  std::span<const void* const> inputs;  // null where absent, or a constant that the kernel does not read
  std::span<void* const> outputs;       // null where absent or dynamic
  std::byte* scratch = nullptr;         // scratch_bytes() long, contents undefined, this run's alone
  ThreadPool* pool = nullptr;           // never null
  // Kernels of other EPs than the CPU one. The stream to enqueue on; null when the EP has none: then the work is done
  // when run() returns. Inputs and outputs lie in these spaces (empty: all in plain host memory).
  DeviceStream* stream = nullptr;
  const RunInfo* run = nullptr;
  std::span<const MemorySpace> input_spaces;
  std::span<const MemorySpace> output_spaces;
  // Dynamic outputs: memory for `shape`; may allocate. Call once for each.
  virtual Result<void*> allocate_output(size_t index, const Shape& shape) = 0;

  template <typename T>
  const T* input(size_t i) const {
    return i < inputs.size() ? static_cast<const T*>(inputs[i]) : nullptr;
  }
  template <typename T>
  T* output(size_t i) const {
    return i < outputs.size() ? static_cast<T*>(outputs[i]) : nullptr;
  }
};

// One node, ready to run on one signature. Immutable after creation: run() may be called from many threads at once.
class Kernel {
 public:
  virtual ~Kernel() = default;
  // Allocates, looks up and validates nothing (dynamic outputs excepted). Fails only for what data can do: an index out
  // of range, an integer division by zero.
  virtual Status run(KernelContext& context) const = 0;
  virtual size_t scratch_bytes() const { return 0; }
  // True if output `output` may be the same memory as input `input` (both dense, same size).
  virtual bool may_run_in_place(size_t input, size_t output) const {
    (void)input, (void)output;
    return false;
  }
  // False if run() does not look at the constant input `input`, because it was packed: its address may be null then.
  virtual bool reads(size_t input) const {
    (void)input;
    return true;
  }
  // For plans and traces: "conv3x3_winograd avx2", "ref".
  virtual std::string_view name() const = 0;
};

// One row of an EP's ordered list, best first, the plain reference last.
struct KernelEntry {
  std::string_view domain;
  std::string_view op_type;
  int since;  // first and last since_version it serves
  int until;
  std::string_view name;
  // OK, or why this row does not serve the node. Cheap, without side effects.
  Status (*match)(const KernelNode& node);
  Result<std::unique_ptr<Kernel>> (*create)(const KernelNode& node);
};
inline constexpr int kAnyVersion = 1 << 20;

// The layouts that an EP wants for a node, given those that its inputs have now.
struct LayoutChoice {
  std::vector<Layout> inputs;
  std::vector<Layout> outputs;
};

class ExecutionProvider {
 public:
  virtual ~ExecutionProvider() = default;
  virtual std::string_view name() const = 0;
  // At load: is there any kernel for this operator and these element types (shapes may be unknown)? The refusal names
  // node, operator, domain, opset and what is known.
  virtual Status can_run(const Graph& graph, const Node& node) const = 0;
  // At plan time, shapes known. `node.inputs[i].layout` is what the producer gives now; outputs' layouts are to be
  // chosen.
  virtual LayoutChoice choose_layouts(const KernelNode& node) const = 0;
  virtual Result<std::unique_ptr<Kernel>> create_kernel(const KernelNode& node) const = 0;
};

}  // namespace tenon
