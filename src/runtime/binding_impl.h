// The state of a Binding: bound tensors, and buffers that it keeps so that runs allocate nothing.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include <tenon/session.h>

#include "plan/placement.h"
#include "plan/plan.h"
#include "plan/signature.h"

namespace tenon {

struct SessionImpl;
class RunState;

// True for a shape of ones where the model declares no dimensions: its element is the scalar, as ONNX Runtime takes it.
bool stands_for_scalar(const ValueInfo& info, const Shape& shape);

struct BindingImpl {
  struct Output {
    Tensor bound;   // the caller's, when defined
    Tensor memory;  // Tenon's, otherwise
    Tensor result;  // what output() gives: `bound` or `memory` with the real shape
    bool is_auto = true;
    int32_t auto_space = -1;  // where `memory` has to be; -1: where the output is made
    bool ready = false;       // in this run: `result` is where the output goes
  };

  explicit BindingImpl(std::shared_ptr<SessionImpl> owner);

  // Forgets the last run's results and reads the shapes of the bound inputs. Errors name the input that is missing.
  Status begin_run();
  // Memory for output `slot` of this run. Errors: a bound tensor that is too small, with both sizes.
  // Memory that is ours is made in `space`.
  Status prepare_output(size_t slot, DataType type, const Shape& shape, int32_t space);
  // The output is this memory in `space`, made by the run.
  Status adopt_output(size_t slot, DataType type, const Shape& shape, std::shared_ptr<std::byte> memory,
                      size_t size_bytes, int32_t space);
  // Where output `slot` has to be, after it was bound.
  void set_output_space(size_t slot);

  std::shared_ptr<SessionImpl> session;
  std::vector<Tensor> inputs;
  std::vector<Output> outputs;

  // Kept between runs, so that a steady one allocates nothing.
  BoundSpaces spaces;                // of sessions with other EPs
  std::vector<int64_t> space_words;  // the same for the key: inputs, then outputs
  SignatureKey key, checked_key;
  bool checked = false;
  std::vector<Shape> shapes;
  std::vector<void*> input_addresses;
  std::vector<void*> output_addresses;  // by slot
  RunState* last_state = nullptr;       // only compared, never followed
};

}  // namespace tenon
