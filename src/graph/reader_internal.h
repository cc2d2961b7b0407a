// Declarations shared by the reader's files. Messages are views into the model's bytes, which `ReadContext::owner`
// holds.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "graph/copy_arena.h"
#include "graph/graph.h"
#include "graph/mapped_file.h"
#include "graph/reader.h"

namespace tenon::reader {

struct NamedConstant {
  std::string_view name;
  ConstantRef constant;
};

// One read of one model.
struct ReadContext {
  const ReaderLimits& limits;
  const ReaderReplacements& replacements;
  GraphNotes notes = {};
  std::shared_ptr<const void> owner;
  bool in_file = false;  // the bytes are a mapped file
  ExternalFiles external;
  // A node of a subgraph may make a value that hides one of an enclosing graph. ONNX Runtime's own format has such
  // subgraphs: casts that it inserts are named by what they read.
  bool may_hide = false;
  CopyArena copies;
  size_t dense_bytes = 0;  // of the sparse tensors so far
  // Tensors by their message, when functions may have them read more than once.
  bool keep_tensors = false;
  std::unordered_map<const char*, NamedConstant> tensors;
};

// Domain ("" is ai.onnx) and version.
using Opsets = std::vector<std::pair<std::string, int>>;
int opset_of(const Opsets& opsets, std::string_view domain);
Status add_opset_import(Opsets& opsets, std::string_view message);
// "ai.onnx" is "".
std::string_view plain_domain(std::string_view domain);

// A name from the model: UTF-8, within the limit. `what` is "node", "input", ... for the message.
Status check_name(const ReadContext& context, std::string_view name, const char* what);

// Any enum number that data_type_name() knows, kUndefined included.
Result<DataType> to_data_type(int64_t number);

// TensorProto. The data is a view where it is raw and aligned, else decoded.
Result<NamedConstant> read_tensor(ReadContext& context, std::string_view message);

// The same, or what the program put in its place.
Result<NamedConstant> read_initializer(ReadContext& context, std::string_view message);

// SparseTensorProto, as a dense tensor whose other elements are 0. Its name is that of its values.
// Errors: indices that are no integers, do not increase or lie outside; strings; more bytes than kLargestDense for all
// sparse tensors of a model.
Result<NamedConstant> read_sparse_tensor(ReadContext& context, std::string_view message);

// TypeProto into the value's type, rank and dimensions.
Status read_type(const ReadContext& context, std::string_view message, Value& value);

// AttributeProto. A graph is not read yet: `graph` is its message.
struct ParsedAttribute {
  Attribute attribute;  // a sparse tensor is its dense form
  std::string_view graph;
  std::string_view reference;  // ref_attr_name, or ""
};
Result<ParsedAttribute> read_attribute(ReadContext& context, std::string_view message);

// The documentation and metadata of a NodeProto, as its fields; null for one without them.
std::shared_ptr<const std::string> read_node_notes(std::string_view message);

// Keeps the documentation and metadata of a TensorProto for a model that is read for writing; those of a Constant node
// for its tensor, whose own documentation counts where it has one.
void keep_tensor_notes(ReadContext& context, std::string_view message, const ConstantRef& constant);
void keep_constant_node_notes(ReadContext& context, std::string_view message, const ConstantRef& constant);

// FunctionProto, its nodes not read yet.
struct Function {
  std::string_view domain, name, overload;
  std::vector<std::string_view> inputs, outputs, attributes, nodes;
  std::vector<std::string_view> defaults;  // AttributeProto messages
  Opsets opsets;
  std::string label() const;  // "com.example.Norm"
};
Result<Function> read_function(ReadContext& context, std::string_view message);

struct NodeFields {
  std::string_view name, op_type, domain, overload;
  std::vector<std::string_view> inputs, outputs, attributes;
  std::string_view message;
};
NodeFields split_node(std::string_view message);

struct GraphFields {
  std::string_view name, doc_string;
  std::vector<std::string_view> nodes, initializers, sparse_initializers, inputs, outputs, value_infos;
};
Result<GraphFields> split_graph(std::string_view message);

// ValueInfoProto, and its name as a view into the message.
std::string_view value_info_name(std::string_view message);
Result<Value> read_value_info(const ReadContext& context, std::string_view message);
// The denotations of its dimensions, of which most models have none, added to `denotations` for the value `id`.
void read_denotations(std::string_view message, ValueId id, std::vector<DimDenotation>& denotations);

// The constant that a Constant node's attribute holds.
Result<ConstantRef> read_constant_node(const ParsedAttribute& attribute);

// GraphProto with everything below it; calls of `functions` are inlined.
Result<Graph> read_graph(ReadContext& context, std::string_view message, const Opsets& opsets,
                         const std::vector<Function>& functions);

}  // namespace tenon::reader
