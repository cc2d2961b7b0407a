#include "graph/proto.h"

namespace tenon::proto {

Entry read_entry(std::string_view message) {
  Entry entry;
  Reader fields = reader(message);
  while (fields.next()) {
    switch (fields.tag_and_type()) {
      case bytes(EntryProto::kKey):
        entry.key = text(fields.get_view());
        break;
      case bytes(EntryProto::kValue):
        entry.value = text(fields.get_view());
        break;
      default:
        fields.skip();
    }
  }
  return entry;
}

}  // namespace tenon::proto
