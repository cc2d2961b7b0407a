// A region for one set of input shapes: device operators in order, and the storage of each tensor.
//
// Ownership: a program owns its operators and holds its constants. Threads: immutable once finish() has succeeded.
#pragma once

#include <tenon/types.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/status.h"
#include "graph/graph.h"

namespace tenon::cuda {

// How the elements of an image [N,C,spatial...] lie: as written, or with the channels last.
enum class DeviceLayout : uint8_t { kPlain, kChannelsLast };

using TensorId = int32_t;
inline constexpr TensorId kNoTensor = -1;

// A dense part of a storage. The shape is always the logical one.
struct DeviceTensor {
  DataType type = DataType::kUndefined;
  Shape shape;
  DeviceLayout layout = DeviceLayout::kPlain;
  int32_t storage = -1;
  size_t offset_bytes = 0;

  size_t size_bytes() const;
  // Element strides of the logical dimensions.
  std::vector<int64_t> strides() const;
};

enum class StorageKind : uint8_t { kArena, kConstant, kInput, kOutput };

struct DeviceStorage {
  StorageKind kind = StorageKind::kArena;
  int32_t index = 0;  // of the input, output or constant
  size_t size_bytes = 0;
  int32_t first = -1, last = -1;  // operators that use it; arena only
  size_t offset_bytes = 0;        // in the arena
};

// A constant as the device wants it: made once a region, and shared by its programs.
struct DeviceConstant {
  std::string key;  // names the weight and how it is packed
  size_t size_bytes = 0;
  std::function<void(std::byte*)> fill;  // on the host
  ConstantRef source;                    // what the key names; null where the name is enough
  bool as_is = false;                    // the bytes of the source are what `fill` would make
};

// A kernel that is compiled at run time: an instance of a template in a header.
struct KernelCode {
  std::string name;    // the instance
  std::string header;  // "ep/cuda/ops/pool/pool.cuh"
  std::string text;    // CUDA C++ between the header and the instance; mostly empty
};

class DeviceOp;

class Program {
 public:
  Program();
  ~Program();
  Program(Program&&) noexcept;
  Program& operator=(Program&&) noexcept;

  std::vector<DeviceTensor> tensors;
  std::vector<DeviceStorage> storages;
  std::vector<DeviceConstant> constants;
  std::vector<std::unique_ptr<DeviceOp>> ops;
  std::vector<TensorId> inputs, outputs;
  size_t arena_bytes = 0;
  // The memory that an operator of cuBLASLt or cuDNN may take while it runs; 0 where memory is short.
  static constexpr size_t kWorkspaceBytes = size_t{32} << 20;
  size_t workspace_bytes = kWorkspaceBytes;
  std::vector<KernelCode> kernels;  // that are compiled at run time; each once

  const DeviceTensor& tensor(TensorId id) const { return tensors[id]; }
  const DeviceStorage& storage_of(TensorId id) const { return storages[tensor(id).storage]; }
  // Errors: a shape whose size overflows.
  Result<TensorId> add_tensor(DataType type, const Shape& shape, DeviceLayout layout = DeviceLayout::kPlain,
                              StorageKind kind = StorageKind::kArena, int32_t index = 0);
  // The same memory under another shape.
  TensorId add_view(TensorId of, DataType type, const Shape& shape, DeviceLayout layout, size_t offset_bytes = 0);
  // The same constant, however often it is asked for.
  Result<TensorId> add_constant(DataType type, const Shape& shape, std::string key,
                                std::function<void(std::byte*)> fill, DeviceLayout layout = DeviceLayout::kPlain);
  void add_op(std::unique_ptr<DeviceOp> op);
  // Unless a kernel of that name is there.
  void add_kernel(KernelCode kernel);
  // Finds lifetimes and packs the arena.
  Status finish();
  // One line an operator: deterministic, for tests and traces.
  std::string to_text() const;
};

}  // namespace tenon::cuda
