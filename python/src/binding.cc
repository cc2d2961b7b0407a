#include <tenon/ort_bridge.h>

#include <map>

#include "arrays.h"
#include "session.h"

namespace tenon::python {
namespace {

// IOBinding's native part. It keeps the session and what is bound to it alive.
struct PyBinding {
  std::shared_ptr<Loaded> loaded;
  OwnedBinding handle;
};

const ValueInfo& input_info(const PyBinding& binding, const std::string& name) {
  for (const ValueInfo& info : binding.loaded->core->inputs())
    if (info.name == name) return info;
  raise(PyExc_RuntimeError, "Failed to find NodeArg with name: " + name + " in the def list");
}

// Memory of the caller's, which the caller keeps alive.
Value value_at(const Device& device, nb::handle element_type, const std::vector<int64_t>& shape, uintptr_t address) {
  const DataType type = element_type_from(element_type);
  const size_t rank = shape.size();
  if (rank > static_cast<size_t>(Shape::kMaxRank))
    raise(ORT_INVALID_ARGUMENT, "A shape of " + std::to_string(rank) + " dimensions is given.");
  const size_t bytes = unwrap(tensor_size_bytes(type, Shape(std::span<const int64_t>(shape))));
  const OwnedMemoryInfo info = memory_info_of(device);
  OrtValue* made = nullptr;
  check(api().CreateTensorWithDataAsOrtValue(info.get(), reinterpret_cast<void*>(address), bytes, shape.data(), rank,
                                             static_cast<ONNXTensorElementDataType>(type), &made));
  return Value::take(made);
}

// Whether the session makes tensors on the device. Where none of its providers does, onnxruntime makes outputs in the
// host's memory, and so do we, with a warning.
bool has_memory_of(const PyBinding& binding, const std::string& name, const Device& device) {
  if (device.type == 0) return true;
  const MemorySpace space{.device_type = device.type == 1 ? DeviceType::kGpu : DeviceType::kNpu,
                          .kind = device.memory == 0 ? MemoryKind::kDefault : MemoryKind::kHostAccessible,
                          .vendor_id = device.vendor,
                          .device_id = device.id};
  if (binding.loaded->core->allocate(DataType::kUint8, Shape{1}, space).ok()) return true;
  const std::string text = "Output \"" + name +
                           "\" is made in the host's memory: no provider of the session has memory of " +
                           space.to_string() + ".";
  if (PyErr_WarnEx(PyExc_RuntimeWarning, text.c_str(), 2) < 0) throw nb::python_error();
  return false;
}

// Calls the C ABI without the interpreter's lock: another thread's run on the binding may be waiting for that lock, to
// let go of an array, while this thread waits for the run.
template <typename Function, typename... Arguments>
auto unlocked(Function function, Arguments... arguments) {
  const Unlocked unlocked;
  return function(arguments...);
}

void bind_input(PyBinding& binding, const std::string& name, const OrtValue* value) {
  check_run(unlocked(api().BindInput, binding.handle.get(), name.c_str(), value));
}

void bind_output(PyBinding& binding, const std::string& name, const OrtValue* value) {
  check_run(unlocked(api().BindOutput, binding.handle.get(), name.c_str(), value));
}

// Errors: InvalidArgument in strict mode for an array that would be copied.
void bind_array(PyBinding& binding, const std::string& name, nb::handle given) {
  const ValueInfo& info = input_info(binding, name);
  if (!is_array(given)) raise(PyExc_RuntimeError, "Unable to create OrtValue from the given python object");
  bool copied = false;
  const Value value(info.object == nullptr ? tensor_of_array(given, &copied)
                                           : tensor_of_object(given, info.type, info.object, name));
  if (copied && binding.loaded->strict && value.tensor().type() != DataType::kString) raise_copy(given, name);
  bind_input(binding, name, value.handle());
}

nb::list outputs(const PyBinding& binding) {
  OrtValue** values = nullptr;
  size_t count = 0;
  OrtAllocator* allocator = default_allocator();
  check(unlocked(api().GetBoundOutputValues, binding.handle.get(), allocator, &values, &count));
  std::vector<OrtValue*> owned(values, values + count);
  if (values != nullptr) check(api().AllocatorFree(allocator, values));
  nb::list made;
  for (OrtValue* value : owned) made.append(nb::cast(Value::take(value)));
  return made;
}

nb::list outputs_on_host(const PyBinding& binding) {
  nb::list made;
  for (nb::handle value : outputs(binding)) {
    const Value& output = nb::cast<const Value&>(value);
    if (devices_are_memory_compatible(output.tensor().space(), MemorySpace())) {
      made.append(to_python_copy(output.tensor()));
    } else {
      made.append(value.attr("numpy")());  // a copy already
    }
  }
  return made;
}

void synchronize(PyBinding& binding, bool inputs) {
  check(unlocked(inputs ? api().SynchronizeBoundInputs : api().SynchronizeBoundOutputs, binding.handle.get()));
}

void run(const PyBinding& binding, nb::handle run_options, nb::handle waits, nb::handle signals) {
  if (binding.loaded->forks != fork_count())
    raise(PyExc_RuntimeError, "The IOBinding was made before the process forked: make another in the child.");
  const SettingsLease settings(binding.loaded, run_options, waits, signals);
  if (settings->has_adapters &&
      PyErr_WarnEx(PyExc_UserWarning, "run_with_iobinding has active adapters specified, but won't have an effect", 1) <
          0)
    throw nb::python_error();
  OrtStatus* const status =
      unlocked(api().RunWithBinding, binding.loaded->session.get(), settings->handle.get(), binding.handle.get());
  if (status == nullptr) [[likely]]
    return;
  raise(PyExc_RuntimeError, "Error in execution: " + take_message(status));
}

}  // namespace

void run_with_binding(nb::handle session, nb::handle binding, nb::handle run_options, nb::handle waits,
                      nb::handle signals) {
  if (nb::isinstance<PyBinding>(binding)) return run(nb::cast<const PyBinding&>(binding), run_options, waits, signals);
  static PyObject* const native_name = PyUnicode_InternFromString("_iobinding");
  static PyObject* const session_name = PyUnicode_InternFromString("_session");
  const nb::object native = nb::getattr(binding, nb::handle(native_name));
  if (!nb::getattr(binding, nb::handle(session_name)).is(session))
    raise(PyExc_ValueError, "IOBinding must be used with the session that created it.");
  run(nb::cast<const PyBinding&>(native), run_options, waits, signals);
}

void bind_binding(nb::module_& m) {
  using nb::arg;
  nb::class_<PyBinding>(m, "SessionIOBinding", "The native part of IOBinding.")
      .def(
          "__init__",
          [](PyBinding* self, nb::handle given) {
            // onnxruntime's native session, beneath its InferenceSession, is the argument there.
            const nb::object made_by = nb::getattr(given, "_session", nb::borrow(given));
            if (!nb::isinstance<PySession>(made_by))
              raise(PyExc_TypeError, "A binding is made for a session, and this is " + str_of(nb::repr(given)) + ".");
            const auto& session = nb::cast<const PySession&>(made_by);
            OwnedBinding handle;
            check(api().CreateIoBinding(session.loaded()->session.get(), handle.out()));
            new (self) PyBinding{.loaded = session.loaded(), .handle = std::move(handle)};
          },
          arg("session"), "A binding without inputs and outputs.",
          nb::sig("def __init__(self, session: Session) -> None"))
      .def("bind_input", &bind_array, arg("name"), arg("arr_on_cpu").none(),
           "Binds an array, which is read where it lies, or memory at an address (element type and shape of the tensor "
           "there).")
      .def(
          "bind_input",
          [](PyBinding& binding, const std::string& name, const Device& device, nb::handle element_type,
             const std::vector<int64_t>& shape, uintptr_t buffer_ptr) {
            bind_input(binding, name, value_at(device, element_type, shape, buffer_ptr).handle());
          },
          arg("name"), arg("device"), arg("element_type"), arg("shape"), arg("buffer_ptr"))
      .def(
          "bind_ortvalue_input",
          [](PyBinding& binding, const std::string& name, const Value& value) {
            bind_input(binding, name, value.handle());
          },
          arg("name"), arg("ortvalue"), "Binds a value as an input.")
      .def(
          "bind_output",
          [](PyBinding& binding, const std::string& name, const Device& device) {
            const OwnedMemoryInfo info = memory_info_of(has_memory_of(binding, name, device) ? device : Device());
            check_run(unlocked(api().BindOutputToDevice, binding.handle.get(), name.c_str(), info.get()));
          },
          arg("name"), arg("device"),
          "Leaves the output to each run, on this device, or binds memory at an address, which runs write.")
      .def(
          "bind_output",
          [](PyBinding& binding, const std::string& name, const Device& device, nb::handle element_type,
             const std::vector<int64_t>& shape, uintptr_t buffer_ptr) {
            bind_output(binding, name, value_at(device, element_type, shape, buffer_ptr).handle());
          },
          arg("name"), arg("device"), arg("element_type"), arg("shape"), arg("buffer_ptr"))
      .def(
          "bind_ortvalue_output",
          [](PyBinding& binding, const std::string& name, const Value& value) {
            bind_output(binding, name, value.handle());
          },
          arg("name"), arg("ortvalue"), "Binds a value whose memory a run writes.")
      .def(
          "synchronize_inputs", [](PyBinding& binding) { synchronize(binding, true); },
          "Waits until devices have what was bound.")
      .def(
          "synchronize_outputs", [](PyBinding& binding) { synchronize(binding, false); },
          "Waits until devices have written the outputs.")
      .def("get_outputs", &outputs, "The outputs of the last run, in the order in which they were bound.",
           nb::sig("def get_outputs(self) -> list[OrtValue]"))
      .def("copy_outputs_to_cpu", &outputs_on_host, "Copies of the outputs of the last run, as arrays.",
           nb::sig("def copy_outputs_to_cpu(self) -> list[typing.Any]"))
      .def(
          "clear_binding_inputs", [](PyBinding& b) { unlocked(api().ClearBoundInputs, b.handle.get()); },
          "Unbinds all inputs.")
      .def(
          "clear_binding_outputs", [](PyBinding& b) { unlocked(api().ClearBoundOutputs, b.handle.get()); },
          "Unbinds all outputs.");
}

}  // namespace tenon::python
