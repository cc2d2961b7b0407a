#include "cli/comparison.h"

#include <algorithm>
#include <cmath>

#include "cli/status.h"

namespace tenon::cli {
namespace {

// Rounding to the grid of a quantised type may go either way.
constexpr double kQuantisedStep = 1;

Tolerance tolerance_of(const Limits& limits, DataType type, const ModelNode* maker, double largest) {
  Tolerance tolerance = default_tolerance(type, largest);
  const bool small = type == DataType::kInt8 || type == DataType::kUint8;
  const std::string op_type = maker != nullptr ? maker->op_type : "";
  if (small && (op_type.find("Quantize") != std::string::npos || op_type.starts_with("QLinear")))
    tolerance.absolute = kQuantisedStep;
  tolerance.relative = limits.relative.value_or(tolerance.relative);
  // A limit on the relative error alone says nothing about elements near zero.
  if (limits.relative && !limits.absolute && tolerance.absolute > 0 && tolerance.absolute != kQuantisedStep)
    tolerance.absolute = tolerance.relative * largest;
  tolerance.absolute = limits.absolute.value_or(tolerance.absolute);
  return tolerance;
}

std::string index_text(int64_t index, const Shape& shape) {
  std::string text;
  for (int axis = shape.rank(); axis-- > 0;) {
    text = format("{}{}{}", index % shape[axis], text.empty() ? "" : ",", text);
    index /= shape[axis];
  }
  return "[" + text + "]";
}

std::string number(double value) { return format("{:.8g}", value); }

std::string form(DataType type, const Shape& shape) { return std::string(data_type_name(type)) + shape.to_string(); }

nlohmann::ordered_json json_number(double value) {
  if (std::isfinite(value)) return value;
  return std::isnan(value) ? "nan" : value > 0 ? "inf" : "-inf";
}

}  // namespace

bool Comparison::wants(std::string_view body, std::string_view name) {
  return reference_.contains_name(ValueName(body, name));
}

Status Comparison::value(const NodeValue& value) {
  const ValueName name(value.body, value.name);
  const KeptValues::Key key(name, value.occurrence);
  if (!reference_.contains(key)) return {};
  TENON_TRY_ASSIGN(const Tensor reference, reference_.load(key));
  ComparedValue& compared = values_.emplace_back();
  compared.value = value;
  compared.value.tensor = {};
  compared.type = value.tensor.type();
  compared.shape = value.tensor.shape();
  if (reference.type() != compared.type || reference.shape() != compared.shape) {
    compared.other_form = form(reference.type(), reference.shape());
    return {};
  }
  TENON_TRY_ASSIGN(compared.difference, compare_tensors(value.tensor, reference));
  // By default an absolute error may be the relative limit times the largest magnitude.
  const Tolerance used = compared.difference.tolerance;
  const double largest = used.relative > 0 ? used.absolute / used.relative : 0;
  const Tolerance wanted = tolerance_of(limits_, compared.type, model_.maker(name), largest);
  if (wanted.relative == used.relative && wanted.absolute == used.absolute) return {};
  TENON_TRY_ASSIGN(compared.difference, compare_tensors(value.tensor, reference, &wanted));
  return {};
}

void Comparison::finish() {
  std::vector<std::pair<std::vector<int64_t>, size_t>> order;
  order.reserve(values_.size());
  for (size_t i = 0; i < values_.size(); ++i) {
    const NodeValue& value = values_[i].value;
    order.emplace_back(model_.position({value.body, value.name}, value.occurrence), i);
  }
  std::sort(order.begin(), order.end());
  std::vector<ComparedValue> sorted;
  sorted.reserve(order.size());
  for (const auto& [position, i] : order) sorted.push_back(std::move(values_[i]));
  values_ = std::move(sorted);
}

size_t Comparison::differing() const {
  return static_cast<size_t>(
      std::count_if(values_.begin(), values_.end(), [](const ComparedValue& value) { return value.differs(); }));
}

const ComparedValue* Comparison::first() const {
  const auto found =
      std::find_if(values_.begin(), values_.end(), [](const ComparedValue& value) { return value.differs(); });
  return found != values_.end() ? &*found : nullptr;
}

std::vector<std::pair<ValueName, std::string>> Comparison::absent() const {
  std::vector<NodeValue> made;
  std::set<ValueName> names;
  for (const ComparedValue& value : values_) {
    made.push_back(value.value);
    names.emplace(value.value.body, value.value.name);
  }
  std::vector<std::pair<ValueName, std::string>> absent;
  for (const ModelNode& node : model_.nodes()) {
    for (const std::string& output : node.outputs) {
      const ValueName name(node.body, output);
      if (reference_.contains_name(name) && !names.contains(name)) absent.emplace_back(name, why_absent(node, made));
    }
  }
  return absent;
}

std::string difference_text(const ComparedValue& compared) {
  const ValueDifference& found = compared.difference;
  if (!compared.other_form.empty())
    return format("  It is {}, and {} in the reference.\n", form(compared.type, compared.shape), compared.other_form);
  std::string text =
      format("  {}: {} of {} elements differ.\n", form(compared.type, compared.shape), found.differing, found.elements);
  text += format("  The largest error is {} at {}: {}, and {} in the reference", number(found.error),
                 found.elements == compared.shape.element_count() ? index_text(found.index, compared.shape)
                                                                  : format("byte {}", found.index),
                 number(found.value), number(found.reference));
  if (std::isfinite(found.relative_error)) text += format(" (relative {})", number(found.relative_error));
  return text + format("; allowed are {} + {} * |reference|.\n", number(found.tolerance.absolute),
                       number(found.tolerance.relative));
}

nlohmann::ordered_json difference_json(const ComparedValue& compared) {
  const NodeValue& value = compared.value;
  const ValueDifference& found = compared.difference;
  nlohmann::ordered_json object = {{"value", value.name},
                                   {"body", value.body},
                                   {"occurrence", value.occurrence},
                                   {"computed_by", {{"name", value.node}, {"op_type", value.op_type}}},
                                   {"model_nodes", value.model_nodes},
                                   {"kernel", value.kernel},
                                   {"dtype", data_type_name(compared.type)},
                                   {"shape", compared.shape.dims()}};
  if (!compared.other_form.empty()) {
    object["reference_form"] = compared.other_form;
    return object;
  }
  object["elements"] = found.elements;
  object["differing"] = found.differing;
  object["index"] = found.index;
  object["got"] = json_number(found.value);
  object["expected"] = json_number(found.reference);
  object["error"] = json_number(found.error);
  object["relative_error"] = json_number(found.relative_error);
  object["rtol"] = found.tolerance.relative;
  object["atol"] = found.tolerance.absolute;
  return object;
}

}  // namespace tenon::cli
