// The outputs of a binding as one run writes them.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "runtime/binding_impl.h"
#include "runtime/plan_executor.h"

namespace tenon {

// Finds memory for the outputs, refuses what strict mode or the bound memory forbids, and copies what a plan makes
// elsewhere. Lifetime: of the run; what it is given outlives it.
class BindingOutputs final : public PlanOutputs {
 public:
  BindingOutputs(BindingImpl& binding, const RunInfo& info) : binding_(binding), info_(info) {}

  // An output that would overwrite an input too early gets memory of its own here, which finish() copies from.
  Status prepare(const Plan& plan, std::span<void* const> inputs) override;
  void lend_memory(const Plan& plan, RunState& state) override;
  std::span<void* const> addresses() const override { return binding_.output_addresses; }
  Status finish(const Plan& plan, RunState& state, bool is_rest) override;
  bool written_directly() const override { return redirects_.empty(); }
  std::vector<std::optional<MemorySpace>> bound_spaces() const override { return binding_.spaces.outputs; }

 private:
  struct Redirect {
    const Plan* plan;
    const PlanOutput* output;
    std::shared_ptr<std::byte> memory;
  };
  RunMemory memory(const Plan& plan, std::span<void* const> inputs) const;
  Status copy(size_t slot, DataType type, const Shape& shape, void* source, SpaceId space, CopyReason reason);
  // Whether the memory of a value on the host becomes the output as it is.
  bool becomes_output(const Plan& plan, const PlanCopy& copy) const;
  Status copy_dynamic(const Plan& plan, const PlanCopy& copy, RunState& state);

  BindingImpl& binding_;
  const RunInfo& info_;
  std::vector<Redirect> redirects_;
};

}  // namespace tenon
