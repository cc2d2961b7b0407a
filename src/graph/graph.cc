#include "graph/graph.h"

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <queue>

#include "graph/huge_chunk.h"

namespace tenon {

namespace {

constexpr size_t kConstantAlignment = 64;
constexpr size_t kNamedCycleNodes = 8;  // a longer cycle is cut in the message

Attribute& find_or_add(AttributeList& attributes, std::string_view name) {
  std::vector<Attribute>& list = attributes.edit();
  for (Attribute& attribute : list)
    if (attribute.name == name) return attribute;
  return list.emplace_back(Attribute{.name = std::string(name)});
}

// Calls `use(id)` for every value of the enclosing graph that `node` reads: its inputs, and what its subgraphs capture.
template <typename Use>
void for_each_read(const Node& node, Use&& use) {
  for (ValueId id : node.inputs)
    if (id != kNoValue) use(id);
  for (const Attribute& attribute : node.attributes) {
    if (!attribute.graph) continue;
    for (const auto& [outer, inner] : attribute.graph->captures) use(outer);
  }
}

// Walks from an unsorted node to one that it waits for, until a node repeats: that is a cycle.
std::string cycle_text(const Graph& graph, const PerValue<NodeId>& producer, const PerNode<bool>& sorted) {
  NodeId at(0);
  while (sorted.contains(at) && sorted[at]) ++at;
  std::vector<NodeId> path;
  PerNode<int32_t> place(graph.nodes.size(), -1);
  while (place[at] < 0) {
    place[at] = static_cast<int32_t>(path.size());
    path.push_back(at);
    NodeId next = at;
    for_each_read(graph.nodes[at], [&](ValueId id) {
      const NodeId from = producer[id];
      if (from.valid() && !sorted[from]) next = from;
    });
    at = next;
  }
  path.erase(path.begin(), path.begin() + place[at]);
  std::reverse(path.begin(), path.end());
  std::string text;
  for (size_t i = 0; i < std::min(path.size(), kNamedCycleNodes); ++i) {
    if (i > 0) text += ", ";
    text += graph.nodes[path[i]].label(graph);
  }
  if (path.size() > kNamedCycleNodes) text += format(" and {} more", path.size() - kNamedCycleNodes);
  return text;
}

}  // namespace

Result<ConstantRef> make_constant(DataType type, const Shape& shape, std::byte** mutable_data, Fill fill) {
  TENON_TRY_ASSIGN(const size_t size_bytes, tensor_size_bytes(type, shape));
  auto constant = std::make_shared<Constant>();
  constant->type = type;
  constant->shape = shape;
  constant->size_bytes = size_bytes;
  *mutable_data = nullptr;
  constexpr size_t kHugeFrom = 2 * kHugePage;
  if (size_bytes >= kHugeFrom && size_bytes <= SIZE_MAX - kSmallPage) {
    const std::shared_ptr<std::byte> memory = huge_chunk((size_bytes + kSmallPage - 1) / kSmallPage * kSmallPage);
    if (memory == nullptr)
      return resource_exhausted("There is no memory for a constant of {} bytes ({} {}).", size_bytes,
                                data_type_name(type), shape.to_string());
    constant->owner = memory;
    constant->data = *mutable_data = memory.get();
  } else if (size_bytes > 0) {
    const auto alignment = static_cast<std::align_val_t>(kConstantAlignment);
    void* memory = ::operator new(size_bytes, alignment, std::nothrow);
    if (memory == nullptr) {
      return resource_exhausted("There is no memory for a constant of {} bytes ({} {}).", size_bytes,
                                data_type_name(type), shape.to_string());
    }
    constant->owner = std::shared_ptr<const void>(
        memory, [](const void* p) { ::operator delete(const_cast<void*>(p), std::align_val_t{kConstantAlignment}); });
    constexpr size_t kTouchFrom = size_t{64} << 10;
    if (size_bytes >= kTouchFrom) touch_pages(memory, size_bytes);
    if (fill == Fill::kZero) std::memset(memory, 0, size_bytes);
    *mutable_data = static_cast<std::byte*>(memory);
    constant->data = *mutable_data;
  }
  return ConstantRef(std::move(constant));
}

ConstantRef make_int64_constant(std::span<const int64_t> values, bool scalar) {
  TENON_CHECK(!scalar || values.size() == 1);
  auto owned = std::make_shared<const std::vector<int64_t>>(values.begin(), values.end());
  auto constant = std::make_shared<Constant>();
  constant->type = DataType::kInt64;
  if (!scalar) constant->shape = Shape{static_cast<int64_t>(values.size())};
  constant->data = reinterpret_cast<const std::byte*>(owned->data());
  constant->size_bytes = values.size_bytes();
  constant->owner = std::move(owned);
  return constant;
}

ConstantRef make_string_constant(const Shape& shape, std::vector<std::string> texts) {
  struct Held {
    std::vector<std::string> texts;
    std::vector<const std::string*> addresses;
  };
  TENON_CHECK(shape.element_count() == std::ssize(texts));
  auto held = std::make_shared<Held>();
  held->texts = std::move(texts);
  held->addresses.reserve(held->texts.size());
  for (const std::string& text : held->texts) held->addresses.push_back(&text);
  auto constant = std::make_shared<Constant>();
  constant->type = DataType::kString;
  constant->shape = shape;
  constant->strings = held->texts;
  constant->data = reinterpret_cast<const std::byte*>(held->addresses.data());
  constant->size_bytes = held->addresses.size() * sizeof(const std::string*);
  constant->owner = std::move(held);
  return constant;
}

bool Value::fully_known() const {
  return has_rank && dims.size() <= Shape::kMaxRank &&
         std::all_of(dims.begin(), dims.end(), [](const Dim& dim) { return dim.known(); });
}

Shape Value::shape() const {
  TENON_CHECK(fully_known());
  Shape shape;
  for (const Dim& dim : dims) shape.push_back(dim.value);
  return shape;
}

void Value::set_shape(const Shape& shape) {
  has_rank = true;
  dims.clear();
  for (int64_t dim : shape.dims()) dims.push_back(Dim{.value = dim});
}

void Value::set_object(ObjectTypeRef declared) {
  type = DataType::kObject;
  is_tensor = false;
  object = std::move(declared);
  set_shape({});
}

AttributeList::AttributeList(std::vector<Attribute> list)
    : list_(list.empty() ? nullptr : std::make_shared<std::vector<Attribute>>(std::move(list))) {}

std::vector<Attribute>& AttributeList::edit() {
  if (!list_) {
    list_ = std::make_shared<std::vector<Attribute>>();
  } else if (list_.use_count() > 1) {
    list_ = std::make_shared<std::vector<Attribute>>(*list_);
  }
  return *list_;
}

std::span<Attribute> AttributeList::edit_bodies() {
  if (std::none_of(begin(), end(), [](const Attribute& attribute) { return attribute.graph != nullptr; })) return {};
  return edit();
}

const Attribute* Node::find(std::string_view attribute) const {
  for (const Attribute& candidate : attributes)
    if (candidate.name == attribute) return &candidate;
  return nullptr;
}

std::span<const int64_t> Node::ints(std::string_view attribute) const {
  const Attribute* found = find(attribute);
  if (found == nullptr || found->kind != AttributeKind::kInts) return {};
  return found->ints;
}

void Node::set_int(std::string_view attribute, int64_t value) {
  Attribute& target = find_or_add(attributes, attribute);
  target.kind = AttributeKind::kInt;
  target.i = value;
}

void Node::set_float(std::string_view attribute, float value) {
  Attribute& target = find_or_add(attributes, attribute);
  target.kind = AttributeKind::kFloat;
  target.f = value;
}

void Node::set_string(std::string_view attribute, std::string value) {
  Attribute& target = find_or_add(attributes, attribute);
  target.kind = AttributeKind::kString;
  target.s = std::move(value);
}

void Node::set_ints(std::string_view attribute, std::vector<int64_t> value) {
  Attribute& target = find_or_add(attributes, attribute);
  target.kind = AttributeKind::kInts;
  target.ints = std::move(value);
}

std::string Node::label(const Graph& graph) const {
  std::string text = domain.empty() ? op_type : domain + "." + op_type;
  if (!name.empty()) return text.append(" \"").append(name).append("\"");
  for (ValueId id : outputs)
    if (id != kNoValue && !graph.value(id).name.empty())
      return text.append(" (output \"").append(graph.value(id).name).append("\")");
  return text;
}

ValueId Graph::add_value(Value value) {
  values.push_back(std::move(value));
  return ValueId(values.size() - 1);
}

ValueId Graph::add_constant(std::string constant_name, ConstantRef constant) {
  Value value;
  value.name = std::move(constant_name);
  value.type = constant->type;
  value.set_shape(constant->shape);
  value.constant = std::move(constant);
  return add_value(std::move(value));
}

int Graph::opset(std::string_view domain) const {
  if (domain == "ai.onnx") domain = "";
  for (const auto& [imported, version] : opsets)
    if (imported == domain) return version;
  return 0;
}

PerValue<NodeId> Graph::producers() const {
  PerValue<NodeId> producer(values.size());
  for (NodeId n : nodes.ids())
    for (ValueId id : nodes[n].outputs)
      if (id != kNoValue) producer[id] = n;
  return producer;
}

PerValue<int32_t> Graph::use_counts() const {
  PerValue<int32_t> uses(values.size(), 0);
  for (const Node& node : nodes) for_each_read(node, [&](ValueId id) { ++uses[id]; });
  for (ValueId id : outputs) ++uses[id];
  return uses;
}

Status Graph::sort_topologically() {
  const PerValue<NodeId> producer = producers();
  // Most models come sorted: then nothing moves and nothing more is allocated.
  bool in_order = true;
  for (NodeId n : nodes.ids()) {
    if (!in_order) break;
    for_each_read(nodes[n], [&](ValueId id) { in_order = in_order && producer[id] < n; });
  }
  if (in_order) return Status();

  PerNode<int32_t> waits_for(nodes.size(), 0);
  PerNode<std::vector<NodeId>> readers(nodes.size());
  for (NodeId n : nodes.ids()) {
    for_each_read(nodes[n], [&](ValueId id) {
      const NodeId from = producer[id];
      if (!from.valid()) return;
      ++waits_for[n];
      readers[from].push_back(n);
    });
  }
  // The smallest index first: the order changes as little as it must, and is always the same.
  std::priority_queue<NodeId, std::vector<NodeId>, std::greater<>> ready;
  for (NodeId n : nodes.ids())
    if (waits_for[n] == 0) ready.push(n);
  std::vector<NodeId> order;
  PerNode<bool> sorted(nodes.size(), false);
  order.reserve(nodes.size());
  while (!ready.empty()) {
    const NodeId at = ready.top();
    ready.pop();
    order.push_back(at);
    sorted[at] = true;
    for (NodeId reader : readers[at])
      if (--waits_for[reader] == 0) ready.push(reader);
  }
  TENON_INVALID_IF(order.size() != nodes.size(), "The graph \"{}\" has a cycle: {}.", name,
                   cycle_text(*this, producer, sorted));

  PerNode<Node> moved;
  moved.reserve(nodes.size());
  for (NodeId n : order) moved.push_back(std::move(nodes[n]));
  nodes = std::move(moved);
  return Status();
}

void Graph::remove_dead_nodes() {
  const PerValue<NodeId> producer = producers();
  PerNode<bool> alive(nodes.size(), false);
  std::vector<NodeId> stack;
  const auto read = [&](ValueId id) {
    const NodeId from = producer[id];
    if (!from.valid() || alive[from]) return;
    alive[from] = true;
    stack.push_back(from);
  };
  for (ValueId id : outputs) read(id);
  while (!stack.empty()) {
    const NodeId at = stack.back();
    stack.pop_back();
    for_each_read(nodes[at], read);
  }
  NodeId end(0);  // of those that stay
  for (NodeId n : nodes.ids()) {
    if (!alive[n]) continue;
    if (end != n) nodes[end] = std::move(nodes[n]);
    ++end;
  }
  nodes.resize(end.index());
}

}  // namespace tenon
