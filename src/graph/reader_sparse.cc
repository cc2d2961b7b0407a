// Reads a SparseTensorProto as a dense tensor.
#include <cstring>
#include <span>
#include <vector>

#include "base/checked.h"
#include "graph/proto.h"
#include "graph/reader_internal.h"

namespace tenon::reader {

namespace {

// A few bytes may state any shape, so that what all of them take is limited.
constexpr size_t kLargestDense = size_t{1} << 30;

struct SparseFields {
  std::string_view values, indices;
  Shape shape;
};

Status add_dim(SparseFields& fields, int64_t dim) {
  TENON_UNSUPPORTED_IF(fields.shape.rank() == Shape::kMaxRank, "A sparse tensor has more than {} dimensions.",
                       Shape::kMaxRank);
  TENON_INVALID_IF(dim < 0, "A sparse tensor has a dimension of {}.", dim);
  fields.shape.push_back(dim);
  return {};
}

Result<SparseFields> split_sparse(std::string_view message) {
  using P = proto::SparseTensorProto;
  SparseFields fields;
  Status status;
  proto::Reader reader = proto::reader(message);
  while (reader.next()) {
    switch (reader.tag_and_type()) {
      case proto::bytes(P::kValues):
        fields.values = proto::text(reader.get_view());
        break;
      case proto::bytes(P::kIndices):
        fields.indices = proto::text(reader.get_view());
        break;
      case proto::varint(P::kDims):
        TENON_TRY(add_dim(fields, reader.get_int64()));
        break;
      case proto::bytes(P::kDims):
        proto::for_each_packed_varint(proto::text(reader.get_view()), [&](uint64_t dim) {
          if (status.ok()) status = add_dim(fields, static_cast<int64_t>(dim));
        });
        TENON_TRY(status);
        break;
      default:
        reader.skip();
    }
  }
  return fields;
}

// ONNX Runtime's own format has the smallest type that holds all indices.
Result<std::vector<int64_t>> read_indices(const Constant& indices, std::string_view name) {
  std::vector<int64_t> all;
  const auto take = [&](auto numbers) { all.assign(numbers.begin(), numbers.end()); };
  switch (indices.type) {
    case DataType::kInt8:
      take(indices.as<int8_t>());
      break;
    case DataType::kInt16:
      take(indices.as<int16_t>());
      break;
    case DataType::kInt32:
      take(indices.as<int32_t>());
      break;
    case DataType::kInt64:
      take(indices.as<int64_t>());
      break;
    default:
      return invalid_argument("Sparse tensor \"{}\" has indices of {}.", name, data_type_name(indices.type));
  }
  return all;
}

// The place of entry `i` in the dense tensor: indices are places [count], or one index a dimension [count, rank].
Result<int64_t> place_of(std::span<const int64_t> all, bool by_dimension, const Shape& shape, int64_t i,
                         std::string_view name) {
  if (!by_dimension) return all[static_cast<size_t>(i)];
  int64_t place = 0;
  for (int d = 0; d < shape.rank(); ++d) {
    const int64_t index = all[static_cast<size_t>(i * shape.rank() + d)];
    TENON_INVALID_IF(index < 0 || index >= shape[d],
                     "Index {} of dimension {} of sparse tensor \"{}\" is not in [0, {}).", index, d, name, shape[d]);
    place = place * shape[d] + index;
  }
  return place;
}

}  // namespace

Result<NamedConstant> read_sparse_tensor(ReadContext& context, std::string_view message) {
  TENON_TRY_ASSIGN(const SparseFields fields, split_sparse(message));
  TENON_TRY_ASSIGN(const NamedConstant values, read_tensor(context, fields.values));
  TENON_TRY_ASSIGN(const NamedConstant listed, read_tensor(context, fields.indices));
  const Constant &from = *values.constant, &indices = *listed.constant;
  const size_t each = data_type_size(from.type);
  TENON_UNSUPPORTED_IF(from.type == DataType::kString || each == 0, "Sparse tensor \"{}\" of {} is not read.",
                       values.name, data_type_name(from.type));
  const int64_t count = from.shape.element_count();
  const bool fits = indices.shape == Shape{count} || indices.shape == Shape{count, fields.shape.rank()};
  TENON_INVALID_IF(from.shape.rank() != 1 || !fits, "Sparse tensor \"{}\" of shape {} has values {} and indices {}.",
                   values.name, fields.shape.to_string(), from.shape.to_string(), indices.shape.to_string());
  TENON_TRY_ASSIGN(const std::vector<int64_t> all, read_indices(indices, values.name));
  const bool by_dimension = indices.shape.rank() == 2;
  TENON_TRY_ASSIGN(const size_t bytes, tensor_size_bytes(from.type, fields.shape));
  const auto total = checked_add(context.dense_bytes, bytes);
  if (!total || *total > kLargestDense) {
    return resource_exhausted("Sparse tensor \"{}\" of shape {} takes {} bytes; all of a model may take {}.",
                              values.name, fields.shape.to_string(), bytes, kLargestDense);
  }
  context.dense_bytes = *total;
  std::byte* data = nullptr;
  TENON_TRY_ASSIGN(ConstantRef dense, make_constant(from.type, fields.shape, &data));
  int64_t before = -1;
  for (int64_t i = 0; i < count; ++i) {
    TENON_TRY_ASSIGN(const int64_t place, place_of(all, by_dimension, fields.shape, i, values.name));
    TENON_INVALID_IF(place <= before || place >= fields.shape.element_count(),
                     "Entry {} of sparse tensor \"{}\" is element {} of {}, and the one before is element {}.", i,
                     values.name, place, fields.shape.element_count(), before);
    std::memcpy(data + static_cast<size_t>(place) * each, from.data + static_cast<size_t>(i) * each, each);
    before = place;
  }
  return NamedConstant{values.name, std::move(dense)};
}

}  // namespace tenon::reader
