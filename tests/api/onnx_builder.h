// Writes small ONNX models, for tests of the C++ API.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <protozero/pbf_writer.hpp>
#include <span>
#include <string>
#include <vector>

#include <tenon/session.h>

namespace tenon::api_testing {

// A dimension of a declared input or output: a number, or a name.
struct OnnxDim {
  OnnxDim(int64_t number) : value(number) {}  // NOLINT(google-explicit-constructor)
  OnnxDim(const char* text) : name(text) {}   // NOLINT(google-explicit-constructor)
  int64_t value = -1;
  std::string name;
};

class OnnxNode {
 public:
  OnnxNode(std::string op_type, const std::vector<std::string>& inputs, const std::vector<std::string>& outputs) {
    protozero::pbf_writer node(bytes_);
    for (const std::string& name : inputs) node.add_string(1, name);
    for (const std::string& name : outputs) node.add_string(2, name);
    node.add_string(3, op_type + "_of_" + outputs[0]);
    node.add_string(4, op_type);
  }
  OnnxNode&& attribute(const std::string& name, int64_t value) && {
    std::string bytes;
    protozero::pbf_writer attribute(bytes);
    attribute.add_string(1, name);
    attribute.add_int64(3, value);
    attribute.add_enum(20, 2);
    protozero::pbf_writer(bytes_).add_message(5, bytes);
    return std::move(*this);
  }
  OnnxNode&& attribute(const std::string& name, const std::vector<int64_t>& values) && {
    std::string bytes;
    protozero::pbf_writer attribute(bytes);
    attribute.add_string(1, name);
    for (const int64_t value : values) attribute.add_int64(8, value);
    attribute.add_enum(20, 7);
    protozero::pbf_writer(bytes_).add_message(5, bytes);
    return std::move(*this);
  }
  // A subgraph (attributes of If).
  OnnxNode&& attribute(const std::string& name, const std::string& graph_bytes) && {
    std::string bytes;
    protozero::pbf_writer attribute(bytes);
    attribute.add_string(1, name);
    attribute.add_message(6, graph_bytes);
    attribute.add_enum(20, 5);
    protozero::pbf_writer(bytes_).add_message(5, bytes);
    return std::move(*this);
  }
  const std::string& bytes() const { return bytes_; }

 private:
  std::string bytes_;
};

class OnnxModel {
 public:
  OnnxModel& input(const std::string& name, DataType type, const std::vector<OnnxDim>& dims) {
    return value(11, name, type, dims);
  }
  OnnxModel& output(const std::string& name, DataType type, const std::vector<OnnxDim>& dims) {
    return value(12, name, type, dims);
  }
  OnnxModel& node(const OnnxNode& node) {
    protozero::pbf_writer(graph_).add_message(1, node.bytes());
    return *this;
  }
  template <typename T>
  OnnxModel& initializer(const std::string& name, DataType type, const std::vector<int64_t>& dims,
                         const std::vector<T>& values) {
    std::string bytes;
    protozero::pbf_writer tensor(bytes);
    tensor.add_packed_int64(1, dims.begin(), dims.end());
    tensor.add_int32(2, static_cast<int32_t>(type));
    tensor.add_string(8, name);
    tensor.add_bytes(9, reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T));
    protozero::pbf_writer(graph_).add_message(5, bytes);
    return *this;
  }
  const std::string& graph_bytes() const { return graph_; }
  std::string bytes(int opset = 17) const {
    std::string graph = graph_;
    protozero::pbf_writer(graph).add_string(2, "test");
    std::string import;
    protozero::pbf_writer(import).add_int64(2, opset);
    std::string model;
    protozero::pbf_writer writer(model);
    writer.add_int64(1, 8);
    writer.add_message(7, graph);
    writer.add_message(8, import);
    return model;
  }
  Result<std::shared_ptr<Session>> load(const SessionOptions& options = {.threads = 1}) const {
    const std::string model = bytes();
    return Session::load_from_bytes(std::as_bytes(std::span(model)), options);
  }

 private:
  OnnxModel& value(protozero::pbf_tag_type field, const std::string& name, DataType type,
                   const std::vector<OnnxDim>& dims) {
    std::string shape;
    for (const OnnxDim& dim : dims) {
      std::string bytes;
      protozero::pbf_writer writer(bytes);
      if (dim.value >= 0) writer.add_int64(1, dim.value);
      if (!dim.name.empty()) writer.add_string(2, dim.name);
      protozero::pbf_writer(shape).add_message(1, bytes);
    }
    std::string tensor;
    protozero::pbf_writer(tensor).add_int32(1, static_cast<int32_t>(type));
    protozero::pbf_writer(tensor).add_message(2, shape);
    std::string wrapped;
    protozero::pbf_writer(wrapped).add_message(1, tensor);
    std::string info;
    protozero::pbf_writer(info).add_string(1, name);
    protozero::pbf_writer(info).add_message(2, wrapped);
    protozero::pbf_writer(graph_).add_message(field, info);
    return *this;
  }

  std::string graph_;
};

// A float tensor with these values.
inline Tensor floats(const Shape& shape, const std::vector<float>& values) {
  Tensor tensor = *Tensor::allocate(DataType::kFloat, shape);
  std::copy(values.begin(), values.end(), tensor.data_as<float>());
  return tensor;
}
inline Tensor ints(const Shape& shape, const std::vector<int64_t>& values) {
  Tensor tensor = *Tensor::allocate(DataType::kInt64, shape);
  std::copy(values.begin(), values.end(), tensor.data_as<int64_t>());
  return tensor;
}
template <typename T = float>
std::vector<T> values_of(const Tensor& tensor) {
  const T* data = tensor.data_as<T>();
  return {data, data + tensor.shape().element_count()};
}

}  // namespace tenon::api_testing
