// Memory and order that come from outside: imports, timelines and fences, Arrow's arrays.
#include <tenon/fence.h>
#include <tenon/importer.h>

#include <array>
#include <cstring>
#include <optional>
#include <string_view>

#include "arrays.h"
#include "session.h"

namespace tenon::python {
namespace {

constexpr double kNsPerSecond = 1e9;
// How often a wait looks for signals of the operating system (Ctrl-C).
constexpr int64_t kSliceNs = 100'000'000;

// Waits without the GIL. Errors: TimeoutError, DeviceReset for a peer that is gone, and why the timeline is poisoned.
void wait(Timeline& timeline, uint64_t value, std::optional<double> timeout) {
  if (timeout && !(*timeout >= 0))
    raise(PyExc_ValueError, "A timeout is in seconds and not negative: " + std::to_string(*timeout) + ".");
  double left_ns = timeout ? *timeout * kNsPerSecond : 0;
  for (;;) {
    const int64_t slice = timeout && left_ns < kSliceNs ? static_cast<int64_t>(left_ns) : kSliceNs;
    Status status;
    {
      const Unlocked unlocked;
      status = timeline.wait(value, slice);
    }
    if (status.code() != StatusCode::kTimeout) return check(status);
    left_ns -= static_cast<double>(slice);
    if (timeout && left_ns <= 0)
      raise(PyExc_TimeoutError, timeline.name() + " has not reached " + std::to_string(value) + " after " +
                                    std::to_string(*timeout) + " s; it is at " +
                                    std::to_string(unwrap(timeline.value())) + ".");
    if (PyErr_CheckSignals() != 0) throw nb::python_error();
  }
}

struct PyTimeline {
  std::shared_ptr<SharedTimeline> shared;
};

// Of the process itself or of an EP: the fd stays the caller's.
Value import_fd(int fd, const std::vector<int64_t>& dims, nb::handle element_type, size_t offset_bytes, bool writable,
                const std::string& name) {
  const DataType type = element_type_from(element_type);
  const Shape shape = shape_of_dims(dims);
  const size_t size_bytes = unwrap(tensor_size_bytes(type, shape));
  OwnedHandle handle = unwrap(OwnedHandle::duplicate_fd(fd));
  const std::shared_ptr<ExternalMemory> memory =
      unwrap(Importer::host().import_memory(handle, {.kind = ExternalMemoryKind::kMappableFd,
                                                     .size_bytes = size_bytes,
                                                     .offset_bytes = offset_bytes,
                                                     .writable = writable,
                                                     .name = name}));
  return Value(unwrap(ExternalMemory::create_tensor(memory, type, shape)));
}

// An array's own memory, or ValueError.
Value import_array(nb::handle array) {
  if (!is_array(array)) raise(PyExc_TypeError, "This is no numpy array.");
  if (element_type(array) == DataType::kUndefined || element_type(array) == DataType::kString)
    raise(PyExc_ValueError, "An array of the dtype " + str_of(array.attr("dtype")) +
                                " cannot be used in place: import_memory takes numbers.");
  std::optional<Tensor> view = view_of(array, /*owned=*/true);
  if (!view)
    raise(PyExc_ValueError, "The array of shape " + str_of(array.attr("shape")) + " has strides of " +
                                str_of(array.attr("strides")) + " bytes and the dtype " +
                                str_of(array.attr("dtype").attr("str")) +
                                "; memory is used in place where it is contiguous, aligned and of the machine's byte "
                                "order.");
  return Value(*std::move(view));
}

// Memory that a CUDA device addresses; a pinned page of the host's is plain host memory. `owner` lives as long.
Value import_cuda(uintptr_t address, const std::vector<int64_t>& dims, nb::handle dtype, bool read_only, int ordinal,
                  bool on_host, bool managed, nb::handle owner) {
  const DataType type = element_type_from(dtype);
  const Shape shape = shape_of_dims(dims);
  MemorySpace space;
  if (!on_host)
    space = {.device_type = DeviceType::kGpu,
             .kind = managed ? MemoryKind::kHostAccessible : MemoryKind::kDefault,
             .vendor_id = kNvidia,
             .device_id = ordinal};
  Tensor view = unwrap(Tensor::view(type, shape, reinterpret_cast<void*>(address),
                                    unwrap(tensor_size_bytes(type, shape)), keep_alive(owner), space));
  return Value(read_only ? view.as_read_only() : std::move(view));
}

// The same memory with another type, shape or offset.
Value reshaped(const Value& value, const std::vector<int64_t>& dims, nb::handle element_type, size_t offset_bytes) {
  const Tensor& tensor = value.tensor();
  const DataType type = element_type.is_none() ? tensor.type() : element_type_from(element_type);
  // Bytes are no addresses, which strings hold.
  if (type != tensor.type() && (holds_addresses(type) || holds_addresses(tensor.type())))
    raise(PyExc_ValueError, "Memory of the type " + std::string(data_type_name(tensor.type())) +
                                " cannot be used in place as " + std::string(data_type_name(type)) +
                                ": import_memory takes numbers.");
  const Shape shape = shape_of_dims(dims);
  const size_t size_bytes = unwrap(tensor_size_bytes(type, shape));
  if (offset_bytes > tensor.size_bytes() || size_bytes > tensor.size_bytes() - offset_bytes)
    raise(PyExc_ValueError, "A tensor of " + std::string(data_type_name(type)) + shape.to_string() + " has " +
                                std::to_string(size_bytes) + " bytes, and with the offset (" +
                                std::to_string(offset_bytes) + ") exceeds the memory, which has " +
                                std::to_string(tensor.size_bytes()) + ".");
  Tensor made = offset_bytes == 0
                    ? unwrap(tensor.reinterpret(type, shape))
                    : unwrap(Tensor::view(type, shape, static_cast<std::byte*>(tensor.data()) + offset_bytes,
                                          tensor.size_bytes() - offset_bytes, tensor.owner(), tensor.space()));
  return Value(tensor.read_only() ? made.as_read_only() : std::move(made));
}

// The Arrow C data interface, by its public layout.
struct ArrowSchema {
  const char* format;
  const char* name;
  const char* metadata;
  int64_t flags, n_children;
  ArrowSchema** children;
  ArrowSchema* dictionary;
  void (*release)(ArrowSchema*);
  void* private_data;
};
struct ArrowArray {
  int64_t length, null_count, offset, n_buffers, n_children;
  const void** buffers;
  ArrowArray** children;
  ArrowArray* dictionary;
  void (*release)(ArrowArray*);
  void* private_data;
};

struct ArrowType {
  char format;
  DataType type;
};
constexpr std::array<ArrowType, 11> kArrowTypes = {{
    {'c', DataType::kInt8},
    {'C', DataType::kUint8},
    {'s', DataType::kInt16},
    {'S', DataType::kUint16},
    {'i', DataType::kInt32},
    {'I', DataType::kUint32},
    {'l', DataType::kInt64},
    {'L', DataType::kUint64},
    {'e', DataType::kFloat16},
    {'f', DataType::kFloat},
    {'g', DataType::kDouble},
}};

// Elements from `offset` on whose validity bit is off.
int64_t count_nulls(const ArrowArray& array, int64_t offset, int64_t length) {
  if (array.null_count == 0 || array.n_buffers == 0 || array.buffers[0] == nullptr) return 0;
  const auto* bits = static_cast<const uint8_t*>(array.buffers[0]);
  int64_t nulls = 0;
  for (int64_t i = offset; i < offset + length; ++i) nulls += (bits[i / 8] >> (i % 8) & 1) == 0;
  return nulls;
}

// A value of an entry of a schema's metadata; empty if there is none.
std::string metadata_value(const char* metadata, std::string_view wanted) {
  if (metadata == nullptr) return {};
  const auto number = [&metadata] {
    int32_t n = 0;
    std::memcpy(&n, metadata, sizeof n);
    metadata += sizeof n;
    return n;
  };
  const int32_t count = number();
  for (int32_t i = 0; i < count; ++i) {
    const int32_t key_size = number();
    const std::string_view key(metadata, static_cast<size_t>(key_size));
    metadata += key_size;
    const int32_t value_size = number();
    if (key == wanted) return {metadata, static_cast<size_t>(value_size)};
    metadata += value_size;
  }
  return {};
}

// A view of an Arrow array: numbers, or fixed-size lists of them, whose extension may name the shape of a row.
Value import_arrow(nb::handle schema_capsule, nb::handle array_capsule, const std::string& name) {
  const auto* schema = static_cast<ArrowSchema*>(PyCapsule_GetPointer(schema_capsule.ptr(), "arrow_schema"));
  const auto* array = static_cast<ArrowArray*>(PyCapsule_GetPointer(array_capsule.ptr(), "arrow_array"));
  if (schema == nullptr || array == nullptr) throw nb::python_error();
  const std::string column = name.empty() && schema->name != nullptr ? schema->name : name;
  const std::string who = column.empty() ? "The Arrow array" : "The Arrow column \"" + column + "\"";
  Shape shape{array->length};
  std::vector<int64_t> row;
  int64_t offset = 0, length = array->length;
  const std::string extension = metadata_value(schema->metadata, "ARROW:extension:name");
  const std::string details = metadata_value(schema->metadata, "ARROW:extension:metadata");
  for (;;) {
    offset += array->offset;
    if (const int64_t nulls = count_nulls(*array, offset, length); nulls > 0)
      raise(PyExc_ValueError, who + " has " + std::to_string(nulls) + " nulls among " + std::to_string(length) +
                                  " values, which no tensor can hold: fill or drop them first.");
    if (std::strncmp(schema->format, "+w:", 3) != 0) break;
    const int64_t size = std::atoll(schema->format + 3);
    row.push_back(size);
    offset *= size;
    length *= size;
    schema = schema->children[0];
    array = array->children[0];
  }
  DataType type = DataType::kUndefined;
  for (const ArrowType& known : kArrowTypes)
    if (schema->format[0] == known.format && schema->format[1] == '\0') type = known.type;
  if (type == DataType::kUndefined)
    raise(PyExc_ValueError, who + " has values of the Arrow format \"" + schema->format +
                                "\"; tensors are made in place of integers, floats and fixed-size lists of them.");
  if (extension == "arrow.fixed_shape_tensor") {
    nb::object parsed = nb::module_::import_("json").attr("loads")(details);
    nb::object order = parsed.attr("get")("permutation", nb::none());
    if (!order.is_none() && !order.equal(nb::module_::import_("builtins").attr("sorted")(order)))
      raise(PyExc_ValueError, who + " has tensors with a permutation, which would have to be copied.");
    row = nb::cast<std::vector<int64_t>>(parsed["shape"]);
  }
  for (const int64_t dim : row) shape.push_back(dim);
  auto* data = const_cast<std::byte*>(static_cast<const std::byte*>(array->buffers[1]));
  const size_t element = data_type_size(type);
  const size_t size_bytes = unwrap(tensor_size_bytes(type, shape));
  if (size_bytes != static_cast<size_t>(length) * element)
    raise(PyExc_ValueError,
          who + " has " + std::to_string(length) + " numbers, and its shape is " + shape.to_string() + ".");
  // Arrow's memory is immutable by its contract.
  Tensor view = unwrap(Tensor::view(type, shape, size_bytes == 0 ? data : data + static_cast<size_t>(offset) * element,
                                    size_bytes, keep_alive(array_capsule)));
  return Value(view.as_read_only());
}

void bind_fences(nb::module_& m) {
  using nb::arg;
  nb::class_<Fence>(m, "Fence",
                    "One value of a Timeline: runs wait for fences (waits=) before they read, and signal them "
                    "(signals=) when they have written.")
      .def(
          "__init__",
          [](Fence* self, const PyTimeline& timeline, uint64_t value) { new (self) Fence{timeline.shared, value}; },
          arg("timeline"), arg("value"))
      .def_ro("value", &Fence::value, "The value of the timeline that this fence stands for.")
      .def_prop_ro(
          "reached", [](const Fence& f) { return unwrap(f.timeline->value()) >= f.value; },
          "Whether the timeline is there already.")
      .def(
          "wait", [](const Fence& f, std::optional<double> timeout) { wait(*f.timeline, f.value, timeout); },
          arg("timeout") = nb::none(),
          "Returns when the timeline has reached the value. `timeout` is in seconds; None waits for ever. Errors: "
          "TimeoutError, DeviceReset when the process on the other side has died, and the error of a producer that has "
          "failed.")
      .def(
          "signal", [](const Fence& f) { check(f.signal()); }, "Moves the timeline to the value.")
      .def("__repr__",
           [](const Fence& f) { return "Fence(" + f.timeline->name() + ", " + std::to_string(f.value) + ")"; });
  nb::class_<PyTimeline>(m, "Timeline",
                         "A 64-bit counter that only grows, in shared memory: threads and processes wait for its "
                         "values. Pass `fd` to another process, which opens it.")
      .def(
          "__init__",
          [](PyTimeline* self, const std::string& name, uint64_t initial_value) {
            new (self) PyTimeline{unwrap(SharedTimeline::create(name, initial_value))};
          },
          arg("name") = "", arg("initial_value") = 0)
      .def_static(
          "open", [](int fd, const std::string& name) { return PyTimeline{unwrap(SharedTimeline::open(name, fd))}; },
          arg("fd"), arg("name") = "", "The timeline behind another process's fd, which stays the caller's.")
      .def_prop_ro(
          "fd", [](const PyTimeline& t) { return t.shared->fd(); }, "Of the shared page; the timeline's own.")
      .def_prop_ro(
          "value", [](const PyTimeline& t) { return unwrap(t.shared->value()); }, "The value reached so far.")
      .def(
          "fence", [](const PyTimeline& t, uint64_t value) { return Fence{t.shared, value}; }, arg("value"),
          "The fence of a value.")
      .def(
          "wait",
          [](const PyTimeline& t, uint64_t value, std::optional<double> timeout) { wait(*t.shared, value, timeout); },
          arg("value"), arg("timeout") = nb::none(), "As Fence.wait.")
      .def(
          "signal", [](const PyTimeline& t, uint64_t value) { check(t.shared->signal(value)); }, arg("value"),
          "Moves the counter to `value`. Errors: InvalidArgument for a value at or below the current one.")
      .def(
          "fail",
          [](const PyTimeline& t, uint64_t value, const std::string& message) {
            t.shared->poison(value, Status(StatusCode::kInternal, message));
          },
          arg("value"), arg("message"),
          "Moves the counter to `value`; waits for it and later ones raise Fail with the message.")
      .def("__repr__", [](const PyTimeline& t) { return "Timeline(" + t.shared->name() + ")"; });
}

}  // namespace

void bind_interop(nb::module_& m) {
  using nb::arg;
  bind_fences(m);
  m.def("_import_fd", &import_fd, arg("fd"), arg("shape"), arg("element_type"), arg("offset_bytes"), arg("writable"),
        arg("name"));
  m.def("_import_array", &import_array, arg("array"));
  m.def("_import_cuda", &import_cuda, arg("address"), arg("shape"), arg("element_type"), arg("read_only"),
        arg("ordinal"), arg("on_host"), arg("managed"), arg("owner"));
  m.def("_import_arrow", &import_arrow, arg("schema"), arg("array"), arg("name"));
  m.def("_reshaped", &reshaped, arg("value"), arg("shape"), arg("element_type").none(), arg("offset_bytes"));
  m.def("_as_read_only", [](const Value& value) { return Value(value.tensor().as_read_only()); }, arg("value"));
  m.def("_is_read_only", [](const Value& value) { return value.tensor().read_only(); }, arg("value"));
}

}  // namespace tenon::python
