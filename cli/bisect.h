// Finds the pass, EP or kernels whose absence makes a run equal to its reference.
#pragma once

#include <tenon/session.h>

#include <functional>
#include <string>
#include <vector>

namespace tenon::cli {

struct Culprit {
  enum class Kind : uint8_t {
    kNone,      // nothing that can be left out makes the run equal
    kPasses,    // leaving out `names`, and no fewer of them, makes it equal
    kEp,        // leaving out the EP names[0] does
    kWinograd,  // the convolutions' Winograd kernels
    kKernels,   // the CPU EP's reference kernels make it equal
    kTogether,  // only all of that together does
  };
  Kind kind = Kind::kNone;
  std::vector<std::string> names;
  int runs = 0;
};

// Whether a run with these options equals the reference.
using IsSame = std::function<Result<bool>(const SessionOptions& options)>;

// `options` are those of a run that differs.
Result<Culprit> bisect(const SessionOptions& options, const IsSame& is_same);

// "Without the pass "fold" all values agree": a sentence, and the options to add for a run that agrees.
std::string culprit_text(const Culprit& culprit);
std::string culprit_options(const Culprit& culprit);

}  // namespace tenon::cli
