// The state of a Binding: bound tensors, and buffers that it keeps so that runs allocate nothing.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include <tenon/session.h>

#include "plan/placement.h"
#include "plan/plan.h"
#include "plan/signature.h"
#include "runtime/binding_checks.h"

namespace tenon {

struct SessionImpl;
class RunState;

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
  // Where output `slot` has to be, after it was bound.
  void set_output_space(size_t slot);

  std::shared_ptr<SessionImpl> session;
  std::vector<Tensor> inputs;
  std::vector<BoundOutput> outputs;

  // Kept between runs, so that a steady one allocates nothing.
  BoundSpaces spaces;                // of sessions with other EPs
  std::vector<int64_t> space_words;  // the same for the key: inputs, then outputs
  SignatureKey key, checked_key;
  bool checked = false;
  std::vector<Shape> shapes;
  std::vector<void*> input_addresses;
  std::vector<void*> output_addresses;   // by slot
  const RunState* last_state = nullptr;  // only compared, never followed
};

}  // namespace tenon
