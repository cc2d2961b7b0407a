// One operator of the device: which tensors it uses, how it is prepared once a plan, and how it is queued.
//
// An operator knows addresses only when it is queued, so that one plan serves many bindings.
// Threads: prepare() from one thread; queue() from any once prepared.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "ep/cuda/compute/program.h"
#include "ep/cuda/compute/tuning.h"
#include "ep/cuda/driver/cuda_device.h"

namespace tenon::cuda {

class KernelLibrary;
class CompiledKernels;
class BlasHandle;
class CudnnHandle;
class Communicator;
class AlgorithmCache;
struct ProblemFamily;

// Where a plan's tensors are in one binding.
struct Addresses {
  const Program* program = nullptr;
  CUdeviceptr arena = 0;
  std::span<const CUdeviceptr> constants, inputs, outputs;

  CUdeviceptr of(TensorId id) const;
  template <typename T = void>
  T* pointer(TensorId id) const {
    return id == kNoTensor ? nullptr : reinterpret_cast<T*>(of(id));
  }
};

// Those of several tensors that there are.
inline std::vector<TensorId> present(std::span<const TensorId> ids) {
  std::vector<TensorId> result;
  for (TensorId id : ids)
    if (id != kNoTensor) result.push_back(id);
  return result;
}

inline std::vector<TensorId> present(std::initializer_list<TensorId> ids) {
  return present(std::span<const TensorId>(ids.begin(), ids.size()));
}

struct QueueContext {
  const CudaDevice* device = nullptr;
  CUstream stream = nullptr;
  Addresses addresses;
  // It is captured into a graph of its own: nothing of an earlier run is at work when it starts.
  bool alone = false;
  // Of the ranks of a sharded model. Null: this rank alone tries its kernels, and exchanges nothing.
  Communicator* communicator = nullptr;
};

class DeviceOp;

// The input of prepare(). Measuring runs kernels on `stream` over the given addresses, whose contents do not matter.
struct PrepareContext {
  const CudaDevice* device = nullptr;
  CUstream stream = nullptr;
  KernelLibrary* kernels = nullptr;
  const CompiledKernels* compiled = nullptr;
  BlasHandle* blas = nullptr;    // null where cuBLASLt is not there
  CudnnHandle* cudnn = nullptr;  // null where cuDNN is not there
  AlgorithmCache* algorithms = nullptr;
  bool tf32 = true;
  bool measure = true;             // false: the first choice that fits, without running anything
  bool varies = false;             // the region had other shapes before
  TuningBudget* budget = nullptr;  // null: no limit
  Addresses addresses;

  // The known choices for `op`: its own, else, where shapes vary, those of the problems nearest in size. `far`: that is
  // more than twice as large or small.
  struct Known {
    std::optional<std::string> choice;
    std::vector<std::string> near;
    bool far = false;
  };
  Known known(const DeviceOp& op) const;
  // Keeps what was measured for `op`. `hasty`: not all choices were tried.
  void keep(const DeviceOp& op, const std::string& choice, bool hasty = false) const;
  // Keeps one of those of `known` for the session. `compared`: with choices that do not come from there.
  void borrow(const DeviceOp& op, const std::string& choice, bool compared = false) const;
  // The time that there is for choices is over.
  bool no_time() const { return budget != nullptr && budget->spent(); }

 private:
  std::string conditions() const;
  std::string problem(const DeviceOp& op) const;
  ProblemFamily family(const DeviceOp& op) const;
};

class DeviceOp {
 public:
  DeviceOp(std::string label, std::vector<TensorId> reads, std::vector<TensorId> writes)
      : label_(std::move(label)), reads_(std::move(reads)), writes_(std::move(writes)) {}
  virtual ~DeviceOp() = default;

  // "conv 64x56x56 k3 relu"; for texts and as the key of measured choices.
  virtual std::string description(const Program& program) const = 0;
  // The description of whatever has other rows, and how many these are. Without a text where nothing is chosen.
  virtual ProblemFamily family() const;
  // Multiplications, roughly: what takes longest is measured first, so that a budget goes where it counts. 0: nothing
  // is chosen.
  virtual double work() const { return 0; }
  // Memory for this operator alone while it runs. Asked before prepare().
  virtual size_t scratch_bytes(const Program&) const { return 0; }
  virtual Status prepare(const PrepareContext& context) = 0;
  virtual Status queue(const QueueContext& context) const = 0;
  // Whether the first write may be the memory of `reads()[index]`.
  virtual bool may_overwrite(size_t) const { return false; }
  // Whether it runs only with the other ranks.
  virtual bool needs_ranks() const { return false; }
  // The text of the choice, after prepare().
  virtual std::string choice() const { return ""; }

  const std::string& label() const { return label_; }
  const std::vector<TensorId>& reads() const { return reads_; }
  const std::vector<TensorId>& writes() const { return writes_; }
  TensorId scratch() const { return scratch_; }
  void set_scratch(TensorId id) { scratch_ = id; }

 private:
  const std::string label_;
  const std::vector<TensorId> reads_, writes_;
  TensorId scratch_ = kNoTensor;
};

}  // namespace tenon::cuda
