// Loads a model that may be broken and runs it on small inputs, for the fuzzer and the mutation test.
#pragma once

#include <cstddef>
#include <span>
#include <string>

#include <tenon/session.h>

namespace tenon::fuzz {

struct Outcome {
  Status loaded;
  bool ran = false;  // it was loaded, and its inputs were small enough to run
  Status run;
};

struct TryOptions {
  std::string base_directory;  // of external data; "" refuses it
  bool run = true;
  int64_t max_input_elements = 1 << 16;  // of all inputs together; a model that wants more is only loaded
};

Outcome try_model(std::span<const std::byte> model, const TryOptions& options);

// Memory that a run may take is bounded for the whole process: a mutated shape may ask for any amount, and the answer
// must be a status. Under AddressSanitizer the same is done by its options.
void limit_memory();

}  // namespace tenon::fuzz
