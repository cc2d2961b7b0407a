#include "abi/objects/session_config.h"

#include <charconv>
#include <cstdint>

#include "abi/objects/status.h"

namespace tenon::abi {

namespace {

// One number of session.external_data_loader.*: what stock 1.32.0 takes, and the sentence with which it refuses.
struct LoaderRow {
  const char* key;
  uint64_t least, most, multiple;
  const char* refusal;
};

constexpr LoaderRow kLoaderRows[] = {
    {"session.external_data_loader.threads", 0, 64, 1, "must be between 0 and 64."},
    {"session.external_data_loader.chunk_bytes", 4096, 67108864, 4096,
     "must be between 4096 and 67108864 bytes and a multiple of 4096."},
    {"session.external_data_loader.pinned_memory_bytes", 1048576, 1073741824, 8192,
     "must be between 1048576 and 1073741824 bytes and a multiple of 8192."},
    {"session.external_data_loader.min_size_bytes", 0, 4294967296, 1, "must be between 0 and 4294967296 bytes."},
};

bool is_taken(const LoaderRow& row, std::string_view text) {
  uint64_t number = 0;
  const char* begin = text.data();
  const char* end = begin + text.size();
  const auto [at, error] = std::from_chars(begin, end, number);
  return error == std::errc() && at == end && number >= row.least && number <= row.most && number % row.multiple == 0;
}

}  // namespace

OrtStatus* check_session_config(const OrtKeyValuePairs& entries) noexcept {
  const char* mode = entries.find(kWeightlessModeKey);
  if (mode != nullptr && !weightless_mode(entries))
    return ort_error(ORT_INVALID_ARGUMENT,
                     "Invalid value '{}' for {}. Valid values are: \"0\" (OrtWeightlessSupport_NONE), \"1\" "
                     "(OrtWeightlessSupport_EXTERNAL_ONLY), and \"2\" (OrtWeightlessSupport_ALL).",
                     mode, kWeightlessModeKey);
  for (const LoaderRow& row : kLoaderRows) {
    const char* text = entries.find(row.key);
    if (text != nullptr && !is_taken(row, text))
      return ort_error(ORT_INVALID_ARGUMENT, "{} {} It is \"{}\".", row.key, row.refusal, text);
  }
  return nullptr;
}

std::optional<OrtWeightlessSupport> weightless_mode(const OrtKeyValuePairs& entries) {
  const char* text = entries.find(kWeightlessModeKey);
  if (text == nullptr) return std::nullopt;
  for (auto mode : {OrtWeightlessSupport_NONE, OrtWeightlessSupport_EXTERNAL_ONLY, OrtWeightlessSupport_ALL})
    if (std::string_view(text) == std::to_string(static_cast<int>(mode))) return mode;
  return std::nullopt;
}

bool serves_weightless(OrtWeightlessSupport support, OrtWeightlessSupport mode) {
  return mode == OrtWeightlessSupport_NONE || support == mode || support == OrtWeightlessSupport_ALL_OR_EXTERNAL_ONLY;
}

OrtWeightlessSupport weightless_support(const OrtKeyValuePairs& ep_metadata) {
  const char* text = ep_metadata.find("weightless_supported_modes");
  if (text == nullptr) text = ep_metadata.find("weightless_support");
  for (auto support :
       {OrtWeightlessSupport_EXTERNAL_ONLY, OrtWeightlessSupport_ALL, OrtWeightlessSupport_ALL_OR_EXTERNAL_ONLY})
    if (text != nullptr && std::string_view(text) == weightless_name(support)) return support;
  return OrtWeightlessSupport_NONE;
}

const char* weightless_name(OrtWeightlessSupport support) {
  switch (support) {
    case OrtWeightlessSupport_EXTERNAL_ONLY:
      return "external_only";
    case OrtWeightlessSupport_ALL:
      return "all";
    case OrtWeightlessSupport_ALL_OR_EXTERNAL_ONLY:
      return "all_or_external_only";
    case OrtWeightlessSupport_NONE:
      break;
  }
  return "none";
}

}  // namespace tenon::abi
