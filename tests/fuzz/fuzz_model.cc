// libFuzzer: any bytes as a model, loaded and, when that works, run.
#include <cstdint>

#include "try_model.h"

extern "C" const char* __asan_default_options() { return "allocator_may_return_null=1:max_allocation_size_mb=256"; }

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const tenon::fuzz::TryOptions options{.base_directory = "", .run = true, .max_input_elements = 4096};
  const tenon::fuzz::Outcome outcome =
      tenon::fuzz::try_model({reinterpret_cast<const std::byte*>(data), size}, options);
  const bool defect =
      outcome.loaded.code() == tenon::StatusCode::kInternal || outcome.run.code() == tenon::StatusCode::kInternal;
  if (defect) __builtin_trap();
  return 0;
}
