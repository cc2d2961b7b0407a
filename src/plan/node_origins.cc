#include "plan/node_origins.h"

#include <algorithm>
#include <utility>

namespace tenon {

namespace {

// It is mostly the last one.
const Attribute* find_origins(const Node& node) {
  for (auto at = node.attributes.rbegin(); at != node.attributes.rend(); ++at)
    if (at->name == kModelNodes) return &*at;
  return nullptr;
}

std::span<const int64_t> numbers_in(const Attribute& attribute) {
  if (!attribute.ints.empty()) return attribute.ints;
  return {&attribute.i, size_t{1}};
}

}  // namespace

std::span<const int64_t> origins_of(const Node& node) {
  const Attribute* known = find_origins(node);
  return known != nullptr ? numbers_in(*known) : std::span<const int64_t>();
}

const ConstantRef& names_of_origins(const Node& node) {
  static const ConstantRef none;
  const Attribute* known = find_origins(node);
  return known != nullptr ? known->tensor : none;
}

Attribute& add_origin(Node& node, int64_t number, const ConstantRef& names) {
  Attribute& made = node.attributes.emplace_back();
  made.name = kModelNodes;
  made.kind = AttributeKind::kStrings;
  made.i = number;
  made.tensor = names;
  return made;
}

void add_origins(Node& node, std::vector<int64_t> numbers, const ConstantRef& names) {
  if (numbers.empty()) return;
  // Most nodes have one.
  if (numbers.size() == 1 && find_origins(node) == nullptr) {
    add_origin(node, numbers[0], names);
    return;
  }
  auto* known = const_cast<Attribute*>(find_origins(node));
  if (known == nullptr) {
    known = &add_origin(node, numbers[0], names);
  } else {
    const std::span<const int64_t> before = numbers_in(*known);
    numbers.insert(numbers.end(), before.begin(), before.end());
  }
  std::sort(numbers.begin(), numbers.end());
  numbers.erase(std::unique(numbers.begin(), numbers.end()), numbers.end());
  known->i = numbers[0];
  known->ints = numbers.size() > 1 ? std::move(numbers) : std::vector<int64_t>();
}

void take_origins(Node& to, const Node& from) {
  const std::span<const int64_t> more = origins_of(from);
  add_origins(to, {more.begin(), more.end()}, names_of_origins(from));
}

std::optional<Attribute> remove_origins(Node& node) {
  const Attribute* known = find_origins(node);
  if (known == nullptr) return std::nullopt;
  const auto at = node.attributes.begin() + (known - node.attributes.data());
  std::optional<Attribute> origins = std::move(*at);
  node.attributes.erase(at);
  return origins;
}

std::vector<std::string> model_nodes_of(const Node& node) {
  const std::span<const int64_t> numbers = origins_of(node);
  const ConstantRef& known = names_of_origins(node);
  if (numbers.empty() || known == nullptr) return {};
  const std::span<const std::string> names = known->strings;
  if (numbers.size() == 1 && (names[numbers[0]] == node.name || node.domain != "tenon")) return {};
  std::vector<std::string> listed;
  listed.reserve(numbers.size());
  for (const int64_t number : numbers) listed.push_back(names[number]);
  return listed;
}

}  // namespace tenon
