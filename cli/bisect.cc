#include "cli/bisect.h"

#include <tenon/node_values.h>

#include <algorithm>

#include "cli/status.h"

namespace tenon::cli {
namespace {

class Bisection {
 public:
  Bisection(const SessionOptions& options, const IsSame& is_same) : options_(options), is_same_(is_same) {
    for (std::string_view pass : pass_names()) {
      const auto& out = options.disabled_passes;
      if (std::find(out.begin(), out.end(), pass) == out.end() && std::find(out.begin(), out.end(), "all") == out.end())
        passes_.emplace_back(pass);
    }
  }

  Result<Culprit> find() {
    TENON_TRY_ASSIGN(const bool passes, same_without(passes_));
    if (passes && !passes_.empty()) {
      TENON_TRY_ASSIGN(auto names, guilty_passes());
      return made(Culprit::Kind::kPasses, std::move(names));
    }
    for (size_t i = 0; i < options_.eps.size(); ++i) {
      SessionOptions without = options_;
      without.eps.erase(without.eps.begin() + static_cast<std::ptrdiff_t>(i));
      TENON_TRY_ASSIGN(const bool same, run(without));
      if (same) return made(Culprit::Kind::kEp, {options_.eps[i].ep_name});
    }
    SessionOptions plain = options_;
    plain.winograd = false;
    TENON_TRY_ASSIGN(const bool without_winograd, run(plain));
    if (without_winograd) return made(Culprit::Kind::kWinograd);
    plain.reference_kernels = true;
    TENON_TRY_ASSIGN(const bool with_reference, run(plain));
    if (with_reference) return made(Culprit::Kind::kKernels);
    plain.eps.clear();
    plain.disabled_passes = {"all"};
    TENON_TRY_ASSIGN(const bool together, run(plain));
    return made(together ? Culprit::Kind::kTogether : Culprit::Kind::kNone);
  }

 private:
  Culprit made(Culprit::Kind kind, std::vector<std::string> names = {}) const {
    return {.kind = kind, .names = std::move(names), .runs = runs_};
  }

  Result<bool> run(const SessionOptions& options) {
    ++runs_;
    return is_same_(options);
  }

  Result<bool> same_without(const std::vector<std::string>& passes) {
    SessionOptions options = options_;
    options.disabled_passes.insert(options.disabled_passes.end(), passes.begin(), passes.end());
    return run(options);
  }

  // Leaving out all of them makes the run equal. From the last pass on: one that only prepares what a later one does
  // wrong comes before it, and would make the run equal too.
  Result<std::vector<std::string>> guilty_passes() {
    for (size_t i = passes_.size(); i-- > 0;) {
      TENON_TRY_ASSIGN(const bool same, same_without({passes_[i]}));
      if (same) return std::vector<std::string>{passes_[i]};
    }
    // Several at once. Parts of the list are put back as long as the run stays equal; in halves first.
    std::vector<std::string> out = passes_;
    for (size_t part = out.size() / 2; part > 0; part /= 2) {
      for (size_t first = 0; first < out.size() && out.size() > 1;) {
        const size_t end = std::min(first + part, out.size());
        std::vector<std::string> fewer(out.begin(), out.begin() + static_cast<std::ptrdiff_t>(first));
        fewer.insert(fewer.end(), out.begin() + static_cast<std::ptrdiff_t>(end), out.end());
        TENON_TRY_ASSIGN(const bool same, same_without(fewer));
        if (same) {
          out = std::move(fewer);
        } else {
          first = end;
        }
      }
    }
    return out;
  }

  const SessionOptions& options_;
  const IsSame& is_same_;
  std::vector<std::string> passes_;
  int runs_ = 0;
};

std::string quoted(const std::vector<std::string>& names) {
  std::string text;
  for (size_t i = 0; i < names.size(); ++i)
    text += format("{}\"{}\"", i == 0 ? "" : i + 1 == names.size() ? " and " : ", ", names[i]);
  return text;
}

}  // namespace

Result<Culprit> bisect(const SessionOptions& options, const IsSame& is_same) {
  return Bisection(options, is_same).find();
}

std::string culprit_text(const Culprit& culprit) {
  const std::string runs = format("after {} runs", culprit.runs);
  switch (culprit.kind) {
    case Culprit::Kind::kPasses:
      return culprit.names.size() == 1
                 ? format("Without the pass {} all values agree ({}).", quoted(culprit.names), runs)
                 : format("Without the passes {} all values agree, and with any one of them they do not ({}).",
                          quoted(culprit.names), runs);
    case Culprit::Kind::kEp:
      return format("Without the EP {} all values agree ({}).", quoted(culprit.names), runs);
    case Culprit::Kind::kWinograd:
      return format("Without Winograd's convolutions all values agree ({}).", runs);
    case Culprit::Kind::kKernels:
      return format("With the reference kernels of the CPU EP all values agree: a fast kernel differs ({}).", runs);
    case Culprit::Kind::kTogether:
      return format("Only without all passes, EPs and fast kernels together do all values agree ({}).", runs);
    case Culprit::Kind::kNone:
      break;
  }
  return format(
      "Values differ without all passes, EPs and fast kernels too: the reference kernels differ from the "
      "reference, or the limits are too narrow for it ({}).",
      runs);
}

std::string culprit_options(const Culprit& culprit) {
  std::string text;
  switch (culprit.kind) {
    case Culprit::Kind::kPasses:
      for (const std::string& name : culprit.names) text += format("{}--without {}", text.empty() ? "" : " ", name);
      return text;
    case Culprit::Kind::kWinograd:
      return "--no-winograd";
    case Culprit::Kind::kKernels:
      return "--reference-kernels";
    case Culprit::Kind::kTogether:
      return "--without all --reference-kernels";
    case Culprit::Kind::kEp:
    case Culprit::Kind::kNone:
      break;
  }
  return text;
}

}  // namespace tenon::cli
