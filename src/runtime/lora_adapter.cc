// The format is a FlatBuffer: a table has the offset of its row of field offsets, and names strings, vectors and tables
// by their distance from the field.
//
//   Adapter   {0: format_version, 1: adapter_version, 2: model_version, 3: [Parameter]}
//   Parameter {0: name, 1: dims [int64], 2: data_type, 3: raw_data [byte], at a multiple of 8}
#include "tenon/lora_adapter.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "base/checked.h"
#include "base/status.h"
#include "graph/mapped_file.h"

namespace tenon {

namespace {

static_assert(std::endian::native == std::endian::little, "The format's numbers are little endian.");

constexpr std::string_view kIdentifier = "TORT";
constexpr size_t kHeaderBytes = 8;
constexpr size_t kMostBytes = (size_t{1} << 31) - 1;  // what FlatBuffers can address
// Types after it came later than the format.
constexpr int32_t kLastType = 20;

// A position in the file from which a field or an element is read.
class Reader {
 public:
  explicit Reader(std::span<const std::byte> bytes) : bytes_(bytes) {}

  template <typename T>
  Result<T> number(size_t at) const {
    TENON_TRY(check(at, sizeof(T)));
    T value;
    std::memcpy(&value, bytes_.data() + at, sizeof(T));
    return value;
  }

  // The position that the offset at `at` leads to.
  Result<size_t> follow(size_t at) const {
    TENON_TRY_ASSIGN(const uint32_t offset, number<uint32_t>(at));
    TENON_INVALID_IF(offset == 0 || offset >= bytes_.size() - at, "The offset {} at byte {} leads out of the adapter.",
                     offset, at);
    return at + offset;
  }

  // Where field `index` of the table at `table` lies; 0 when it is absent.
  Result<size_t> field(size_t table, size_t index) const {
    TENON_TRY_ASSIGN(const int32_t back, number<int32_t>(table));
    const int64_t row = static_cast<int64_t>(table) - back;
    TENON_INVALID_IF(row < 0 || row >= static_cast<int64_t>(bytes_.size()),
                     "The table at byte {} of the adapter has its fields at byte {}.", table, row);
    const auto fields = static_cast<size_t>(row);
    TENON_TRY_ASSIGN(const uint16_t row_bytes, number<uint16_t>(fields));
    const size_t slot = 4 + 2 * index;
    if (slot + 2 > row_bytes) return size_t{0};
    TENON_TRY_ASSIGN(const uint16_t offset, number<uint16_t>(fields + slot));
    return offset == 0 ? size_t{0} : table + offset;
  }

  Result<int32_t> integer(size_t table, size_t index) const {
    TENON_TRY_ASSIGN(const size_t at, field(table, index));
    if (at == 0) return int32_t{0};
    return number<int32_t>(at);
  }

  // The elements of a vector or a string; empty when the field is absent.
  Result<std::span<const std::byte>> vector(size_t table, size_t index, size_t element_bytes) const {
    TENON_TRY_ASSIGN(const size_t at, field(table, index));
    if (at == 0) return std::span<const std::byte>();
    TENON_TRY_ASSIGN(const size_t begin, follow(at));
    TENON_TRY_ASSIGN(const uint32_t count, number<uint32_t>(begin));
    const size_t bytes = count * element_bytes;
    TENON_TRY(check(begin + 4, bytes));
    return bytes_.subspan(begin + 4, bytes);
  }

  size_t position(const std::byte* element) const { return element - bytes_.data(); }

 private:
  Status check(size_t at, size_t bytes) const {
    TENON_INVALID_IF(at > bytes_.size() || bytes > bytes_.size() - at,
                     "The adapter has {} bytes, and {} are read at byte {}.", bytes_.size(), bytes, at);
    return Status();
  }

