// Sparse tensors: made empty and filled with copies, or views of the program's values that get their indices later.
#include <algorithm>
#include <cstring>

#include "abi/objects/allocator.h"
#include "abi/objects/slots.h"
#include "abi/objects/sparse_tensor.h"
#include "abi/objects/status.h"
#include "abi/objects/value.h"
#include "base/checked.h"

namespace tenon::abi {

namespace {

OrtStatus* check_type(ONNXTensorElementDataType type) {
  const bool complex =
      type == ONNX_TENSOR_ELEMENT_DATA_TYPE_COMPLEX64 || type == ONNX_TENSOR_ELEMENT_DATA_TYPE_COMPLEX128;
  const bool whole_bytes =
      type > ONNX_TENSOR_ELEMENT_DATA_TYPE_UNDEFINED && type <= ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT8E5M2FNUZ;
  if ((whole_bytes && !complex) || type == ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT8E8M0) return nullptr;
  // The number is ONNX's, which differs from the C ABI's for the newest types.
  const DataType core = from_element_type(type);
  return ort_error(ORT_NOT_IMPLEMENTED, "sparse tensor type {} is not supported",
                   core == DataType::kUndefined ? static_cast<int>(type) : static_cast<int>(core));
}

OrtStatus* check_memory(const OrtMemoryInfo& memory, bool strings) {
  if (host_reads(memory)) return nullptr;
  if (strings) return make_ort_status(ORT_FAIL, "Strings can only reside in CPU memory");
  return ort_error(ORT_NOT_IMPLEMENTED,
                   "A sparse tensor lies in memory that the host reads, and that of \"{}\" is not.", memory.name);
}

// Shapes of what fills a value; `negative` is the text for one with a negative dimension, which has the code FAIL here.
OrtStatus* read_shape(const int64_t* dims, size_t rank, const char* negative, Shape* out) {
  if (dims != nullptr && std::any_of(dims, dims + rank, [](int64_t dim) { return dim < 0; }))
    return make_ort_status(ORT_FAIL, negative);
  const Result<Shape> shape = to_shape(dims, rank);
  if (!shape.ok()) return to_ort(shape.status());
  if (const auto count = shape->checked_element_count(); !count.ok()) return to_ort(count.status(), ORT_FAIL);
  *out = *shape;
  return nullptr;
}

OrtStatus* check_sparse(const OrtValue& value) {
  if (value.kind == ONNX_TYPE_SPARSETENSOR) return nullptr;
  return ort_error(ORT_RUNTIME_EXCEPTION, "The value is not a sparse tensor (kind {}).", static_cast<int>(value.kind));
}

// The content of a value that has no indices yet, to be given some: copied if it was made with an allocator. Null:
// `bad` says why there is none.
SparseTensor* unfilled(OrtValue& value, bool with_allocator, OrtStatus** bad) {
  *bad = check_sparse(value);
  if (*bad != nullptr || value.sparse == nullptr) return nullptr;
  SparseTensor& sparse = *value.sparse;
  if (sparse.format != ORT_SPARSE_UNDEFINED) {
    *bad = ort_error(ORT_FAIL, "this tensor already has populated sparse_indices (format {})",
                     static_cast<int>(sparse.format));
  } else if (with_allocator && sparse.allocator == nullptr) {
    *bad = make_ort_status(ORT_FAIL, "A view of the program's values gets its indices from Use...Indices.");
  } else if (!with_allocator && sparse.allocator != nullptr) {
    *bad = make_ort_status(ORT_FAIL, "A sparse tensor with an allocator gets its indices from FillSparseTensor....");
  }
  return *bad == nullptr ? &sparse : nullptr;
}

// Null: `bad` says why there is nothing to read.
const SparseTensor* filled(const OrtValue& value, OrtStatus** bad) {
  if (value.kind == ONNX_TYPE_UNKNOWN) {
    *bad = make_ort_status(ORT_FAIL, "the ort_value must contain a constructed sparse tensor");
    return nullptr;
  }
  *bad = check_sparse(value);
  if (*bad != nullptr || value.sparse == nullptr) return nullptr;
  if (value.sparse->format != ORT_SPARSE_UNDEFINED) return value.sparse.get();
  *bad = make_ort_status(ORT_FAIL, "Sparse Tensor does not contain sparse data");
  return nullptr;
}

struct Content {
  OrtSparseFormat format;
  Shape values_shape;
  const void* values;
  std::vector<SparseIndices> indices;
};

OrtStatus* copy_strings(const Content& content, size_t count, std::vector<std::string>* out) {
  const auto* const texts = static_cast<const char* const*>(content.values);
  out->reserve(count);
  for (size_t i = 0; i < count; ++i) {
    if (texts[i] == nullptr) return ort_error(ORT_INVALID_ARGUMENT, "String {} of a sparse tensor is null.", i);
    out->emplace_back(texts[i]);
  }
  return nullptr;
}

// Bytes of `content`'s arrays that lie one after the other in a block, the values first, each at a multiple of 8.
OrtStatus* block_bytes(const Content& content, DataType type, std::vector<size_t>* sizes, size_t* total) {
  const auto add = [&](DataType element, const Shape& shape) -> bool {
    const Result<size_t> bytes = element == DataType::kString ? Result<size_t>(0) : tensor_size_bytes(element, shape);
    if (!bytes.ok() || *bytes > SIZE_MAX - 7) return false;
    sizes->push_back((*bytes + 7) / 8 * 8);
    const auto sum = checked_add(*total, sizes->back());
    if (sum) *total = *sum;
    return sum.has_value();
  };
  bool fits = add(type, content.values_shape);
  for (const SparseIndices& indices : content.indices) fits = fits && add(indices.type, indices.shape);
  return fits ? nullptr : make_ort_status(ORT_FAIL, "The size of the sparse tensor's values and indices overflows.");
}

// Copies what the program gives. It is not a transfer between tensors: the program's arrays become one.
OrtStatus* fill(const OrtValue& value, const Content& content, SparseTensor& sparse) {
  const DataType type = from_element_type(value.element_type);
  const size_t count = content.values_shape.element_count();
  if (count > 0 && content.values == nullptr)
    return ort_error(ORT_INVALID_ARGUMENT, "The array of {} values is null.", count);
  for (const SparseIndices& indices : content.indices) {
    if (indices.data == nullptr && indices.shape.element_count() > 0)
      return ort_error(ORT_INVALID_ARGUMENT, "The array of {} indices is null.", indices.shape.element_count());
  }
  SparseTensor made;
  made.format = content.format;
  made.allocator = sparse.allocator;
  made.values_shape = content.values_shape;
  made.indices = content.indices;
  if (type == DataType::kString) {
    if (OrtStatus* bad = copy_strings(content, count, &made.strings)) return bad;
  }
  std::vector<size_t> sizes;
  size_t total = 0;
  if (OrtStatus* bad = block_bytes(content, type, &sizes, &total)) return bad;
  const Result<void*> block = allocate(sparse.allocator, total);
  if (!block.ok()) return to_ort(block.status());
  OrtAllocator* const allocator = sparse.allocator;
  made.block = std::shared_ptr<const void>(
      *block, [allocator](const void* pointer) { free_block(allocator, const_cast<void*>(pointer)); });
  auto* at = static_cast<std::byte*>(*block);
  const auto place = [&](const void* from, size_t bytes, size_t room) -> const void* {
    if (bytes > 0) std::memcpy(at, from, bytes);
    const void* placed = at;
    if (at != nullptr) at += room;
    return placed;
  };
  if (type != DataType::kString) made.values = place(content.values, count * data_type_size(type), sizes[0]);
  for (size_t i = 0; i < made.indices.size(); ++i) {
    SparseIndices& indices = made.indices[i];
    indices.data = place(indices.data, indices.shape.element_count() * data_type_size(indices.type), sizes[i + 1]);
  }
  sparse = std::move(made);
  return nullptr;
}

struct Values {
  const int64_t* dims;
  size_t rank;
  const void* data;
};

// The first part of every Fill function, before its indices: the content to fill, or null with the reason in `bad`.
SparseTensor* begin_fill(OrtValue& value, const OrtMemoryInfo& memory, const Values& values, Shape* shape,
                         OrtStatus** bad) {
  SparseTensor* const sparse = unfilled(value, /*with_allocator=*/true, bad);
  if (sparse == nullptr) return nullptr;
  const bool strings = value.element_type == ONNX_TENSOR_ELEMENT_DATA_TYPE_STRING;
  *bad = check_memory(memory, strings);
  if (*bad == nullptr)
    *bad =
        read_shape(values.dims, values.rank, "tried Filling sparse tensor with negative value in values shape", shape);
  return *bad == nullptr ? sparse : nullptr;
}

// COO and CSR have a vector of values, whatever shape they were given in.
Shape flat(const Shape& shape) { return Shape{static_cast<int64_t>(shape.element_count())}; }

SparseIndices index_vector(IndexArray indices) {
  return {DataType::kInt64, Shape{static_cast<int64_t>(indices.count)}, indices.data};
}

OrtStatus* new_sparse(const int64_t* dims, size_t rank, ONNXTensorElementDataType type, const OrtMemoryInfo& memory,
                      SparseTensor content, OrtValue** out) {
  const Result<Shape> shape = to_shape(dims, rank);
  if (!shape.ok()) return to_ort(shape.status());
  auto value = std::make_unique<OrtValue>();
  value->kind = ONNX_TYPE_SPARSETENSOR;
  value->shape = *shape;
  value->element_type = type;
  value->memory = memory;
  value->sparse = std::make_shared<SparseTensor>(std::move(content));
  *out = value.release();
  return nullptr;
}

// Null: `bad` says why there are none.
const SparseIndices* find_indices(const OrtValue& value, OrtSparseIndicesFormat wanted, OrtStatus** bad) {
  const SparseTensor* const sparse = filled(value, bad);
  if (sparse == nullptr) return nullptr;
  OrtSparseFormat format = ORT_SPARSE_UNDEFINED;
  if (wanted == ORT_SPARSE_COO_INDICES) format = ORT_SPARSE_COO;
  if (wanted == ORT_SPARSE_CSR_INNER_INDICES || wanted == ORT_SPARSE_CSR_OUTER_INDICES) format = ORT_SPARSE_CSRC;
  if (wanted == ORT_SPARSE_BLOCK_SPARSE_INDICES) format = ORT_SPARSE_BLOCK_SPARSE;
  if (format == sparse->format) return &sparse->indices[wanted == ORT_SPARSE_CSR_OUTER_INDICES ? 1 : 0];
  *bad = format == ORT_SPARSE_UNDEFINED
             ? ort_error(ORT_FAIL, "Unsupported indices_format passed: {}", static_cast<int>(wanted))
             : ort_error(ORT_FAIL, "The sparse tensor has the format {}, and indices of format {} are asked for.",
                         static_cast<int>(sparse->format), static_cast<int>(format));
  return nullptr;
}

}  // namespace

OrtStatus* ort_api::CreateSparseTensorAsOrtValue(OrtAllocator* allocator, const int64_t* dense_shape,
                                                 size_t dense_shape_len, ONNXTensorElementDataType type,
                                                 OrtValue** out) noexcept {
  clear(out);
  if (OrtStatus* bad = check_pointers("CreateSparseTensorAsOrtValue", {{"allocator", allocator}, {"out", out}}))
    return bad;
  return guarded([&]() -> OrtStatus* {
    if (OrtStatus* bad = check_type(type)) return bad;
    const OrtMemoryInfo* info = nullptr;
    if (OrtStatus* bad = AllocatorGetInfo(allocator, &info)) return bad;
    if (info == nullptr) return make_ort_status(ORT_INVALID_ARGUMENT, "The allocator's Info gives null.");
    if (OrtStatus* bad = check_memory(*info, type == ONNX_TENSOR_ELEMENT_DATA_TYPE_STRING)) return bad;
    SparseTensor content;
    content.allocator = allocator;
    return new_sparse(dense_shape, dense_shape_len, type, *info, std::move(content), out);
  });
}

OrtStatus* ort_api::CreateSparseTensorWithValuesAsOrtValue(const OrtMemoryInfo* info, void* p_data,
                                                           const int64_t* dense_shape, size_t dense_shape_len,
                                                           const int64_t* values_shape, size_t values_shape_len,
                                                           ONNXTensorElementDataType type, OrtValue** out) noexcept {
  clear(out);
  if (OrtStatus* bad = check_pointers("CreateSparseTensorWithValuesAsOrtValue", {{"info", info}, {"out", out}}))
    return bad;
  return guarded([&]() -> OrtStatus* {
    if (OrtStatus* bad = check_type(type)) return bad;
    if (type == ONNX_TENSOR_ELEMENT_DATA_TYPE_STRING)
      return make_ort_status(ORT_INVALID_ARGUMENT,
                             "Can not use strings in pre-allocated memory. Use CreateSparseTensorAsOrtValue() to "
                             "allocate memory inside and copy");
    if (OrtStatus* bad = check_memory(*info, false)) return bad;
    SparseTensor content;
    const Result<Shape> shape = to_shape(values_shape, values_shape_len);
    if (!shape.ok()) return to_ort(shape.status());
    if (const auto bytes = tensor_size_bytes(from_element_type(type), *shape); !bytes.ok())
      return to_ort(bytes.status(), ORT_FAIL);
    if (p_data == nullptr && shape->element_count() > 0)
      return ort_error(ORT_INVALID_ARGUMENT, "The array of {} values is null.", shape->element_count());
    content.values_shape = *shape;
    content.values = p_data;
    return new_sparse(dense_shape, dense_shape_len, type, *info, std::move(content), out);
  });
}

OrtStatus* ort_api::FillSparseTensorCoo(OrtValue* ort_value, const OrtMemoryInfo* data_mem_info,
                                        const int64_t* values_shape, size_t values_shape_len, const void* values,
                                        const int64_t* indices_data, size_t indices_num) noexcept {
  if (OrtStatus* bad =
          check_pointers("FillSparseTensorCoo", {{"ort_value", ort_value}, {"data_mem_info", data_mem_info}}))
    return bad;
  return guarded([&]() -> OrtStatus* {
    Shape shape;
    OrtStatus* bad_value = nullptr;
    SparseTensor* const sparse =
        begin_fill(*ort_value, *data_mem_info, {values_shape, values_shape_len, values}, &shape, &bad_value);
    if (sparse == nullptr) return bad_value;
    const size_t count = shape.element_count();
    if (OrtStatus* bad = check_coo(ort_value->shape, count, {indices_data, indices_num})) return bad;
    return fill(
        *ort_value,
        {ORT_SPARSE_COO, flat(shape), values, {{DataType::kInt64, coo_shape(count, indices_num), indices_data}}},
        *sparse);
  });
}

OrtStatus* ort_api::FillSparseTensorCsr(OrtValue* ort_value, const OrtMemoryInfo* data_mem_info,
                                        const int64_t* values_shape, size_t values_shape_len, const void* values,
                                        const int64_t* inner_indices_data, size_t inner_indices_num,
                                        const int64_t* outer_indices_data, size_t outer_indices_num) noexcept {
  if (OrtStatus* bad =
          check_pointers("FillSparseTensorCsr", {{"ort_value", ort_value}, {"data_mem_info", data_mem_info}}))
    return bad;
  return guarded([&]() -> OrtStatus* {
    Shape shape;
    OrtStatus* bad_value = nullptr;
    SparseTensor* const sparse =
        begin_fill(*ort_value, *data_mem_info, {values_shape, values_shape_len, values}, &shape, &bad_value);
    if (sparse == nullptr) return bad_value;
    const IndexArray inner{inner_indices_data, inner_indices_num}, outer{outer_indices_data, outer_indices_num};
    if (OrtStatus* bad = check_csr(ort_value->shape, shape.element_count(), inner, outer)) return bad;
    return fill(*ort_value, {ORT_SPARSE_CSRC, flat(shape), values, {index_vector(inner), index_vector(outer)}},
                *sparse);
  });
}

OrtStatus* ort_api::FillSparseTensorBlockSparse(OrtValue* ort_value, const OrtMemoryInfo* data_mem_info,
                                                const int64_t* values_shape, size_t values_shape_len,
                                                const void* values, const int64_t* indices_shape_data,
                                                size_t indices_shape_len, const int32_t* indices_data) noexcept {
  if (OrtStatus* bad =
          check_pointers("FillSparseTensorBlockSparse", {{"ort_value", ort_value}, {"data_mem_info", data_mem_info}}))
    return bad;
  return guarded([&]() -> OrtStatus* {
    Shape shape, indices;
    OrtStatus* bad_value = nullptr;
    SparseTensor* const sparse =
        begin_fill(*ort_value, *data_mem_info, {values_shape, values_shape_len, values}, &shape, &bad_value);
    if (sparse == nullptr) return bad_value;
    if (OrtStatus* bad =
            read_shape(indices_shape_data, indices_shape_len,
                       "tried Filling sparse tensor with negative value in block sparse indices shape", &indices))
      return bad;
    if (OrtStatus* bad = check_blocks(shape, indices)) return bad;
    return fill(*ort_value, {ORT_SPARSE_BLOCK_SPARSE, shape, values, {{DataType::kInt32, indices, indices_data}}},
                *sparse);
  });
}

OrtStatus* ort_api::UseCooIndices(OrtValue* ort_value, int64_t* indices_data, size_t indices_num) noexcept {
  if (OrtStatus* bad = check_pointers("UseCooIndices", {{"ort_value", ort_value}})) return bad;
  return guarded([&]() -> OrtStatus* {
    OrtStatus* bad_value = nullptr;
    SparseTensor* const sparse = unfilled(*ort_value, /*with_allocator=*/false, &bad_value);
    if (sparse == nullptr) return bad_value;
    const size_t count = sparse->values_shape.element_count();
    if (OrtStatus* bad = check_coo(ort_value->shape, count, {indices_data, indices_num})) return bad;
    sparse->indices = {{DataType::kInt64, coo_shape(count, indices_num), indices_data}};
    sparse->format = ORT_SPARSE_COO;
    return nullptr;
  });
}

OrtStatus* ort_api::UseCsrIndices(OrtValue* ort_value, int64_t* inner_data, size_t inner_num, int64_t* outer_data,
                                  size_t outer_num) noexcept {
  if (OrtStatus* bad = check_pointers("UseCsrIndices", {{"ort_value", ort_value}})) return bad;
  return guarded([&]() -> OrtStatus* {
    OrtStatus* bad_value = nullptr;
    SparseTensor* const sparse = unfilled(*ort_value, /*with_allocator=*/false, &bad_value);
    if (sparse == nullptr) return bad_value;
    const IndexArray inner{inner_data, inner_num}, outer{outer_data, outer_num};
    if (OrtStatus* bad = check_csr(ort_value->shape, sparse->values_shape.element_count(), inner, outer)) return bad;
    sparse->indices = {index_vector(inner), index_vector(outer)};
    sparse->format = ORT_SPARSE_CSRC;
    return nullptr;
  });
}

OrtStatus* ort_api::UseBlockSparseIndices(OrtValue* ort_value, const int64_t* indices_shape, size_t indices_shape_len,
                                          int32_t* indices_data) noexcept {
  if (OrtStatus* bad = check_pointers("UseBlockSparseIndices", {{"ort_value", ort_value}})) return bad;
  return guarded([&]() -> OrtStatus* {
    OrtStatus* bad_value = nullptr;
    SparseTensor* const sparse = unfilled(*ort_value, /*with_allocator=*/false, &bad_value);
    if (sparse == nullptr) return bad_value;
    Shape shape;
    if (OrtStatus* bad =
            read_shape(indices_shape, indices_shape_len, "The shape of the block indices is negative.", &shape))
      return bad;
    if (OrtStatus* bad = check_blocks(sparse->values_shape, shape)) return bad;
    if (indices_data == nullptr && shape.element_count() > 0)
      return ort_error(ORT_INVALID_ARGUMENT, "The array of {} indices is null.", shape.element_count());
    sparse->indices = {{DataType::kInt32, shape, indices_data}};
    sparse->format = ORT_SPARSE_BLOCK_SPARSE;
    return nullptr;
  });
}

OrtStatus* ort_api::GetSparseTensorFormat(const OrtValue* ort_value, enum OrtSparseFormat* out) noexcept {
  clear(out);
  if (OrtStatus* bad = check_pointers("GetSparseTensorFormat", {{"ort_value", ort_value}, {"out", out}})) return bad;
  if (ort_value->kind == ONNX_TYPE_UNKNOWN)
    return make_ort_status(ORT_INVALID_ARGUMENT, "the ort_value must contain a constructed tensor");
  if (OrtStatus* bad = check_sparse(*ort_value)) return bad;
  *out = ort_value->sparse != nullptr ? ort_value->sparse->format : ORT_SPARSE_UNDEFINED;
  return nullptr;
}

OrtStatus* ort_api::GetSparseTensorValuesTypeAndShape(const OrtValue* ort_value,
                                                      OrtTensorTypeAndShapeInfo** out) noexcept {
  clear(out);
  if (OrtStatus* bad = check_pointers("GetSparseTensorValuesTypeAndShape", {{"ort_value", ort_value}, {"out", out}}))
    return bad;
  OrtStatus* bad_value = nullptr;
  const SparseTensor* const sparse = filled(*ort_value, &bad_value);
  if (sparse == nullptr) return bad_value;
  return guarded([&] {
    return make_object(out, make_tensor_info(from_element_type(ort_value->element_type), sparse->values_shape));
  });
}

OrtStatus* ort_api::GetSparseTensorValues(const OrtValue* ort_value, const void** out) noexcept {
  clear(out);
  if (OrtStatus* bad = check_pointers("GetSparseTensorValues", {{"ort_value", ort_value}, {"out", out}})) return bad;
  OrtStatus* bad_value = nullptr;
  const SparseTensor* const sparse = filled(*ort_value, &bad_value);
  if (sparse == nullptr) return bad_value;
  if (ort_value->element_type == ONNX_TENSOR_ELEMENT_DATA_TYPE_STRING)
    return make_ort_status(ORT_INVALID_ARGUMENT, "Use GetStringTensor*() API to retrieve strings");
  *out = sparse->values;
  return nullptr;
}

OrtStatus* ort_api::GetSparseTensorIndicesTypeShape(const OrtValue* ort_value,
                                                    enum OrtSparseIndicesFormat indices_format,
                                                    OrtTensorTypeAndShapeInfo** out) noexcept {
  clear(out);
  if (OrtStatus* bad = check_pointers("GetSparseTensorIndicesTypeShape", {{"ort_value", ort_value}, {"out", out}}))
    return bad;
  OrtStatus* bad_value = nullptr;
  const SparseIndices* const indices = find_indices(*ort_value, indices_format, &bad_value);
  if (indices == nullptr) return bad_value;
  return guarded([&] { return make_object(out, make_tensor_info(indices->type, indices->shape)); });
}

OrtStatus* ort_api::GetSparseTensorIndices(const OrtValue* ort_value, enum OrtSparseIndicesFormat indices_format,
                                           size_t* num_indices, const void** indices) noexcept {
  clear(num_indices);
  clear(indices);
  if (OrtStatus* bad = check_pointers("GetSparseTensorIndices",
                                      {{"ort_value", ort_value}, {"num_indices", num_indices}, {"indices", indices}}))
    return bad;
  OrtStatus* bad_value = nullptr;
  const SparseIndices* const found = find_indices(*ort_value, indices_format, &bad_value);
  if (found == nullptr) return bad_value;
  *num_indices = found->shape.element_count();
  *indices = found->data;
  return nullptr;
}

// The C ABI registers no opaque types: those that exist are compiled into a library, and neither the reference's nor
// this one has any.
OrtStatus* ort_api::CreateOpaqueValue(const char* domain_name, const char* type_name, const void* data_container,
                                      size_t, OrtValue** out) noexcept {
  clear(out);
  if (OrtStatus* bad = check_pointers(
          "CreateOpaqueValue",
          {{"domain_name", domain_name}, {"type_name", type_name}, {"data_container", data_container}, {"out", out}}))
    return bad;
  return ort_error(ORT_FAIL, "\"opaque({},{})\" does not refer to a registered opaque type.", domain_name, type_name);
}

OrtStatus* ort_api::GetOpaqueValue(const char* domain_name, const char* type_name, const OrtValue* in,
                                   void* data_container, size_t) noexcept {
  if (OrtStatus* bad = check_pointers(
          "GetOpaqueValue",
          {{"domain_name", domain_name}, {"type_name", type_name}, {"in", in}, {"data_container", data_container}}))
    return bad;
  return ort_error(ORT_FAIL, "\"opaque({},{})\" does not refer to a registered opaque type.", domain_name, type_name);
}

}  // namespace tenon::abi
