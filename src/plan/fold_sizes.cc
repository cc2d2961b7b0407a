#include "plan/fold_sizes.h"

#include <algorithm>
#include <cstring>
#include <string_view>
#include <utility>

#include "graph/symbols.h"
#include "ops/concat.h"
#include "ops/elementwise.h"
#include "ops/generate.h"
#include "ops/integer_inputs.h"
#include "ops/reshape.h"
#include "ops/slice.h"

namespace tenon {

namespace {

// A shape, pads by axis, indices into a shape.
constexpr int64_t kMaxElements = 32;

// Operators that move elements without looking at them, and the inputs that they move as a bit mask.
struct Move {
  std::string_view op_type;
  uint32_t inputs;
};
constexpr uint32_t kAllInputs = ~0u;
constexpr Move kMoves[] = {{"Concat", kAllInputs}, {"Expand", 1},   {"Flatten", 1}, {"Gather", 1}, {"Identity", 1},
                           {"Reshape", 1},         {"Slice", 1},    {"Squeeze", 1}, {"Tile", 1},   {"Transpose", 1},
                           {"Unsqueeze", 1},       {"Where", 0b110}};

const Move* find_move(std::string_view op_type) {
  const auto* const found =
      std::find_if(std::begin(kMoves), std::end(kMoves), [&](const Move& move) { return move.op_type == op_type; });
  return found == std::end(kMoves) ? nullptr : found;
}

bool is_integer(DataType type) { return type == DataType::kInt64 || type == DataType::kInt32; }

// Of a value whose elements are worth remembering; 0 for others.
size_t element_count(const Value& value) {
  if (!value.is_tensor || !value.fully_known()) return 0;
  const Result<int64_t> count = value.shape().checked_element_count();
  return count.ok() && *count <= kMaxElements ? static_cast<size_t>(*count) : 0;
}

// int64, int32 or bool elements as a constant.
template <typename T>
ConstantRef make_integers(const Value& value, std::span<const int64_t> numbers) {
  std::byte* data = nullptr;
  Result<ConstantRef> made = make_constant(value.type, value.shape(), &data, Fill::kNothing);
  if (!made.ok()) return nullptr;
  for (size_t i = 0; i < numbers.size(); ++i) {
    const T number = static_cast<T>(numbers[i]);
    std::memcpy(data + i * sizeof(T), &number, sizeof(T));
  }
  return *made;
}

ConstantRef make_integers(const Value& value, std::span<const int64_t> numbers) {
  switch (value.type) {
    case DataType::kInt64:
      return make_integers<int64_t>(value, numbers);
    case DataType::kInt32:
      return make_integers<int32_t>(value, numbers);
    case DataType::kBool:
      return make_integers<bool>(value, numbers);
    default:
      return nullptr;
  }
}

// The elements of an integer or bool constant; empty for others.
std::vector<int64_t> integers(const Constant& constant) {
  if (constant.type == DataType::kBool) {
    const std::span<const uint8_t> bytes = constant.as<uint8_t>();
    return {bytes.begin(), bytes.end()};
  }
  return integers_of(&constant).value_or(std::vector<int64_t>());
}

// The dimension of `dims` that broadcasting sets against dimension `i` of `rank`; null where there is none.
const Dim* aligned(std::span<const Dim> dims, size_t i, size_t rank) {
  return i + dims.size() < rank ? nullptr : &dims[i + dims.size() - rank];
}

// Puts elements in the place of a value while an operator moves them.
class Tokens {
 public:
  explicit Tokens(Graph& graph) : graph_(graph) {}
  ~Tokens() {
    for (auto& [id, constant] : replaced_) graph_.value(id).constant = std::move(constant);
  }
  Tokens(const Tokens&) = delete;
  Tokens& operator=(const Tokens&) = delete;

  bool put(ValueId id, std::span<const SizeId> elements) {
    Value& value = graph_.value(id);
    std::vector<int64_t> numbers;
    for (const SizeId element : elements) numbers.push_back(element.value());
    ConstantRef tokens = make_integers(value, numbers);
    if (!tokens) return false;
    replaced_.emplace_back(id, std::exchange(value.constant, std::move(tokens)));
    return true;
  }

