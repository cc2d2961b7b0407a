#include "proto_tree.h"

#include <algorithm>
#include <cstring>

#include "graph/proto.h"

namespace tenon::fuzz {

namespace {

MessageKind child_kind(MessageKind parent, uint32_t field) {
  using K = MessageKind;
  struct Row {
    K parent;
    uint32_t field;
    K child;
  };
  static constexpr Row kRows[] = {
      {K::kModel, proto::ModelProto::kGraph, K::kGraph},
      {K::kModel, proto::ModelProto::kOpsetImport, K::kOpset},
      {K::kModel, proto::ModelProto::kMetadata, K::kEntry},
      {K::kModel, proto::ModelProto::kFunctions, K::kFunction},
      {K::kGraph, proto::GraphProto::kNode, K::kNode},
      {K::kGraph, proto::GraphProto::kInitializer, K::kTensor},
      {K::kGraph, proto::GraphProto::kInput, K::kValueInfo},
      {K::kGraph, proto::GraphProto::kOutput, K::kValueInfo},
      {K::kGraph, proto::GraphProto::kValueInfo, K::kValueInfo},
      {K::kNode, proto::NodeProto::kAttribute, K::kAttribute},
      {K::kAttribute, proto::AttributeProto::kT, K::kTensor},
      {K::kAttribute, proto::AttributeProto::kG, K::kGraph},
      {K::kTensor, proto::TensorProto::kExternalData, K::kEntry},
      {K::kValueInfo, proto::ValueInfoProto::kType, K::kType},
      {K::kType, proto::TypeProto::kTensor, K::kTensorType},
      {K::kType, proto::TypeProto::kSequence, K::kElementType},
      {K::kType, proto::TypeProto::kOptional, K::kElementType},
      {K::kElementType, 1, K::kType},
      {K::kTensorType, proto::TypeProto::kShape, K::kShape},
      {K::kShape, proto::TypeProto::kDim, K::kDim},
      {K::kFunction, proto::FunctionProto::kNode, K::kNode},
      {K::kFunction, proto::FunctionProto::kOpsetImport, K::kOpset},
      {K::kFunction, proto::FunctionProto::kAttributeProto, K::kAttribute},
  };
  for (const Row& row : kRows)
    if (row.parent == parent && row.field == field) return row.child;
  return K::kBytes;
}

void append_varint(std::string& to, uint64_t value) {
  for (; value >= 0x80; value >>= 7) to.push_back(static_cast<char>(value | 0x80));
  to.push_back(static_cast<char>(value));
}

Message parse_throwing(std::string_view bytes, MessageKind kind) {
  Message message;
  message.kind = kind;
  proto::Reader reader = proto::reader(bytes);
  while (reader.next()) {
    Field field;
    field.number = reader.tag();
    field.wire = static_cast<uint32_t>(reader.wire_type());
    switch (reader.wire_type()) {
      case protozero::pbf_wire_type::varint:
        field.value = reader.get_uint64();
        break;
      case protozero::pbf_wire_type::fixed64:
        field.value = reader.get_fixed64();
        break;
      case protozero::pbf_wire_type::fixed32:
        field.value = reader.get_fixed32();
        break;
      default: {
        const std::string_view view = proto::text(reader.get_view());
        const MessageKind child = child_kind(kind, field.number);
        if (child != MessageKind::kBytes) field.message = parse(view, child);
        if (!field.message) field.bytes = std::make_shared<const std::string>(view);
      }
    }
    message.fields.push_back(std::move(field));
  }
  return message;
}

void collect(const Message& message, Path& path, std::vector<Path>& paths) {
  for (size_t i = 0; i < message.fields.size(); ++i) {
    path.push_back(static_cast<uint32_t>(i));
    paths.push_back(path);
    if (message.fields[i].message) collect(*message.fields[i].message, path, paths);
    path.pop_back();
  }
}

Field entry(const std::string& key, const std::string& value) {
  const auto text = [](uint32_t number, const std::string& bytes) {
    return Field{.number = number, .wire = 2, .bytes = std::make_shared<const std::string>(bytes)};
  };
  Message message{MessageKind::kEntry, {text(proto::EntryProto::kKey, key), text(proto::EntryProto::kValue, value)}};
  return Field{.number = proto::TensorProto::kExternalData,
               .wire = 2,
               .message = std::make_shared<const Message>(std::move(message))};
}

}  // namespace

MessageRef parse(std::string_view bytes, MessageKind kind) {
  try {
    return std::make_shared<const Message>(parse_throwing(bytes, kind));
  } catch (const std::exception&) {
    return nullptr;
  }
}

std::string serialize(const Message& message) {
  std::string text;
  for (const Field& field : message.fields) {
    append_varint(text, field.number << 3 | field.wire);
    if (field.wire == 0) {
      append_varint(text, field.value);
    } else if (field.wire == 1 || field.wire == 5) {
      text.append(reinterpret_cast<const char*>(&field.value), field.wire == 1 ? 8 : 4);
    } else {
      const std::string inner = field.message ? serialize(*field.message) : field.bytes ? *field.bytes : "";
      append_varint(text, inner.size());
      text += inner;
    }
  }
  return text;
}

const Message& parent_of(const MessageRef& root, const Path& path) {
  const Message* message = root.get();
  for (size_t i = 0; i + 1 < path.size(); ++i) message = message->fields[path[i]].message.get();
  return *message;
}

const Field& field_at(const MessageRef& root, const Path& path) { return parent_of(root, path).fields[path.back()]; }

bool is_weight(MessageKind parent, const Field& field) {
  using P = proto::TensorProto;
  if (parent != MessageKind::kTensor) return false;
  return field.number == P::kRawData || field.number == P::kFloatData || field.number == P::kInt32Data ||
         field.number == P::kInt64Data || field.number == P::kDoubleData || field.number == P::kUint64Data;
}

std::vector<Path> all_paths(const MessageRef& root) {
  std::vector<Path> paths;
  Path path;
  collect(*root, path, paths);
  return paths;
}

MessageRef strip_weights(const MessageRef& root, size_t keep_bytes, const std::string& location, size_t& largest) {
  auto copy = std::make_shared<Message>(*root);
  for (Field& field : copy->fields)
    if (field.message) field.message = strip_weights(field.message, keep_bytes, location, largest);
  if (copy->kind != MessageKind::kTensor) return copy;
  const auto raw = std::find_if(copy->fields.begin(), copy->fields.end(), [&](const Field& field) {
    return field.number == proto::TensorProto::kRawData && field.bytes && field.bytes->size() > keep_bytes;
  });
  if (raw == copy->fields.end()) return copy;
  largest = std::max(largest, raw->bytes->size());
  *raw = entry("location", location);
  copy->fields.push_back(Field{.number = proto::TensorProto::kDataLocation, .wire = 0, .value = 1});
  return copy;
}

}  // namespace tenon::fuzz
