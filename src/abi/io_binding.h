// OrtIoBinding: values bound by name, kept until they are replaced or cleared.
//
// Ownership: bound values are shared handles, so that the program may release its own. The session outlives the
// binding, as in the reference. Threads: one at a time.
#pragma once

#include <tenon/onnxruntime_c_api.h>

#include <optional>
#include <string>
#include <vector>

#include "abi/objects/value.h"
#include "abi/session.h"

struct OrtIoBinding {
  struct Input {
    size_t index = 0;
    OrtValue value;
  };
  struct Output {
    std::string name;
    std::optional<OrtValue> value;  // none: Tenon allocates, in `space`
    OrtMemoryInfo space;
  };

  OrtIoBinding(OrtSession& bound_to, tenon::Binding made) : session(bound_to), binding(std::move(made)) {}

  OrtSession& session;
  tenon::Binding binding;
  std::vector<Input> inputs;
  std::vector<Output> outputs;  // in the order in which they were bound
  bool applied = false;         // `binding` holds what `inputs` and `outputs` say
};