 private:
  Graph& graph_;
  std::vector<std::pair<ValueId, ConstantRef>> replaced_;
};

}  // namespace

FoldSizes::FoldSizes(Graph& graph, const EvaluateNode& evaluate) : graph_(graph), evaluate_(evaluate) {
  const auto name = [this](ValueId id) {
    for (Dim& dim : graph_.value(id).dims)
      if (!dim.known() && dim.symbol.empty()) dim.symbol = new_symbol();
  };
  for (const ValueId id : graph.inputs) name(id);
  for (const auto& [outer, inner] : graph.captures) name(inner);
  is_output_.assign(graph.values.size(), false);
  for (const ValueId id : graph.outputs) is_output_[id] = true;
}

bool FoldSizes::has_open_inputs(const Graph& graph) {
  const auto open = [&](ValueId id) { return graph.value(id).is_tensor && !graph.value(id).fully_known(); };
  return std::any_of(graph.inputs.begin(), graph.inputs.end(), open) ||
         std::any_of(graph.captures.begin(), graph.captures.end(),
                     [&](const auto& capture) { return open(capture.second); });
}

FoldSizes::Elements FoldSizes::elements(ValueId id) {
  if (id == kNoValue) return {};
  const Value& value = graph_.value(id);
  if (!value.constant) {
    if (id.index() >= elements_.size()) return {};
    Elements out = elements_[id];
    for (SizeId& element : out) element = sizes_.resolve(element);
    return out;
  }
  if (value.constant->shape.element_count() > kMaxElements) return {};
  Elements out;
  for (const int64_t number : integers(*value.constant)) out.push_back(sizes_.number(number));
  return out;
}

FoldSizes::Elements FoldSizes::moved(const Node& node) {
  const Move* const move = find_move(node.op_type);
  if (!move || !evaluate_ || !is_integer(graph_.value(node.outputs[0]).type)) return {};
  Tokens tokens(graph_);
  for (size_t i = 0; i < node.inputs.size(); ++i) {
    if (node.inputs[i] == kNoValue) continue;
    if ((move->inputs >> std::min<size_t>(i, 31) & 1) == 0) {
      if (!graph_.value(node.inputs[i]).constant) return {};
      continue;
    }
    const Elements known = elements(node.inputs[i]);
    if (known.empty() || known.size() != element_count(graph_.value(node.inputs[i]))) return {};
    // A value that stands there twice has its tokens already.
    const auto* const first = &node.inputs[i];
    if (std::find(node.inputs.data(), first, *first) != first) continue;
    if (!tokens.put(node.inputs[i], known)) return {};
  }
  Result<std::vector<ConstantRef>> results = evaluate_(graph_, node);
  if (!results.ok() || results->empty() || !results->front()) return {};
  Elements out;
  for (const int64_t token : integers(*results->front())) out.emplace_back(token);
  return out;
}

FoldSizes::Elements FoldSizes::computed(const Node& node) {
  const std::string_view op = node.op_type;
  const Value& y = graph_.value(node.outputs[0]);
  if (node.inputs.empty() || node.inputs[0] == kNoValue) return {};
  const Value& x = graph_.value(node.inputs[0]);
  if (op == "Shape" && x.has_rank) {
    const ShapeInterval interval = read_shape_interval(node, static_cast<int>(x.dims.size()));
    Elements out;
    for (size_t i = interval.begin; i < interval.end; ++i) out.push_back(sizes_.of(x.dims[i]));
    return out;
  }
  if (op == "Size" && x.has_rank) return {product(x.dims)};
  if (op == "Cast") {
    const bool whole = (is_integer(x.type) || x.type == DataType::kBool) && is_integer(y.type);
    return whole ? elements(node.inputs[0]) : Elements();
  }
  if (op == "ReduceProd") {
    if (element_count(y) != 1) return {};
    const Elements factors = elements(node.inputs[0]);
    if (factors.empty()) return {};
    SizeId out = sizes_.number(1);
    for (const SizeId factor : factors) out = sizes_.product(out, factor);
    return {out};
  }
  const bool equal = op == "Equal";
  if (node.inputs.size() != 2 || !(equal || op == "Add" || op == "Sub" || op == "Mul" || op == "Div")) return {};
  if (!is_integer(x.type)) return {};
  const Elements a = elements(node.inputs[0]), b = elements(node.inputs[1]);
  const size_t count = element_count(y);
  if ((a.size() != count && a.size() != 1) || (b.size() != count && b.size() != 1)) return {};
  Elements out;
  for (size_t i = 0; i < count; ++i) {
    const SizeId left = a.size() == 1 ? a[0] : a[i], right = b.size() == 1 ? b[0] : b[i];
    if (equal) {
      const std::optional<bool> same = sizes_.equal(left, right);
      out.push_back(same ? sizes_.number(*same ? 1 : 0) : SizeId::none());
    } else {
      out.push_back(op == "Add"   ? sizes_.sum(left, right)
                    : op == "Sub" ? sizes_.difference(left, right)
                    : op == "Mul" ? sizes_.product(left, right)
                                  : sizes_.quotient(left, right));
    }
  }
  return out;
}

ConstantRef FoldSizes::note_elements(const Node& node, ValueId& same) {
  if (!node.domain.empty() || node.outputs.size() != 1 || node.outputs[0] == kNoValue) return nullptr;
  const Value& y = graph_.value(node.outputs[0]);
  const size_t count = element_count(y);
  if (count == 0 || (!is_integer(y.type) && y.type != DataType::kBool)) return nullptr;
  Elements known = find_move(node.op_type) ? moved(node) : computed(node);
  if (known.size() != count) return nullptr;
  // A number that int32 does not hold has wrapped around in the run.
  std::vector<int64_t> numbers;
  for (const SizeId element : known) {
    const std::optional<int64_t> number = sizes_.number_of(element);
    if (!number) break;
    if (y.type == DataType::kInt32 && *number != static_cast<int32_t>(*number)) return nullptr;
    numbers.push_back(*number);
  }
  if (numbers.size() == count) return make_integers(y, numbers);
  if (std::none_of(known.begin(), known.end(), [](SizeId element) { return element.valid(); })) return nullptr;
  if (std::all_of(known.begin(), known.end(), [](SizeId element) { return element.valid(); })) {
    std::vector<int64_t> key = {static_cast<int64_t>(y.type)};
    for (const Dim& dim : y.dims) key.push_back(dim.value);
    for (const SizeId element : known) key.push_back(element.value());
    same = first_with_.emplace(std::move(key), node.outputs[0]).first->second;
    if (same == node.outputs[0]) same = kNoValue;
  }
  elements_.resize(std::max(elements_.size(), graph_.values.size()));
  elements_[node.outputs[0]] = std::move(known);
  return nullptr;
}

SizeId FoldSizes::product(std::span<const Dim> dims) {
  SizeId out = sizes_.number(1);
  for (const Dim& dim : dims) out = sizes_.product(out, sizes_.of(dim));
  return out;
}

void FoldSizes::use_sizes(Node& node) {
  if (!node.domain.empty() || node.inputs.size() != 2 || node.inputs[0] == kNoValue || node.inputs[1] == kNoValue)
    return;
  if (graph_.value(node.inputs[1]).constant || !graph_.value(node.inputs[0]).has_rank) return;
  if (node.op_type == "Reshape") use_in_reshape(node);
  if (node.op_type == "Expand") use_in_expand(node);
}

// A size that is x's at the same place is a 0, one other open size the -1. The elements of both have to be equally many
// whatever the symbols are: else the run has to find out what does not fit.
void FoldSizes::use_in_reshape(Node& node) {
  const std::vector<Dim>& x = graph_.value(node.inputs[0]).dims;
  const Elements wanted = elements(node.inputs[1]);
  if (wanted.empty()) return;
  std::vector<int64_t> target;
  SizeId count = sizes_.number(1);
  bool has_inferred = false, is_open = false;
  for (size_t i = 0; i < wanted.size(); ++i) {
    const std::optional<int64_t> number = sizes_.number_of(wanted[i]);
    if (number && *number <= 0 && *number != -1) return;
    const bool copied = !number && wanted[i].valid() && i < x.size() && sizes_.of(x[i]) == wanted[i];
    target.push_back(number.value_or(copied ? 0 : -1));
    if (target.back() == -1 && std::exchange(has_inferred, true)) return;
    is_open = is_open || number == -1;
    if (number != -1) count = sizes_.product(count, wanted[i]);
  }
  const SizeId all = product(x);
  if (is_open ? !sizes_.quotient(all, count).valid() : !count.valid() || count != all) return;
  node.inputs[1] = graph_.add_constant(graph_.value(node.outputs[0]).name + ":shape", make_int64_constant(target));
  if (read_allow_zero(node)) node.set_int("allowzero", 0);
}

// A size that is x's becomes a 1, which leaves it as it is.
void FoldSizes::use_in_expand(Node& node) {
  const std::vector<Dim>& x = graph_.value(node.inputs[0]).dims;
  const Elements wanted = elements(node.inputs[1]);
  if (wanted.empty()) return;
  std::vector<int64_t> target;
  for (size_t i = 0; i < wanted.size(); ++i) {
    const std::optional<int64_t> number = sizes_.number_of(wanted[i]);
    const Dim* const same = aligned(x, i, wanted.size());
    if (!number && (!wanted[i].valid() || !same || sizes_.of(*same) != wanted[i])) return;
    target.push_back(number.value_or(1));
  }
  node.inputs[1] = graph_.add_constant(graph_.value(node.outputs[0]).name + ":shape", make_int64_constant(target));
}

std::vector<Dim> FoldSizes::reshaped_dims(const Node& node) {
  const std::vector<Dim>& x = graph_.value(node.inputs[0]).dims;
  const std::vector<Dim>& y = graph_.value(node.outputs[0]).dims;
  const Elements wanted = elements(node.input(1));
  if (wanted.size() != y.size() || !graph_.value(node.inputs[0]).has_rank) return {};
  std::vector<Dim> out(y.size());
  SizeId rest = sizes_.number(1);
  size_t inferred = y.size();
  for (size_t i = 0; i < y.size(); ++i) {
    const std::optional<int64_t> number = sizes_.number_of(wanted[i]);
    if (number == -1) {
      inferred = i;
      continue;
    }
    if (number == 0 && !read_allow_zero(node)) {
      if (i < x.size()) out[i] = x[i];
    } else {
      out[i] = sizes_.dim(wanted[i]);
    }
    rest = sizes_.product(rest, sizes_.of(out[i]));
  }
  if (inferred < y.size()) out[inferred] = sizes_.dim(sizes_.quotient(product(x), rest));
  return out;
}

std::vector<Dim> FoldSizes::expanded_dims(const Node& node) {
  const std::vector<Dim>& x = graph_.value(node.inputs[0]).dims;
  const std::vector<Dim>& y = graph_.value(node.outputs[0]).dims;
  const Elements wanted = elements(node.input(1));
  if (wanted.empty() || !graph_.value(node.inputs[0]).has_rank) return {};
  std::vector<Dim> out(y.size());
  for (size_t i = 0; i < y.size(); ++i) {
    const Dim* const from = aligned(x, i, y.size());
    const SizeId to = i + wanted.size() < y.size() ? SizeId::none() : wanted[i + wanted.size() - y.size()];
    if (!from || from->value == 1 || (to.valid() && sizes_.of(*from) == to)) out[i] = sizes_.dim(to);
  }
  return out;
}

// Whole dimensions keep their symbols.
std::vector<Dim> FoldSizes::sliced_dims(const Node& node) {
  if (has_slice_attributes(node) || !graph_.value(node.inputs[0]).has_rank) return {};
  std::vector<Dim> out = graph_.value(node.inputs[0]).dims;
  const Elements starts = elements(node.input(1)), ends = elements(node.input(2)), steps = elements(node.input(4));
  Elements axes = elements(node.input(3));
  if (starts.empty() || starts.size() != ends.size() || (node.input(3) != kNoValue && axes.size() != starts.size()))
    return {};
  for (size_t i = 0; i < starts.size(); ++i) {
    const int64_t named = axes.empty() ? static_cast<int64_t>(i) : sizes_.number_of(axes[i]).value_or(INT64_MAX);
    const int64_t axis = named < 0 ? named + std::ssize(out) : named;
    if (axis < 0 || axis >= std::ssize(out)) return {};
    Dim& dim = out[static_cast<size_t>(axis)];
    const bool by_one = node.input(4) == kNoValue || (i < steps.size() && sizes_.number_of(steps[i]) == 1);
    const SizeId size = sizes_.of(dim);
    const bool to_end = (size.valid() && ends[i] == size) || sizes_.number_of(ends[i]).value_or(0) >= INT32_MAX;
    if (!by_one || !to_end || sizes_.number_of(starts[i]) != 0) dim = {};
  }
  return out;
}

std::vector<Dim> FoldSizes::broadcast_dims(const Node& node, size_t unshared) {
  std::vector<Dim> out(graph_.value(node.outputs[0]).dims.size());
  for (const ValueId id : node.inputs)
    if (unshared > 0 && id != kNoValue && graph_.value(id).dims.size() < unshared) return {};
  for (size_t i = 0; i + unshared < out.size(); ++i) {
    SizeId size = sizes_.number(1);
    for (const ValueId id : node.inputs) {
      if (id == kNoValue) continue;
      const Value& x = graph_.value(id);
      const Dim* const from = x.has_rank ? aligned(x.dims, i, out.size()) : nullptr;
      if (from || !x.has_rank) size = sizes_.broadcast(size, from ? sizes_.of(*from) : SizeId::none());
    }
    out[i] = sizes_.dim(size);
  }
  return out;
}

std::vector<Dim> FoldSizes::dims_of_output(const Node& node) {
  if (node.op_type == "MatMul" && node.domain.empty()) return broadcast_dims(node, 2);
  if (!node.domain.empty() || node.inputs.empty() || node.inputs[0] == kNoValue || node.outputs.size() != 1) return {};
  const std::string_view op = node.op_type;
  const Value& x = graph_.value(node.inputs[0]);
  const std::vector<Dim>& y = graph_.value(node.outputs[0]).dims;
  if (broadcasts_inputs(node)) return broadcast_dims(node, 0);
  if (op == "Reshape") return reshaped_dims(node);
  if (op == "Expand") return expanded_dims(node);
  if (op == "Slice") return sliced_dims(node);
  if (op == "Flatten" && x.has_rank) {
    const Result<int> axis = read_flatten_axis(node, static_cast<int>(x.dims.size()));
    if (!axis.ok()) return {};
    const std::span<const Dim> dims = x.dims;
    return {sizes_.dim(product(dims.first(*axis))), sizes_.dim(product(dims.subspan(*axis)))};
  }
  std::vector<Dim> out;
  if (op == "ConstantOfShape") {
    for (const SizeId size : elements(node.inputs[0])) out.push_back(sizes_.dim(size));
  } else if (op == "Range" && node.inputs.size() == 3) {
    const Elements start = elements(node.inputs[0]), limit = elements(node.inputs[1]), step = elements(node.inputs[2]);
    if (start.size() == 1 && limit.size() == 1 && step.size() == 1 && sizes_.number_of(step[0]) == 1)
      out.push_back(sizes_.dim(sizes_.difference(limit[0], start[0])));
  } else if (op == "Concat") {
    const Result<int> axis = read_concat_axis(node, static_cast<int>(y.size()));
    if (!axis.ok()) return {};
    SizeId total = sizes_.number(0);
    for (const ValueId id : node.inputs) {
      const std::vector<Dim>& part = graph_.value(id).dims;
      total = part.size() == y.size() ? sizes_.sum(total, sizes_.of(part[*axis])) : SizeId::none();
    }
    out.resize(y.size());
    out[*axis] = sizes_.dim(total);
  }
  return out;
}

bool FoldSizes::writes_output(const Node& node) const {
  const ValueId id = node.outputs[0];
  return id != kNoValue && id.index() < is_output_.size() && is_output_[id];
}

// Parts of an output of the graph have the same dimensions but for the axis, or the run fails.
void FoldSizes::compare_parts(const Node& node) {
  const std::vector<Dim>& first = graph_.value(node.inputs[0]).dims;
  const Result<int> axis = read_concat_axis(node, static_cast<int>(first.size()));
  if (!axis.ok()) return;
  for (const ValueId id : node.inputs) {
    const std::vector<Dim>& part = graph_.value(id).dims;
    for (size_t i = 0; i < first.size() && part.size() == first.size(); ++i)
      if (i != static_cast<size_t>(*axis)) sizes_.assume_equal(first[i], part[i]);
  }
}

void FoldSizes::refine_dims(const Node& node) {
  if (node.op_type == "Concat" && node.domain.empty() && writes_output(node)) compare_parts(node);
  const auto open = [](const Dim& dim) { return !dim.known() && dim.symbol.empty(); };
  std::vector<Dim> known;
  for (const ValueId id : node.outputs) {
    if (id == kNoValue) continue;
    std::vector<Dim>& dims = graph_.value(id).dims;
    for (Dim& dim : dims) sizes_.rename(dim);
    if (std::none_of(dims.begin(), dims.end(), open)) continue;
    if (known.empty()) known = dims_of_output(node);
    for (size_t i = 0; i < dims.size(); ++i) {
      if (!open(dims[i])) continue;
      if (known.size() == dims.size()) dims[i] = known[i];
      if (open(dims[i])) dims[i].symbol = new_symbol();
    }
  }
}

}  // namespace tenon
