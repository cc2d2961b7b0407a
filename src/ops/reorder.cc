#include "ops/reorder.h"

#include "ops/attributes.h"

namespace tenon {

bool is_reorder(const Node& node) { return node.op_type == "Reorder" && node.domain == "tenon"; }

Result<ReorderDesc> read_reorder(const Node& node) {
  const Attributes attributes(node);
  const std::string_view to = attributes.find_text("to").value_or("");
  if (to != "plain" && to != "blocked8") return invalid_argument("Reorder has the unknown layout \"{}\".", to);
  return ReorderDesc{to == "plain" ? Layout::kPlain : Layout::kBlocked8, attributes.flag("channels_last")};
}

void write_reorder(Node& node, ValueId x, const ReorderDesc& desc) {
  node.op_type = "Reorder";
  node.domain = "tenon";
  node.since_version = 1;
  node.inputs = {x};
  node.attributes.clear();
  node.set_string("to", desc.to == Layout::kPlain ? "plain" : "blocked8");
  if (desc.channels_last) node.set_int("channels_last", 1);
}

Node make_reorder_node(ValueId x, ValueId y, Layout layout) {
  Node node;
  node.outputs = {y};
  write_reorder(node, x, {.to = layout});
  return node;
}

}  // namespace tenon
