#include <tenon/object.h>
#include <tenon/ort_bridge.h>

#include <utility>

#include "abi/objects/run_options.h"
#include "abi/objects/status.h"
#include "abi/objects/value_tensor.h"
#include "abi/session.h"
#include "base/status.h"

namespace tenon {

std::shared_ptr<Session> session_of(const OrtSession* session) {
  return session == nullptr ? nullptr : session->main->core;
}

Result<OrtValue*> make_ort_value(const Tensor& tensor) {
  TENON_INVALID_IF(!tensor.defined(), "A value cannot be made of a tensor that is not defined.");
  return new OrtValue(abi::make_value(tensor));
}

Result<Tensor> tensor_of(const OrtValue* value) {
  TENON_INVALID_IF(value == nullptr, "There is no value: it is null.");
  TENON_TRY_ASSIGN(Tensor tensor, abi::to_tensor(*value, /*as_object=*/false));
  return value->read_only_import != nullptr ? tensor.as_read_only() : tensor;
}

int error_code_of_run(const Status& status) noexcept { return abi::run_code(status); }

Status set_run_fences(OrtRunOptions* options, std::span<const Fence> waits, std::span<const Fence> signals) {
  TENON_INVALID_IF(options == nullptr, "There are no run options: they are null.");
  for (const std::span<const Fence> fences : {waits, signals})
    for (const Fence& fence : fences)
      TENON_INVALID_IF(!fence.defined(), "A fence of the run (value {}) has no timeline.", fence.value);
  options->waits.assign(waits.begin(), waits.end());
  options->signals.assign(signals.begin(), signals.end());
  return {};
}

}  // namespace tenon
