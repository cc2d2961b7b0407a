// Joins ONNX Runtime's C ABI and the C++ API of one library: sessions and values of one are used through the other.
//
// Threads: every function from any thread; const access to values.
#pragma once

#include <memory>
#include <span>

#include "tenon/fence.h"
#include "tenon/session.h"
#include "tenon/tensor.h"

struct OrtRunOptions;
struct OrtSession;
struct OrtValue;

namespace tenon {

// The session behind one of the C ABI; null for null. It outlives `session` if the caller keeps it. What the C ABI adds
// to a run (profiles, custom operators, initializers that a run overrides) a run of it does not have.
TENON_API std::shared_ptr<Session> session_of(const OrtSession* session);

// A new value, which the caller gives to ReleaseValue. It shares the tensor's memory and keeps its owner alive; strings
// are copied. A tensor of DataType::kObject becomes a sequence, a map, or the value that an empty optional is.
// Errors: kInvalidArgument for no tensor.
TENON_API Result<OrtValue*> make_ort_value(const Tensor& tensor);

// A view of what is in `value`: the same memory, kept alive by the view. Of a sequence, a map or an empty optional a
// tensor of DataType::kObject. Errors: kInvalidArgument for null and for a value without memory.
TENON_API Result<Tensor> tensor_of(const OrtValue* value);

// Runs with these options wait for `waits` before they read an input, and signal `signals` when all outputs are
// written. They replace those of earlier calls. Not while a run with the options is under way. Errors: kInvalidArgument
// for null, and for a fence without a timeline.
TENON_API Status set_run_fences(OrtRunOptions* options, std::span<const Fence> waits, std::span<const Fence> signals);

// The OrtErrorCode with which functions of the C ABI say that a run has failed so.
TENON_API int error_code_of_run(const Status& status) noexcept;

}  // namespace tenon
