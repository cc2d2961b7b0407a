// OrtCustomOpDomain: operators that a program or its library adds to a domain.
//
// Ownership: domains and operators are the program's until the last session made with them is gone, as in the
// reference. Tenon keeps them with the options and makes sessions of models that do not use them; running such an
// operator is not implemented, and a model that uses one is refused when its session is made.
#pragma once

#include <tenon/onnxruntime_c_api.h>

#include <string>
#include <vector>

struct OrtCustomOpDomain {
  std::string name;
  std::vector<const OrtCustomOp*> ops;
};

namespace tenon::abi {

// True if one of the session's domains has that name: a node of it is not a fault of the model.
bool has_custom_domain(const OrtSessionOptions& options, const std::string& message);

}  // namespace tenon::abi
