// tenon run --keep: the values of chosen nodes, written as the run computes them.
#pragma once

#include <tenon/node_values.h>

#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "cli/kept_values.h"
#include "cli/model_values.h"

namespace tenon::cli {

class ValueKeeper final : public ValueObserver {
 public:
  // `names` are nodes' or values' names, or "all". Errors: kNotFound for a name that the model does not have.
  static Result<ValueKeeper> make(const std::string& model, const std::vector<std::string>& names,
                                  const std::string& folder);
  bool wants(std::string_view body, std::string_view name) override;
  Status value(const NodeValue& value) override;
  // After the run: writes values.json. Errors: kNotFound when the run has computed none of the chosen values.
  Status finish(Session& session, const std::vector<std::pair<std::string, Tensor>>& inputs);

  nlohmann::ordered_json json() const;
  std::string text() const;

 private:
  ValueKeeper(std::string model, ModelValues values, const std::string& folder)
      : model_(std::move(model)), values_(std::move(values)), folder_(folder), writer_(folder) {}

  std::string model_;
  ModelValues values_;
  std::string folder_;
  KeptWriter writer_;
  std::vector<ValueName> order_;  // as chosen
  std::set<ValueName> chosen_;
  std::set<ValueName> made_;
  std::vector<std::pair<ValueName, std::string>> absent_;
};

}  // namespace tenon::cli