  std::span<const std::byte> bytes_;
};

Result<Shape> read_shape(std::span<const std::byte> dims, std::string_view name) {
  const size_t rank = dims.size() / sizeof(int64_t);
  TENON_UNSUPPORTED_IF(rank > Shape::kMaxRank, "Parameter \"{}\" has {} dimensions; the most are {}.", name, rank,
                       Shape::kMaxRank);
  std::vector<int64_t> numbers(rank);
  if (rank > 0) std::memcpy(numbers.data(), dims.data(), dims.size());
  for (const int64_t dim : numbers) TENON_INVALID_IF(dim < 0, "Parameter \"{}\" has the dimension {}.", name, dim);
  return Shape(numbers);
}

Result<std::pair<std::string, Tensor>> read_parameter(const Reader& reader, size_t table,
                                                      const std::shared_ptr<const void>& owner) {
  TENON_TRY_ASSIGN(const auto text, reader.vector(table, 0, 1));
  std::string name(reinterpret_cast<const char*>(text.data()), text.size());
  TENON_INVALID_IF(name.empty(), "A parameter of the adapter has no name.");
  TENON_TRY_ASSIGN(const int32_t type, reader.integer(table, 2));
  const bool known = type > 0 && type <= kLastType && !holds_addresses(static_cast<DataType>(type));
  const size_t element_bytes = known ? data_type_size(static_cast<DataType>(type)) : 0;
  TENON_UNSUPPORTED_IF(element_bytes == 0, "Parameter \"{}\" has the element type {}.", name, type);
  TENON_TRY_ASSIGN(const auto dims, reader.vector(table, 1, sizeof(int64_t)));
  TENON_TRY_ASSIGN(const Shape shape, read_shape(dims, name));
  TENON_TRY_ASSIGN(const size_t needed, tensor_size_bytes(static_cast<DataType>(type), shape));
  TENON_TRY_ASSIGN(const auto data, reader.vector(table, 3, 1));
  TENON_INVALID_IF(data.size() != needed, "Parameter \"{}\" of shape {} has {} bytes, and its shape needs {}.", name,
                   shape.to_string(), data.size(), needed);
  void* const address = const_cast<std::byte*>(data.data());
  const auto element = static_cast<DataType>(type);
  if (reinterpret_cast<uintptr_t>(address) % element_bytes == 0) {
    TENON_TRY_ASSIGN(const Tensor view, Tensor::view(element, shape, address, needed, owner));
    return std::pair(std::move(name), view.as_read_only());
  }
  // A writer that does not align what the format says is aligned.
  TENON_TRY_ASSIGN(Tensor copy, Tensor::allocate(element, shape));
  std::memcpy(copy.data(), address, needed);
  return std::pair(std::move(name), copy.as_read_only());
}

Result<LoraAdapter> parse(std::span<const std::byte> bytes, const std::shared_ptr<const void>& owner) {
  TENON_INVALID_IF(
      bytes.size() <= kHeaderBytes || std::memcmp(bytes.data() + 4, kIdentifier.data(), kIdentifier.size()) != 0,
      "The {} bytes do not appear to be a LoRA adapter: \"{}\" does not stand at byte 4.", bytes.size(), kIdentifier);
  const Reader reader(bytes);
  LoraAdapter adapter;
  TENON_TRY_ASSIGN(const size_t root, reader.follow(0));
  TENON_TRY_ASSIGN(adapter.format_version, reader.integer(root, 0));
  TENON_UNSUPPORTED_IF(adapter.format_version != LoraAdapter::kFormatVersion,
                       "The adapter has version {} of the format; {} is known.", adapter.format_version,
                       LoraAdapter::kFormatVersion);
  TENON_TRY_ASSIGN(adapter.adapter_version, reader.integer(root, 1));
  TENON_TRY_ASSIGN(adapter.model_version, reader.integer(root, 2));
  TENON_TRY_ASSIGN(const auto tables, reader.vector(root, 3, sizeof(uint32_t)));
  for (size_t i = 0; i < tables.size(); i += sizeof(uint32_t)) {
    TENON_TRY_ASSIGN(const size_t table, reader.follow(reader.position(tables.data() + i)));
    TENON_TRY_ASSIGN(auto parameter, read_parameter(reader, table, owner));
    const auto same = [&](const auto& other) { return other.first == parameter.first; };
    TENON_INVALID_IF(std::any_of(adapter.parameters.begin(), adapter.parameters.end(), same),
                     "The adapter has two parameters \"{}\".", parameter.first);
    adapter.parameters.push_back(std::move(parameter));
  }
  return adapter;
}

// Writes front to back: every offset leads forward, but that of a table to its row of fields, which stands before it.
class Writer {
 public:
  size_t at() const { return bytes_.size(); }
  template <typename T>
  size_t number(T value) {
    const size_t at = bytes_.size();
    append(&value, sizeof(T));
    return at;
  }
  void append(const void* data, size_t bytes) {
    const auto* begin = static_cast<const std::byte*>(data);
    if (bytes > 0) bytes_.insert(bytes_.end(), begin, begin + bytes);
  }
  // Zeroes until `at()` plus `ahead` is a multiple.
  void align(size_t multiple, size_t ahead = 0) {
    while ((bytes_.size() + ahead) % multiple != 0) bytes_.push_back({});
  }
  // The offset at `field` leads to the end of what is written.
  void lead_here(size_t field) {
    const auto offset = static_cast<uint32_t>(bytes_.size() - field);
    std::memcpy(bytes_.data() + field, &offset, sizeof(offset));
  }
  // A table of fields of four bytes each, all there; gives the place of the first.
  size_t table(uint16_t fields) {
    const uint16_t row_bytes = 4 + 2 * fields;
    align(4, row_bytes);
    number(row_bytes);
    number<uint16_t>(4 + 4 * fields);
    for (uint16_t i = 0; i < fields; ++i) number<uint16_t>(4 + 4 * i);
    number<int32_t>(row_bytes);
    for (uint16_t i = 0; i < fields; ++i) number<uint32_t>(0);
    return at() - size_t{4} * fields;
  }
  template <typename T>
  void set(size_t at, T value) {
    std::memcpy(bytes_.data() + at, &value, sizeof(T));
  }
  // The table that the offset at `field` leads to.
  size_t table_for(size_t field, uint16_t fields) {
    const size_t first = table(fields);
    set(field, static_cast<uint32_t>(first - 4 - field));
    return first;
  }
  void vector_for(size_t field, const void* data, size_t count, size_t element_bytes, size_t alignment) {
    align(std::max<size_t>(alignment, 4), 4);
    lead_here(field);
    number(static_cast<uint32_t>(count));
    append(data, count * element_bytes);
  }
  std::vector<std::byte> take() { return std::move(bytes_); }

