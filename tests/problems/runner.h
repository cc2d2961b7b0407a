// Runs problems on an EP and compares with the oracle.
#pragma once

#include <tenon/ep.h>
#include <tenon/session.h>

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "problems/case.h"
#include "problems/problem.h"
#include "problems/stock.h"

namespace tenon::problems {

struct RunnerOptions {
  // "cpu", or a plugin library: "sim", "cuda", or NAME=LIBRARY.
  std::string ep = "cpu";
  std::map<std::string, std::string> ep_options = {};
  std::vector<int> threads = {1};
  uint64_t seed = 1;
  bool time = false;
  std::string stock;  // a libonnxruntime to time beside
};

enum class Verdict {
  kPassed,
  kFailed,
  kElsewhere,    // the EP took none of the nodes, so nothing was tested
  kUnsupported,  // no EP has a kernel
};
struct Outcome {
  Verdict verdict = Verdict::kFailed;
  std::string text;  // largest error and where, or why not; with times if they were asked for
};

class Runner {
 public:
  // Errors: kNotFound if the library offers no device (no GPU); what loading the library gives.
  static Result<Runner> create(const RunnerOptions& options);

  Outcome run(const Problem& problem) const;

 private:
  Result<Outcome> run_case(const Problem& problem, const Case& test) const;
  Result<std::string> time(const Case& test) const;
  SessionOptions session_options(size_t pool) const;

  RunnerOptions options_;
  std::string ep_name_;  // empty: the CPU EP
  std::vector<std::shared_ptr<ThreadPool>> pools_;
  std::unique_ptr<StockHost> stock_;
};

// The numbers of an output against the oracle's: the element that is furthest beyond its bound, or nearest to it.
struct Comparison {
  bool within = true;
  int64_t element = -1;  // -1: no element
  double got = 0, wanted = 0, error = 0, bound = 0;
  std::string text(const std::string& name, const Dims& dims) const;
};
// `widened` multiplies the bound, and takes the output's largest for each element (Winograd mixes neighbours).
Comparison compare(const Array& wanted, const void* got, double widened);

}  // namespace tenon::problems
