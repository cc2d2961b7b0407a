// What a Binding holds: the tensors, and what a run would otherwise have to allocate.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include <tenon/session.h>

#include "plan/plan.h"
#include "plan/signature.h"

namespace tenon {

struct SessionImpl;
class RunState;

struct BindingImpl {
  struct Output {
    Tensor bound;   // the caller's, when defined
    Tensor memory;  // Tenon's, otherwise
    Tensor result;  // what output() gives: `bound` or `memory` with the real shape
    bool is_auto = true;
    bool ready = false;  // in this run: `result` is where the output goes
  };

  explicit BindingImpl(std::shared_ptr<SessionImpl> owner);

  // Forgets the last run's results and reads the shapes of the bound inputs. Errors name the input that is missing.
  Status begin_run();
  // Memory for output `slot` of this run. Errors: a bound tensor that is too small, with both sizes.
  Status prepare_output(size_t slot, DataType type, const Shape& shape);

  std::shared_ptr<SessionImpl> session;
  std::vector<Tensor> inputs;
  std::vector<Output> outputs;

  // Kept between runs, so that a steady one allocates nothing.
  SignatureKey key, checked_key;
  bool checked = false;
  std::vector<Shape> shapes;
  std::vector<void*> input_addresses;
  std::vector<void*> output_addresses;  // by slot
  RunState* last_state = nullptr;       // only compared, never followed
};

}  // namespace tenon
