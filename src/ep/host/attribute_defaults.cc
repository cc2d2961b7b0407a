#include "ep/host/attribute_defaults.h"

#include <charconv>
#include <string_view>

#include "graph/schema.h"

namespace tenon::abi {

namespace {

template <typename T>
T number(std::string_view text) {
  T value{};
  std::from_chars(text.data(), text.data() + text.size(), value);
  return value;
}

template <typename Use>
void for_each_entry(std::string_view list, Use&& use) {
  while (!list.empty()) {
    const size_t end = std::min(list.find('|'), list.size());
    use(list.substr(0, end));
    list.remove_prefix(std::min(end + 1, list.size()));
  }
}

// `schema.kind` is AttributeProto.AttributeType; tensors and graphs have no defaults.
std::unique_ptr<Attribute> make_default(const SchemaAttribute& schema) {
  auto attribute = std::make_unique<Attribute>();
  attribute->name = schema.name;
  const std::string_view text = schema.default_value;
  switch (schema.kind) {
    case 1:
      attribute->kind = AttributeKind::kFloat;
      attribute->f = number<float>(text);
      return attribute;
    case 2:
      attribute->kind = AttributeKind::kInt;
      attribute->i = number<int64_t>(text);
      return attribute;
    case 3:
      attribute->kind = AttributeKind::kString;
      attribute->s = text;
      return attribute;
    case 6:
      attribute->kind = AttributeKind::kFloats;
      for_each_entry(text, [&](std::string_view entry) { attribute->floats.push_back(number<float>(entry)); });
      return attribute;
    case 7:
      attribute->kind = AttributeKind::kInts;
      for_each_entry(text, [&](std::string_view entry) { attribute->ints.push_back(number<int64_t>(entry)); });
      return attribute;
    case 8:
      attribute->kind = AttributeKind::kStrings;
      for_each_entry(text, [&](std::string_view entry) { attribute->strings.emplace_back(entry); });
      return attribute;
    default:
      return nullptr;
  }
}

}  // namespace

std::vector<std::unique_ptr<Attribute>> default_attributes(const Node& node) {
  std::vector<std::unique_ptr<Attribute>> attributes;
  const std::optional<Schema> schema = find_schema(node.domain, node.op_type, node.since_version);
  if (!schema) return attributes;
  for (const SchemaAttribute& candidate : schema->attributes) {
    if (candidate.default_value.data() == nullptr || node.has(candidate.name)) continue;
    if (std::unique_ptr<Attribute> made = make_default(candidate)) attributes.push_back(std::move(made));
  }
  return attributes;
}

}  // namespace tenon::abi
