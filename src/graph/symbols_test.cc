#include "graph/symbols.h"

#include <memory>
#include <set>

#include "base/testing.h"

namespace tenon {
namespace {

ValueId add(Graph& graph, const char* name, const std::vector<const char*>& symbols) {
  Value value;
  value.name = name;
  value.type = DataType::kFloat;
  value.has_rank = true;
  for (const char* symbol : symbols) value.dims.push_back(Dim{-1, symbol});
  return graph.add_value(value);
}

std::vector<std::string> symbols_of(const Graph& graph) {
  std::vector<std::string> symbols;
  for (const Value& value : graph.values)
    for (const Dim& dim : value.dims)
      if (!dim.symbol.empty()) symbols.push_back(dim.symbol);
  return symbols;
}

TEST(Symbols, EachPlaceOfANameIsADimensionOfItsOwn) {
  Graph graph;
  graph.inputs = {add(graph, "a", {"n", "n"}), add(graph, "b", {"n", "m", ""})};
  add(graph, "inside", {"m"});
  separate_symbols(graph);
  const std::vector<std::string> symbols = symbols_of(graph);
  EXPECT_EQ(std::set<std::string>(symbols.begin(), symbols.end()).size(), symbols.size());
  EXPECT_EQ(graph.value(ValueId(0)).dims[0].symbol, "n");  // the first stays as it is
  EXPECT_EQ(graph.value(ValueId(1)).dims[1].symbol, "m");
  EXPECT_EQ(declared_symbol(graph.value(ValueId(0)).dims[1].symbol), "n");
  EXPECT_EQ(declared_symbol(graph.value(ValueId(1)).dims[0].symbol), "n");
  EXPECT_EQ(declared_symbol(graph.value(ValueId(2)).dims[0].symbol), "m");
  EXPECT_EQ(graph.value(ValueId(1)).dims[2].symbol, "");
  EXPECT_EQ(graph.value(ValueId(0)).type_text(), "float32[n,n]");
}

TEST(Symbols, BodiesAreSeparatedFromTheGraphAroundThem) {
  Graph graph;
  graph.inputs = {add(graph, "a", {"n"})};
  auto body = std::make_shared<Graph>();
  body->inputs = {add(*body, "v", {"n"})};
  graph.nodes.emplace_back().attributes.edit().push_back(
      {.name = "body", .kind = AttributeKind::kGraph, .graph = body});
  separate_symbols(graph);
  const Graph& separated = *graph.nodes[NodeId(0)].attributes[0].graph;
  EXPECT_NE(separated.value(ValueId(0)).dims[0].symbol, "n");
  EXPECT_EQ(declared_symbol(separated.value(ValueId(0)).dims[0].symbol), "n");
  EXPECT_EQ(body->value(ValueId(0)).dims[0].symbol, "n");  // others' copies of the body stay as they are
}

// A model may name a dimension like what separation makes; the two are still not one.
TEST(Symbols, NamesThatLookSeparatedAreSeparatedToo) {
  Graph graph;
  graph.inputs = {add(graph, "a",
                      {"n", "n",
                       "n\x1f"
                       "1",
                       "n\x1f"
                       "1"})};
  separate_symbols(graph);
  const std::vector<std::string> symbols = symbols_of(graph);
  EXPECT_EQ(std::set<std::string>(symbols.begin(), symbols.end()).size(), 4u);
}

TEST(Symbols, AnOwnSymbolIsTheValuesAndTheAxis) {
  EXPECT_NE(own_symbol("n", ValueId(1), 0), own_symbol("n", ValueId(1), 1));
  EXPECT_NE(own_symbol("n", ValueId(1), 0), own_symbol("n", ValueId(2), 0));
  EXPECT_EQ(declared_symbol(own_symbol("n", ValueId(1), 0)), "n");
  EXPECT_EQ(own_symbol("", ValueId(1), 0), "");
}

TEST(Symbols, ANewSymbolIsNoOtherAndHasNoName) {
  const std::string first = new_symbol(), second = new_symbol();
  EXPECT_NE(first, second);
  EXPECT_EQ(declared_symbol(first), "");
  // A model cannot claim it.
  Graph graph;
  graph.inputs = {add(graph, "a", {first.c_str()})};
  separate_symbols(graph);
  EXPECT_NE(graph.value(ValueId(0)).dims[0].symbol, first);
  graph.value(ValueId(0)).dims[0].symbol = first;
  EXPECT_EQ(graph.value(ValueId(0)).type_text(), "float32[?]");
}

}  // namespace
}  // namespace tenon
