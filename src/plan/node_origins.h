// The model's nodes that a node of a graph stands for, by their numbers: those of the main graph in its order, then
// those of bodies. Names are looked up only for reports, profiles and traces.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "graph/graph.h"

namespace tenon {

// The attribute of a node that holds the numbers: one in Attribute::i, more in Attribute::ints, ascending, each once.
// Attribute::tensor has the names of all of the model's nodes (Constant::strings), shared by all attributes. Passes
// keep it; nothing that computes reads it.
inline constexpr std::string_view kModelNodes = "tenon.nodes";

// Empty where the node stands for none.
std::span<const int64_t> origins_of(const Node& node);
// `node` stands for these too, in any order, of the model with these names.
void add_origins(Node& node, std::vector<int64_t> numbers, const ConstantRef& names);
// For a node that stands for none yet.
Attribute& add_origin(Node& node, int64_t number, const ConstantRef& names);
// `to` stands for what `from` stood for, too.
void take_origins(Node& to, const Node& from);
// The names behind the numbers; null where the node stands for none.
const ConstantRef& names_of_origins(const Node& node);
// Takes the attribute out of the node, if it has one.
std::optional<Attribute> remove_origins(Node& node);

// The names of the model's nodes that `node` stands for; empty when it is the one of the node's own name.
std::vector<std::string> model_nodes_of(const Node& node);

}  // namespace tenon
