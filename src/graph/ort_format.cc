#include "graph/ort_format.h"

#include <cstdint>
#include <cstring>
#include <new>
#include <protozero/pbf_writer.hpp>
#include <string_view>
#include <unordered_map>
#include <utility>

namespace tenon {

namespace {

constexpr int kMaxNesting = 64;
// Names are stored once and named often; a file whose vectors are read more often than this is made to exhaust memory.
constexpr size_t kMostRepeats = 64;

// Reads a flatbuffer. What lies outside the bytes is 0 or empty, and is remembered: the caller asks once at the end.
class Flatbuffer {
 public:
  explicit Flatbuffer(std::span<const std::byte> bytes) : bytes_(bytes) {}

  bool failed() const { return failed_; }
  void fail() { failed_ = true; }
  size_t size() const { return bytes_.size(); }

  template <typename T>
  T read(size_t at) {
    T value{};
    if (at > bytes_.size() || bytes_.size() - at < sizeof(T)) {
      fail();
    } else {
      std::memcpy(&value, bytes_.data() + at, sizeof(T));
    }
    return value;
  }

  // A table, string or vector lies as far behind `at` as the number there says. 0 for 0: it is absent.
  size_t follow(size_t at) {
    if (at == 0) return 0;
    const auto distance = read<uint32_t>(at);
    if (distance == 0 || distance > bytes_.size() - at) {
      fail();
      return 0;
    }
    return at + distance;
  }

  // Where field `slot` of a table lies; 0 when it is absent.
  size_t field(size_t table, int slot) {
    if (table == 0) return 0;
    const auto back = static_cast<int64_t>(read<int32_t>(table));
    const int64_t vtable = static_cast<int64_t>(table) - back;
    if (vtable < 0 || vtable >= static_cast<int64_t>(bytes_.size())) {
      fail();
      return 0;
    }
    const size_t entry = 4 + 2 * static_cast<size_t>(slot);
    if (entry + 2 > read<uint16_t>(vtable)) return 0;
    const auto offset = read<uint16_t>(vtable + entry);
    return offset == 0 ? 0 : table + offset;
  }

  template <typename T>
  T scalar(size_t table, int slot, T otherwise) {
    const size_t at = field(table, slot);
    return at == 0 ? otherwise : read<T>(at);
  }

  size_t table(size_t parent, int slot) { return follow(field(parent, slot)); }

  struct Vector {
    size_t first = 0;  // of the elements
    size_t count = 0;
  };
  Vector vector_at(size_t at, size_t element_bytes) {
    if (at == 0) return {};
    const size_t count = read<uint32_t>(at);
    if (failed_ || count > (bytes_.size() - at - 4) / element_bytes) {
      fail();
      return {};
    }
    given_bytes_ += count * element_bytes;
    if (given_bytes_ / kMostRepeats > bytes_.size()) {
      fail();
      return {};
    }
    return {at + 4, count};
  }
  Vector vector(size_t parent, int slot, size_t element_bytes) { return vector_at(table(parent, slot), element_bytes); }

  std::string_view text_at(size_t at) {
    const Vector letters = vector_at(at, 1);
    return failed_ || letters.count == 0
               ? std::string_view()
               : std::string_view(reinterpret_cast<const char*>(bytes_.data()) + letters.first, letters.count);
  }
  std::string_view text(size_t parent, int slot) { return text_at(table(parent, slot)); }
  std::string_view text_of(const Vector& texts, size_t index) { return text_at(follow(texts.first + 4 * index)); }
  size_t table_of(const Vector& tables, size_t index) { return follow(tables.first + 4 * index); }

 private:
  const std::span<const std::byte> bytes_;
  size_t given_bytes_ = 0;  // the elements of all vectors so far
  bool failed_ = false;
};

using Vector = Flatbuffer::Vector;
using Writer = protozero::pbf_writer;

// Writes the parts of a model. Numbers of slots are those of ONNX Runtime's schema, numbers of tags those of
// onnx.proto.
class Converter {
 public:
  explicit Converter(std::span<const std::byte> bytes) : in_(bytes), most_tables_(bytes.size() / 4 + 16) {}

