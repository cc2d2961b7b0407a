// The model's nodes that a node of a graph stands for, by their numbers: those of the main graph in its order, then
// those of bodies. Passes keep them; nothing that computes reads them. Names are looked up only for reports, profiles
// and traces.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "graph/graph.h"

namespace tenon {

// Empty where the node stands for none.
std::span<const int64_t> origins_of(const Node& node);
// `node` stands for these too, in any order, of the model with these names.
void add_origins(Node& node, std::vector<int64_t> numbers, const ConstantRef& names);
// `to` stands for what `from` stood for, too.
void take_origins(Node& to, const Node& from);
// The names behind the numbers; null where the node stands for none.
ConstantRef names_of_origins(const Node& node);

// The names of the model's nodes that `node` stands for; empty when it is the one of the node's own name.
std::vector<std::string> model_nodes_of(const Node& node);

}  // namespace tenon
