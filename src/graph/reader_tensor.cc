// Reads a TensorProto: as a view into the model's bytes where possible, else decoded into memory of its own.
#include <algorithm>
#include <charconv>

#include "base/checked.h"
#include "graph/proto.h"
#include "graph/reader_internal.h"

namespace tenon::reader {

namespace {

using P = proto::TensorProto;

struct TensorFields {
  std::string_view name;
  Shape shape;
  DataType type = DataType::kUndefined;
  bool has_raw = false;
  std::string_view raw;
  bool is_external = false;
  std::string_view location, offset, length;
  bool has_offset = false, has_length = false;
  // Entries by field number: what a tensor claims is compared with what is there before anything is allocated.
  size_t entries[P::kUint64Data + 1] = {};
};

// The field that holds elements of a type when there is no raw_data.
uint32_t typed_field(DataType type) {
  switch (type) {
    case DataType::kFloat:
    case DataType::kComplex64:
      return P::kFloatData;
    case DataType::kDouble:
    case DataType::kComplex128:
      return P::kDoubleData;
    case DataType::kInt64:
      return P::kInt64Data;
    case DataType::kUint32:
    case DataType::kUint64:
      return P::kUint64Data;
    case DataType::kString:
      return P::kStringData;
    default:
      return P::kInt32Data;
  }
}

Status add_dim(TensorFields& fields, int64_t dim) {
  TENON_UNSUPPORTED_IF(fields.shape.rank() == Shape::kMaxRank, "A tensor has more than {} dimensions.",
                       Shape::kMaxRank);
  fields.shape.push_back(dim);
  return Status();
}

Status add_dims(TensorFields& fields, std::string_view packed) {
  Status status;
  proto::for_each_packed_varint(packed, [&](uint64_t dim) {
    if (status.ok()) status = add_dim(fields, static_cast<int64_t>(dim));
  });
  return status;
}

void read_external_entry(TensorFields& fields, std::string_view message) {
  const auto [key, value] = proto::read_entry(message);
  if (key == "location") {
    fields.location = value;
  } else if (key == "offset") {
    fields.offset = value;
    fields.has_offset = true;
  } else if (key == "length") {
    fields.length = value;
    fields.has_length = true;
  }
}

size_t count_varints(std::string_view packed) {
  return static_cast<size_t>(
      std::count_if(packed.begin(), packed.end(), [](char c) { return (static_cast<unsigned char>(c) & 0x80) == 0; }));
}

Result<TensorFields> split_tensor(std::string_view message) {
  TensorFields fields;
  proto::Reader reader = proto::reader(message);
  while (reader.next()) {
    const uint32_t field = reader.tag();
    switch (reader.tag_and_type()) {
      case proto::varint(P::kDims):
        TENON_TRY(add_dim(fields, reader.get_int64()));
        break;
      case proto::bytes(P::kDims):
        TENON_TRY(add_dims(fields, proto::text(reader.get_view())));
        break;
      case proto::varint(P::kDataType): {
        TENON_TRY_ASSIGN(fields.type, to_data_type(reader.get_int64()));
        break;
      }
      case proto::bytes(P::kName):
        fields.name = proto::text(reader.get_view());
        break;
      case proto::bytes(P::kRawData):
        fields.raw = proto::text(reader.get_view());
        fields.has_raw = true;
        break;
      case proto::bytes(P::kFloatData):
        fields.entries[field] += reader.get_view().size() / sizeof(float);
        break;
      case proto::bytes(P::kDoubleData):
        fields.entries[field] += reader.get_view().size() / sizeof(double);
        break;
      case proto::bytes(P::kInt32Data):
      case proto::bytes(P::kInt64Data):
      case proto::bytes(P::kUint64Data):
        fields.entries[field] += count_varints(proto::text(reader.get_view()));
        break;
      case proto::fixed32(P::kFloatData):
      case proto::fixed64(P::kDoubleData):
      case proto::varint(P::kInt32Data):
      case proto::varint(P::kInt64Data):
      case proto::varint(P::kUint64Data):
      case proto::bytes(P::kStringData):
        ++fields.entries[field];
        reader.skip();
        break;
      case proto::bytes(P::kExternalData):
        read_external_entry(fields, proto::text(reader.get_view()));
        break;
      case proto::varint(P::kDataLocation):
        fields.is_external = reader.get_int64() == 1;
        break;
      case proto::bytes(P::kSegment):
        return unsupported("Tensor \"{}\" comes in segments.", fields.name);
      default:
        reader.skip();
    }
  }
  return fields;
}

// Memory that is about to be filled.
Result<std::byte*> allocate(ReadContext& context, Constant& constant) {
  if (constant.size_bytes == 0) return static_cast<std::byte*>(nullptr);
  std::shared_ptr<std::byte> memory = context.copies.allocate(constant.size_bytes);
  if (!memory) return resource_exhausted("There is no memory for a tensor of {} bytes.", constant.size_bytes);
  std::byte* const data = memory.get();
  constant.data = data;
  constant.owner = std::move(memory);
  return data;
}

size_t alignment_of(DataType type) { return std::clamp<size_t>(data_type_size(type), 1, 8); }

// Smaller tensors are copied at once, into memory that many share.
constexpr size_t kCopiedWhenRead = 16 * 1024;

// A bool is 0 or 1: any other byte would be undefined behaviour in whoever reads it as one.
bool are_bools(const std::byte* data, size_t size) {
  return std::all_of(data, data + size, [](std::byte b) { return b <= std::byte{1}; });
}

Status take_raw(ReadContext& context, Constant& constant, std::span<const std::byte> raw,
                std::shared_ptr<const void> owner, bool in_file) {
  const bool aligned = reinterpret_cast<uintptr_t>(raw.data()) % alignment_of(constant.type) == 0;
  const bool is_bool = constant.type == DataType::kBool;
  if (constant.size_bytes == 0) return Status();
  if (aligned && (!is_bool || are_bools(raw.data(), raw.size()))) {
    constant.data = raw.data();
    constant.owner = std::move(owner);
    constant.in_file = in_file;
    return Status();
  }
  if (!is_bool && raw.size() >= kCopiedWhenRead) {
    constant.data = std::make_shared<const UnalignedBytes>(raw, owner, in_file);
    constant.owner = std::move(owner);
    constant.in_file = in_file;
    return Status();
  }
  TENON_TRY_ASSIGN(std::byte* const data, allocate(context, constant));
  std::memcpy(data, raw.data(), raw.size());
  if (is_bool) std::transform(data, data + raw.size(), data, [](std::byte b) { return std::byte{b != std::byte{0}}; });
  return Status();
}

Result<size_t> to_size(std::string_view digits, std::string_view what, std::string_view tensor) {
  size_t value = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  TENON_INVALID_IF(error != std::errc() || end != digits.data() + digits.size() || digits.empty(),
                   "The external {} \"{}\" of tensor \"{}\" is not a number.", what, digits.substr(0, 64), tensor);
  return value;
}

Status read_external(ReadContext& context, const TensorFields& fields, const std::shared_ptr<Constant>& made) {
  Constant& constant = *made;
  size_t offset = 0;
  if (fields.has_offset) {
    TENON_TRY_ASSIGN(offset, to_size(fields.offset, "offset", fields.name));
  }
  if (fields.has_length) {
    TENON_TRY_ASSIGN(const size_t length, to_size(fields.length, "length", fields.name));
    TENON_INVALID_IF(length != constant.size_bytes,
                     "Tensor \"{}\" of type {} and shape {} takes {} bytes, and its external data has {}.", fields.name,
                     data_type_name(constant.type), constant.shape.to_string(), constant.size_bytes, length);
  }
  TENON_TRY(check_name(context, fields.location, "external file"));
  auto opened = context.external.open(fields.location);
  if (!opened.ok())
    return std::move(opened).status().with_context(
        format("where the model keeps the values of tensor \"{}\"", fields.name));
  const auto file = *std::move(opened);
  const auto end = checked_add(offset, constant.size_bytes);
  if (!end || *end > file->bytes().size()) {
    return out_of_range("Offset ({}) plus size ({}) of tensor \"{}\" exceeds the external file \"{}\" ({} bytes).",
                        offset, constant.size_bytes, fields.name, fields.location, file->bytes().size());
  }
  context.notes.external[made.get()] = {made, std::string(fields.location), offset};
  return take_raw(context, constant, file->bytes().subspan(offset, constant.size_bytes), file, true);
}

// Calls `use` with every entry of a typed field, in order.
template <typename Use>
void for_each_entry(std::string_view message, uint32_t field, Use&& use) {
  proto::Reader reader = proto::reader(message);
  while (reader.next(field)) {
    const std::string_view packed =
        reader.wire_type() == protozero::pbf_wire_type::length_delimited ? proto::text(reader.get_view()) : "";
    switch (reader.wire_type()) {
      case protozero::pbf_wire_type::length_delimited:
        if (field == P::kFloatData) {
          proto::for_each_packed_fixed<uint32_t>(packed, use);
        } else if (field == P::kDoubleData) {
          proto::for_each_packed_fixed<uint64_t>(packed, use);
        } else {
          proto::for_each_packed_varint(packed, use);
        }
        break;
      case protozero::pbf_wire_type::fixed32:
        if (field == P::kFloatData) {
          use(reader.get_fixed32());
        } else {
          reader.skip();
        }
        break;
      case protozero::pbf_wire_type::fixed64:
        if (field == P::kDoubleData) {
          use(reader.get_fixed64());
        } else {
          reader.skip();
        }
        break;
      case protozero::pbf_wire_type::varint:
        if (field != P::kFloatData && field != P::kDoubleData) {
          use(reader.get_uint64());
        } else {
          reader.skip();
        }
        break;
      default:
        reader.skip();
    }
  }
}

// Writes entries of `size` bytes each (little-endian, as the host is).
void decode(std::string_view message, uint32_t field, DataType type, std::byte* data, size_t bytes) {
  const int bits = data_type_bits(type);
  size_t at = 0;
  if (bits == 6) {
    size_t bit = 0;
    for_each_entry(message, field, [&](uint64_t entry) {
      const unsigned shifted = static_cast<unsigned>(entry & 0x3F) << bit % 8;
      if (bit / 8 < bytes) data[bit / 8] |= static_cast<std::byte>(shifted & 0xFF);
      if (bit / 8 + 1 < bytes) data[bit / 8 + 1] |= static_cast<std::byte>(shifted >> 8);
      bit += 6;
    });
    return;
  }
  // Complex numbers come as two entries; types below a byte share one.
  const bool is_complex = type == DataType::kComplex64 || type == DataType::kComplex128;
  const size_t size = is_complex ? static_cast<size_t>(bits) / 16 : std::max<size_t>(1, static_cast<size_t>(bits) / 8);
  const bool is_bool = type == DataType::kBool;
  for_each_entry(message, field, [&](uint64_t entry) {
    if (at + size > bytes) return;
    if (is_bool) entry = entry != 0;
    std::memcpy(data + at, &entry, size);
    at += size;
  });
}

Status decode_typed(ReadContext& context, std::string_view message, const TensorFields& fields, size_t count,
                    Constant& constant) {
  const uint32_t field = typed_field(fields.type);
  const int bits = data_type_bits(fields.type);
  size_t wanted = count;
  if (fields.type == DataType::kComplex64 || fields.type == DataType::kComplex128) {
    wanted = 2 * count;
  } else if (bits == 4 || bits == 2) {
    wanted = constant.size_bytes;
  }
  TENON_INVALID_IF(fields.entries[field] != wanted,
                   "Tensor \"{}\" of type {} and shape {} takes {} entries, and its data has {}.", fields.name,
                   data_type_name(fields.type), fields.shape.to_string(), wanted, fields.entries[field]);
  if (fields.type == DataType::kString) {
    std::vector<std::string> texts;
    texts.reserve(count);
    proto::Reader reader = proto::reader(message);
    while (reader.next(P::kStringData, protozero::pbf_wire_type::length_delimited))
      texts.emplace_back(proto::text(reader.get_view()));
    constant = *make_string_constant(fields.shape, std::move(texts));
    return Status();
  }
  TENON_TRY_ASSIGN(std::byte* const data, allocate(context, constant));
  if (data == nullptr) return Status();
  if (bits == 6) std::memset(data, 0, constant.size_bytes);
  decode(message, field, fields.type, data, constant.size_bytes);
  return Status();
}

Result<NamedConstant> read_new_tensor(ReadContext& context, std::string_view message) {
  TENON_TRY_ASSIGN(const TensorFields fields, split_tensor(message));
  TENON_TRY(check_name(context, fields.name, "tensor"));
  TENON_INVALID_IF(fields.type == DataType::kUndefined, "Tensor \"{}\" has no element type.", fields.name);
  auto constant = std::make_shared<Constant>();
  constant->type = fields.type;
  constant->shape = fields.shape;
  Result<int64_t> checked = fields.shape.checked_element_count();
  if (!checked.ok())
    return std::move(checked).status().with_context(format("while reading tensor \"{}\".", fields.name));
  const size_t count = *checked;
  TENON_TRY_ASSIGN(constant->size_bytes, tensor_size_bytes(fields.type, fields.shape));
  if (constant->size_bytes > context.limits.max_tensor_bytes) {
    return resource_exhausted("Tensor \"{}\" takes {} bytes; the limit is {}.", fields.name, constant->size_bytes,
                              context.limits.max_tensor_bytes);
  }
  if (fields.is_external) {
    TENON_INVALID_IF(fields.type == DataType::kString, "Tensor \"{}\" of strings has external data.", fields.name);
    TENON_TRY(read_external(context, fields, constant));
  } else if (fields.has_raw) {
    TENON_INVALID_IF(fields.type == DataType::kString, "Tensor \"{}\" of strings has raw data.", fields.name);
    TENON_INVALID_IF(fields.raw.size() != constant->size_bytes,
                     "Tensor \"{}\" of type {} and shape {} takes {} bytes, and its data has {}.", fields.name,
                     data_type_name(fields.type), fields.shape.to_string(), constant->size_bytes, fields.raw.size());
    TENON_TRY(take_raw(context, *constant, std::as_bytes(std::span(fields.raw)), context.owner, context.in_file));
  } else {
    TENON_TRY(decode_typed(context, message, fields, count, *constant));
  }
  keep_tensor_notes(context, message, constant);
  return NamedConstant{fields.name, std::move(constant)};
}

}  // namespace

Result<DataType> to_data_type(int64_t number) {
  TENON_UNSUPPORTED_IF(number < 0 || number > static_cast<int64_t>(DataType::kFloat6E3M2),
                       "Element type {} is not known.", number);
  return static_cast<DataType>(number);
}

Result<NamedConstant> read_initializer(ReadContext& context, std::string_view message) {
  if (context.replacements.initializers.empty()) return read_tensor(context, message);
  TENON_TRY_ASSIGN(const TensorFields fields, split_tensor(message));
  const auto found = context.replacements.initializers.find(fields.name);
  if (found == context.replacements.initializers.end()) return read_tensor(context, message);
  TENON_INVALID_IF(found->second->type != fields.type || !(found->second->shape == fields.shape),
                   "The tensor given for initializer \"{}\" is {}{}, and the model's is {}{}.", fields.name,
                   data_type_name(found->second->type), found->second->shape.to_string(), data_type_name(fields.type),
                   fields.shape.to_string());
  return NamedConstant{fields.name, found->second};
}

Result<NamedConstant> read_tensor(ReadContext& context, std::string_view message) {
  if (!context.keep_tensors) return read_new_tensor(context, message);
  if (const auto known = context.tensors.find(message.data()); known != context.tensors.end()) return known->second;
  TENON_TRY_ASSIGN(NamedConstant tensor, read_new_tensor(context, message));
  context.tensors.emplace(message.data(), tensor);
  return tensor;
}

}  // namespace tenon::reader