  Result<std::string> convert() {
    std::string out;
    Writer to(out);
    const size_t model = in_.table(in_.read<uint32_t>(0), 1);
    write_model(to, model);
    if (!refusal_.empty())
      return unsupported("The model in ONNX Runtime's format has {}, which Tenon does not read.", refusal_);
    TENON_INVALID_IF(in_.failed() || model == 0, "The {} bytes are no model in ONNX Runtime's format.", in_.size());
    return out;
  }

 private:
  // Each table of a file is one of a tree. More than fit into the bytes are the same ones over and over.
  bool enter() {
    if (++tables_ > most_tables_) in_.fail();
    return !in_.failed() && refusal_.empty();
  }

  void refuse(const char* what) {
    if (refusal_.empty()) refusal_ = what;
  }

  static void add_text(Writer& to, protozero::pbf_tag_type tag, std::string_view text) {
    if (!text.empty()) to.add_string(tag, text.data(), text.size());
  }

  void write_model(Writer& to, size_t model) {
    to.add_int64(1, in_.scalar<int64_t>(model, 0, 0));
    const Vector opsets = in_.vector(model, 1, 4);
    for (size_t i = 0; i < opsets.count && enter(); ++i) {
      Writer opset(to, 8);
      const size_t from = in_.table_of(opsets, i);
      add_text(opset, 1, in_.text(from, 0));
      opset.add_int64(2, in_.scalar<int64_t>(from, 1, 0));
    }
    add_text(to, 2, in_.text(model, 2));
    add_text(to, 3, in_.text(model, 3));
    add_text(to, 4, in_.text(model, 4));
    to.add_int64(5, in_.scalar<int64_t>(model, 5, 0));
    add_text(to, 6, in_.text(model, 6));
    const Vector metadata = in_.vector(model, 9, 4);
    for (size_t i = 0; i < metadata.count && enter(); ++i) {
      Writer entry(to, 14);
      add_text(entry, 1, in_.text(in_.table_of(metadata, i), 0));
      add_text(entry, 2, in_.text(in_.table_of(metadata, i), 1));
    }
    Writer graph(to, 7);
    add_text(graph, 10, in_.text(model, 8));
    write_graph(graph, in_.table(model, 7), 0);
  }

  void write_graph(Writer& to, size_t graph, int depth) {
    if (depth > kMaxNesting) in_.fail();
    if (!enter()) return;
    to.add_string(2, "graph");
    std::unordered_map<std::string_view, size_t> infos;
    const Vector values = in_.vector(graph, 1, 4);
    for (size_t i = 0; i < values.count && !in_.failed(); ++i) {
      const size_t value = in_.table_of(values, i);
      infos.emplace(in_.text(value, 0), value);
    }
    const auto write_listed = [&](int slot, protozero::pbf_tag_type tag) {
      const Vector names = in_.vector(graph, slot, 4);
      for (size_t i = 0; i < names.count && enter(); ++i) {
        const auto found = infos.find(in_.text_of(names, i));
        if (found == infos.end()) return in_.fail();
        write_value_info(to, tag, found->second);
      }
    };
    write_listed(5, 11);
    write_listed(6, 12);
    for (size_t i = 0; i < values.count && enter(); ++i) {
      const size_t value = in_.table_of(values, i);
      if (!in_.text(value, 0).empty()) write_value_info(to, 13, value);
    }
    const Vector initializers = in_.vector(graph, 0, 4);
    for (size_t i = 0; i < initializers.count && enter(); ++i) {
      Writer tensor(to, 5);
      write_tensor(tensor, in_.table_of(initializers, i));
    }
    const Vector sparse = in_.vector(graph, 7, 4);
    for (size_t i = 0; i < sparse.count && enter(); ++i) {
      Writer tensor(to, 15);
      write_sparse_tensor(tensor, in_.table_of(sparse, i));
    }
    const Vector nodes = in_.vector(graph, 2, 4);
    for (size_t i = 0; i < nodes.count && enter(); ++i) {
      Writer node(to, 1);
      write_node(node, in_.table_of(nodes, i), depth);
    }
  }

