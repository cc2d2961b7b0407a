// A model in memory: values, nodes and constants. The reader makes it, passes change it, the planner reads it.
//
// Ownership: a Graph owns its values and nodes; constants are shared and immutable, so copying a graph copies no
// weight, and attributes are shared until they change. Threads: const access from any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <tenon/object_type.h>
#include <tenon/types.h>

#include "base/status.h"
#include "base/strong_id.h"
#include "graph/constant_data.h"

namespace tenon {

// A value of a graph.
using ValueId = StrongId<struct ValueTag>;
inline constexpr ValueId kNoValue = ValueId::none();  // an optional input or output that is absent

template <typename T>
using PerValue = IdVector<ValueId, T>;

// A node of a graph. Nodes that are added, moved or dropped change the ids.
using NodeId = StrongId<struct NodeTag>;
inline constexpr NodeId kNoNode = NodeId::none();

template <typename T>
using PerNode = IdVector<NodeId, T>;

// How a tensor's elements lie. kBlocked8: [N][ceil(C/8)][spatial...][8], of rank 3 or more; the missing channels of
// float32 are zero, those of uint8 and int8 hold anything. Shapes are always the logical ones (N, C, spatial...).
enum class Layout : uint8_t { kPlain, kBlocked8 };

// A dimension: a number, or a symbol (two dimensions with the same symbol are equal at run time), or unknown.
struct Dim {
  int64_t value = -1;  // >= 0: known
  std::string symbol;  // for unknown values; may be empty
  bool known() const { return value >= 0; }
  friend bool operator==(const Dim&, const Dim&) = default;
};

// A tensor's bytes that do not change: an initializer, a Constant node, a folded value.
struct Constant {
  DataType type = DataType::kUndefined;
  Shape shape;
  ConstantData data;  // aligned to the element; size_bytes long. Null only for 0 bytes.
  size_t size_bytes = 0;
  std::shared_ptr<const void> owner;  // the mapping, or the buffer that was made
  bool in_file = false;               // lies in the mapped model: may be dropped from residency once packed
  // For DataType::kString: the texts, which `owner` holds; `data` has the address of each (tenon/object.h).
  std::span<const std::string> strings;

  template <typename T>
  std::span<const T> as() const {
    return {reinterpret_cast<const T*>(static_cast<const std::byte*>(data)), size_bytes / sizeof(T)};
  }
};
using ConstantRef = std::shared_ptr<const Constant>;

// What memory holds before its owner writes it.
enum class Fill : uint8_t { kZero, kNothing };

// Allocates 64-byte aligned memory; `mutable_data` receives the address to fill before it is shared.
// Fill::kNothing is for a caller that writes every byte: the zeros would be written for nothing.
Result<ConstantRef> make_constant(DataType type, const Shape& shape, std::byte** mutable_data, Fill fill = Fill::kZero);
// An int64 vector (or scalar if `scalar`).
ConstantRef make_int64_constant(std::span<const int64_t> values, bool scalar = false);
// A tensor of strings; `texts` has one for each element.
ConstantRef make_string_constant(const Shape& shape, std::vector<std::string> texts);

struct Value {
  std::string name;
  DataType type = DataType::kUndefined;  // kUndefined: not known (yet), or not a tensor
  bool is_tensor = true;                 // false: a sequence, optional or map, or of a kind that is not run
  ObjectTypeRef object;                  // of a sequence, optional or map; `type` is then kObject, and it is a scalar
  bool has_rank = false;
  std::vector<Dim> dims;
  ConstantRef constant;  // set: this value is known
  Layout layout = Layout::kPlain;

  bool fully_known() const;  // has a rank and every dimension is a number
  Shape shape() const;       // only when fully_known()
  void set_shape(const Shape& shape);
  void set_object(ObjectTypeRef declared);
  std::string type_text() const;  // "float32[N,3,736,960]"
};

class Graph;

enum class AttributeKind : uint8_t { kFloat, kInt, kString, kTensor, kGraph, kFloats, kInts, kStrings, kOther };

struct Attribute {
  std::string name;
  AttributeKind kind = AttributeKind::kInt;
  float f = 0;
  int64_t i = 0;
  std::string s;
  std::vector<float> floats;
  std::vector<int64_t> ints;
  std::vector<std::string> strings;
  ConstantRef tensor;
  std::shared_ptr<Graph> graph;
  ObjectTypeRef type;  // of kOther: a type, where the attribute is one
  // Of kOther, `s` is the attribute's message without its name, where the reader keeps it for write_model().
};

// The model's nodes that a node of a changed graph stands for. See plan/node_origins.h.
struct NodeOrigins {
  std::vector<int64_t> numbers;  // ascending, each once
  ConstantRef names;             // of all of the model's nodes (Constant::strings); all origins share it
};

// The attributes of a node. Copies share them until one is changed: a plan's copies of a graph copy no attribute.
// Threads: const access from any thread; copies may be changed at once.
class AttributeList {
 public:
  AttributeList() = default;
  AttributeList(std::vector<Attribute> list);
  AttributeList(std::initializer_list<Attribute> list) : AttributeList(std::vector<Attribute>(list)) {}

