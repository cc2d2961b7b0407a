#include "plan/node_origins.h"

#include <algorithm>
#include <utility>

namespace tenon {

std::span<const int64_t> origins_of(const Node& node) {
  return node.origins != nullptr ? std::span<const int64_t>(node.origins->numbers) : std::span<const int64_t>();
}

ConstantRef names_of_origins(const Node& node) { return node.origins != nullptr ? node.origins->names : nullptr; }

void add_origins(Node& node, std::vector<int64_t> numbers, const ConstantRef& names) {
  if (numbers.empty()) return;
  const std::span<const int64_t> before = origins_of(node);
  numbers.insert(numbers.end(), before.begin(), before.end());
  std::sort(numbers.begin(), numbers.end());
  numbers.erase(std::unique(numbers.begin(), numbers.end()), numbers.end());
  const ConstantRef known = node.origins != nullptr ? node.origins->names : names;
  node.origins = std::make_shared<const NodeOrigins>(NodeOrigins{.numbers = std::move(numbers), .names = known});
}

void take_origins(Node& to, const Node& from) {
  if (to.origins == nullptr || from.origins == to.origins) {
    to.origins = from.origins;
    return;
  }
  const std::span<const int64_t> more = origins_of(from);
  add_origins(to, {more.begin(), more.end()}, names_of_origins(from));
}

std::vector<std::string> model_nodes_of(const Node& node) {
  const std::span<const int64_t> numbers = origins_of(node);
  const ConstantRef known = names_of_origins(node);
  if (numbers.empty() || known == nullptr) return {};
  const std::span<const std::string> names = known->strings;
  if (numbers.size() == 1 && (names[numbers[0]] == node.name || node.domain != "tenon")) return {};
  std::vector<std::string> listed;
  listed.reserve(numbers.size());
  for (const int64_t number : numbers) listed.push_back(names[number]);
  return listed;
}

}  // namespace tenon
