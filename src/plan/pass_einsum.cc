// Writes Einsum out in operators that have fast kernels: each pair of operands is a MatMul or a Mul of what Transpose,
// ReduceSum and Reshape make of them.
#include <algorithm>
#include <optional>
#include <string>
#include <utility>

#include "ops/einsum.h"
#include "ops/reduce.h"
#include "ops/reshape.h"
#include "plan/pass_rewriter.h"
#include "plan/passes.h"

namespace tenon {
namespace {

// A value whose dimensions have letters, each a different one.
struct Operand {
  ValueId id = kNoValue;
  std::string letters;
};

bool has(const std::string& letters, char c) { return letters.find(c) != std::string::npos; }

// Those of `letters` for which `keep` holds, in their order.
template <typename Keep>
std::string those(const std::string& letters, const Keep& keep) {
  std::string kept;
  std::copy_if(letters.begin(), letters.end(), std::back_inserter(kept), keep);
  return kept;
}

// Builds the nodes for one Einsum; the graph stays as it is until `commit`.
class Expansion {
 public:
  Expansion(Rewriter& rewriter, NodeId here, EinsumForm form)
      : rewriter_(rewriter), here_(here), node_(rewriter.node(here)), form_(std::move(form)) {}

  // False if it stays an Einsum.
  bool build() {
    std::vector<Operand> operands;
    for (size_t i = 0; i < form_.inputs.size(); ++i) {
      if (!is_plain(i)) return false;
      operands.push_back({node_.inputs[i], form_.inputs[i]});
    }
    Operand left = operands[0];
    for (size_t i = 1; i < operands.size(); ++i) {
      const auto needed_later = [&](char c) {
        return has(form_.output, c) ||
               std::any_of(operands.begin() + static_cast<std::ptrdiff_t>(i) + 1, operands.end(),
                           [c](const Operand& later) { return has(later.letters, c); });
      };
      std::optional<Operand> product = multiply(left, operands[i], needed_later);
      if (!product) return false;
      left = *product;
    }
    left = transposed(summed(left, [&](char c) { return has(form_.output, c); }), form_.output);
    if (left.letters != form_.output) return false;
    if (steps_.empty()) add("Identity", 16, {left.id}, left.letters);
    return true;
  }

  void commit() {
    steps_.back().outputs = node_.outputs;
    for (size_t i = 0; i + 1 < steps_.size(); ++i) rewriter_.insert_before(here_, std::move(steps_[i]));
    rewriter_.replace(here_, std::move(steps_.back()));
  }

 private:
  // Each letter once, and with the size that it has everywhere: an operand that repeats along one is left to the
  // kernel.
  bool is_plain(size_t input) const {
    const std::string& letters = form_.inputs[input];
    const std::vector<Dim>& dims = rewriter_.value(node_.inputs[input]).dims;
    for (size_t d = 0; d < letters.size(); ++d) {
      if (letters.find(letters[d]) != letters.rfind(letters[d])) return false;
      if (!infer::same(dims[d], form_.sizes.at(letters[d]))) return false;
    }
    return true;
  }

  std::vector<Dim> dims_of(const std::string& letters) const {
    std::vector<Dim> dims;
    for (char c : letters) dims.push_back(form_.sizes.at(c));
    return dims;
  }

  Value value_of(std::vector<Dim> dims) const {
    Value value;
    value.name = rewriter_.value(node_.outputs[0]).name + ":" + std::to_string(steps_.size());
    value.type = rewriter_.value(node_.outputs[0]).type;
    value.has_rank = true;
    value.dims = std::move(dims);
    return value;
  }
  ValueId numbers(std::span<const int64_t> values) {
    return rewriter_.add_constant(
        rewriter_.value(node_.outputs[0]).name + ":" + std::to_string(steps_.size()) + ":axes",
        make_int64_constant(values));
  }

  Node& add_step(std::string op, int since, std::vector<ValueId> inputs, std::vector<Dim> dims) {
    const ValueId made = rewriter_.add_value(value_of(std::move(dims)));
    return steps_.emplace_back(make_node(std::move(op), since, node_.name, std::move(inputs), {made}));
  }
  Operand add(std::string op, int since, std::vector<ValueId> inputs, const std::string& letters) {
    return {add_step(std::move(op), since, std::move(inputs), dims_of(letters)).outputs[0], letters};
  }

