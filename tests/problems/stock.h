// ONNX Runtime's own CPU EP, for times beside Tenon's.
#pragma once

#include <memory>
#include <string>

#include "base/status.h"
#include "problems/case.h"

namespace tenon::problems {

class StockSession {
 public:
  virtual ~StockSession() = default;
  virtual Status run() = 0;
};

class StockHost {
 public:
  virtual ~StockHost() = default;
  // Errors: kUnsupported with ONNX Runtime's message for a model that it refuses.
  virtual Result<std::unique_ptr<StockSession>> load(const Case& test, int threads) = 0;
};

// `library`: a libonnxruntime.so. Errors: kNotFound if it cannot be loaded.
Result<std::unique_ptr<StockHost>> open_stock(const std::string& library);

}  // namespace tenon::problems
