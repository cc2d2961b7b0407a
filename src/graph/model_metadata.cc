#include "graph/model_metadata.h"

#include "base/format.h"
#include "graph/proto.h"
#include "graph/reader.h"

namespace tenon {

Result<std::optional<std::string>> read_metadata_entry(std::span<const std::byte> model, std::string_view key) {
  try {
    proto::Reader reader = proto::reader({reinterpret_cast<const char*>(model.data()), model.size()});
    std::optional<std::string> found;
    while (reader.next()) {
      if (reader.tag_and_type() != proto::bytes(proto::ModelProto::kMetadata)) {
        reader.skip();
        continue;
      }
      const proto::Entry entry = proto::read_entry(proto::text(reader.get_view()));
      if (!found && entry.key == key) found = entry.value;
    }
    return found;
  } catch (const protozero::exception& error) {
    return invalid_argument("The {} bytes are not an ONNX model: {} ({}).", model.size(), kBrokenEncoding,
                            error.what());
  }
}

}  // namespace tenon