 private:
  std::vector<std::byte> bytes_;
};

Status check_parameter(const std::string& name, const Tensor& tensor, size_t* total) {
  TENON_INVALID_IF(name.empty(), "A parameter has no name.");
  const bool numbers = tensor.defined() && !holds_addresses(tensor.type());
  TENON_INVALID_IF(!numbers || static_cast<int>(tensor.type()) > kLastType || data_type_size(tensor.type()) == 0,
                   "Parameter \"{}\" is no tensor of a type that adapters have ({}).", name,
                   tensor.defined() ? data_type_name(tensor.type()) : "nothing");
  TENON_INVALID_IF(!devices_are_memory_compatible(tensor.space(), MemorySpace()),
                   "Parameter \"{}\" is in memory that the host cannot read ({}).", name, tensor.space().to_string());
  constexpr size_t kOverheadBytes = 256;  // tables, vectors and their alignment
  *total += kOverheadBytes + name.size() + tensor.size_bytes();
  TENON_UNSUPPORTED_IF(*total > kMostBytes, "The parameters take {} bytes or more; an adapter has {} at most.", *total,
                       kMostBytes);
  return Status();
}

}  // namespace

Result<LoraAdapter> LoraAdapter::load(const std::string& path) {
  TENON_TRY_ASSIGN(const std::shared_ptr<const MappedFile> file, MappedFile::open(path));
  Result<LoraAdapter> adapter = parse(file->bytes(), file);
  if (adapter.ok()) return adapter;
  return std::move(adapter).status().with_context(format("while reading the adapter \"{}\"", path));
}

Result<LoraAdapter> LoraAdapter::read(std::span<const std::byte> bytes) {
  TENON_TRY_ASSIGN(const std::shared_ptr<const MappedFile> copy, MappedFile::copy(bytes));
  return parse(copy->bytes(), copy);
}

Result<std::vector<std::byte>> LoraAdapter::write() const {
  size_t total = 0;
  for (const auto& [name, tensor] : parameters) TENON_TRY(check_parameter(name, tensor, &total));
  Writer writer;
  const size_t root = writer.number<uint32_t>(0);
  writer.append(kIdentifier.data(), kIdentifier.size());
  const size_t fields = writer.table_for(root, 4);
  writer.set(fields, kFormatVersion);
  writer.set(fields + 4, adapter_version);
  writer.set(fields + 8, model_version);
  const std::vector<uint32_t> nothing(parameters.size());
  writer.vector_for(fields + 12, nothing.data(), nothing.size(), sizeof(uint32_t), 4);
  const size_t first = writer.at() - nothing.size() * sizeof(uint32_t);
  for (size_t i = 0; i < parameters.size(); ++i) {
    const auto& [name, tensor] = parameters[i];
    const size_t own = writer.table_for(first + i * sizeof(uint32_t), 4);
    writer.vector_for(own, name.data(), name.size(), 1, 4);
    writer.number<uint8_t>(0);  // a string ends with a zero that is not counted
    writer.vector_for(own + 4, tensor.shape().begin(), tensor.shape().dims().size(), sizeof(int64_t), sizeof(int64_t));
    writer.set(own + 8, static_cast<int32_t>(tensor.type()));
    writer.vector_for(own + 12, tensor.data(), tensor.size_bytes(), 1, 8);
  }
  return writer.take();
}

}  // namespace tenon
