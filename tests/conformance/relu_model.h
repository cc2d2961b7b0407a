// The bytes of an ONNX model y = Relu(x), float32 of a fixed shape: a model that needs no file and no writer.
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
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

inline std::vector<std::byte> relu_model(std::initializer_list<int64_t> dims) {
  std::string shape;
  for (int64_t dim : dims) shape += proto_bytes(1, proto_number(1, static_cast<uint64_t>(dim)));
  const std::string type = proto_bytes(1, proto_number(1, 1) + proto_bytes(2, shape));
  const std::string node = proto_bytes(1, "x") + proto_bytes(2, "y") + proto_bytes(3, "relu") + proto_bytes(4, "Relu");
  const std::string graph = proto_bytes(1, node) + proto_bytes(2, "relu_model") +
                            proto_bytes(11, proto_bytes(1, "x") + proto_bytes(2, type)) +
                            proto_bytes(12, proto_bytes(1, "y") + proto_bytes(2, type));
  const std::string model = proto_number(1, 8) + proto_bytes(7, graph) + proto_bytes(8, proto_number(2, 17));
  const auto* bytes = reinterpret_cast<const std::byte*>(model.data());
  return {bytes, bytes + model.size()};
}

}  // namespace tenon::test
