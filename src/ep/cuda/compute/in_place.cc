#include "ep/cuda/compute/in_place.h"

#include "ep/cuda/compute/device_op.h"

namespace tenon::cuda {

bool may_run_in_place(const Program& program, size_t input, size_t output) {
  if (input >= program.inputs.size() || output >= program.outputs.size()) return false;
  const int32_t x = program.tensor(program.inputs[input]).storage;
  const int32_t y = program.tensor(program.outputs[output]).storage;
  const auto &from = program.storages[x], &to = program.storages[y];
  // An output that no operator writes is another one's memory, or an input's.
  if (from.kind != StorageKind::kInput || to.kind != StorageKind::kOutput || from.size_bytes != to.size_bytes ||
      to.first < 0)
    return false;
  if (from.last != to.first) return from.last < to.first;
  const DeviceOp* const op = program.ops[to.first].get();
  for (size_t i = 0; i < op->reads().size(); ++i) {
    const TensorId id = op->reads()[i];
    if (id == kNoTensor || program.tensor(id).storage == y) return false;
    if (program.tensor(id).storage == x && (!op->may_overwrite(i) || program.tensor(id).offset_bytes != 0))
      return false;
  }
  return true;
}

}  // namespace tenon::cuda