  // The operand with its dimensions in the order of `letters`, which are its own.
  Operand transposed(Operand x, const std::string& letters) {
    if (x.letters == letters || x.letters.size() != letters.size()) return x;
    std::vector<int64_t> perm;
    for (char c : letters) perm.push_back(static_cast<int64_t>(x.letters.find(c)));
    const Operand y = add("Transpose", 13, {x.id}, letters);
    steps_.back().set_ints("perm", perm);
    return y;
  }

  // The sum over the letters that are not kept.
  template <typename Keep>
  Operand summed(Operand x, const Keep& keep) {
    const std::string kept = those(x.letters, keep);
    if (kept == x.letters) return x;
    std::vector<int64_t> axes;
    for (size_t d = 0; d < x.letters.size(); ++d)
      if (!keep(x.letters[d])) axes.push_back(static_cast<int64_t>(d));
    const Operand y = add("ReduceSum", 13, {x.id, numbers(axes)}, kept);
    steps_.back().set_int("keepdims", 0);
    return y;
  }

  // The product of the sizes of `letters`.
  Dim merged(const std::string& letters) const {
    Result<Dim> size = infer::product(dims_of(letters));
    return size.ok() ? *size : Dim{};
  }

  // Groups of letters become one dimension each, after those of `front`, which stay as they are. Nothing if more than
  // one size is not known.
  std::optional<ValueId> grouped(ValueId id, const std::string& front, const std::vector<std::string>& groups) {
    const bool as_it_is = std::all_of(groups.begin(), groups.end(), [](const std::string& g) { return g.size() == 1; });
    if (as_it_is) return id;
    std::vector<Dim> dims = dims_of(front);
    std::vector<int64_t> shape(front.size(), 0);  // 0: as in the input
    for (const std::string& group : groups) {
      const Dim size = merged(group);
      dims.push_back(size);
      shape.push_back(size.known() ? size.value : -1);
    }
    return reshaped(id, std::move(shape), std::move(dims));
  }

  std::optional<ValueId> reshaped(ValueId id, std::vector<int64_t> shape, std::vector<Dim> dims) {
    if (std::count(shape.begin(), shape.end(), -1) > 1) return std::nullopt;
    // A 0 stands for the input's dimension, and -1 cannot be found beside a size of 0.
    const bool empty = std::any_of(dims.begin(), dims.end(), [](const Dim& dim) { return dim.value == 0; });
    if (empty) return std::nullopt;
    return add_step("Reshape", 14, {id, numbers(shape)}, std::move(dims)).outputs[0];
  }

  template <typename Keep>
  std::optional<Operand> multiply(Operand a, Operand b, const Keep& needed_later) {
    // What only one of them has, and nobody else reads, is summed at once.
    a = summed(a, [&](char c) { return needed_later(c) || has(b.letters, c); });
    b = summed(b, [&](char c) { return needed_later(c) || has(a.letters, c); });
    // The product's rows come before its columns: take the operand whose letters come first in the output as A.
    const auto own = [&](const Operand& x, const Operand& other) {
      return those(x.letters, [&](char c) { return !has(other.letters, c); });
    };
    const auto place = [&](const std::string& letters) {
      return letters.empty() ? std::string::npos : form_.output.find(letters.back());
    };
    if (!own(b, a).empty() && !own(a, b).empty() && place(own(b, a)) < place(own(a, b))) std::swap(a, b);

    const auto shared = [&](char c) { return has(a.letters, c) && has(b.letters, c); };
    const std::string depth = those(a.letters, [&](char c) { return shared(c) && !needed_later(c); });
    if (depth.empty()) return elementwise(a, b);
    const std::string all = those(form_.output + a.letters, [&](char c) { return shared(c) && needed_later(c); });
    const std::string batch = those(all, [seen = std::string()](char c) mutable {
      const bool first = !has(seen, c);
      seen += c;
      return first;
    });
    const std::string rows = own(a, b), columns = own(b, a);
    a = transposed(a, batch + rows + depth);
    b = transposed(b, batch + depth + columns);
    // Without a batch, rows may be any number of dimensions.
    const bool loose = batch.empty() && !rows.empty();
    const std::optional<ValueId> left = loose ? grouped(a.id, rows, {depth}) : grouped(a.id, batch, {rows, depth});
    const std::optional<ValueId> right = grouped(b.id, batch, {depth, columns});
    if (!left || !right) return std::nullopt;
    std::vector<Dim> dims = dims_of(loose ? rows : batch);
    if (!loose) dims.push_back(merged(rows));
    dims.push_back(merged(columns));
    const ValueId product = add_step("MatMul", 13, {*left, *right}, std::move(dims)).outputs[0];
    return split(product, batch, rows, columns, loose);
  }