  void write_node(Writer& to, size_t node, int depth) {
    if (in_.scalar<int32_t>(node, 6, 0) != 0) return refuse("nodes that an EP has compiled");
    for (const auto& [slot, tag] : {std::pair(8, 1), std::pair(9, 2)}) {
      const Vector names = in_.vector(node, slot, 4);
      for (size_t i = 0; i < names.count && !in_.failed(); ++i) {
        const std::string_view name = in_.text_of(names, i);
        to.add_string(static_cast<protozero::pbf_tag_type>(tag), name.data(), name.size());
      }
    }
    add_text(to, 3, in_.text(node, 0));
    add_text(to, 4, in_.text(node, 5));
    add_text(to, 6, in_.text(node, 1));
    add_text(to, 7, in_.text(node, 2));
    const Vector attributes = in_.vector(node, 10, 4);
    for (size_t i = 0; i < attributes.count && enter(); ++i) {
      Writer attribute(to, 5);
      write_attribute(attribute, in_.table_of(attributes, i), depth);
    }
  }

  void write_attribute(Writer& to, size_t attribute, int depth) {
    const auto type = in_.scalar<int32_t>(attribute, 2, 0);
    add_text(to, 1, in_.text(attribute, 0));
    to.add_int32(20, type);
    switch (type) {
      case 1:
        return to.add_float(2, in_.scalar<float>(attribute, 3, 0));
      case 2:
        return to.add_int64(3, in_.scalar<int64_t>(attribute, 4, 0));
      case 3: {
        const std::string_view text = in_.text(attribute, 5);
        return to.add_bytes(4, text.data(), text.size());
      }
      case 4: {
        Writer tensor(to, 5);
        return write_tensor(tensor, in_.table(attribute, 6));
      }
      case 5: {
        Writer graph(to, 6);
        return write_graph(graph, in_.table(attribute, 7), depth + 1);
      }
      case 6: {
        const Vector numbers = in_.vector(attribute, 8, 4);
        for (size_t i = 0; i < numbers.count; ++i) to.add_float(7, in_.read<float>(numbers.first + 4 * i));
        return;
      }
      case 7: {
        const Vector numbers = in_.vector(attribute, 9, 8);
        for (size_t i = 0; i < numbers.count; ++i) to.add_int64(8, in_.read<int64_t>(numbers.first + 8 * i));
        return;
      }
      case 8: {
        const Vector texts = in_.vector(attribute, 10, 4);
        for (size_t i = 0; i < texts.count && enter(); ++i) {
          const std::string_view text = in_.text_of(texts, i);
          to.add_bytes(9, text.data(), text.size());
        }
        return;
      }
      case 9: {
        const Vector tensors = in_.vector(attribute, 11, 4);
        for (size_t i = 0; i < tensors.count && enter(); ++i) {
          Writer tensor(to, 10);
          write_tensor(tensor, in_.table_of(tensors, i));
        }
        return;
      }
      case 10: {
        const Vector graphs = in_.vector(attribute, 12, 4);
        for (size_t i = 0; i < graphs.count && enter(); ++i) {
          Writer graph(to, 11);
          write_graph(graph, in_.table_of(graphs, i), depth + 1);
        }
        return;
      }
      default:
        return refuse("an attribute of a kind that is none of ONNX's first ten");
    }
  }

