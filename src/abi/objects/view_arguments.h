// Shared by the getters of views: the reference's messages for wrong arguments, and copies into a caller's array.
#pragma once

#include <cstddef>
#include <vector>

#include "abi/objects/status.h"

namespace tenon::abi {

inline OrtStatus* null_argument(const char* name) noexcept {
  return ort_error(ORT_INVALID_ARGUMENT, "'{}' argument is NULL", name);
}

// *out = value, or the status for a null object or out parameter.
template <typename Object, typename T, typename Get>
OrtStatus* get_from(const char* object_name, const Object* object, const char* out_name, T* out, Get&& get) noexcept {
  clear(out);
  if (object == nullptr) return null_argument(object_name);
  if (out == nullptr) return null_argument(out_name);
  *out = get(*object);
  return nullptr;
}

// `what` is plural: "graph nodes". `room` may be larger than what there is.
template <typename T, typename Get>
OrtStatus* fill_array(const char* what, size_t count, T* out, size_t room, Get&& get) noexcept {
  if (room < count) {
    return ort_error(ORT_INVALID_ARGUMENT,
                     "Not enough space for {}: expected buffer with room for at least {} elements, but got buffer with "
                     "room for only {} elements.",
                     what, count, room);
  }
  if (count > 0 && out == nullptr) return ort_error(ORT_INVALID_ARGUMENT, "The array for {} is null.", what);
  for (size_t i = 0; i < count; ++i) out[i] = get(i);
  return nullptr;
}

template <typename T>
OrtStatus* copy_pointers(const char* what, const std::vector<const T*>& from, const T** out, size_t room) noexcept {
  return fill_array(what, from.size(), out, room, [&](size_t i) { return from[i]; });
}

}  // namespace tenon::abi
