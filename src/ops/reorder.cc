#include "ops/reorder.h"

#include "ops/attributes.h"

namespace tenon {

bool is_reorder(const Node& node) { return node.op_type == "Reorder" && node.domain == "tenon"; }

Result<Layout> read_reorder(const Node& node) {
  const std::string_view to = Attributes(node).find_text("to").value_or("");
  if (to == "plain") return Layout::kPlain;
  if (to == "blocked8") return Layout::kBlocked8;
  return invalid_argument("Reorder has the unknown layout \"{}\".", to);
}

Node make_reorder_node(ValueId x, ValueId y, Layout layout) {
  Node node;
  node.op_type = "Reorder";
  node.domain = "tenon";
  node.since_version = 1;
  node.inputs = {x};
  node.outputs = {y};
  node.set_string("to", layout == Layout::kPlain ? "plain" : "blocked8");
  return node;
}

}  // namespace tenon
