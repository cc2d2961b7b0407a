// Checks of session config entries that ONNX Runtime 1.32 makes in every session, with or without a plugin.
#pragma once

#include <tenon/onnxruntime_c_api.h>
#include <tenon/status.h>

#include <optional>
#include <string>
#include <string_view>

#include "abi/objects/key_value_pairs.h"

namespace tenon::abi {

// "0", "1" or "2": an OrtWeightlessSupport. Written by ModelCompilationOptions_SetWeightlessMode and by programs.
inline constexpr char kWeightlessModeKey[] = "ep.enable_weightless_mode";
// "1" when the mode is not 0: for EPs that know only the switch of API 29.
inline constexpr char kWeightlessKey[] = "ep.enable_weightless";

// Null, or INVALID_ARGUMENT for a bad value of ep.enable_weightless_mode or session.external_data_loader.*.
OrtStatus* check_session_config(const OrtKeyValuePairs& entries) noexcept;

// The mode that the entries ask for; empty without the entry or with one that check_session_config refuses.
std::optional<OrtWeightlessSupport> weightless_mode(const OrtKeyValuePairs& entries);
// Does an EP with `support` (3 stands for both modes) serve `mode`? Mode NONE asks for nothing.
bool serves_weightless(OrtWeightlessSupport support, OrtWeightlessSupport mode);
// A device's support by its metadata: "weightless_supported_modes", else "weightless_support"; NONE without either.
OrtWeightlessSupport weightless_support(const OrtKeyValuePairs& ep_metadata);
const char* weightless_name(OrtWeightlessSupport support);

}  // namespace tenon::abi
