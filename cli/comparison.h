// One comparison: a run of a model beside the values of a reference.
#pragma once

#include <tenon/node_values.h>
#include <tenon/session.h>

#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "cli/kept_values.h"
#include "cli/model_values.h"

namespace tenon::cli {

// The user's limits; those that are not set are default_tolerance()'s.
struct Limits {
  std::optional<double> relative, absolute;
};

struct ComparedValue {
  NodeValue value;  // without its tensor
  DataType type = DataType::kUndefined;
  Shape shape;
  std::string other_form;  // of the reference, where type or shape differ: "float32[2,3]"
  ValueDifference difference;

  bool differs() const { return !other_form.empty() || difference.differing > 0; }
};

class Comparison final : public ValueObserver {
 public:
  // All outlive it.
  Comparison(const ModelValues& model, const KeptValues& reference, const Limits& limits)
      : model_(model), reference_(reference), limits_(limits) {}

  bool wants(std::string_view body, std::string_view name) override;
  Status value(const NodeValue& value) override;
  // After the run: puts the values into the model's order.
  void finish();

  bool same() const { return differing() == 0; }
  size_t differing() const;
  // The first in the model's order; null when nothing differs.
  const ComparedValue* first() const;
  const std::vector<ComparedValue>& values() const { return values_; }
  // Values that the reference has and this run has not, with the reason.
  std::vector<std::pair<ValueName, std::string>> absent() const;

 private:
  const ModelValues& model_;
  const KeptValues& reference_;
  const Limits limits_;
  std::vector<ComparedValue> values_;
};

// "3 of 6 elements differ ..." and what made the value: the lines below the one that names it.
std::string difference_text(const ComparedValue& value);
nlohmann::ordered_json difference_json(const ComparedValue& value);

}  // namespace tenon::cli
