// Reads and checks a session's options before the model is read.
#pragma once

#include <tenon/session.h>

#include <string_view>

#include "graph/reader.h"

namespace tenon {

// `options` with the "tenon." entries of its config put into their fields.
// Errors: kInvalidArgument for sizes that are none, for an entry that is unknown, that has a bad value or contradicts a
// field that was set, for options of an EP that has none, and for bad environment variables.
Result<SessionOptions> checked_options(const SessionOptions& options);

// Puts SessionOptions::dims and dims_by_denotation into the model.
// Errors: kInvalidArgument for a name that the model does not have, unless the options ignore those.
Status fix_dims(Model& model, const SessionOptions& options);

// The refusal of a session whose CPU EP would have to make `output` (may be empty) although
// "session.disable_cpu_ep_fallback" is set.
Status fallback_refused(std::string_view output);
bool is_fallback_refusal(const Status& status);
// True when "session.disable_cpu_ep_fallback" is "1", as in ONNX Runtime; another value that sounds like it is logged.
bool cpu_fallback_disabled(const SessionOptions& options);

}  // namespace tenon
