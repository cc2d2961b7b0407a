// Hands the values of a run to its ValueObserver, step by step.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <tenon/node_values.h>

#include "plan/plan.h"
#include "runtime/node_observer.h"
#include "runtime/run_state.h"

namespace tenon {

// NodeValue::body of the values in the bodies of `node`, itself a node of `graph` in `body`.
std::string body_path(const std::string& body, const Graph& graph, const Node& node);

// Of one run, with the bodies in it. Threads: those of the run.
class ValueTap {
 public:
  // `folded`: constants that the load-time passes have computed and no plan has. Both outlive the tap.
  ValueTap(ValueObserver& observer, std::span<const Value> folded) : observer_(observer), folded_(folded) {}

  // A run of `plan`, in the body of the node that runs.
  class Part {
   public:
    // `device` may be null. Lifetime: everything outlives it.
    Part(ValueTap& tap, const Plan& plan, const RunState& state, const DeviceRun* device)
        : tap_(tap), outer_part_(std::exchange(tap.part_, this)), plan_(plan), state_(state), device_(device) {}
    ~Part() { tap_.part_ = outer_part_; }
    Part(const Part&) = delete;
    Part& operator=(const Part&) = delete;
    // Before the first step: what passes have computed, and views of that and of inputs.
    Status begin();
    // The bodies of a step's node run between enter() and leave().
    void enter(const Node& node);
    void leave();
    // After a step that has gone well.
    Status after(StepId id);

   private:
    struct Maker {
      const Node* node;
      std::string_view kernel;
    };
    Status views_after(size_t ready);
    Status give_folded(const Value& value);
    Status give(ValueId id, const Location& location, const Maker& maker);
    Result<Tensor> on_host(DataType type, const Shape& shape, const Location& location) const;
    SpaceId space_of(const Location& location) const;

    ValueTap& tap_;
    Part* const outer_part_;
    const Plan& plan_;
    const RunState& state_;
    const DeviceRun* const device_;
    std::string outer_;  // the body while a node of it runs
    // By number of steps that have to be over: the views that can be read then.
    std::vector<std::vector<size_t>> views_;
  };

  // Of the plan that runs; null outside of runs.
  Part* part() const { return part_; }

 private:
  ValueObserver& observer_;
  const std::span<const Value> folded_;
  Part* part_ = nullptr;
  std::string body_;
  std::map<std::pair<std::string, std::string>, int64_t> given_;  // by body and name: how many
};

// Sets the tap for a run.
class TappedRun final : public NodeObserver {
 public:
  // `next` (may be null) sees what it would see without the tap.
  TappedRun(ValueTap& tap, NodeObserver* next) : tap_(tap), next_(next) {}
  void ran(const NodeRun& node) override {
    if (next_ != nullptr) next_->ran(node);
  }
  ValueTap* tap() override { return &tap_; }

 private:
  ValueTap& tap_;
  NodeObserver* const next_;
};

}  // namespace tenon
