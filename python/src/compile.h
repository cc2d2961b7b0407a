// Functions of Python's that read and write the data of EPContext nodes.
#pragma once

#include "core.h"

namespace tenon::python {

struct Options;

// SessionOptions.set_ep_context_data_read_func: the options keep it, and sessions are made of a copy of their handle.
struct ContextReader {
  nb::callable read;
  size_t most_bytes = 0;
};

void set_context_reader(Options& options, nb::callable read, size_t most_bytes);
void clear_context_reader(Options& options);

}  // namespace tenon::python
