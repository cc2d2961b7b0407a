#include "graph/symbols.h"

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <memory>
#include <unordered_set>
#include <vector>

#include "base/format.h"

namespace tenon {

namespace {

// No text that a person writes has it; a model's name that does is only shown shorter.
constexpr char kSeparator = '\x1f';

class Separator {
 public:
  void run(Graph& graph, bool outermost) {
    PerValue<bool> done(graph.values.size(), false);
    for (ValueId id : graph.inputs) {
      separate(graph.value(id), outermost);
      done[id] = true;
    }
    for (ValueId id : graph.values.ids())
      if (!done[id]) separate(graph.value(id), false);
    for (Node& node : graph.nodes) {
      for (Attribute& attribute : node.attributes.edit_bodies()) {
        if (!attribute.graph) continue;
        if (attribute.graph.use_count() > 1) attribute.graph = std::make_shared<Graph>(*attribute.graph);
        run(*attribute.graph, false);
      }
    }
  }

 private:
  // New names differ in their numbers, so only names that are kept have to be remembered.
  void separate(Value& value, bool may_keep) {
    for (Dim& dim : value.dims) {
      if (dim.known() || dim.symbol.empty()) continue;
      const size_t end = declared_symbol(dim.symbol).size();
      if (may_keep && end == dim.symbol.size() && kept_.insert(dim.symbol).second) continue;
      do {
        dim.symbol.resize(end);
        dim.symbol += kSeparator;
        dim.symbol += std::to_string(++number_);
      } while (may_keep ? !kept_.insert(dim.symbol).second : kept_.contains(dim.symbol));
    }
  }

  std::unordered_set<std::string> kept_;
  size_t number_ = 0;
};

}  // namespace

void separate_symbols(Graph& graph) { Separator().run(graph, true); }

std::string_view declared_symbol(std::string_view symbol) { return symbol.substr(0, symbol.find(kSeparator)); }

std::string own_symbol(std::string_view name, ValueId id, size_t axis) {
  return name.empty() ? "" : format("{}{}v{}.{}", declared_symbol(name), kSeparator, id, axis);
}

std::string new_symbol() {
  static std::atomic<uint64_t> last = 0;
  return format("{}u{}", kSeparator, last.fetch_add(1, std::memory_order_relaxed) + 1);
}

}  // namespace tenon