  // The dimensions of a product, back as its letters.
  std::optional<Operand> split(ValueId product, const std::string& batch, const std::string& rows,
                               const std::string& columns, bool loose) {
    const std::string letters = batch + rows + columns;
    if (columns.size() == 1 && (loose || rows.size() == 1)) return Operand{product, letters};
    const std::string front = loose ? rows : batch;
    std::vector<int64_t> shape(front.size(), 0);
    for (char c : (loose ? std::string() : rows) + columns) {
      const Dim& size = form_.sizes.at(c);
      shape.push_back(size.known() ? size.value : -1);
    }
    const std::optional<ValueId> id = reshaped(product, std::move(shape), dims_of(letters));
    return id ? std::optional(Operand{*id, letters}) : std::nullopt;
  }

  // Nothing is summed: each operand gets a 1 for the letters that it lacks.
  std::optional<Operand> elementwise(const Operand& a, const Operand& b) {
    const std::string both = a.letters + those(b.letters, [&](char c) { return !has(a.letters, c); });
    const std::string letters = those(form_.output, [&](char c) { return has(both, c); }) +
                                those(both, [&](char c) { return !has(form_.output, c); });
    const auto spread = [&](const Operand& x) {
      const Operand y = transposed(x, those(letters, [&](char c) { return has(x.letters, c); }));
      std::vector<int64_t> axes;
      std::vector<Dim> dims = dims_of(letters);
      const size_t first = letters.find(y.letters.empty() ? '\0' : y.letters[0]);
      // Leading ones need no node.
      for (size_t d = 0; d < letters.size(); ++d) {
        if (has(y.letters, letters[d])) continue;
        dims[d] = infer::number(1);
        if (d > first) axes.push_back(static_cast<int64_t>(d - first));
      }
      if (axes.empty()) return y.id;
      dims.erase(dims.begin(), dims.begin() + static_cast<std::ptrdiff_t>(first));
      return add_step("Unsqueeze", 13, {y.id, numbers(axes)}, std::move(dims)).outputs[0];
    };
    const ValueId left = spread(a), right = spread(b);
    return add("Mul", 14, {left, right}, letters);
  }

  Rewriter& rewriter_;
  const NodeId here_;
  const Node node_;
  const EinsumForm form_;
  std::vector<Node> steps_;
};

// One rounding more than Einsum has is no harm in these types; the others stay.
bool is_taken(DataType type, size_t operands) {
  return type == DataType::kFloat || type == DataType::kDouble ||
         (operands <= 2 && (type == DataType::kFloat16 || type == DataType::kBfloat16));
}

}  // namespace

Status pass_einsums(Graph& graph, const PassOptions&) {
  Rewriter rewriter(graph);
  for (NodeId i : rewriter.ids()) {
    const Node& node = rewriter.node(i);
    if (!node.domain.empty() || node.op_type != "Einsum" || node.inputs.empty()) continue;
    if (!is_taken(rewriter.value(node.outputs[0]).type, node.inputs.size())) continue;
    infer::InputDims dims;
    bool ranked = true;
    for (ValueId id : node.inputs) {
      ranked &= id != kNoValue && rewriter.value(id).has_rank;
      dims.push_back(ranked ? std::optional(rewriter.value(id).dims) : std::nullopt);
    }
    if (!ranked) continue;
    TENON_TRY_ASSIGN(EinsumForm form, read_einsum_form(node, dims));
    Expansion expansion(rewriter, i, std::move(form));
    if (expansion.build()) expansion.commit();
  }
  rewriter.finish();
  return {};
}

}  // namespace tenon
