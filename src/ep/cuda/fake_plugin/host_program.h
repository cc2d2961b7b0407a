// Runs a program's kernels on the host: the templates and the text that NVRTC would get, compiled by the machine's C++
// compiler with CUDA's words defined for one thread at a time (host_device/), to test their results without a GPU.
//
// Threads: run() from any thread, one at a time.
// Errors: kUnsupported for a program with kernels of .cu files or libraries, other than products and convolutions
// (host_products.h); kNotFound without a compiler.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "ep/cuda/communicator.h"
#include "ep/cuda/compute/device_op.h"
#include "ep/cuda/compute/in_place.h"
#include "ep/cuda/compute/program.h"

namespace tenon::cuda::fake {

class HostProgram {
 public:
  // `communicator`: of a program that exchanges tensors with other ranks; else null.
  static Result<std::shared_ptr<HostProgram>> create(Program program, std::shared_ptr<CudaDevice> device,
                                                     std::shared_ptr<Communicator> communicator);
  ~HostProgram();
  HostProgram(const HostProgram&) = delete;
  HostProgram& operator=(const HostProgram&) = delete;

  const Shape& output_shape(size_t index) const { return program_.tensor(program_.outputs[index]).shape; }
  size_t outputs() const { return program_.outputs.size(); }
  bool may_run_in_place(size_t input, size_t output) const { return cuda::may_run_in_place(program_, input, output); }
  // Comes before each run. Errors: as Communicator::ready() has them.
  Status ready();
  void run(std::span<std::byte* const> inputs, std::span<std::byte* const> outputs);

 private:
  HostProgram(Program program, std::shared_ptr<CudaDevice> device, std::shared_ptr<Communicator> communicator)
      : program_(std::move(program)), device_(std::move(device)), communicator_(std::move(communicator)) {}
  Status compile();
  // An operator that the other ranks have too, on a stream of its own, until it is done.
  Status exchange(const DeviceOp& op, const Addresses& addresses);

  using Launcher = void (*)(void** parameters, const unsigned* grid, unsigned threads, unsigned cluster_z);

  Program program_;
  const std::shared_ptr<CudaDevice> device_;
  const std::shared_ptr<Communicator> communicator_;
  std::vector<void*> libraries_;
  std::vector<Launcher> launchers_;  // null: a copy, a product, or a kernel of no elements
  std::vector<std::vector<std::byte>> constants_;
  std::vector<std::byte> arena_;
};

}  // namespace tenon::cuda::fake
