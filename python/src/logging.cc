// The log of the process's env, which goes to a function of the program's where it has set one.
#include <atomic>
#include <chrono>
#include <cstdio>
#include <ctime>

#include "core.h"

namespace tenon::python {
namespace {

// The program's function; null: stderr. Changed and called under the interpreter's lock, only compared without it.
std::atomic<PyObject*> callback = nullptr;
thread_local bool in_callback = false;

// "2026-01-31 12:00:00.123456 [W:onnxruntime:logid, file.cc:12 function] message", as libtenon writes it.
void write_to_stderr(OrtLoggingLevel severity, const char* category, const char* id, const char* location,
                     const char* message) {
  constexpr char kLetters[] = "VIWEF";
  const auto now = std::chrono::system_clock::now();
  const std::time_t seconds = std::chrono::system_clock::to_time_t(now);
  const auto micros = std::chrono::duration_cast<std::chrono::microseconds>(now.time_since_epoch()).count() % 1'000'000;
  std::tm local{};
  ::localtime_r(&seconds, &local);
  char time[32];
  std::strftime(time, sizeof(time), "%Y-%m-%d %H:%M:%S", &local);
  const auto index = static_cast<size_t>(severity);
  std::fprintf(stderr, "%s.%06lld [%c:%s:%s, %s] %s\n", time, static_cast<long long>(micros),
               index < 5 ? kLetters[index] : '?', category, id, location, message);
}

// False where the line has to go to stderr: the program has no function, or it raised. Threads that Python does not
// know do not wait for its lock, whose holder may wait for them.
bool call(OrtLoggingLevel severity, const char* category, const char* id, const char* location, const char* message) {
  if (callback.load(std::memory_order_relaxed) == nullptr || in_callback || Py_IsInitialized() == 0 ||
      PyGILState_GetThisThreadState() == nullptr)
    return false;
  const Locked locked;
  const nb::object function = nb::borrow(callback.load());
  if (!function.is_valid()) return false;
  in_callback = true;
  bool called = true;
  // A line may come while an exception is on its way.
  PyObject *type = nullptr, *value = nullptr, *trace = nullptr;
  PyErr_Fetch(&type, &value, &trace);
  try {
    function(static_cast<int>(severity), category, id, location, message);
  } catch (nb::python_error& error) {
    error.restore();
    PyErr_WriteUnraisable(function.ptr());
    called = false;
  } catch (const std::exception&) {
    called = false;
  }
  PyErr_Restore(type, value, trace);
  in_callback = false;
  return called;
}

void set_callback(nb::handle function, int severity) {
  if (severity < 0 || severity > 4)
    raise(PyExc_RuntimeError, "Invalid logging severity (" + std::to_string(severity) +
                                  "). 0:Verbose, 1:Info, 2:Warning, 3:Error, 4:Fatal");
  if (!function.is_none() && PyCallable_Check(function.ptr()) == 0)
    raise(PyExc_RuntimeError, "The callback is a function or None, and this is " + str_of(nb::repr(function)) + ".");
  if (!function.is_none()) {
    check(api().UpdateEnvWithCustomLogLevel(env(), static_cast<OrtLoggingLevel>(severity)));
    Py_INCREF(function.ptr());
  }
  PyObject* const before = callback.exchange(function.is_none() ? nullptr : function.ptr());
  Py_XDECREF(before);
}

}  // namespace

void write_log(void*, OrtLoggingLevel severity, const char* category, const char* id, const char* location,
               const char* message) noexcept {
  if (!call(severity, category, id, location, message)) write_to_stderr(severity, category, id, location, message);
}

void bind_logging(nb::module_& m) {
  m.def(
      "set_default_logger_callback", &set_callback, nb::arg("callback").none(), nb::arg("severity") = 2,
      "Sends the lines of the log to callback(severity, category, logid, location, message), from this severity on "
      "(0 verbose, 1 info, 2 warning, 3 error, 4 fatal), those of sessions that exist too. None: to stderr again.\n\n"
      "The thread that has something to say calls it. Lines of threads that Python does not know go to stderr, and so "
      "do "
      "those of the callback itself and those for which it raises. Errors: RuntimeError for a severity that there is "
      "not, and for something that is no function.",
      nb::sig("def set_default_logger_callback(callback: collections.abc.Callable[[int, str, str, str, str], object] | "
              "None, severity: int = 2) -> None"));
}

}  // namespace tenon::python
