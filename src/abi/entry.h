// The answers of the functions that libtenon and libonnxruntime.so.1 (src/drop_in) export.
#pragma once

#include <tenon/onnxruntime_c_api.h>

namespace tenon::abi {

const OrtApiBase* api_base() noexcept;
// INVALID_ARGUMENT for null options. The CPU EP is always there and always last, so asking for it changes nothing.
OrtStatus* append_cpu(OrtSessionOptions* options, int use_arena) noexcept;

}  // namespace tenon::abi
