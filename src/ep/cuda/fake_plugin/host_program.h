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

#include "ep/cuda/compute/in_place.h"
#include "ep/cuda/compute/program.h"

namespace tenon::cuda::fake {

class HostProgram {
 public:
  static Result<std::shared_ptr<HostProgram>> create(Program program);
  ~HostProgram();
  HostProgram(const HostProgram&) = delete;
  HostProgram& operator=(const HostProgram&) = delete;

  const Shape& output_shape(size_t index) const { return program_.tensor(program_.outputs[index]).shape; }
  size_t outputs() const { return program_.outputs.size(); }
  bool may_run_in_place(size_t input, size_t output) const { return cuda::may_run_in_place(program_, input, output); }
  void run(std::span<std::byte* const> inputs, std::span<std::byte* const> outputs);

 private:
  explicit HostProgram(Program program) : program_(std::move(program)) {}
  Status compile();

  using Launcher = void (*)(void** parameters, const unsigned* grid, unsigned threads, unsigned cluster_z);

  Program program_;
  std::vector<void*> libraries_;
  std::vector<Launcher> launchers_;  // null: a copy, a product, or a kernel of no elements
  std::vector<std::vector<std::byte>> constants_;
  std::vector<std::byte> arena_;
};

}  // namespace tenon::cuda::fake
