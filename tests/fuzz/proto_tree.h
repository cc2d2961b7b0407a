// An ONNX model as a tree of protobuf fields that can be changed at any place and written again.
//
// Messages are shared and immutable: a changed tree copies only the path from its root to the change.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace tenon::fuzz {

enum class MessageKind : uint8_t {
  kBytes,  // not a message: a string, a packed list, weights
  kModel,
  kGraph,
  kNode,
  kAttribute,
  kTensor,
  kValueInfo,
  kType,
  kTensorType,
  kShape,
  kDim,
  kOpset,
  kEntry,
  kFunction,
  kElementType,  // of a sequence or an optional
};

struct Message;

struct Field {
  uint32_t number = 0;
  uint32_t wire = 0;  // 0 varint, 1 fixed 64, 2 bytes or message, 5 fixed 32
  uint64_t value = 0;
  std::shared_ptr<const std::string> bytes;
  std::shared_ptr<const Message> message;
};

struct Message {
  MessageKind kind = MessageKind::kBytes;
  std::vector<Field> fields;
};
using MessageRef = std::shared_ptr<const Message>;

// Which field of the root, which field of that one, and so on.
using Path = std::vector<uint32_t>;

// Null if the bytes are not well-formed; parts inside that are not become kBytes.
MessageRef parse(std::string_view bytes, MessageKind kind);
std::string serialize(const Message& message);

const Field& field_at(const MessageRef& root, const Path& path);
const Message& parent_of(const MessageRef& root, const Path& path);
// The tree with the fields of the message that holds `path` changed by `change(fields, index)`.
template <typename Change>
MessageRef with_change(const MessageRef& root, const Path& path, Change&& change, size_t depth = 0) {
  auto copy = std::make_shared<Message>(*root);
  const uint32_t index = path[depth];
  if (depth + 1 == path.size()) {
    change(copy->fields, index);
  } else {
    Field& field = copy->fields[index];
    field.message = with_change(field.message, path, change, depth + 1);
  }
  return copy;
}

// True for the elements of a tensor.
bool is_weight(MessageKind parent, const Field& field);
// Every field below the root.
std::vector<Path> all_paths(const MessageRef& root);
// Tensors with more than `keep_bytes` of raw data get zeros from the external file `location` instead.
// `largest` becomes the size that this file must have.
MessageRef strip_weights(const MessageRef& root, size_t keep_bytes, const std::string& location, size_t& largest);

}  // namespace tenon::fuzz
