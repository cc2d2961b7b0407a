#include "arrays.h"
#include "core.h"

NB_MODULE(_core, m) {
  using namespace tenon::python;  // NOLINT(google-build-using-namespace)
  m.doc() = "The native part of the package tenon.";
  // Programs end with sessions in their globals, and the interpreter then frees the module first.
  nb::set_leak_warnings(false);
  import_numpy();
  bind_errors(m);
  bind_environment(m);
  bind_devices(m);
  bind_selection(m);
  bind_values(m);
  bind_sparse(m);
  bind_adapters(m);
  bind_options(m);
  bind_session(m);
  bind_binding(m);
  bind_interop(m);
  bind_compile(m);
  bind_logging(m);
  bind_packages(m);
}