  void write_tensor(Writer& to, size_t tensor) {
    if (!enter()) return;
    if (in_.scalar<int64_t>(tensor, 6, -1) >= 0) return refuse("weights in a file beside it");
    const Vector dims = in_.vector(tensor, 2, 8);
    for (size_t i = 0; i < dims.count; ++i) to.add_int64(1, in_.read<int64_t>(dims.first + 8 * i));
    to.add_int32(2, in_.scalar<int32_t>(tensor, 3, 0));
    add_text(to, 8, in_.text(tensor, 0));
    const Vector texts = in_.vector(tensor, 5, 4);
    for (size_t i = 0; i < texts.count && enter(); ++i) {
      const std::string_view text = in_.text_of(texts, i);
      to.add_bytes(6, text.data(), text.size());
    }
    const std::string_view raw = in_.text(tensor, 4);
    if (texts.count == 0 && !in_.failed()) to.add_bytes(9, raw.data(), raw.size());
  }

  void write_sparse_tensor(Writer& to, size_t sparse) {
    for (const auto& [slot, tag] : {std::pair(0, 1), std::pair(1, 2)}) {
      Writer tensor(to, static_cast<protozero::pbf_tag_type>(tag));
      write_tensor(tensor, in_.table(sparse, slot));
    }
    const Vector dims = in_.vector(sparse, 2, 8);
    for (size_t i = 0; i < dims.count; ++i) to.add_int64(3, in_.read<int64_t>(dims.first + 8 * i));
  }

  void write_value_info(Writer& to, protozero::pbf_tag_type tag, size_t value) {
    Writer info(to, tag);
    add_text(info, 1, in_.text(value, 0));
    const size_t type = in_.table(value, 2);
    if (type == 0) return;
    Writer written(info, 2);
    write_type(written, type, 0);
  }

  void write_type(Writer& to, size_t type, int depth) {
    if (depth > kMaxNesting) in_.fail();
    if (!enter()) return;
    constexpr uint8_t kTensor = 1, kSequence = 2;
    const auto kind = in_.scalar<uint8_t>(type, 1, 0);
    const size_t value = in_.table(type, 2);
    if (kind == kSequence) {
      Writer sequence(to, 4), element(sequence, 1);
      return write_type(element, in_.table(value, 0), depth + 1);
    }
    if (kind != kTensor) return;
    Writer tensor(to, 1);
    tensor.add_int32(1, in_.scalar<int32_t>(value, 0, 0));
    const size_t shape = in_.table(value, 1);
    if (shape == 0) return;
    // As bytes: a Writer leaves out a message without fields, which here is a scalar's shape or a dimension of any
    // size.
    std::string written;
    const Vector dims = in_.vector(shape, 0, 4);
    for (size_t i = 0; i < dims.count && enter(); ++i) {
      std::string bytes;
      Writer dim(bytes);
      constexpr int8_t kValue = 1, kParameter = 2;
      const size_t said = in_.table(in_.table_of(dims, i), 0);
      const auto of = in_.scalar<int8_t>(said, 0, 0);
      if (of == kValue) dim.add_int64(1, in_.scalar<int64_t>(said, 1, 0));
      if (of == kParameter) add_text(dim, 2, in_.text(said, 2));
      add_text(dim, 3, in_.text(in_.table_of(dims, i), 1));
      Writer(written).add_message(1, bytes);
    }
    tensor.add_message(2, written);
  }

  Flatbuffer in_;
  const size_t most_tables_;
  size_t tables_ = 0;
  std::string refusal_;
};

}  // namespace

bool is_ort_format(std::span<const std::byte> bytes) {
  return bytes.size() >= 8 && std::memcmp(bytes.data() + 4, "ORTM", 4) == 0;
}

Result<std::string> ort_format_to_onnx(std::span<const std::byte> bytes) {
  try {
    return Converter(bytes).convert();
  } catch (const std::bad_alloc&) {
    return resource_exhausted("There is no memory for a model of {} bytes.", bytes.size());
  }
}

}  // namespace tenon
