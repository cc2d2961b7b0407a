// Every other file's view of the C ABI: the table, owners of its objects, and the one place that turns a status into a
// Python exception.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/stl/map.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>
#include <tenon/onnxruntime_c_api.h>
#include <tenon/status.h>

#include <cxxabi.h>
#include <unistd.h>

#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace tenon::python {

namespace nb = nanobind;

// The table of libtenon, at the version of the header.
inline const OrtApi& api() {
  static const OrtApi* const table = OrtGetApiBase()->GetApi(ORT_API_VERSION);
  return *table;
}

// Raises the exception class of the code, with ONNX Runtime's text: "[ONNXRuntimeError] : 2 : INVALID_ARGUMENT : ...".
[[noreturn]] void raise(OrtErrorCode code, std::string_view message);
// RuntimeError, ValueError or another class of Python's own.
[[noreturn]] void raise(PyObject* type, const std::string& message);
// Releases the status. Null is no error.
void check(OrtStatus* status);
void check(const Status& status);
// The same, as the plain RuntimeError that onnxruntime's package raises for its bindings.
void check_run(OrtStatus* status);
// The text of a status, which is released.
std::string take_message(OrtStatus* status);

template <typename T>
T unwrap(Result<T> result) {
  check(result.status());
  return *std::move(result);
}

// An owner of an object of the C ABI.
template <typename T, auto kRelease>
class Owned {
 public:
  Owned() = default;
  explicit Owned(T* object) : object_(object) {}
  Owned(Owned&& other) noexcept : object_(std::exchange(other.object_, nullptr)) {}
  Owned& operator=(Owned&& other) noexcept {
    std::swap(object_, other.object_);
    return *this;
  }
  ~Owned() {
    if (object_ != nullptr) (api().*kRelease)(object_);
  }
  T* get() const { return object_; }
  T** out() { return &object_; }
  T* release() { return std::exchange(object_, nullptr); }
  explicit operator bool() const { return object_ != nullptr; }

 private:
  T* object_ = nullptr;
};
using OwnedValue = Owned<OrtValue, &OrtApi::ReleaseValue>;
using OwnedSession = Owned<OrtSession, &OrtApi::ReleaseSession>;
using OwnedSessionOptions = Owned<OrtSessionOptions, &OrtApi::ReleaseSessionOptions>;
using OwnedRunOptions = Owned<OrtRunOptions, &OrtApi::ReleaseRunOptions>;
using OwnedBinding = Owned<OrtIoBinding, &OrtApi::ReleaseIoBinding>;
using OwnedMemoryInfo = Owned<OrtMemoryInfo, &OrtApi::ReleaseMemoryInfo>;
using OwnedTypeInfo = Owned<OrtTypeInfo, &OrtApi::ReleaseTypeInfo>;

// A thread that wants the interpreter's lock when that is being finalized is not let in any more: up to CPython 3.13
// pthread_exit unwinds it, which no destructor and no noexcept function survives. So it stops where it is for good.
[[noreturn]] inline void stop_thread() {
  for (;;) ::pause();
}

// The interpreter's lock, for a thread of the library's.
class Locked {
 public:
  Locked() {
    try {
      state_ = PyGILState_Ensure();
    } catch (abi::__forced_unwind&) {
      stop_thread();
    }
  }
  Locked(const Locked&) = delete;
  Locked& operator=(const Locked&) = delete;
  ~Locked() { PyGILState_Release(state_); }

 private:
  PyGILState_STATE state_{};
};

// Other Python threads run while one lives.
class Unlocked {
 public:
  Unlocked() : state_(PyEval_SaveThread()) {}
  Unlocked(const Unlocked&) = delete;
  Unlocked& operator=(const Unlocked&) = delete;
  ~Unlocked() {
    try {
      PyEval_RestoreThread(state_);
    } catch (abi::__forced_unwind&) {
      stop_thread();
    }
  }

 private:
  PyThreadState* state_;
};

// The exception of a function of Python's that the library has called.
OrtStatus* failed(nb::python_error& error);

// Calls `body`, which may call Python, from a thread of the library's.
template <typename Body>
OrtStatus* in_python(Body&& body) noexcept {
  const Locked locked;
  try {
    return body();
  } catch (nb::python_error& error) {
    return failed(error);
  } catch (const std::exception& error) {
    return api().CreateStatus(ORT_FAIL, error.what());
  } catch (abi::__forced_unwind&) {  // the function gave the lock away and wants it back
    stop_thread();
  }
}

// The allocator of plain host memory.
OrtAllocator* default_allocator();
// Text that an allocator of the C ABI gave.
std::string take_text(char* text);
// The process's env; the first call makes it.
OrtEnv* env();

// Writes a line of the env's log: to the program's function, else to stderr. For CreateEnvWithCustomLogger.
void write_log(void* unused, OrtLoggingLevel severity, const char* category, const char* id, const char* location,
               const char* message) noexcept;

// Keeps a Python object alive for C++ code that may drop it on any thread.
std::shared_ptr<const void> keep_alive(nb::handle object);

// str() of an object.
std::string str_of(nb::handle object);

// A function of Python, or null: for a default argument.
bool is_none(nb::handle object);

void bind_errors(nb::module_& m);
void bind_environment(nb::module_& m);
void bind_devices(nb::module_& m);
void bind_selection(nb::module_& m);
void bind_options(nb::module_& m);
void bind_values(nb::module_& m);
void bind_session(nb::module_& m);
void bind_binding(nb::module_& m);
void bind_interop(nb::module_& m);
void bind_sparse(nb::module_& m);
void bind_adapters(nb::module_& m);
void bind_compile(nb::module_& m);
void bind_logging(nb::module_& m);
void bind_packages(nb::module_& m);

}  // namespace tenon::python
