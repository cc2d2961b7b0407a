#include "ops/attributes.h"

#include <charconv>

#include "base/status.h"
#include "ops/internal_schema.h"

namespace tenon {

namespace {

template <typename T>
T parse(std::string_view text) {
  T value{};
  const auto result = std::from_chars(text.data(), text.data() + text.size(), value);
  TENON_CHECK(result.ec == std::errc() && result.ptr == text.data() + text.size());
  return value;
}

std::optional<SchemaAttribute> find_in(std::string_view domain, std::string_view op_type, int version,
                                       std::string_view name) {
  const std::optional<Schema> schema = find_schema(domain, op_type, version);
  return schema ? schema->find_attribute(name) : std::nullopt;
}

}  // namespace

std::optional<SchemaAttribute> find_schema_attribute(const Node& node, std::string_view attribute) {
  if (node.domain == "tenon") return find_internal_attribute(node.op_type, attribute);
  auto found = find_in(node.domain, node.op_type, node.since_version, attribute);
  // An operator that the model's opset does not have yet is refused later. Until then the newest version that has the
  // attribute counts.
  for (int opset = newest_opset(node.domain); !found && opset > 0; --opset)
    found = find_in(node.domain, node.op_type, opset, attribute);
  return found;
}

const Attribute* Attributes::find(std::string_view name, AttributeKind kind) const {
  const Attribute* found = node_.find(name);
  return found != nullptr && found->kind == kind ? found : nullptr;
}

std::string_view Attributes::default_text(std::string_view name) const {
  const auto row = find_schema_attribute(node_, name);
  TENON_CHECK(row && row->default_value.data() != nullptr);
  return row->default_value;
}

int64_t Attributes::integer(std::string_view name) const {
  const Attribute* found = find(name, AttributeKind::kInt);
  return found != nullptr ? found->i : parse<int64_t>(default_text(name));
}

float Attributes::number(std::string_view name) const {
  const Attribute* found = find(name, AttributeKind::kFloat);
  return found != nullptr ? found->f : parse<float>(default_text(name));
}

std::string_view Attributes::text(std::string_view name) const {
  const Attribute* found = find(name, AttributeKind::kString);
  return found != nullptr ? std::string_view(found->s) : default_text(name);
}

std::optional<int64_t> Attributes::find_integer(std::string_view name) const {
  const Attribute* found = find(name, AttributeKind::kInt);
  return found != nullptr ? std::optional(found->i) : std::nullopt;
}

std::optional<float> Attributes::find_number(std::string_view name) const {
  const Attribute* found = find(name, AttributeKind::kFloat);
  return found != nullptr ? std::optional(found->f) : std::nullopt;
}

std::optional<std::string_view> Attributes::find_text(std::string_view name) const {
  const Attribute* found = find(name, AttributeKind::kString);
  return found != nullptr ? std::optional<std::string_view>(found->s) : std::nullopt;
}

std::span<const int64_t> Attributes::integers(std::string_view name) const {
  const Attribute* found = find(name, AttributeKind::kInts);
  return found != nullptr ? std::span<const int64_t>(found->ints) : std::span<const int64_t>();
}

std::span<const float> Attributes::numbers(std::string_view name) const {
  const Attribute* found = find(name, AttributeKind::kFloats);
  return found != nullptr ? std::span<const float>(found->floats) : std::span<const float>();
}

std::span<const std::string> Attributes::texts(std::string_view name) const {
  const Attribute* found = find(name, AttributeKind::kStrings);
  return found != nullptr ? std::span<const std::string>(found->strings) : std::span<const std::string>();
}

ConstantRef Attributes::tensor(std::string_view name) const {
  const Attribute* found = find(name, AttributeKind::kTensor);
  return found != nullptr ? found->tensor : nullptr;
}

const Graph* Attributes::graph(std::string_view name) const {
  const Attribute* found = find(name, AttributeKind::kGraph);
  return found != nullptr ? found->graph.get() : nullptr;
}

}  // namespace tenon
