// A session of four operators whose result is known: y = -Relu(-Relu(x)) is 0 everywhere.
#pragma once

#include <map>
#include <span>
#include <string>
#include <vector>

#include "base/status.h"
#include "conformance/host.h"
#include "programs/relu_model.h"

namespace tenon::test {

inline constexpr int64_t kZeroCount = 1000;  // elements of x and y

inline Result<conformance::Owned<OrtSession>> make_zero_session(const conformance::Host& host,
                                                                const std::map<std::string, std::string>& ep_options) {
  return host.create_session(chain_model({"Relu", "Neg", "Relu", "Neg"}, {kZeroCount}), ep_options);
}

// From host memory to host memory. The elements of `x` are read only.
inline Status run_zero_session(const conformance::Host& host, OrtSession* session, std::span<float> x,
                               const OrtRunOptions* options = nullptr) {
  TENON_TRY_ASSIGN(const auto src, host.tensor_over(x, std::span(&kZeroCount, 1)));
  TENON_TRY_ASSIGN(const auto y, host.run_for_output(session, src.get(), options));
  void* data = nullptr;
  TENON_TRY(conformance::to_status(host.take(host.api().GetTensorMutableData(y.get(), &data)), "GetTensorMutableData"));
  for (int64_t i = 0; i < kZeroCount; ++i)
    if (static_cast<const float*>(data)[i] != 0) return internal_error("Element {} is wrong.", i);
  return Status();
}

}  // namespace tenon::test
