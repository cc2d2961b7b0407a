// The state of a Binding: bound tensors, and buffers that it keeps so that runs allocate nothing.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include <tenon/session.h>

#include "ep/api/run_objects.h"
#include "plan/placement.h"
#include "plan/plan.h"
#include "plan/signature.h"
#include "runtime/binding_checks.h"
#include "runtime/plan_cache.h"

namespace tenon {

struct SessionImpl;
class RunState;
struct DynamicValue;

// Memory that was checked for a plan: a steady run binds the same again, and n outputs over n inputs are n * n
// questions.
class CheckedMemory {
 public:
  bool is(uint64_t plan, bool disallow_copies, std::span<void* const> inputs, std::span<void* const> outputs) const {
    return plan == plan_ && disallow_copies == disallow_copies_ &&
           inputs.size() + outputs.size() == addresses_.size() &&
           std::equal(inputs.begin(), inputs.end(), addresses_.begin()) &&
           std::equal(outputs.rbegin(), outputs.rend(), addresses_.rbegin());
  }
  void set(uint64_t plan, bool disallow_copies, std::span<void* const> inputs, std::span<void* const> outputs) {
    plan_ = plan;
    disallow_copies_ = disallow_copies;
    addresses_.assign(inputs.begin(), inputs.end());
    addresses_.insert(addresses_.end(), outputs.begin(), outputs.end());
  }

 private:
  uint64_t plan_ = 0;  // Plan::id; 0: nothing was checked
  bool disallow_copies_ = false;
  std::vector<void*> addresses_;  // of inputs, then of outputs
};

struct BindingImpl {
  explicit BindingImpl(std::shared_ptr<SessionImpl> owner);

  // Forgets the last run's results and reads the shapes of the bound inputs. Errors name the input that is missing.
  Status begin_run();
  // Memory for output `slot` of this run. Errors: a bound tensor that is too small, with both sizes.
  // Memory that is ours is made in `space`.
  Status prepare_output(size_t slot, DataType type, const Shape& shape, SpaceId space);
  // The output is this memory in `space`, made by the run.
  Status adopt_output(size_t slot, DataType type, const Shape& shape, std::shared_ptr<std::byte> memory,
                      size_t size_bytes, SpaceId space);
  // Before a run whose exchange_output() will come: the output's memory goes to `value`, if nobody else looks at it, so
  // that the run writes where the last one did, which is in the caches.
  void lend_memory(size_t slot, DynamicValue& value);
  // The output is the memory of `value`, which lies on the host, and `value` gets what the output had, if nobody looks
  // at it any more: the next run writes there.
  Status exchange_output(size_t slot, DynamicValue& value);
  // After the steps: outputs whose elements are addresses own what the addresses name, texts of `objects` as they are
  // and all else as copies.
  Status keep_outputs();
  // Where output `slot` has to be, after it was bound.
  void set_output_space(size_t slot);

  // False: its holder sees to it that one thread at a time uses it, and saves 7 ns a call.
  bool guarded = true;
  // A run or a call is under way.
  std::atomic<bool> in_use = false;

  std::shared_ptr<SessionImpl> session;
  std::vector<Tensor> inputs;
  std::vector<BoundOutput> outputs;

  // Kept between runs, so that a steady one allocates nothing.
  RunObjects objects;
  BoundSpaces spaces;                // of sessions with other EPs
  std::vector<int64_t> space_words;  // the same for the key: inputs, then outputs
  SignatureKey key;
  LastPlan plan;  // of `key`, whose shapes fit the model
  std::vector<Shape> shapes;
  std::vector<void*> input_addresses;
  std::vector<void*> output_addresses;   // by slot
  CheckedMemory checked;                 // where no output needs memory of its own
  const RunState* last_state = nullptr;  // only compared, never followed
};

// A run's or a call's turn with the binding. Only one has it at a time: another thread's is refused, where it would
// race.
class BindingTurn {
 public:
  explicit BindingTurn(BindingImpl& binding) : binding_(binding), taken_(!binding.guarded || !exchange_in_use()) {}
  BindingTurn(const BindingTurn&) = delete;
  BindingTurn& operator=(const BindingTurn&) = delete;
  ~BindingTurn() {
    if (binding_.guarded && taken_) binding_.in_use.store(false, std::memory_order_release);
  }
  bool taken() const { return taken_; }
  Status check() const {
    TENON_INVALID_IF(!taken_,
                     "The binding is in use: a run or another call of it is under way. A Binding belongs to one thread "
                     "at a time; make one for each with Session::make_binding().");
    return Status();
  }

 private:
  bool exchange_in_use() { return binding_.in_use.exchange(true, std::memory_order_acquire); }

  BindingImpl& binding_;
  const bool taken_;
};

}  // namespace tenon