  size_t size() const { return list_ ? list_->size() : 0; }
  bool empty() const { return size() == 0; }
  const Attribute* begin() const { return list_ ? list_->data() : nullptr; }
  const Attribute* end() const { return begin() + size(); }
  const Attribute& operator[](size_t i) const { return (*list_)[i]; }
  void clear() { list_ = nullptr; }
  // The list of this copy alone, to change. Without a change to make, it is copied for nothing.
  std::vector<Attribute>& edit();
  // edit() if there is a body among them, else nothing: for loops that change bodies. A body that is not this copy's
  // alone (its use_count() is above 1) has to be copied first.
  std::span<Attribute> edit_bodies();

 private:
  std::shared_ptr<std::vector<Attribute>> list_;  // null: none
};

struct Node {
  std::string name;  // may be empty
  std::string op_type;
  std::string domain;     // "" is ai.onnx; "tenon" is docs/reference/internal-operators.md
  int since_version = 0;  // of the schema that applies; 1 for domain "tenon"
  std::vector<ValueId> inputs;
  std::vector<ValueId> outputs;
  AttributeList attributes;
  // Documentation and metadata, as fields of the node's message, where the reader keeps them for write_model(); or
  // null.
  std::shared_ptr<const std::string> notes = nullptr;
  std::shared_ptr<const NodeOrigins> origins = nullptr;  // null: it stands for itself, or for none

  // Null when absent. Attributes of ops/attributes.h reads values, with the defaults of the operator's schema.
  const Attribute* find(std::string_view attribute) const;
  std::span<const int64_t> ints(std::string_view attribute) const;  // empty when absent
  bool has(std::string_view attribute) const { return find(attribute) != nullptr; }
  ValueId input(size_t index) const { return index < inputs.size() ? inputs[index] : kNoValue; }

  void set_int(std::string_view attribute, int64_t value);
  void set_float(std::string_view attribute, float value);
  void set_string(std::string_view attribute, std::string value);
  void set_ints(std::string_view attribute, std::vector<int64_t> value);
  // "Conv \"conv1\"" or "Conv (output \"y\")" for messages.
  std::string label(const Graph& graph) const;
};

class Graph {
 public:
  std::string name;
  PerValue<Value> values;
  PerNode<Node> nodes;          // in an order in which every input comes before its use
  std::vector<ValueId> inputs;  // without initializers
  std::vector<ValueId> outputs;
  // Subgraphs only: values of the enclosing graph that this one reads: {outer id, inner id}.
  std::vector<std::pair<ValueId, ValueId>> captures;
  // Opset version by domain ("" is ai.onnx), of the model.
  std::vector<std::pair<std::string, int>> opsets;

  ValueId add_value(Value value);
  ValueId add_constant(std::string name, ConstantRef constant);
  Value& value(ValueId id) { return values[id]; }
  const Value& value(ValueId id) const { return values[id]; }
  int opset(std::string_view domain) const;  // 0 when not imported

  // The node that makes each value, kNoNode for inputs and constants.
  PerValue<NodeId> producers() const;
  // How many node inputs (captures of subgraphs included) and graph outputs read each value.
  PerValue<int32_t> use_counts() const;
  // Reorders so that every input comes before its use; nodes stay in order where they may. An error names a cycle's
  // nodes.
  Status sort_topologically();
  // Drops nodes whose outputs nobody reads. Values stay, so that ids stay.
  void remove_dead_nodes();
  // One line a node: `%y:float32[1,8] = Conv@11(%x, %w) {strides=[1,1]}`; constants as `%w:float32[8,3,3,3]=const`.
  // Deterministic: golden tests compare it.
  std::string to_text() const;
};

}  // namespace tenon
