// One run of a session through the C ABI: names to positions, values to tensors, the reference's words for what is
// wrong.
#pragma once

#include <tenon/onnxruntime_c_api.h>

#include <memory>
#include <span>
#include <string_view>

#include "abi/objects/value.h"
#include "abi/session.h"

namespace tenon::abi {

inline constexpr size_t kNotFound = static_cast<size_t>(-1);

// Where `name` stands in `infos`. `hint` is looked at first: programs mostly name values in the model's order.
size_t find_value(std::span<const ValueInfo> infos, std::string_view name, size_t hint) noexcept;

// Null, or why `value` cannot be fed to an input (written to an output) that the model declares so.
OrtStatus* check_feed(const ValueInfo& info, const OrtValue& value) noexcept;
OrtStatus* check_fetch(const ValueInfo& info, const OrtValue& value) noexcept;
// After a run into a value that the program gave: its shape must be the output's.
OrtStatus* check_fetched(const ValueInfo& info, const OrtValue& value, const Shape& shape) noexcept;

// After a run, the value that the program gave for an output: numbers are written by then; strings and what is no
// tensor are put into it here.
OrtStatus* fill_given(const ValueInfo& info, const Tensor& result, OrtValue& given);
// Binds a checked value to input `index`.
OrtStatus* bind_value(Binding& binding, const ValueInfo& info, size_t index, const OrtValue& value);

// Runs what is bound: terminate, profiles, and the status in the reference's words.
OrtStatus* run_binding(OrtSession& session, CoreSession& core, Binding& binding, const OrtRunOptions* options) noexcept;

// A tensor that the model declares without dimensions.
inline bool declares_scalar(const ValueInfo& info) {
  return info.object == nullptr && info.has_shape && info.dims.empty();
}
// Whether values for inputs that are scalars have dimensions, and then whether all of these have one element.
enum class ScalarFeed : uint8_t { kScalars, kOneElement, kOthers };
void add_scalar_feed(const ValueInfo& info, const OrtValue& value, ScalarFeed& feed) noexcept;
// Whether the model can be loaded again for values that are no scalars.
bool may_load_for_scalars(const OrtSession& session) noexcept;
// The model loaded again, when a run first needs it so; `kind` is of OtherCore's bits.
OrtStatus* other_core(OrtSession& session, uint8_t kind, std::shared_ptr<CoreSession>* out);

struct RunCall {
  const OrtRunOptions* options = nullptr;
  std::span<const char* const> input_names;
  std::span<const OrtValue* const> inputs;
  std::span<const char* const> output_names;
  std::span<OrtValue*> outputs;
};
// The whole of OrtApi::Run. Outputs that are null get new values if all goes well, and stay null if not.
OrtStatus* run_session(OrtSession& session, const RunCall& call) noexcept;

}  // namespace tenon::abi
