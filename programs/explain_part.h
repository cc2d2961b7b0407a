// A section that `tenon explain` prints beside the plan and that another folder makes.
#pragma once

#include <tenon/plan_report.h>
#include <tenon/session.h>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>
#include <string>

namespace tenon::programs {

class ExplainPart {
 public:
  struct Section {
    std::string key;  // in the JSON object
    std::string text;
    nlohmann::ordered_json json;
  };

  virtual ~ExplainPart() = default;
  virtual void add_options(CLI::App& command) = 0;
  // Whether the command line asks for it.
  virtual bool wanted() const = 0;
  virtual Result<Section> explain(const Session& session, const PlanReport& plan) const = 0;
};

}  // namespace tenon::programs
