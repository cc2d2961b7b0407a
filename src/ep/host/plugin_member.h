// Calls functions of plugins: every function pointer that comes from a plugin's struct is read, checked and called
// here, so that a null member, a version that the struct does not have, or an exception is a status that names the
// plugin and the member.
#pragma once

#include <tenon/onnxruntime_c_api.h>
#include <tenon/status.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <exception>
#include <string>
#include <type_traits>
#include <utility>

#include "abi/objects/mappings.h"
#include "abi/objects/status.h"
#include "base/status.h"
#include "ep/api/abi_since.h"

namespace tenon::abi {

// One function of a struct, as far as it may be called.
template <typename F>
struct PluginMember {
  enum class State : uint8_t { kUsable, kTooNew, kNull, kBad };
  F function = nullptr;
  const char* name = "";  // "OrtEpFactory::CreateEp"
  uint32_t version = 0;   // that the struct declares
  uint32_t since = 0;     // that has the member
  State state = State::kNull;

  explicit operator bool() const { return state == State::kUsable; }
  // Not there on purpose: null, or of a version after the struct's. A pointer that is no code is a mistake instead.
  bool absent() const { return state == State::kTooNew || state == State::kNull; }
  bool too_new() const { return state == State::kTooNew; }
  // OK when usable; else why not.
  Status check(const std::string& who) const {
    switch (state) {
      case State::kUsable:
        return {};
      case State::kTooNew:
        return unsupported("{}: {} needs version {} of the struct, which declares version {}.", who, name, since,
                           version);
      case State::kNull:
        return unsupported("{}: {} is null.", who, name);
      case State::kBad:
        break;
    }
    return device_error(
        "{}: {} does not point to a function; the struct declares version {}, and may be shorter than that.", who, name,
        version);
  }
};

template <typename F>
PluginMember<F> read_member(const void* object, size_t offset, uint32_t version, uint32_t since, const char* name) {
  using State = typename PluginMember<F>::State;
  PluginMember<F> member{.name = name, .version = version, .since = since, .state = State::kTooNew};
  if (version < since) return member;
  const std::byte* address = static_cast<const std::byte*>(object) + offset;
  member.state = State::kBad;
  if (!is_readable(address, sizeof(F))) return member;
  F function = nullptr;
  std::memcpy(static_cast<void*>(&function), address, sizeof(F));
  if (function == nullptr) {
    member.state = State::kNull;
  } else if (is_code(reinterpret_cast<const void*>(function))) {
    member.function = function;
    member.state = State::kUsable;
  }
  return member;
}

// TENON_MEMBER(ep, OrtEp, Compile): a member of a struct that check_object has seen.
#define TENON_MEMBER_OF_(object, version, Struct, member)                                        \
  ::tenon::abi::read_member<decltype(Struct::member)>(object, offsetof(Struct, member), version, \
                                                      ::tenon::abi_since::k##Struct##_##member, #Struct "::" #member)
#define TENON_MEMBER(object, Struct, member) TENON_MEMBER_OF_(object, (object)->ort_version_supported, Struct, member)

// A struct that a plugin handed over is there and can be read as far as its version.
Status check_object(const std::string& who, const char* kind, const void* object, const char* from);

Status thrown(const std::string& who, const char* member, const char* what);

// Calls a function that gives a value, or nothing.
template <typename F, typename... Args>
auto call_value(const std::string& who, const PluginMember<F>& member, Args... args)
    -> std::conditional_t<std::is_void_v<std::invoke_result_t<F, Args...>>, Status,
                          Result<std::conditional_t<std::is_void_v<std::invoke_result_t<F, Args...>>, int,
                                                    std::invoke_result_t<F, Args...>>>> {
  TENON_TRY(member.check(who));
  TENON_CHECK(member.function != nullptr);  // usable means that it is there
  try {
    if constexpr (std::is_void_v<std::invoke_result_t<F, Args...>>) {
      member.function(args...);
      return {};
    } else {
      return member.function(args...);
    }
  } catch (const std::exception& error) {
    return thrown(who, member.name, error.what());
  } catch (...) {
    return thrown(who, member.name, nullptr);
  }
}

// Takes over the status that the function `member` of `who` returned. A failure keeps its code and message, with who
// and which added.
Status take_status(const std::string& who, const char* member, OrtStatus* status);

// Calls a function that gives an OrtStatus.
template <typename F, typename... Args>
Status call(const std::string& who, const PluginMember<F>& member, Args... args) {
  auto status = call_value(who, member, args...);
  return status.ok() ? take_status(who, member.name, *status) : std::move(status).status();
}

// "ep name" that a function returned: null and unreadable text are errors.
Result<std::string> checked_text(const std::string& who, const char* member, const char* text);

}  // namespace tenon::abi
