#include "ops/unary.h"

#include <array>
#include <optional>
#include <string>
#include <vector>

#include "base/same_text.h"
#include "ops/attributes.h"
#include "ops/elementwise.h"
#include "ops/shape_inference_context.h"

namespace tenon {

namespace {

constexpr UnaryParameter attribute(std::string_view name) { return {name, 0, true}; }
constexpr UnaryParameter fixed(double number) { return {{}, number, true}; }
constexpr UnaryParameter unused() { return {}; }
constexpr bool kCheap = true, kDear = false;

#define TENON_ROW_(Name, text, op, since, alpha, beta, cost, formula) \
  UnaryRow{Unary::k##Name, text, op, since, alpha, beta, cost, #formula},
constexpr std::array kRows = {TENON_FUNCTIONS(TENON_ROW_)};
#undef TENON_ROW_
static_assert(kRows.size() == kUnaryCount);

double value_of(const UnaryParameter& parameter, const Node& node) {
  if (!parameter.used || parameter.attribute.empty()) return parameter.number;
  return static_cast<double>(Attributes(node).number(parameter.attribute));
}

// The row's operator without attributes, at the first version that the row has.
Node bare_node(const UnaryRow& row) {
  Node node;
  node.op_type = row.operator_name;
  node.since_version = row.since;
  return node;
}

UnaryDesc default_of(const UnaryRow& row) {
  const Node node = bare_node(row);
  return {row.function, value_of(row.alpha, node), value_of(row.beta, node)};
}

}  // namespace

std::span<const UnaryRow> unary_rows() { return kRows; }

const UnaryRow& row_of(Unary function) { return kRows[static_cast<size_t>(function)]; }

const UnaryRow* find_unary_row(std::string_view op_type) {
  for (const UnaryRow& row : kRows)
    if (!op_type.empty() && row.operator_name == op_type) return &row;
  return nullptr;
}

bool is_unary(const Node& node) {
  if (node.domain == "tenon") return node.op_type == "Activation";
  return node.domain.empty() && find_unary_row(node.op_type) != nullptr;
}

Result<UnaryDesc> read_unary(const Node& node) {
  if (node.domain == "tenon") {
    TENON_TRY_ASSIGN(const Epilogue epilogue, read_epilogue(node));
    return UnaryDesc{unary_of(epilogue.activation), epilogue.alpha, epilogue.beta};
  }
  const UnaryRow* row = find_unary_row(node.op_type);
  TENON_CHECK(row != nullptr);
  if (row->function == Unary::kClip) {
    const ClipDesc clip = read_clip(node);
    return UnaryDesc{Unary::kClip, clip.low, clip.high};
  }
  if (row->function == Unary::kGelu) {
    const std::string_view approximate = Attributes(node).text("approximate");
    TENON_INVALID_IF(approximate != "none" && approximate != "tanh", "Gelu has the approximation \"{}\".", approximate);
    return UnaryDesc{approximate == "tanh" ? Unary::kGeluTanh : Unary::kGelu};
  }
  return UnaryDesc{row->function, value_of(row->alpha, node), value_of(row->beta, node)};
}

Result<Epilogue> read_epilogue(const Node& node) {
  if (node.domain != "tenon") return Epilogue{};
  const Attributes attributes(node);
  const std::string_view name = attributes.text("activation");
  for (int i = 0; i < kActivationCount; ++i) {
    const UnaryRow& row = kRows[i];
    if (row.text != name) continue;
    const std::optional<float> alpha = attributes.find_number("activation_alpha"),
                               beta = attributes.find_number("activation_beta");
    const UnaryDesc fallback =
        (row.alpha.used && !alpha) || (row.beta.used && !beta) ? default_of(row) : UnaryDesc{row.function};
    return Epilogue{.activation = static_cast<Activation>(i),
                    .alpha = alpha.value_or(static_cast<float>(fallback.alpha)),
                    .beta = beta.value_or(static_cast<float>(fallback.beta)),
                    // Without an activation both orders are the same sum, and "before" can work in place.
                    .residual_after = i != 0 && attributes.flag("residual_after")};
  }
  return invalid_argument("The activation \"{}\" is unknown.", name);
}

bool has_activation(const Node& node) { return Attributes(node).has("activation"); }

void write_activation(Node& node, const Epilogue& epilogue) {
  const UnaryRow& row = row_of(epilogue.activation);
  node.set_string("activation", std::string(row.text));
  if (row.alpha.used) node.set_float("activation_alpha", epilogue.alpha);
  if (row.beta.used) node.set_float("activation_beta", epilogue.beta);
}

const CellFunctionRow* find_cell_function(std::string_view name) {
  struct Named {
    std::string_view name;
    CellFunctionRow row;
  };
  static const std::vector<Named> kNamed = [] {
    std::vector<Named> all;
    const auto add = [&](std::string_view own, Unary function) {
      const UnaryRow& row = row_of(function);
      all.push_back({own, {default_of(row), row.alpha.used, row.beta.used}});
    };
#define TENON_NAMED_(Name) add(#Name, Unary::k##Name);
    TENON_CELL_FUNCTIONS(TENON_NAMED_)
#undef TENON_NAMED_
    return all;
  }();
  for (const Named& one : kNamed)
    if (same_ignoring_case(one.name, name)) return &one.row;
  return nullptr;
}

}  // namespace tenon

namespace tenon::infer {

namespace {

Status infer_unary(Context& c) { return c.copy(0); }

}  // namespace

std::span<const Row> unary_rows() {
  static const std::vector<Row> kRows = [] {
    std::vector<Row> rows;
    for (const UnaryRow& row : tenon::unary_rows())
      if (!row.operator_name.empty()) rows.push_back({row.operator_name, &infer_unary});
    return rows;
  }();
  return kRows;
}

}  // namespace tenon::infer
