// The bytes of small ONNX models, float32 of a fixed shape: models that need no file and no writer.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace tenon::test {

inline std::string proto_varint(uint64_t value) {
  std::string text;
  for (; value >= 0x80; value >>= 7) text += static_cast<char>(value | 0x80);
  return text + static_cast<char>(value);
}
inline std::string proto_number(uint32_t field, uint64_t value) {
  return proto_varint(field << 3) + proto_varint(value);
}
inline std::string proto_bytes(uint32_t field, const std::string& bytes) {
  return proto_varint(field << 3 | 2) + proto_varint(bytes.size()) + bytes;
}

// y = ops[n-1](...ops[0](x)), operators of one input and one output.
inline std::vector<std::byte> chain_model(const std::vector<std::string>& ops, const std::vector<int64_t>& dims) {
  std::string shape;
  for (int64_t dim : dims) shape += proto_bytes(1, proto_number(1, static_cast<uint64_t>(dim)));
  const std::string type = proto_bytes(1, proto_number(1, 1) + proto_bytes(2, shape));
  std::string nodes;
  for (size_t i = 0; i < ops.size(); ++i) {
    const std::string src = i == 0 ? "x" : "v" + std::to_string(i);
    const std::string dst = i + 1 == ops.size() ? "y" : "v" + std::to_string(i + 1);
    nodes += proto_bytes(1, proto_bytes(1, src) + proto_bytes(2, dst) + proto_bytes(3, "node" + std::to_string(i)) +
                                proto_bytes(4, ops[i]));
  }
  const std::string graph = nodes + proto_bytes(2, "chain") +
                            proto_bytes(11, proto_bytes(1, "x") + proto_bytes(2, type)) +
                            proto_bytes(12, proto_bytes(1, "y") + proto_bytes(2, type));
  const std::string model = proto_number(1, 8) + proto_bytes(7, graph) + proto_bytes(8, proto_number(2, 17));
  const auto* bytes = reinterpret_cast<const std::byte*>(model.data());
  return {bytes, bytes + model.size()};
}

// y = Relu(x)
inline std::vector<std::byte> relu_model(const std::vector<int64_t>& dims) { return chain_model({"Relu"}, dims); }

}  // namespace tenon::test
