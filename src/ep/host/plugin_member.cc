#include "ep/host/plugin_member.h"

namespace tenon::abi {

namespace {

constexpr size_t kLongestText = 1 << 16;

}  // namespace

Status check_object(const std::string& who, const char* kind, const void* object, const char* from) {
  if (object == nullptr) return device_error("{}: {} succeeds and gives a null {}.", who, from, kind);
  if (reinterpret_cast<uintptr_t>(object) % alignof(void*) != 0 || !is_readable(object, sizeof(uint32_t)))
    return device_error("{}: {} gives the {} {}, which is no memory.", who, from, kind, object);
  return {};
}

Status take_status(const std::string& who, const char* member, OrtStatus* status) {
  if (status == nullptr) return {};
  if (!is_readable(status, sizeof(OrtStatus)))
    return device_error("{}: {} gives a status at {}, which is no memory.", who, member,
                        static_cast<const void*>(status));
  const OrtErrorCode code = status->code;
  Status failed = from_ort(status).with_context(format("in {} of {}", member, who));
  remember_code(failed, code);
  return failed;
}

Status thrown(const std::string& who, const char* member, const char* what) {
  if (what == nullptr) return device_error("{}: {} throws something that is no std::exception.", who, member);
  return device_error("{}: {} throws an exception: {}.", who, member, what);
}

Result<std::string> checked_text(const std::string& who, const char* member, const char* text) {
  if (text == nullptr) return device_error("{}: {} gives null.", who, member);
  size_t length = 0;
  while (length < kLongestText) {
    // To the end of the page: what is readable there is readable as a whole.
    const size_t rest = 4096 - (reinterpret_cast<uintptr_t>(text) + length) % 4096;
    if (!is_readable(text + length, rest)) return device_error("{}: {} gives text that is no memory.", who, member);
    const void* end = std::memchr(text + length, 0, rest);
    if (end != nullptr) return std::string(text, static_cast<const char*>(end));
    length += rest;
  }
  return device_error("{}: {} gives text of more than {} bytes.", who, member, kLongestText);
}

}  // namespace tenon::abi
