// Adapters of the C ABI: their parameters are fed to a run like inputs of the program.
//
// Ownership: run options share what they are given, so that an adapter may be released before the run.
#pragma once

#include <tenon/lora_adapter.h>
#include <tenon/onnxruntime_c_api.h>

#include <memory>
#include <string>
#include <vector>

#include "abi/objects/value.h"

namespace tenon::abi {

struct AdapterParameter {
  std::string name;
  OrtValue value;
};
using AdapterParameters = std::shared_ptr<const std::vector<AdapterParameter>>;

// Appends the parameters of the run's adapters, in the order in which these were added.
void add_adapters(const OrtRunOptions& options, std::vector<const char*>& names, std::vector<const OrtValue*>& values);

}  // namespace tenon::abi

struct OrtLoraAdapter {
  tenon::abi::AdapterParameters parameters;
};
