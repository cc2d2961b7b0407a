// Writes ONNX models for tests, valid and invalid. Each function returns one serialised message.
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <protozero/pbf_writer.hpp>
#include <span>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "graph/proto.h"

namespace tenon::model_writer {

using Texts = std::vector<std::string>;

template <typename Write>
std::string message(Write&& write) {
  std::string data;
  protozero::pbf_writer writer(data);
  write(writer);
  return data;
}

inline std::string attribute(std::string_view name, int type, auto&& write_value) {
  return message([&](protozero::pbf_writer& to) {
    to.add_string(proto::AttributeProto::kName, name.data(), name.size());
    write_value(to);
    to.add_int32(proto::AttributeProto::kType, type);
  });
}
inline std::string int_attribute(std::string_view name, int64_t value) {
  return attribute(name, 2, [&](auto& to) { to.add_int64(proto::AttributeProto::kI, value); });
}
inline std::string float_attribute(std::string_view name, float value) {
  return attribute(name, 1, [&](auto& to) { to.add_float(proto::AttributeProto::kF, value); });
}
inline std::string string_attribute(std::string_view name, const std::string& value) {
  return attribute(name, 3, [&](auto& to) { to.add_bytes(proto::AttributeProto::kS, value); });
}
inline std::string ints_attribute(std::string_view name, const std::vector<int64_t>& values) {
  return attribute(name, 7, [&](auto& to) {
    for (int64_t value : values) to.add_int64(proto::AttributeProto::kInts, value);
  });
}
inline std::string floats_attribute(std::string_view name, const std::vector<float>& values) {
  return attribute(
      name, 6, [&](auto& to) { to.add_packed_float(proto::AttributeProto::kFloats, values.begin(), values.end()); });
}
inline std::string strings_attribute(std::string_view name, const Texts& values) {
  return attribute(name, 8, [&](auto& to) {
    for (const std::string& value : values) to.add_bytes(proto::AttributeProto::kStrings, value);
  });
}
inline std::string tensor_attribute(std::string_view name, const std::string& tensor) {
  return attribute(name, 4, [&](auto& to) { to.add_message(proto::AttributeProto::kT, tensor); });
}
inline std::string graph_attribute(std::string_view name, const std::string& graph) {
  return attribute(name, 5, [&](auto& to) { to.add_message(proto::AttributeProto::kG, graph); });
}
inline std::string tensors_attribute(std::string_view name, const Texts& tensors) {
  return attribute(name, 9, [&](auto& to) {
    for (const std::string& tensor : tensors) to.add_message(proto::AttributeProto::kTensors, tensor);
  });
}
inline std::string graphs_attribute(std::string_view name, const Texts& graphs) {
  return attribute(name, 10, [&](auto& to) {
    for (const std::string& graph : graphs) to.add_message(proto::AttributeProto::kGraphs, graph);
  });
}
inline std::string reference_attribute(std::string_view name, int type, const std::string& of_function) {
  return attribute(name, type, [&](auto& to) { to.add_string(proto::AttributeProto::kRefAttrName, of_function); });
}

// The part of a TensorProto that says what it is; `write_data` adds the elements.
inline std::string tensor(const std::string& name, int type, const std::vector<int64_t>& dims, auto&& write_data) {
  return message([&](protozero::pbf_writer& to) {
    for (int64_t dim : dims) to.add_int64(proto::TensorProto::kDims, dim);
    to.add_int32(proto::TensorProto::kDataType, type);
    to.add_string(proto::TensorProto::kName, name);
    write_data(to);
  });
}
template <typename T>
std::string raw_tensor(const std::string& name, int type, const std::vector<int64_t>& dims,
                       const std::vector<T>& data) {
  return tensor(name, type, dims, [&](auto& to) {
    to.add_bytes(proto::TensorProto::kRawData, reinterpret_cast<const char*>(data.data()), data.size() * sizeof(T));
  });
}
inline std::string external_tensor(const std::string& name, int type, const std::vector<int64_t>& dims,
                                   const std::vector<std::pair<std::string, std::string>>& entries) {
  return tensor(name, type, dims, [&](auto& to) {
    for (const std::pair<std::string, std::string>& pair : entries) {
      to.add_message(proto::TensorProto::kExternalData, message([&](auto& entry) {
                       entry.add_string(proto::EntryProto::kKey, pair.first);
                       entry.add_string(proto::EntryProto::kValue, pair.second);
                     }));
    }
    to.add_int32(proto::TensorProto::kDataLocation, 1);
  });
}

inline std::string sparse_tensor(const std::string& values, const std::string& indices,
                                 const std::vector<int64_t>& dims) {
  return message([&](auto& to) {
    to.add_message(proto::SparseTensorProto::kValues, values);
    to.add_message(proto::SparseTensorProto::kIndices, indices);
    for (int64_t dim : dims) to.add_int64(proto::SparseTensorProto::kDims, dim);
  });
}

// A dimension: a number or a symbol.
using DimText = std::variant<int64_t, std::string>;
inline std::string tensor_type(int type, const std::vector<DimText>& dims) {
  const std::string shape = message([&](auto& to) {
    for (const DimText& dim : dims) {
      to.add_message(proto::TypeProto::kDim, message([&](auto& one) {
                       if (const auto* number = std::get_if<int64_t>(&dim)) {
                         one.add_int64(proto::TypeProto::kDimValue, *number);
                       } else {
                         one.add_string(proto::TypeProto::kDimParam, std::get<std::string>(dim));
                       }
                     }));
    }
  });
  const std::string body = message([&](auto& to) {
    to.add_int32(proto::TypeProto::kElementType, type);
    to.add_message(proto::TypeProto::kShape, shape);
  });
  return message([&](auto& to) { to.add_message(proto::TypeProto::kTensor, body); });
}
inline std::string value_info(const std::string& name, const std::string& type) {
  return message([&](auto& to) {
    to.add_string(proto::ValueInfoProto::kName, name);
    if (!type.empty()) to.add_message(proto::ValueInfoProto::kType, type);
  });
}
inline std::string float_info(const std::string& name, const std::vector<DimText>& dims = {int64_t{2}}) {
  return value_info(name, tensor_type(1, dims));
}

struct NodeText {
  std::string op_type;
  Texts inputs, outputs;
  Texts attributes = {};
  std::string name = "";
  std::string domain = "";
  std::string overload = "";
  std::string doc_string = "";
  std::vector<std::pair<std::string, std::string>> metadata = {};
};
inline std::string node(const NodeText& text) {
  return message([&](auto& to) {
    for (const std::string& input : text.inputs) to.add_string(proto::NodeProto::kInput, input);
    for (const std::string& output : text.outputs) to.add_string(proto::NodeProto::kOutput, output);
    if (!text.name.empty()) to.add_string(proto::NodeProto::kName, text.name);
    to.add_string(proto::NodeProto::kOpType, text.op_type);
    for (const std::string& one : text.attributes) to.add_message(proto::NodeProto::kAttribute, one);
    if (!text.domain.empty()) to.add_string(proto::NodeProto::kDomain, text.domain);
    if (!text.overload.empty()) to.add_string(proto::NodeProto::kOverload, text.overload);
    if (!text.doc_string.empty()) to.add_string(proto::NodeProto::kDocString, text.doc_string);
    for (const auto& [key, value] : text.metadata) {
      to.add_message(proto::NodeProto::kMetadata, message([&, &key = key, &value = value](auto& entry) {
                       entry.add_string(proto::EntryProto::kKey, key);
                       entry.add_string(proto::EntryProto::kValue, value);
                     }));
    }
  });
}

struct GraphText {
  Texts nodes, inputs, outputs, initializers = {}, value_infos = {}, sparse_initializers = {};
};
inline std::string graph(const GraphText& text, const std::string& name = "g") {
  return message([&](auto& to) {
    const auto add = [&](uint32_t field, const Texts& messages) {
      for (const std::string& one : messages) to.add_message(field, one);
    };
    add(proto::GraphProto::kNode, text.nodes);
    to.add_string(proto::GraphProto::kName, name);
    add(proto::GraphProto::kInitializer, text.initializers);
    add(proto::GraphProto::kInput, text.inputs);
    add(proto::GraphProto::kOutput, text.outputs);
    add(proto::GraphProto::kValueInfo, text.value_infos);
    add(proto::GraphProto::kSparseInitializer, text.sparse_initializers);
  });
}

inline std::string opset(const std::string& domain, int64_t version) {
  return message([&](auto& to) {
    if (!domain.empty()) to.add_string(proto::OpsetProto::kDomain, domain);
    to.add_int64(proto::OpsetProto::kVersion, version);
  });
}

struct FunctionText {
  std::string name, domain;
  Texts inputs, outputs, nodes;
  Texts attributes = {}, defaults = {};
  Texts opsets = {opset("", 17)};
  std::string overload = "";
};
inline std::string function(const FunctionText& text) {
  return message([&](auto& to) {
    using P = proto::FunctionProto;
    to.add_string(P::kName, text.name);
    for (const std::string& one : text.inputs) to.add_string(P::kInput, one);
    for (const std::string& one : text.outputs) to.add_string(P::kOutput, one);
    for (const std::string& one : text.attributes) to.add_string(P::kAttribute, one);
    for (const std::string& one : text.nodes) to.add_message(P::kNode, one);
    for (const std::string& one : text.opsets) to.add_message(P::kOpsetImport, one);
    to.add_string(P::kDomain, text.domain);
    for (const std::string& one : text.defaults) to.add_message(P::kAttributeProto, one);
    if (!text.overload.empty()) to.add_string(P::kOverload, text.overload);
  });
}

struct ModelText {
  int64_t ir_version = 8;
  Texts opsets = {opset("", 17)};
  Texts functions = {};
};
inline std::string model(const std::string& graph_message, const ModelText& text = {}) {
  return message([&](auto& to) {
    to.add_int64(proto::ModelProto::kIrVersion, text.ir_version);
    for (const std::string& one : text.opsets) to.add_message(proto::ModelProto::kOpsetImport, one);
    to.add_message(proto::ModelProto::kGraph, graph_message);
    for (const std::string& one : text.functions) to.add_message(proto::ModelProto::kFunctions, one);
  });
}

inline std::span<const std::byte> bytes(const std::string& data) { return std::as_bytes(std::span(data)); }

}  // namespace tenon::model_writer
