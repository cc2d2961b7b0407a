#include "sparse.h"

#include "arrays.h"
#include "value.h"

namespace tenon::python {
namespace {

// The Python class. Views of one share it.
struct SparseTensor {
  SparseRef sparse;
};
struct SparseCooView {
  SparseRef sparse;
};
struct SparseCsrcView {
  SparseRef sparse;
};

nb::object numpy(const char* name) { return nb::module_::import_("numpy").attr(name); }

bool is_contiguous(nb::handle array) { return nb::cast<bool>(array.attr("flags")["C_CONTIGUOUS"]); }

// A vector of values whose memory the tensor shares where its type allows.
Tensor read_values(nb::handle values, const char* format) {
  if (!is_array(values))
    raise(PyExc_TypeError, "values is a numpy array, and this is " + str_of(nb::type_name(values.type())) + ".");
  if (element_type(values) == DataType::kUndefined) raise_no_element_type(values);
  Tensor tensor = tensor_of_array(values);
  if (tensor.shape().rank() != 1)
    raise(PyExc_RuntimeError, "Expecting values 1-D numpy values array for " + std::string(format) +
                                  " format. Got dims: " + std::to_string(tensor.shape().rank()));
  if (!is_contiguous(values)) raise(PyExc_RuntimeError, "Require contiguous numpy array of values");
  return tensor;
}

Tensor read_indices(nb::handle given) {
  const nb::object array = numpy("asarray")(given);
  const auto kind = nb::cast<std::string>(array.attr("dtype").attr("kind"));
  const bool empty = nb::cast<size_t>(array.attr("size")) == 0;
  if (kind != "i" && kind != "u" && !empty)
    raise(PyExc_TypeError, "Indices are integers, and these are of the type " + str_of(array.attr("dtype")) + ".");
  if (!is_contiguous(array)) raise(PyExc_RuntimeError, "Require contiguous numpy array of indices");
  return tensor_of_array(array.attr("astype")("int64", nb::arg("copy") = false));
}

int64_t* data_of(const Tensor& indices) { return indices.data_as<int64_t>(); }
size_t count_of(const Tensor& indices) { return indices.shape().element_count(); }

void check_device(const Device& device) {
  if (device.type == 0) return;
  raise(PyExc_RuntimeError, "Unsupported OrtDevice type: sparse tensors are in host memory.");
}

SparseRef make(const std::vector<int64_t>& dims, nb::handle values, std::vector<Tensor> indices, const Device& device,
               OrtSparseFormat format) {
  check_device(device);
  auto sparse = std::make_shared<Sparse>();
  sparse->format = format;
  const Tensor read = read_values(values, format == ORT_SPARSE_COO ? "COO" : "CSR");
  sparse->type = read.type();
  sparse->indices = std::move(indices);
  const std::vector<Tensor>& index = sparse->indices;
  const int64_t* const values_shape = read.shape().begin();
  if (read.type() != DataType::kString) {
    sparse->values = read;
    const OwnedMemoryInfo memory = memory_info_of(device);
    check(api().CreateSparseTensorWithValuesAsOrtValue(
        memory.get(), read.data(), dims.data(), dims.size(), values_shape, 1,
        static_cast<ONNXTensorElementDataType>(read.type()), sparse->value.out()));
    check(format == ORT_SPARSE_COO ? api().UseCooIndices(sparse->value.get(), data_of(index[0]), count_of(index[0]))
                                   : api().UseCsrIndices(sparse->value.get(), data_of(index[0]), count_of(index[0]),
                                                         data_of(index[1]), count_of(index[1])));
  } else {
    std::vector<const char*> texts;
    for (size_t i = 0; i < count_of(read); ++i) {
      const std::string* text = read.data_as<const std::string*>()[i];
      texts.push_back(text == nullptr ? "" : text->c_str());
    }
    const OwnedMemoryInfo memory = memory_info_of(device);
    check(api().CreateSparseTensorAsOrtValue(default_allocator(), dims.data(), dims.size(),
                                             ONNX_TENSOR_ELEMENT_DATA_TYPE_STRING, sparse->value.out()));
    OrtValue* const value = sparse->value.get();
    check(format == ORT_SPARSE_COO
              ? api().FillSparseTensorCoo(value, memory.get(), values_shape, 1, texts.data(), data_of(index[0]),
                                          count_of(index[0]))
              : api().FillSparseTensorCsr(value, memory.get(), values_shape, 1, texts.data(), data_of(index[0]),
                                          count_of(index[0]), data_of(index[1]), count_of(index[1])));
  }
  sparse->dense_shape = shape_of_dims(dims);
  return sparse;
}

SparseTensor coo(const std::vector<int64_t>& dims, nb::handle values, nb::handle indices, const Device& device) {
  return {make(dims, values, {read_indices(indices)}, device, ORT_SPARSE_COO)};
}

SparseTensor csr(const std::vector<int64_t>& dims, nb::handle values, nb::handle inner, nb::handle outer,
                 const Device& device) {
  return {make(dims, values, {read_indices(inner), read_indices(outer)}, device, ORT_SPARSE_CSRC)};
}

// A tensor over what the value has, which it keeps alive.
nb::object values_of(const SparseTensor& self) {
  const Sparse& sparse = *self.sparse;
  if (sparse.type != DataType::kString) return to_python(sparse.values.as_read_only());
  OrtTensorTypeAndShapeInfo* info = nullptr;
  check(api().GetSparseTensorValuesTypeAndShape(sparse.value.get(), &info));
  size_t count = 0;
  OrtStatus* const counted = api().GetTensorShapeElementCount(info, &count);
  api().ReleaseTensorTypeAndShapeInfo(info);
  check(counted);
  std::vector<std::string> texts(count);
  for (size_t i = 0; i < count; ++i) {
    size_t length = 0;
    check(api().GetStringTensorElementLength(sparse.value.get(), i, &length));
    texts[i].resize(length);
    check(api().GetStringTensorElement(sparse.value.get(), length, i, texts[i].data()));
  }
  return to_python(unwrap(string_tensor(std::move(texts), Shape{static_cast<int64_t>(count)})));
}

// The indices that the C ABI has: COO indices in their own shape, which need not be the array's.
nb::object indices_of(const Sparse& sparse, OrtSparseIndicesFormat format, size_t index) {
  OrtTensorTypeAndShapeInfo* info = nullptr;
  check(api().GetSparseTensorIndicesTypeShape(sparse.value.get(), format, &info));
  size_t rank = 0;
  std::vector<int64_t> dims;
  OrtStatus* bad = api().GetDimensionsCount(info, &rank);
  if (bad == nullptr) {
    dims.resize(rank);
    bad = api().GetDimensions(info, dims.data(), rank);
  }
  api().ReleaseTensorTypeAndShapeInfo(info);
  check(bad);
  const Tensor& tensor = sparse.indices[index];
  return to_python(unwrap(tensor.reinterpret(tensor.type(), shape_of_dims(dims))).as_read_only());
}

template <typename View>
View view(const SparseTensor& self, OrtSparseFormat format, const char* name) {
  if (self.sparse->format == format) return View{self.sparse};
  raise(PyExc_RuntimeError, "This sparse tensor does not contain " + std::string(name) + " format");
}

nb::list dense_shape(const SparseTensor& self) {
  nb::list dims;
  for (int64_t dim : self.sparse->dense_shape.dims()) dims.append(dim);
  return dims;
}

}  // namespace

std::string type_text(const Sparse& sparse) { return "sparse_" + type_text(sparse.type); }

SparseRef sparse_of(nb::handle sparse_tensor) {
  if (nb::isinstance<SparseTensor>(sparse_tensor)) return nb::cast<const SparseTensor&>(sparse_tensor).sparse;
  raise(PyExc_TypeError, "This is no SparseTensor: " + nb::cast<std::string>(nb::repr(sparse_tensor)) + ".");
}

nb::object make_sparse_tensor(SparseRef sparse) { return nb::cast(SparseTensor{std::move(sparse)}); }

void bind_sparse(nb::module_& m) {
  using nb::arg;
  nb::enum_<OrtSparseFormat>(m, "OrtSparseFormat", nb::is_arithmetic(), "Formats of sparse tensors.")
      .value("ORT_SPARSE_UNDEFINED", ORT_SPARSE_UNDEFINED)
      .value("ORT_SPARSE_COO", ORT_SPARSE_COO)
      .value("ORT_SPARSE_CSRC", ORT_SPARSE_CSRC)
      .value("ORT_SPARSE_BLOCK_SPARSE", ORT_SPARSE_BLOCK_SPARSE);
  nb::class_<SparseCooView>(m, "SparseCooView", "The indices of a sparse tensor in COO format.")
      .def(
          "indices", [](const SparseCooView& self) { return indices_of(*self.sparse, ORT_SPARSE_COO_INDICES, 0); },
          "An int64 array over the tensor's memory: (n) for linear indices, (n, 2) for pairs of row and column.",
          nb::sig("def indices(self) -> numpy.ndarray[typing.Any, typing.Any]"));
  nb::class_<SparseCsrcView>(m, "SparseCsrcView", "The indices of a sparse tensor in CSR format.")
      .def(
          "inner", [](const SparseCsrcView& self) { return indices_of(*self.sparse, ORT_SPARSE_CSR_INNER_INDICES, 0); },
          "The column of each value: an int64 array over the tensor's memory.",
          nb::sig("def inner(self) -> numpy.ndarray[typing.Any, typing.Any]"))
      .def(
          "outer", [](const SparseCsrcView& self) { return indices_of(*self.sparse, ORT_SPARSE_CSR_OUTER_INDICES, 1); },
          "Where each row's values begin, and the number of values: an int64 array over the tensor's memory.",
          nb::sig("def outer(self) -> numpy.ndarray[typing.Any, typing.Any]"));
  nb::class_<SparseTensor>(m, "SparseTensor",
                           "Values and indices of a sparse tensor in host memory.\n\n"
                           "It shares the memory of the arrays that it was made of, and keeps them alive; strings are "
                           "copied.")
      .def_static("sparse_coo_from_numpy", &coo, arg("dense_shape"), arg("values"), arg("coo_indices"),
                  arg("ort_device"),
                  "A tensor of the values (a vector) at `coo_indices`: linear ones, or pairs of row and column.\n\n"
                  "Errors: InvalidArgument for indices outside of the dense shape, RuntimeError for arrays that are "
                  "not contiguous.",
                  nb::sig("def sparse_coo_from_numpy(dense_shape: collections.abc.Sequence[int], values: "
                          "numpy.ndarray[typing.Any, typing.Any], coo_indices: typing.Any, ort_device: OrtDevice) -> "
                          "SparseTensor"))
      .def_static("sparse_csr_from_numpy", &csr, arg("dense_shape"), arg("values"), arg("inner_indices"),
                  arg("outer_indices"), arg("ort_device"),
                  "A matrix of the values (a vector): inner_indices has the column of each, outer_indices where each "
                  "row begins, and the number of values.\n\n"
                  "Errors: as of sparse_coo_from_numpy, and Fail for a shape that is no matrix.",
                  nb::sig("def sparse_csr_from_numpy(dense_shape: collections.abc.Sequence[int], values: "
                          "numpy.ndarray[typing.Any, typing.Any], inner_indices: typing.Any, outer_indices: "
                          "typing.Any, ort_device: OrtDevice) -> SparseTensor"))
      .def("_get_c_tensor", [](nb::handle self) { return nb::borrow(self); })
      .def("values", &values_of, "A read-only array over the tensor's memory; of strings a copy.",
           nb::sig("def values(self) -> numpy.ndarray[typing.Any, typing.Any]"))
      .def(
          "as_coo_view", [](const SparseTensor& self) { return view<SparseCooView>(self, ORT_SPARSE_COO, "COO"); },
          "The indices of a tensor in COO format; RuntimeError for one in another format.")
      .def(
          "as_csrc_view",
          [](const SparseTensor& self) { return view<SparseCsrcView>(self, ORT_SPARSE_CSRC, "CSR(C)"); },
          "The indices of a tensor in CSR format; RuntimeError for one in another format.")
      .def(
          "as_blocksparse_view",
          [](const SparseTensor& self) { return view<SparseCooView>(self, ORT_SPARSE_BLOCK_SPARSE, "BlockSparse"); },
          "Raises RuntimeError: no tensor that Python makes is in this format.")
      .def(
          "to_cuda",
          [](const SparseTensor&, nb::handle) -> SparseTensor {
            raise(PyExc_RuntimeError, "Sparse tensors are in host memory: give the model a dense one.");
          },
          arg("ort_device"), "Raises RuntimeError.",
          nb::sig("def to_cuda(self, ort_device: OrtDevice) -> SparseTensor"))
      .def(
          "format", [](const SparseTensor& self) { return self.sparse->format; }, "The format of the indices.")
      .def("dense_shape", &dense_shape, "The shape of the dense tensor.", nb::sig("def dense_shape(self) -> list[int]"))
      .def(
          "data_type", [](const SparseTensor& self) { return type_text(*self.sparse); },
          "\"sparse_tensor(float)\", ...")
      .def("device_name", [](const SparseTensor&) { return "cpu"; }, "\"cpu\".");
}

}  // namespace tenon::python
