#include "graph/ort_format.h"

#include <algorithm>
#include <cstring>
#include <initializer_list>
#include <vector>

#include "base/testing.h"

namespace tenon {
namespace {

using ::testing::HasSubstr;

// Writes flatbuffers: parents first, as their fields point forwards.
class Flatbuffer {
 public:
  Flatbuffer() {
    add<uint32_t>(0);
    bytes_.insert(bytes_.end(), {'O', 'R', 'T', 'M'});
  }

  // A table with 4 bytes for each of `slots`; gives the place of the first field. `from` points at the table.
  size_t table(size_t from, std::initializer_list<int> slots) {
    const size_t vtable = bytes_.size();
    const int count = slots.size() == 0 ? 0 : *(slots.end() - 1) + 1;
    add<uint16_t>(static_cast<uint16_t>(4 + 2 * count));
    add<uint16_t>(static_cast<uint16_t>(4 + 4 * slots.size()));
    uint16_t at = 4;
    for (int slot = 0; slot < count; ++slot) {
      const bool present = std::find(slots.begin(), slots.end(), slot) != slots.end();
      add<uint16_t>(present ? at : 0);
      if (present) at += 4;
    }
    point(from);
    add<int32_t>(static_cast<int32_t>(bytes_.size() - vtable));
    const size_t fields = bytes_.size();
    bytes_.resize(fields + 4 * slots.size());
    return fields;
  }
  // A vector of zeros that `from` points at; gives the place of the first element.
  size_t vector(size_t from, size_t count, size_t element_bytes) {
    point(from);
    add<uint32_t>(static_cast<uint32_t>(count));
    const size_t first = bytes_.size();
    bytes_.resize(first + count * element_bytes);
    return first;
  }
  void set(size_t at, uint32_t value) { std::memcpy(bytes_.data() + at, &value, sizeof value); }
  // To what is written next.
  void point(size_t from) { set(from, static_cast<uint32_t>(bytes_.size() - from)); }
  std::span<const std::byte> bytes() const { return std::as_bytes(std::span(bytes_)); }

 private:
  template <typename T>
  void add(T value) {
    bytes_.resize(bytes_.size() + sizeof value);
    std::memcpy(bytes_.data() + bytes_.size() - sizeof value, &value, sizeof value);
  }
  std::vector<char> bytes_;
};

// `nodes` entries that are all one node, with an attribute of `numbers` integers.
Flatbuffer repeated_node(size_t nodes, size_t numbers) {
  Flatbuffer buffer;
  const size_t session = buffer.table(0, {1});
  const size_t model = buffer.table(session, {7});
  const size_t graph = buffer.table(model, {2});
  const size_t entries = buffer.vector(graph, nodes, 4);
  const size_t node = buffer.table(entries, {10});
  for (size_t at = entries; at < entries + 4 * nodes; at += 4) buffer.set(at, static_cast<uint32_t>(node - 4 - at));
  const size_t attributes = buffer.vector(node, 1, 4);
  const size_t attribute = buffer.table(attributes, {2, 9});
  buffer.set(attribute, 7);  // INTS
  buffer.vector(attribute + 4, numbers, 8);
  return buffer;
}

TEST(OrtFormat, NumbersAreConverted) {
  const Flatbuffer one = repeated_node(1, 1000);
  const Result<std::string> converted = ort_format_to_onnx(one.bytes());
  ASSERT_THAT(converted.status(), is_ok());
  EXPECT_GT(converted->size(), 2000u);
}

// Parts that are named over and over, here 160 KB that stand for 300 MB, must not exhaust memory.
TEST(OrtFormat, TheResultIsBoundedByTheBytes) {
  const Flatbuffer many = repeated_node(15000, 10000);
  EXPECT_THAT(ort_format_to_onnx(many.bytes()).status(),
              has_status(StatusCode::kInvalidArgument, HasSubstr("no model in ONNX Runtime's format")));
}

}  // namespace
}  // namespace tenon
