#include "value.h"

#include <tenon/dlpack.h>
#include <tenon/ep.h>
#include <tenon/ort_bridge.h>

#include "arrays.h"

namespace tenon::python {
namespace {

constexpr const char* kCapsule = "dltensor";
constexpr const char* kVersionedCapsule = "dltensor_versioned";

// <dlpack/dlpack.h>'s structs, as far as a consumer's capsule is released through them.
struct Managed {
  void* data;
  int32_t device_type, device_id;
  int32_t ndim;
  uint8_t code, bits;
  uint16_t lanes;
  int64_t *shape, *strides;
  uint64_t byte_offset;
  void* manager;
  void (*deleter)(Managed*);
};
struct ManagedVersioned {
  uint32_t major, minor;
  void* manager;
  void (*deleter)(ManagedVersioned*);
  uint64_t flags;
  void* data;
  int32_t device_type, device_id;
  int32_t ndim;
  uint8_t code, bits;
  uint16_t lanes;
};

template <typename T>
void drop_capsule(PyObject* capsule, const char* name) {
  // A consumer renames the capsule that it has taken.
  if (PyCapsule_IsValid(capsule, name) == 0) return;
  auto* managed = static_cast<T*>(PyCapsule_GetPointer(capsule, name));
  if (managed->deleter != nullptr) managed->deleter(managed);
}

const Tensor& dense(const Value& value, const char* what) {
  const Tensor& tensor = value.tensor();
  if (!tensor.defined() || holds_addresses(tensor.type()))
    raise(PyExc_RuntimeError, std::string(what) + " needs an OrtValue that holds a tensor of numbers.");
  return tensor;
}

Value allocate(const std::vector<int64_t>& dims, DataType type, const OrtMemoryInfo* info) {
  if (holds_addresses(type))
    raise(PyExc_RuntimeError, "Creation of OrtValues is currently only supported from non-string numpy arrays");
  OrtAllocator* allocator = nullptr;
  check(api().GetSharedAllocator(env(), info, &allocator));
  if (allocator == nullptr) {
    const char* name = "";
    check(api().MemoryInfoGetName(info, &name));
    OrtMemoryInfoDeviceType device = OrtMemoryInfoDeviceType_CPU;
    api().MemoryInfoGetDeviceType(info, &device);
    if (device == OrtMemoryInfoDeviceType_CPU &&
        api().MemoryInfoGetDeviceMemType(info) == OrtDeviceMemoryType_DEFAULT) {
      allocator = default_allocator();
    } else {
      raise(PyExc_RuntimeError, "No shared allocator found for: OrtMemoryInfo:[name:" + std::string(name) +
                                    " DeviceType:" + std::to_string(device) +
                                    " VendorId:" + std::to_string(api().MemoryInfoGetVendorId(info)) +
                                    "]. Register a plugin library whose device offers this memory "
                                    "(register_execution_provider_library).");
    }
  }
  OrtValue* made = nullptr;
  check_run(api().CreateTensorAsOrtValue(allocator, dims.data(), dims.size(),
                                         static_cast<ONNXTensorElementDataType>(type), &made));
  return Value::take(made);
}

bool is_plain_host(const Device& device) { return device.type == 0 && device.memory == 0; }

Value value_on(const Device& device, const std::vector<int64_t>& dims, DataType type) {
  if (is_plain_host(device) && !holds_addresses(type)) {
    for (int64_t dim : dims)
      if (dim < 0)
        raise(PyExc_RuntimeError, "Tensor shape.Size() must be >= 0, and a dimension is " + std::to_string(dim));
    return Value(unwrap(Tensor::allocate(type, shape_of_dims(dims))));
  }
  const OwnedMemoryInfo info = memory_info_of(device);
  return allocate(dims, type, info.get());
}

Value from_numpy(nb::handle array, nb::handle device_type, int device_id, int64_t vendor_id) {
  if (!is_array(array))
    raise(PyExc_RuntimeError,
          "Creation of OrtValues is currently only supported from numpy arrays, and this is " +
              nb::cast<std::string>(nb::str(nb::handle(reinterpret_cast<PyObject*>(Py_TYPE(array.ptr()))))));
  const Device device = device_of_argument(device_type, device_id, vendor_id);
  Tensor tensor = tensor_of_array(array);
  if (is_plain_host(device)) return Value(std::move(tensor));
  const Shape& shape = tensor.shape();
  Value value = value_on(device, {shape.begin(), shape.end()}, tensor.type());
  check(copy(value.tensor(), tensor));
  return value;
}

Value from_numpy_as(nb::handle array, nb::handle type) {
  if (!is_array(array)) raise(PyExc_RuntimeError, "ortvalue_from_numpy_with_onnx_type needs a numpy array.");
  return Value(tensor_of_array_as(array, element_type_from(type)));
}

Value from_shape(const std::vector<int64_t>& dims, nb::handle type, nb::handle device_type, int device_id,
                 int64_t vendor_id, nb::handle memory_info) {
  const DataType element = element_type_from(type);
  if (!memory_info.is_none()) return allocate(dims, element, nb::cast<const MemoryInfo&>(memory_info).info);
  return value_on(device_of_argument(device_type, device_id, vendor_id), dims, element);
}

// A tensor that the host reads: the value's own memory, or a copy of a device's.
Tensor on_host(const Value& value) {
  const Tensor& tensor = value.tensor();
  if (holds_addresses(tensor.type()) || devices_are_memory_compatible(tensor.space(), MemorySpace())) return tensor;
  Tensor host = unwrap(Tensor::allocate(tensor.type(), tensor.shape()));
  Status status;
  {
    const Unlocked unlocked;
    status = copy(host, tensor);
  }
  check(status);
  return host;
}

nb::object to_array(const Value& value) {
  if (value.sparse() != nullptr)
    raise(PyExc_RuntimeError, "A sparse tensor is no array: as_sparse_tensor() gives its values and indices.");
  if (value.tensor().type() == DataType::kObject)
    raise(PyExc_RuntimeError, "Only OrtValues that are Tensors are currently supported");
  return to_python(on_host(value));
}

nb::object as_array(const Value& value, nb::handle dtype, nb::handle copy) {
  nb::object array = to_array(value);
  if (is_none(dtype) && is_none(copy)) return array;
  nb::object numpy = nb::module_::import_("numpy");
  if (is_none(copy)) return numpy.attr("asarray")(array, dtype);
  return numpy.attr("array")(array, dtype, nb::arg("copy") = copy);
}

void update(Value& value, nb::handle data) {
  const Tensor& target = dense(value, "update_inplace");
  Tensor source;
  if (nb::isinstance<Value>(data)) {
    source = nb::cast<const Value&>(data).tensor();
  } else if (is_array(data)) {
    source = tensor_of_array(data);
  } else {
    raise(PyExc_TypeError, "data must be a numpy.ndarray or an OrtValue.");
  }
  if (source.type() != target.type())
    raise(PyExc_RuntimeError, "The OrtValue has elements of the type " + std::string(data_type_name(target.type())) +
                                  ", and the data of the type " + std::string(data_type_name(source.type())) + ".");
  if (source.shape().element_count() != target.shape().element_count())
    raise(PyExc_RuntimeError, "The input size of numpy arrays does not match the size of the OrtValue: " +
                                  source.shape().to_string() + " and " + target.shape().to_string() + ".");
  if (target.read_only())
    raise(PyExc_RuntimeError, "The OrtValue is a view of read-only memory, which update_inplace cannot write.");
  source = unwrap(source.reinterpret(source.type(), target.shape()));
  Status status;
  {
    const Unlocked unlocked;
    status = copy(target, source);
  }
  check(status);
}

// DLPack's numbers for kinds of devices.
constexpr int kOnCpu = 1, kOnCuda = 2, kOnCudaManaged = 13;
using DlpackDevice = std::pair<int, int>;

// Two numbers, as DLPack's tuples have them. A kind of device may come as an enumeration.
DlpackDevice pair_of(nb::handle pair, const char* what) {
  try {
    return {nb::cast<int>(nb::int_(pair[nb::int_(0)])), nb::cast<int>(nb::int_(pair[nb::int_(1)]))};
  } catch (nb::python_error&) {
  } catch (const nb::cast_error&) {
  }
  raise(PyExc_TypeError, std::string(what) + " is a tuple of two numbers, and this is " + str_of(nb::repr(pair)) + ".");
}

DlpackDevice dlpack_device_of(nb::handle pair) { return pair_of(pair, "A device of DLPack"); }

std::string text_of(const DlpackDevice& device) {
  return "(" + std::to_string(device.first) + ", " + std::to_string(device.second) + ")";
}

DlpackDevice device_of(const Tensor& tensor) {
  if (devices_are_memory_compatible(tensor.space(), MemorySpace())) return {kOnCpu, 0};
  if (tensor.space().vendor_id == kNvidia) return {kOnCuda, tensor.space().device_id};
  raise(PyExc_BufferError, "DLPack has no device for memory in " + tensor.space().to_string() + ".");
}

// The array API's streams. Nothing is queued for any of them: a run that has returned has written its outputs.
void check_stream(nb::handle stream, const DlpackDevice& device) {
  if (is_none(stream)) return;
  if (device.first == kOnCpu)
    raise(PyExc_ValueError, "A tensor in host memory has no stream: __dlpack__ takes stream=None for it.");
  const auto number = nb::cast<int64_t>(nb::int_(stream));
  if (number < -1 || number == 0)
    raise(PyExc_ValueError, "__dlpack__ takes None, -1, 1, 2 or a stream's address for a CUDA device, and stream is " +
                                std::to_string(number) + ".");
}

Value copy_on(const Tensor& tensor, const DlpackDevice& device) {
  const Shape& shape = tensor.shape();
  const Device target = make_device(device.first == kOnCpu ? "cpu" : "cuda", device.second, -1);
  Value made = value_on(target, {shape.begin(), shape.end()}, tensor.type());
  Status status;
  {
    const Unlocked unlocked;
    status = tenon::copy(made.tensor(), tensor);
  }
  check(status);
  return made;
}

nb::object to_dlpack(const Value& value, nb::handle stream, nb::handle max_version, nb::handle device,
                     nb::handle copy) {
  Tensor tensor = dense(value, "__dlpack__");
  const DlpackDevice here = device_of(tensor);
  check_stream(stream, here);
  const DlpackDevice there = is_none(device) ? here : dlpack_device_of(device);
  if (there != here && there != DlpackDevice{kOnCpu, 0})
    raise(PyExc_BufferError, "The tensor is in " + std::string(here.first == kOnCpu ? "host memory" : "device memory") +
                                 ", and __dlpack__ exports it there (dl_device=" + text_of(here) +
                                 ") or copies it to the host (dl_device=(1, 0)), not to " + text_of(there) + ".");
  const bool may_copy = is_none(copy) || nb::cast<bool>(copy);
  if (there != here && !may_copy)
    raise(PyExc_BufferError, "The tensor is in device memory, and copy=False asks for it in the host's.");
  if (there != here || (!is_none(copy) && may_copy)) tensor = copy_on(tensor, there).tensor();
  const bool versioned = !is_none(max_version) && pair_of(max_version, "max_version").first >= 1;
  if (versioned) {
    DLManagedTensorVersioned* managed = unwrap(tensor_to_dlpack_versioned(tensor));
    PyObject* capsule = PyCapsule_New(managed, kVersionedCapsule,
                                      [](PyObject* c) { drop_capsule<ManagedVersioned>(c, kVersionedCapsule); });
    if (capsule == nullptr) throw nb::python_error();
    return nb::steal(capsule);
  }
  if (tensor.read_only())
    raise(PyExc_BufferError,
          "The tensor is read-only, which a DLPack capsule without a version cannot say: ask for "
          "max_version=(1, 0).");
  DLManagedTensor* managed = unwrap(tensor_to_dlpack(tensor));
  PyObject* capsule = PyCapsule_New(managed, kCapsule, [](PyObject* c) { drop_capsule<Managed>(c, kCapsule); });
  if (capsule == nullptr) throw nb::python_error();
  return nb::steal(capsule);
}

nb::tuple dlpack_device(const Value& value) {
  const DlpackDevice device = device_of(dense(value, "__dlpack_device__"));
  return nb::make_tuple(device.first, device.second);
}

// The producer's capsule, with a version where it knows them, when its work on the memory is done: it lets the stream
// that it is given wait for that work.
nb::object capsule_of(nb::handle data) {
  if (!nb::hasattr(data, "__dlpack__")) return nb::borrow(data);
  nb::dict arguments;
  nb::object streams, ordinal;
  if (nb::hasattr(data, "__dlpack_device__")) {
    const DlpackDevice device = dlpack_device_of(data.attr("__dlpack_device__")());
    if (device.first == kOnCuda || device.first == kOnCudaManaged) {
      streams = nb::module_::import_("tenon._cuda");
      ordinal = nb::int_(device.second);
      arguments["stream"] = streams.attr("stream")(ordinal);
    }
  }
  nb::object capsule;
  try {
    capsule = data.attr("__dlpack__")(nb::arg("max_version") = nb::make_tuple(1, 0), **arguments);
  } catch (nb::python_error& error) {
    if (!error.matches(PyExc_TypeError)) throw;
  }
  if (!capsule.is_valid()) capsule = data.attr("__dlpack__")(**arguments);
  if (streams.is_valid()) streams.attr("wait")(ordinal, arguments["stream"]);
  return capsule;
}

Value from_shape_in(const std::vector<int64_t>& dims, nb::handle type, const MemoryInfo& memory_info) {
  return allocate(dims, element_type_from(type), memory_info.info);
}

// DLPack had no booleans once, and some producers still send bytes for them.
bool is_uint8(nb::handle capsule) {
  const void* pointer = PyCapsule_GetPointer(capsule.ptr(), PyCapsule_GetName(capsule.ptr()));
  if (pointer == nullptr) throw nb::python_error();
  constexpr uint8_t kUnsigned = 1;
  if (PyCapsule_IsValid(capsule.ptr(), kVersionedCapsule) != 0) {
    const auto* versioned = static_cast<const ManagedVersioned*>(pointer);
    return versioned->code == kUnsigned && versioned->bits == 8;
  }
  if (PyCapsule_IsValid(capsule.ptr(), kCapsule) == 0)
    raise(PyExc_TypeError, "This is no DLPack capsule, or somebody has used it.");
  const auto* managed = static_cast<const Managed*>(pointer);
  return managed->code == kUnsigned && managed->bits == 8;
}

Value from_dlpack(nb::handle data, bool is_bool_tensor) {
  nb::object capsule = capsule_of(data);
  Tensor tensor;
  if (PyCapsule_IsValid(capsule.ptr(), kVersionedCapsule) != 0) {
    auto* managed = static_cast<DLManagedTensorVersioned*>(PyCapsule_GetPointer(capsule.ptr(), kVersionedCapsule));
    tensor = unwrap(tensor_from_dlpack(managed, /*allow_read_only=*/true));
    PyCapsule_SetName(capsule.ptr(), "used_dltensor_versioned");
  } else if (PyCapsule_IsValid(capsule.ptr(), kCapsule) != 0) {
    auto* managed = static_cast<DLManagedTensor*>(PyCapsule_GetPointer(capsule.ptr(), kCapsule));
    tensor = unwrap(tensor_from_dlpack(managed));
    PyCapsule_SetName(capsule.ptr(), "used_dltensor");
  } else {
    raise(PyExc_TypeError, "from_dlpack needs an object with __dlpack__, or a DLPack capsule that nobody has used.");
  }
  if (is_bool_tensor && tensor.type() == DataType::kUint8) {
    Tensor truths = unwrap(tensor.reinterpret(DataType::kBool, tensor.shape()));
    tensor = tensor.read_only() ? truths.as_read_only() : std::move(truths);
  }
  return Value(std::move(tensor));
}

nb::list shape_list(const Value& value) {
  nb::list dims;
  if (value.tensor().type() == DataType::kObject)
    raise(PyExc_RuntimeError, "The OrtValue holds no tensor, so it has no shape.");
  const Shape& shape = value.sparse() != nullptr ? value.sparse()->dense_shape : value.tensor().shape();
  for (int64_t dim : shape.dims()) dims.append(dim);
  return dims;
}

std::string data_type(const Value& value) {
  if (value.sparse() != nullptr) return type_text(*value.sparse());
  const Tensor& tensor = value.tensor();
  if (tensor.type() != DataType::kObject) return type_text(tensor.type());
  const ObjectRef object = object_of(tensor);
  if (object == nullptr) return "";
  ObjectRef at = object;
  std::string before, after;
  while (at->kind() == ObjectKind::kSequence) {
    before += "seq(";
    after += ")";
    if (at->elements().empty()) return before + after;
    at = at->elements()[0];
  }
  if (at->kind() == ObjectKind::kTensor) return before + type_text(at->as_tensor().type()) + after;
  const std::string key(data_type_name(at->elements()[0]->as_tensor().type()));
  return before + "map(" + key + "," + type_text(at->elements()[1]->as_tensor().type()) + ")" + after;
}

bool is_object(const Value& value, ObjectKind kind) {
  if (value.tensor().type() != DataType::kObject) return false;
  const ObjectRef object = object_of(value.tensor());
  return object != nullptr && object->kind() == kind;
}

Value second_handle(const Value& value) {
  return value.sparse() != nullptr ? Value(value.sparse()) : Value(value.tensor());
}

nb::object as_sparse(const Value& value) {
  if (value.sparse() != nullptr) return make_sparse_tensor(value.sparse());
  raise(PyExc_RuntimeError, "This OrtValue does not contain SparseTensor. Check data_type() value.");
}

}  // namespace

Shape shape_of_dims(const std::vector<int64_t>& dims) {
  if (dims.size() > static_cast<size_t>(Shape::kMaxRank))
    raise(ORT_INVALID_ARGUMENT, "A shape of " + std::to_string(dims.size()) + " dimensions is given; at most " +
                                    std::to_string(Shape::kMaxRank) + " are allowed.");
  return Shape(std::span<const int64_t>(dims));
}

DataType element_type_from(nb::handle given) {
  if (PyLong_Check(given.ptr()) == 0) return element_type_of_dtype(given);
  const auto number = nb::cast<int64_t>(given);
  const auto type = static_cast<DataType>(number);
  if (number <= 0 || number > 63 || data_type_bits(type) == 0 || holds_addresses(type))
    raise(PyExc_RuntimeError, "There is no tensor of the ONNX element type " + std::to_string(number) + " here.");
  return type;
}

std::string type_text(DataType type) {
  std::string name(data_type_name(type));
  if (type == DataType::kFloat) name = "float";
  if (type == DataType::kDouble) name = "double";
  return "tensor(" + name + ")";
}

std::string type_text(const ObjectType& type) {
  const std::string inner = type.element == nullptr ? "" : type_text(*type.element);
  switch (type.kind) {
    case ObjectKind::kTensor:
      return type_text(type.type);
    case ObjectKind::kSequence:
      return "seq(" + inner + ")";
    case ObjectKind::kOptional:
      return "optional(" + inner + ")";
    case ObjectKind::kMap:
      return "map(" + std::string(data_type_name(type.type)) + "," + inner + ")";
  }
  return inner;
}

std::string type_text(const ValueInfo& info) {
  return info.object != nullptr ? type_text(*info.object) : type_text(info.type);
}

Value::Value(Tensor tensor) : value_(unwrap(make_ort_value(tensor))), tensor_(std::move(tensor)) {
  // Strings are copied into the value: look at those.
  if (tensor_.type() == DataType::kString) tensor_ = unwrap(tensor_of(value_.get()));
}

Value Value::take(OrtValue* value) {
  Value made;
  made.value_ = OwnedValue(value);
  made.tensor_ = value == nullptr ? object_tensor(nullptr) : unwrap(tensor_of(value));
  return made;
}

std::string device_name(const MemorySpace& space) {
  if (space.device_type == DeviceType::kCpu) return "cpu";
  if (space.device_type == DeviceType::kNpu) return "npu";
  constexpr uint32_t kNvidia = 0x10de;
  return space.vendor_id == kNvidia ? "cuda" : "gpu";
}

void bind_values(nb::module_& m) {
  using nb::arg;
  m.def("is_dlpack_uint8_tensor", &is_uint8, arg("capsule"),
        "Whether a DLPack capsule has bytes, or booleans as bytes.",
        nb::sig("def is_dlpack_uint8_tensor(capsule: typing.Any) -> bool"));
  nb::class_<Value>(m, "OrtValue",
                    "A value of a model: a tensor, a sequence, a map, or what an optional holds.\n\n"
                    "It shares the memory that it was made of and keeps its owner alive; numpy() and DLPack give views "
                    "of the same memory.",
                    nb::is_weak_referenceable())
      .def(
          "__init__",
          [](Value* self, const Value& ortvalue, nb::handle, nb::handle) { new (self) Value(second_handle(ortvalue)); },
          arg("ortvalue"), arg("numpy_obj") = nb::none(), arg("session") = nb::none(),
          "A second handle of the same value.",
          nb::sig("def __init__(self, ortvalue: OrtValue, numpy_obj: typing.Any = None, session: typing.Any = None) -> "
                  "None"))
      .def_static("ortvalue_from_numpy", &from_numpy, arg("numpy_obj").none(), arg("device_type") = "cpu",
                  arg("device_id") = 0, arg("vendor_id") = -1,
                  "A value over the array's memory; an array that is not contiguous, or of strings, is copied. For "
                  "another device than \"cpu\" a copy there.",
                  nb::sig("def ortvalue_from_numpy(numpy_obj: numpy.ndarray[typing.Any, typing.Any], device_type: str "
                          "| OrtDevice = 'cpu', device_id: int = 0, vendor_id: int = -1) -> OrtValue"))
      .def_static("ortvalue_from_numpy_with_onnx_type", &from_numpy_as, arg("data"), arg("onnx_element_type"),
                  "The array's memory as elements of an ONNX type of the same size: bfloat16 in an array of uint16.",
                  nb::sig("def ortvalue_from_numpy_with_onnx_type(data: numpy.ndarray[typing.Any, typing.Any], "
                          "onnx_element_type: int) -> OrtValue"))
      .def_static(
          "ortvalue_from_shape_and_type", &from_shape,
          nb::sig(
              "def ortvalue_from_shape_and_type(shape: collections.abc.Sequence[int], element_type: "
              "typing.Any, device_type: str | OrtDevice = 'cpu', device_id: int = 0, vendor_id: int = -1, memory_info: "
              "OrtMemoryInfo | None = None) -> OrtValue"),
          arg("shape"), arg("element_type"), arg("device_type") = "cpu", arg("device_id") = 0, arg("vendor_id") = -1,
          arg("memory_info") = nb::none(),
          "New memory for a tensor. The type is numpy's, or ONNX's number. With `memory_info` (of an "
          "OrtEpDevice) the memory is of its allocator, and the device arguments are ignored.")
      .def_static(
          "ortvalue_from_shape_and_onnx_type", &from_shape,
          nb::sig("def ortvalue_from_shape_and_onnx_type(shape: collections.abc.Sequence[int], "
                  "onnx_element_type: int, device_type: str | OrtDevice = 'cpu', device_id: int = 0, vendor_id: int "
                  "= -1, memory_info: OrtMemoryInfo | None = None) -> OrtValue"),
          arg("shape"), arg("onnx_element_type"), arg("device_type") = "cpu", arg("device_id") = 0,
          arg("vendor_id") = -1, arg("memory_info") = nb::none(), "The same with ONNX's number of the type.")
      .def_static("ortvalue_from_shape_and_type_for_memory_info", &from_shape_in, arg("shape"), arg("element_type"),
                  arg("memory_info"), "The same with the memory of an OrtMemoryInfo.",
                  nb::sig("def ortvalue_from_shape_and_type_for_memory_info(shape: collections.abc.Sequence[int], "
                          "element_type: typing.Any, memory_info: OrtMemoryInfo) -> OrtValue"))
      .def_static("ortvalue_from_shape_and_onnx_type_for_memory_info", &from_shape_in, arg("shape"),
                  arg("onnx_element_type"), arg("memory_info"), "The same with ONNX's number of the type.",
                  nb::sig("def ortvalue_from_shape_and_onnx_type_for_memory_info(shape: "
                          "collections.abc.Sequence[int], onnx_element_type: int, memory_info: OrtMemoryInfo) -> "
                          "OrtValue"))
      .def_static("from_dlpack", &from_dlpack,
                  nb::sig("def from_dlpack(data: typing.Any, is_bool_tensor: bool = False) -> OrtValue"), arg("data"),
                  arg("is_bool_tensor") = false,
                  "A value over the memory of another library's tensor (an object with __dlpack__, or a capsule): no "
                  "copy. Tensors have to be contiguous and in memory that the host reads. `is_bool_tensor` makes bytes "
                  "booleans.")
      .def_static(
          "ort_value_from_sparse_tensor", [](nb::handle sparse) { return Value(sparse_of(sparse)); },
          arg("sparse_tensor"), "A value that shares the sparse tensor.",
          nb::sig("def ort_value_from_sparse_tensor(sparse_tensor: SparseTensor) -> OrtValue"))
      .def("as_sparse_tensor", &as_sparse, "The sparse tensor in the value; RuntimeError for another value.",
           nb::sig("def as_sparse_tensor(self) -> SparseTensor"))
      .def("_get_c_value", [](nb::handle self) { return nb::borrow(self); })
      .def_prop_ro("_ortvalue", [](nb::handle self) { return nb::borrow(self); })
      .def_prop_ro("_is_webgpu_buffer", [](const Value&) { return false; })
      .def(
          "data_ptr",
          [](const Value& value) {
            if (value.sparse() != nullptr) raise(PyExc_RuntimeError, "A sparse tensor has more than one address.");
            return reinterpret_cast<uintptr_t>(value.tensor().data());
          },
          "The address of the first element.")
      .def(
          "device_name", [](const Value& value) { return device_name(value.tensor().space()); },
          "\"cpu\", \"cuda\", \"gpu\" or \"npu\".")
      .def("shape", &shape_list, "The dimensions.", nb::sig("def shape(self) -> list[int]"))
      .def("data_type", &data_type, "\"tensor(int64)\", \"seq(tensor(float))\", ...")
      .def(
          "element_type",
          [](const Value& value) {
            if (value.tensor().type() == DataType::kObject) raise(PyExc_RuntimeError, "The OrtValue holds no tensor.");
            if (value.sparse() != nullptr) return static_cast<int>(value.sparse()->type);
            return static_cast<int>(value.tensor().type());
          },
          "The number of the element type in ONNX.")
      .def(
          "tensor_size_in_bytes", [](const Value& value) { return dense(value, "tensor_size_in_bytes").size_bytes(); },
          "The bytes of the tensor's elements.")
      .def(
          "has_value",
          [](const Value& value) {
            return value.tensor().type() != DataType::kObject || object_of(value.tensor()) != nullptr;
          },
          "False for an optional that holds nothing.")
      .def(
          "is_tensor",
          [](const Value& value) { return value.tensor().defined() && value.tensor().type() != DataType::kObject; },
          "False for sequences, maps and empty optionals.")
      .def(
          "is_sparse_tensor", [](const Value& value) { return value.sparse() != nullptr; },
          "True for a SparseTensor's value.")
      .def(
          "is_tensor_sequence", [](const Value& value) { return is_object(value, ObjectKind::kSequence); },
          "True for a sequence.")
      .def("numpy", &to_array, nb::sig("def numpy(self) -> numpy.ndarray[typing.Any, typing.Any]"),
           "An array over the tensor's memory, which the array keeps alive; of a device's memory, and of strings, a "
           "copy.")
      .def(
          "to_python",
          [](const Value& value) { return value.sparse() != nullptr ? as_sparse(value) : to_python(on_host(value)); },
          "As run() gives it: an array, a list for a sequence, a dictionary for a map, None for an empty optional.",
          nb::sig("def to_python(self) -> typing.Any"))
      .def("__array__", &as_array, arg("dtype") = nb::none(), arg("copy") = nb::none(),
           nb::sig("def __array__(self, dtype: typing.Any = None, copy: bool | None = None) -> "
                   "numpy.ndarray[typing.Any, typing.Any]"))
      .def("__dlpack__", &to_dlpack, nb::kw_only(), arg("stream") = nb::none(), arg("max_version") = nb::none(),
           arg("dl_device") = nb::none(), arg("copy") = nb::none(),
           "A DLPack capsule over the same memory, which it keeps alive.",
           nb::sig("def __dlpack__(self, *, stream: typing.Any = None, max_version: tuple[int, int] | None = None, "
                   "dl_device: tuple[int, int] | None = None, copy: bool | None = None) -> typing.Any"))
      .def(
          "to_dlpack", [](const Value& v) { return to_dlpack(v, nb::none(), nb::none(), nb::none(), nb::none()); },
          "The capsule that __dlpack__() gives.", nb::sig("def to_dlpack(self) -> typing.Any"))
      .def("__dlpack_device__", &dlpack_device, "DLPack's number for the kind of device, and the device's number.",
           nb::sig("def __dlpack_device__(self) -> tuple[int, int]"))
      .def("update_inplace", &update, arg("data"),
           "Copies an array or another value of the same type and number of elements into this one's memory.",
           nb::sig("def update_inplace(self, data: numpy.ndarray[typing.Any, typing.Any] | OrtValue) -> None"));
}

}  // namespace tenon::python
