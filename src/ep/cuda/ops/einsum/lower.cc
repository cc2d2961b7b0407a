// Einsum: sums of products over named dimensions. Two operands that make a batch of matrix products are one; whatever
// else there is has a thread for each element.
#include <algorithm>
#include <map>

#include "base/format.h"
#include "ep/cuda/compute/loops.h"
#include "ep/cuda/compute/map_template.h"
#include "ep/cuda/ops/einsum/einsum_params.h"
#include "ep/cuda/ops/matmul/op.h"
#include "ops/einsum.h"

namespace tenon::cuda {

namespace {

// The letters of a batch of products, each kind in the order of the output, or of the first operand.
struct Matrices {
  std::string batch, rows, columns, depth;
};

bool find_matrices(const Lowering& to, const Node& node, const EinsumDesc& equation, Matrices& found) {
  if (equation.inputs.size() != 2) return false;
  for (size_t i = 0; i < 2; ++i) {
    const std::string& term = equation.inputs[i];
    const Shape shape = to.value(node.inputs[i]).shape();
    for (size_t d = 0; d < term.size(); ++d)
      if (term.find(term[d]) != d || shape[static_cast<int>(d)] != equation.sizes.at(term[d])) return false;
  }
  const auto in = [](const std::string& term, char c) { return term.find(c) != std::string::npos; };
  for (char c : equation.output) {
    const bool a = in(equation.inputs[0], c), b = in(equation.inputs[1], c);
    (a && b ? found.batch : a ? found.rows : found.columns) += c;
  }
  for (char c : equation.inputs[0])
    if (!in(equation.output, c)) {
      if (!in(equation.inputs[1], c)) return false;
      found.depth += c;
    }
  return std::all_of(equation.inputs[1].begin(), equation.inputs[1].end(),
                     [&](char c) { return in(equation.output, c) || in(equation.inputs[0], c); });
}

int64_t count_of(const std::string& letters, const std::map<char, int64_t>& sizes) {
  int64_t count = 1;
  for (char c : letters) count *= sizes.at(c);
  return count;
}

// The operand with its dimensions in another order, dense.
Result<TensorId> in_order(Lowering& to, const Node& node, TensorId from, const std::string& have,
                          const std::string& want, TensorId out, const std::map<char, int64_t>& sizes) {
  if (have == want && out == kNoTensor) return from;
  const DeviceTensor tensor = to.program().tensor(from);
  std::vector<int64_t> strides(have.size()), dims, read;
  int64_t stride = 1;
  for (size_t d = have.size(); d-- > 0; stride *= sizes.at(have[d])) strides[d] = stride;
  for (char c : want) {
    dims.push_back(sizes.at(c));
    read.push_back(strides[have.find(c)]);
  }
  std::vector<int64_t> written(want.size());
  stride = 1;
  for (size_t d = want.size(); d-- > 0; stride *= dims[d]) written[d] = stride;
  if (out == kNoTensor) {
    TENON_TRY_ASSIGN(out, to.program().add_tensor(tensor.type, Shape{stride}));
  }
  TENON_TRY(to.add_generated(
      node, "einsum order",
      {.dims = dims, .type = tensor.type, .strides = written, .leaves = {{.type = tensor.type, .strides = read}}},
      {from}, {}, out));
  return out;
}

Status add_products(Lowering& to, const Node& node, const EinsumDesc& equation, const Matrices& matrices,
                    TensorId out) {
  const auto& sizes = equation.sizes;
  TENON_TRY_ASSIGN(TensorId a, to.plain(node.inputs[0]));
  TENON_TRY_ASSIGN(TensorId b, to.plain(node.inputs[1]));
  TENON_TRY_ASSIGN(
      a, in_order(to, node, a, equation.inputs[0], matrices.batch + matrices.rows + matrices.depth, kNoTensor, sizes));
  // As it lies, where that is a matrix either way round.
  const bool turned = equation.inputs[1] != matrices.batch + matrices.depth + matrices.columns;
  if (turned) {
    TENON_TRY_ASSIGN(b, in_order(to, node, b, equation.inputs[1], matrices.batch + matrices.columns + matrices.depth,
                                 kNoTensor, sizes));
  }
  const DataType type = to.program().tensor(a).type;
  BlasProblem problem{.type = type, .transposed_w = turned};
  problem.rows = count_of(matrices.rows, sizes);
  problem.columns = count_of(matrices.columns, sizes);
  problem.depth = count_of(matrices.depth, sizes);
  problem.batch = count_of(matrices.batch, sizes);
  problem.x_stride = problem.rows * problem.depth;
  problem.w_stride = problem.columns * problem.depth;
  problem.y_stride = problem.rows * problem.columns;
  const std::string made = matrices.batch + matrices.rows + matrices.columns;
  TensorId product = out;
  if (made != equation.output) {
    TENON_TRY_ASSIGN(product, to.program().add_tensor(type, Shape{problem.batch, problem.rows, problem.columns}));
  }
  to.program().add_op(std::make_unique<ProductOp>(node.name, problem, a, b, product));
  if (made == equation.output) return Status();
  return in_order(to, node, product, made, equation.output, out, sizes).status();
}

// Nothing is summed: elements that are read by the strides of their letters, and multiplied.
Status multiply_elements(Lowering& to, const Node& node, const EinsumDesc& equation, TensorId out) {
  const auto& sizes = equation.sizes;
  const DataType type = to.program().tensor(out).type;
  GeneratedElementwise kernel{.type = type};
  for (char c : equation.output) kernel.dims.push_back(sizes.at(c));
  kernel.strides.resize(kernel.dims.size());
  int64_t stride = 1;
  for (size_t d = kernel.dims.size(); d-- > 0; stride *= kernel.dims[d]) kernel.strides[d] = stride;
  std::vector<TensorId> reads;
  for (size_t i = 0; i < equation.inputs.size(); ++i) {
    TENON_TRY_ASSIGN(const TensorId from, to.plain(node.inputs[i]));
    const DeviceTensor tensor = to.program().tensor(from);
    const std::vector<int64_t> strides = tensor.strides();
    GeneratedLeaf leaf{.type = tensor.type, .strides = std::vector<int64_t>(kernel.dims.size(), 0)};
    for (size_t d = 0; d < strides.size(); ++d)
      if (tensor.shape[static_cast<int>(d)] != 1)
        leaf.strides[equation.output.find(equation.inputs[i][d])] += strides[d];
    kernel.leaves.push_back(std::move(leaf));
    reads.push_back(from);
    const int last = static_cast<int>(i), before = i == 1 ? 0 : ~(last - 2);
    if (i > 0) kernel.steps.push_back({.type = type, .expression = "$0 * $1", .arguments = {before, last}});
  }
  return to.add_generated(node, "einsum", kernel, std::move(reads), {}, out);
}

// The strides of an operand over `letters`, 0 where it repeats or has no such dimension.
std::vector<int64_t> strides_over(const std::string& letters, const std::string& term, const DeviceTensor& tensor) {
  const std::vector<int64_t> strides = tensor.strides();
  std::vector<int64_t> over(letters.size(), 0);
  for (size_t d = 0; d < term.size(); ++d)
    if (const size_t at = letters.find(term[d]); at != std::string::npos && tensor.shape[static_cast<int>(d)] != 1)
      over[at] += strides[d];
  return over;
}

// An EinsumParams of as many operands as there are strides.
std::vector<std::byte> einsum_params(int64_t count, int64_t steps, const Loops& kept, const Loops& summed) {
  std::vector<std::byte> bytes;
  const auto append = [&](const auto& value) {
    const std::vector<std::byte> more = kernel_params(value);
    bytes.insert(bytes.end(), more.begin(), more.end());
  };
  append(count);
  append(steps);
  for (const Loops* loops : {&kept, &summed}) {
    for (size_t d = 0; d < kMostRank; ++d)
      append(make_divisor(d < loops->dims.size() ? std::max<int64_t>(loops->dims[d], 1) : 1));
    for (const std::vector<int64_t>& strides : loops->strides)
      for (size_t d = 0; d < kMostRank; ++d) append(d < strides.size() ? strides[d] : int64_t{0});
  }
  static_assert(sizeof(EinsumLoops<2>) == kMostRank * (sizeof(Divisor) + 2 * sizeof(int64_t)) &&
                sizeof(EinsumParams<2>) == 2 * sizeof(int64_t) + 2 * sizeof(EinsumLoops<2>));
  return bytes;
}

// A thread for each element of the result goes through the dimensions of `summed`.
Status sum_products(Lowering& to, const Node& node, const EinsumDesc& equation, const std::string& summed,
                    TensorId out) {
  const DeviceTensor made = to.program().tensor(out);
  std::vector<std::vector<int64_t>> kept_strides = {made.strides()}, summed_strides;
  std::vector<TensorId> reads;
  bool wide = is_wide(to, {}, {out});
  std::string operands;
  for (size_t i = 0; i < equation.inputs.size(); ++i) {
    TENON_TRY_ASSIGN(const TensorId from, to.plain(node.inputs[i]));
    reads.push_back(from);
    wide = wide || is_wide(to, {}, {from});
    kept_strides.push_back(strides_over(equation.output, equation.inputs[i], to.program().tensor(from)));
    summed_strides.push_back(strides_over(summed, equation.inputs[i], to.program().tensor(from)));
    operands += (i == 0 ? "" : ", ") + template_type(made.type);
  }
  const auto sizes_of = [&](const std::string& letters) {
    std::vector<int64_t> sizes;
    for (char c : letters) sizes.push_back(equation.sizes.at(c));
    return sizes;
  };
  const int64_t count = made.shape.element_count(), steps = count_of(summed, equation.sizes);
  Loops kept = join_dims(sizes_of(equation.output), kept_strides, 0);
  kept.strides.erase(kept.strides.begin());
  const Loops inner = join_dims(sizes_of(summed), summed_strides, 0);
  // A sum may have more terms than any tensor has elements.
  wide = wide || steps > INT32_MAX;
  TENON_TRY(check_loops(kept));
  TENON_TRY(check_loops(inner));
  std::vector<std::byte> params = einsum_params(count, steps, kept, inner);
  TENON_UNSUPPORTED_IF(params.size() > kMostParamsBytes,
                       "{} has {} operands, which its kernel's parameters do not hold.", to.label(node), reads.size());
  TENON_TRY_ASSIGN(const LaunchShape shape, map_launch(count));
  return to.add_kernel(
      node, "einsum",
      TemplateKernel{.header = "ep/cuda/ops/einsum/einsum.cuh",
                     .instance = template_instance("einsum", made.type, std::max<size_t>(kept.dims.size(), 1),
                                                   std::max<size_t>(inner.dims.size(), 1), wide, operands),
                     .params = std::move(params),
                     .shape = shape},
      std::move(reads), {out});
}

}  // namespace

Status lower_einsum(Lowering& to, const Node& node) {
  TENON_TRY_ASSIGN(const EinsumDesc equation, read_einsum(node, input_shapes(to.graph(), node)));
  const auto& sizes = equation.sizes;
  TENON_TRY_ASSIGN(const TensorId out, to.make(node.outputs[0]));
  const DataType type = to.program().tensor(out).type;
  TENON_UNSUPPORTED_IF(type == DataType::kBool, "{} adds up truth values.", to.label(node));
  if (to.program().tensor(out).shape.element_count() == 0) return Status();
  const bool matrix_type = type == DataType::kFloat || data_type_size(type) == 2;
  constexpr int64_t kFewProducts = int64_t{1} << 16;
  Matrices matrices;
  if (compute_type(type) == "float" && matrix_type && find_matrices(to, node, equation, matrices) &&
      !matrices.depth.empty()) {
    const int64_t depth = count_of(matrices.depth, sizes);
    if (depth != 0 && count_of(equation.output, sizes) * depth > kFewProducts)
      return add_products(to, node, equation, matrices, out);
  }
  std::string summed;
  for (const auto& [letter, size] : sizes)
    if (equation.output.find(letter) == std::string::npos) summed += letter;
  if (summed.empty()) return multiply_elements(to, node, equation, out);
  return sum_products(to, node, equation, summed, out);
}

}  // namespace tenon::cuda
