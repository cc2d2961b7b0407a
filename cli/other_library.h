// Another library with ONNX Runtime's C ABI, as the reference of a comparison.
#pragma once

#include <tenon/tensor.h>

#include <string>
#include <utility>
#include <vector>

#include "cli/kept_values.h"

namespace tenon::cli {

// Loads `library`, runs `model` in it on its CPU EP without its optimisations, and gives `writer` the values of
// `names`, which are of the graph in the model's file; `outputs` are those of the model. Values that are no tensors of
// numbers are left out. Errors: kNotFound for a file that is no such library; what the library answers, with its words.
Status run_in_library(const std::string& library, const std::string& model, const std::vector<std::string>& outputs,
                      const std::vector<std::pair<std::string, Tensor>>& inputs, const std::vector<std::string>& names,
                      KeptWriter& writer);

}  // namespace tenon::cli
