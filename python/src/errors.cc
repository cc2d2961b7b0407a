#include <array>

#include "core.h"

namespace tenon::python {
namespace {

struct ErrorClass {
  OrtErrorCode code;
  const char* name;  // of the class
  const char* text;  // in messages
  const char* doc;
};

// In the order of the codes, from 1.
constexpr std::array<ErrorClass, 15> kClasses = {{
    {ORT_FAIL, "Fail", "FAIL", "The call failed, or a run was cancelled."},
    {ORT_INVALID_ARGUMENT, "InvalidArgument", "INVALID_ARGUMENT",
     "An argument is wrong: a name, a type, a shape, an option. The message has its values."},
    {ORT_NO_SUCHFILE, "NoSuchFile", "NO_SUCHFILE", "The model's file does not exist."},
    {ORT_NO_MODEL, "NoModel", "NO_MODEL", "There is no model."},
    {ORT_ENGINE_ERROR, "EngineError", "ENGINE_ERROR", "A provider's engine failed."},
    {ORT_RUNTIME_EXCEPTION, "RuntimeException", "RUNTIME_EXCEPTION",
     "A run failed: a limit of memory or time, or an operator that cannot take its values."},
    {ORT_INVALID_PROTOBUF, "InvalidProtobuf", "INVALID_PROTOBUF", "The bytes are no ONNX model."},
    {ORT_MODEL_LOADED, "ModelLoaded", "MODEL_LOADED", "The session has a model already."},
    {ORT_NOT_IMPLEMENTED, "NotImplemented", "NOT_IMPLEMENTED",
     "An operator, type or function that this build does not have."},
    {ORT_INVALID_GRAPH, "InvalidGraph", "INVALID_GRAPH", "The model breaks the rules of ONNX."},
    {ORT_EP_FAIL, "EPFail", "EP_FAIL", "An execution provider failed."},
    {ORT_MODEL_LOAD_CANCELED, "ModelLoadCanceled", "MODEL_LOAD_CANCELED", "The program cancelled the load."},
    {ORT_MODEL_REQUIRES_COMPILATION, "ModelRequiresCompilation", "MODEL_REQUIRES_COMPILATION",
     "The model has to be compiled before it is loaded."},
    {ORT_NOT_FOUND, "NotFound", "NOT_FOUND", "There is nothing of this name."},
    {ORT_DEVICE_RESET, "DeviceReset", "DEVICE_RESET", "The device is lost: later calls fail as well."},
}};

// Borrowed for as long as the interpreter runs.
std::array<PyObject*, kClasses.size()> classes{};

OrtErrorCode code_of(StatusCode code) {
  switch (code) {
    case StatusCode::kOk:
      return ORT_OK;
    case StatusCode::kInvalidArgument:
    case StatusCode::kOutOfRange:
      return ORT_INVALID_ARGUMENT;
    case StatusCode::kUnsupported:
      return ORT_NOT_IMPLEMENTED;
    case StatusCode::kNotFound:
      return ORT_NOT_FOUND;
    case StatusCode::kResourceExhausted:
    case StatusCode::kTimeout:
      return ORT_RUNTIME_EXCEPTION;
    case StatusCode::kDeviceError:
      return ORT_EP_FAIL;
    case StatusCode::kDeviceLost:
      return ORT_DEVICE_RESET;
    case StatusCode::kCancelled:
    case StatusCode::kInternal:
      return ORT_FAIL;
  }
  return ORT_FAIL;
}

}  // namespace

void raise(PyObject* type, const std::string& message) {
  // Names in a model, and paths, may be no UTF-8.
  const nb::object text =
      nb::steal(PyUnicode_DecodeUTF8(message.data(), static_cast<Py_ssize_t>(message.size()), "backslashreplace"));
  if (text.is_valid()) PyErr_SetObject(type, text.ptr());
  throw nb::python_error();
}

void raise(OrtErrorCode code, std::string_view message) {
  size_t index = static_cast<size_t>(code) - 1;
  if (index >= kClasses.size()) index = 0;
  const std::string text =
      "[ONNXRuntimeError] : " + std::to_string(code) + " : " + kClasses[index].text + " : " + std::string(message);
  raise(classes[index], text);
}

void check(OrtStatus* status) {
  if (status == nullptr) [[likely]]
    return;
  const OrtErrorCode code = api().GetErrorCode(status);
  raise(code, take_message(status));
}

void check(const Status& status) {
  if (!status.ok()) [[unlikely]]
    raise(code_of(status.code()), status.message());
}

void check_run(OrtStatus* status) {
  if (status != nullptr) [[unlikely]]
    raise(PyExc_RuntimeError, take_message(status));
}

std::string take_message(OrtStatus* status) {
  std::string message = api().GetErrorMessage(status);
  api().ReleaseStatus(status);
  return message;
}

std::string str_of(nb::handle object) { return nb::cast<std::string>(nb::str(object)); }

bool is_none(nb::handle object) { return !object.is_valid() || object.is_none(); }

std::shared_ptr<const void> keep_alive(nb::handle object) {
  Py_INCREF(object.ptr());
  return {object.ptr(), [](const void* kept) {
            if (Py_IsInitialized() == 0) return;  // the interpreter is gone, and its objects with it
            const Locked locked;
            Py_DECREF(static_cast<PyObject*>(const_cast<void*>(kept)));
          }};
}

void bind_errors(nb::module_& m) {
  // A conversion inside a function, of a list's element for example, that nanobind has no words for.
  nb::register_exception_translator([](const std::exception_ptr& error, void*) {
    try {
      std::rethrow_exception(error);
    } catch (const std::bad_cast&) {
      PyErr_SetString(PyExc_TypeError,
                      "An argument, or an element of one, has a type that the function does not take.");
    }
  });
  PyObject* base = PyErr_NewExceptionWithDoc("tenon.Error", "The base of all errors of Tenon; `code` is its number.",
                                             PyExc_Exception, nullptr);
  if (base == nullptr) throw nb::python_error();
  m.attr("Error") = nb::steal(base);
  m.attr("Error").attr("code") = 0;
  for (size_t i = 0; i < kClasses.size(); ++i) {
    const std::string name = std::string("tenon.") + kClasses[i].name;
    classes[i] = PyErr_NewExceptionWithDoc(name.c_str(), kClasses[i].doc, base, nullptr);
    if (classes[i] == nullptr) throw nb::python_error();
    nb::object made = nb::borrow(classes[i]);  // `classes` keeps the first reference for good
    made.attr("code") = static_cast<int>(kClasses[i].code);
    m.attr(kClasses[i].name) = made;
  }
}

OrtStatus* failed(nb::python_error& error) {
  const std::string text = str_of(nb::handle(error.type()).attr("__name__")) + ": " + str_of(error.value());
  return api().CreateStatus(ORT_FAIL, text.c_str());
}

}  // namespace tenon::python
