#include <tenon/session.h>

namespace tenon {

std::string ValueInfo::to_string() const {
  if (object != nullptr) return object->to_string();
  std::string text(data_type_name(type));
  if (!has_shape) return text + "[?]";
  text += '[';
  for (size_t i = 0; i < dims.size(); ++i) {
    if (i > 0) text += ',';
    const bool named = i < dim_names.size() && !dim_names[i].empty();
    text += dims[i] >= 0 ? std::to_string(dims[i]) : named ? dim_names[i] : "?";
  }
  return text + ']';
}

}  // namespace tenon
