#include "graph/model_metadata.h"

#include "base/format.h"
#include "graph/proto.h"
#include "graph/reader.h"

namespace tenon {

namespace {

std::optional<std::string> value_of_entry(std::string_view entry, std::string_view key) {
  std::string_view found, value;
  proto::Reader reader = proto::reader(entry);
  while (reader.next()) {
    switch (reader.tag_and_type()) {
      case proto::bytes(proto::EntryProto::kKey):
        found = proto::text(reader.get_view());
        break;
      case proto::bytes(proto::EntryProto::kValue):
        value = proto::text(reader.get_view());
        break;
      default:
        reader.skip();
    }
  }
  return found == key ? std::optional<std::string>(value) : std::nullopt;
}

}  // namespace

Result<std::optional<std::string>> read_metadata_entry(std::span<const std::byte> model, std::string_view key) {
  try {
    proto::Reader reader = proto::reader({reinterpret_cast<const char*>(model.data()), model.size()});
    std::optional<std::string> found;
    while (reader.next()) {
      if (reader.tag_and_type() != proto::bytes(proto::ModelProto::kMetadata)) {
        reader.skip();
        continue;
      }
      std::optional<std::string> value = value_of_entry(proto::text(reader.get_view()), key);
      if (!found) found = std::move(value);
    }
    return found;
  } catch (const protozero::exception& error) {
    return invalid_argument("The {} bytes are not an ONNX model: {} ({}).", model.size(), kBrokenEncoding,
                            error.what());
  }
}

}  // namespace tenon
