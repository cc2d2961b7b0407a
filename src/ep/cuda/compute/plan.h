// A program that is ready to run on a device: constants uploaded, algorithms chosen, and one captured graph for each
// set of addresses that it meets again.
//
// Ownership: a plan holds its memory and its graphs; what is queued needs neither the caller nor the plan's lock.
// Lifetime: the plan outlives its runs on streams; whoever lets go of it waits for them, a second at most.
// Threads: run() from any thread; runs on different streams at once each have an arena of their own.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/guarded.h"
#include "ep/cuda/captured_work.h"
#include "ep/cuda/compute/context.h"
#include "ep/cuda/compute/device_op.h"
#include "ep/cuda/compute/kernel_cache.h"
#include "ep/cuda/compute/region.h"
#include "ep/cuda/compute/rehearsal.h"
#include "ep/cuda/kernel_alignment.h"

namespace tenon::cuda {

class ComputePlan {
 public:
  // A tensor bound at another address is copied to or from memory of the plan, on the run's stream and in its graph.
  // Tenon's host knows the number and plans such copies itself, so none is left to the plan there.
  static constexpr size_t kBindingAlignment = cuda::kBindingAlignment;

  // `varies`: the region had other shapes before, and may have more.
  static Result<std::shared_ptr<ComputePlan>> create(std::shared_ptr<ComputeContext> context, Program program,
                                                     bool varies = false);
  ~ComputePlan();
  ComputePlan(const ComputePlan&) = delete;
  ComputePlan& operator=(const ComputePlan&) = delete;

  const Program& program() const { return program_; }
  const Shape& output_shape(size_t index) const { return program_.tensor(program_.outputs[index]).shape; }

  // Queues everything on `stream` and returns. The device's context is current.
  Status run(std::span<const CUdeviceptr> inputs, std::span<const CUdeviceptr> outputs, CUstream stream);
  // The same on the fences' stream, behind their waits and before their signals: one launch where the work is captured.
  // Waits and signals that are queued are taken out of `fences`.
  Status run(std::span<const CUdeviceptr> inputs, std::span<const CUdeviceptr> outputs, WorkFences& fences);

  // One line an operator, with what was chosen and, if `measure`, its time alone.
  Result<std::string> report(bool measure);

  struct Stats {
    size_t captured = 0, launched = 0, direct = 0, instances = 0;
  };
  Stats stats() const;

 private:
  // A graph for one set of addresses.
  struct Captured {
    std::vector<CUdeviceptr> bindings;
    CapturedWork work;
    uint64_t used = 0;
  };
  // An arena with what was captured for it; used by one run at a time.
  struct Instance {
    DeviceBlockRef arena;
    // Instead of inputs, then outputs, at addresses that kernels cannot take. Null where none was needed yet.
    std::vector<DeviceBlockRef> stand_ins;
    std::vector<Captured> graphs;
    std::vector<std::vector<CUdeviceptr>> seen;  // bindings that ran once, uncaptured
    size_t next_seen = 0;
    uint64_t clock = 0;
    std::optional<CudaEvent> done;
    CUstream last = nullptr;
    bool used_before = false;
  };
  struct State {
    std::vector<std::unique_ptr<Instance>> idle;
    size_t instances = 0;
    Stats stats;
  };

  // Instead of delete: work that waits for what may never come must not keep whoever lets go of the plan.
  static void retire(ComputePlan* plan);
  bool finished() const;
  ComputePlan(std::shared_ptr<ComputeContext> context, Program program);
  Status prepare(bool varies);
  Status finish_constants(ComputeContext::Uploading& upload);
  Result<std::unique_ptr<Instance>> make_instance();
  Result<std::unique_ptr<Instance>> take_instance(CUstream stream);
  Addresses addresses(const Instance& instance, std::span<const CUdeviceptr> inputs,
                      std::span<const CUdeviceptr> outputs) const;
  // `communicator`: null for a trial of this rank alone.
  Status queue_all(const Addresses& addresses, CUstream stream, Communicator* communicator, bool alone) const;
  // The same for any addresses; give_stand_ins() has been called for them.
  Status queue_bound(const Instance& instance, std::span<const CUdeviceptr> inputs,
                     std::span<const CUdeviceptr> outputs, CUstream stream, bool alone) const;
  Status give_stand_ins(Instance& instance, std::span<const CUdeviceptr> inputs, std::span<const CUdeviceptr> outputs);
  // `fences`: null for none.
  Status run_on(std::span<const CUdeviceptr> inputs, std::span<const CUdeviceptr> outputs, CUstream stream,
                WorkFences* fences);
  Status run_instance(Instance& instance, std::span<const CUdeviceptr> inputs, std::span<const CUdeviceptr> outputs,
                      CUstream stream, WorkFences* fences);
  Result<CapturedWork> capture(const Instance& instance, std::span<const CUdeviceptr> inputs,
                               std::span<const CUdeviceptr> outputs);

  const std::shared_ptr<ComputeContext> context_;
  Program program_;
  const bool needs_ranks_;
  CompiledKernels compiled_;
  std::vector<DeviceBlockRef> constant_blocks_;
  std::vector<CUdeviceptr> constants_;
  mutable Guarded<State> state_;
};

// A region with the plans that were made for it. Where sizes are symbols and a plan had to compile kernels, those that
// other sizes would want are compiled ahead of them (rehearsal.h).
class ComputeRegion {
 public:
  static Result<std::shared_ptr<ComputeRegion>> create(std::shared_ptr<ComputeContext> context, Graph graph);

  // The plan for these shapes, made at their first use.
  Result<std::shared_ptr<ComputePlan>> plan(std::span<const Shape> inputs);
  const Region& region() const { return region_; }
  // While no plan is being made. After drop_constants() there are no more plans than there are.
  Status own_constants() { return region_.own_constants(); }
  void drop_constants();
  const std::shared_ptr<ComputeContext>& context() const { return context_; }
  // Waits until no kernels are compiled for sizes to come.
  void finish_rehearsal();

 private:
  struct Entry {
    std::vector<Shape> shapes;
    std::shared_ptr<ComputePlan> plan;
    uint64_t used = 0;
  };
  struct State {
    std::vector<Entry> plans;
    uint64_t clock = 0;
    bool dropped = false;  // the constants
    bool varies = false;   // there have been plans
    std::shared_ptr<Rehearsal> rehearsal;
    int rehearsals = 0;
  };
  Result<Program> lower(std::span<const Shape> inputs, size_t workspace_bytes) const;
  // Empty where a plan's kernels need no compiler, or where enough has been rehearsed.
  std::vector<std::vector<Shape>> sizes_to_rehearse(const State& state, std::span<const Shape> inputs,
                                                    std::span<const KernelCode> kernels) const;
  void rehearse(State& state, const std::vector<std::vector<Shape>>& sizes, std::span<const KernelCode> compiled) const;
  ComputeRegion(std::shared_ptr<ComputeContext> context, Region region)
      : context_(std::move(context)), region_(std::move(region)) {}

  const std::shared_ptr<ComputeContext> context_;
  Region region_;
  Guarded<State> state_;
};

}  // namespace tenon::cuda
