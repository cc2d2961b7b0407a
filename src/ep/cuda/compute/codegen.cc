#include "ep/cuda/compute/codegen.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <functional>
#include <numeric>
#include <optional>

#include "base/format.h"
#include "ep/cuda/compute/activation.h"
#include "ep/cuda/compute/codegen_text.h"

namespace tenon::cuda {

namespace {

constexpr unsigned kThreads = kGeneratedThreads;

}  // namespace

std::string storage_type(DataType type) {
  switch (type) {
    case DataType::kFloat16:
      return "half_bits";
    case DataType::kBfloat16:
      return "bfloat_bits";
    case DataType::kBool:
    case DataType::kUint8:
      return "unsigned char";
    case DataType::kInt8:
      return "signed char";
    case DataType::kInt16:
      return "short";
    case DataType::kUint16:
      return "unsigned short";
    default:
      return compute_type(type);
  }
}

namespace {

bool is_narrow(DataType type) {
  return type == DataType::kUint8 || type == DataType::kInt8 || type == DataType::kInt16 || type == DataType::kUint16;
}

}  // namespace

Loops join_dims(std::vector<int64_t> dims, const std::vector<std::vector<int64_t>>& strides, size_t order_by) {
  std::vector<size_t> order(dims.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return strides[order_by][a] > strides[order_by][b]; });
  Loops loops{.dims = {}, .strides = std::vector<std::vector<int64_t>>(strides.size())};
  for (size_t d : order) {
    if (dims[d] == 1) continue;
    bool joins = !loops.dims.empty();
    for (size_t s = 0; joins && s < strides.size(); ++s) joins = loops.strides[s].back() == strides[s][d] * dims[d];
    if (joins) {
      loops.dims.back() *= dims[d];
      for (size_t s = 0; s < strides.size(); ++s) loops.strides[s].back() = strides[s][d];
    } else {
      loops.dims.push_back(dims[d]);
      for (size_t s = 0; s < strides.size(); ++s) loops.strides[s].push_back(strides[s][d]);
    }
  }
  return loops;
}

std::string address(const std::vector<int64_t>& strides, int64_t offset, const char* variable) {
  std::string text;
  for (size_t d = 0; d < strides.size(); ++d) {
    if (strides[d] == 0) continue;
    text +=
        format("{}{}{}{}", text.empty() ? "" : " + ", variable, d, strides[d] == 1 ? "" : format(" * {}", strides[d]));
  }
  if (offset != 0 || text.empty()) text += format("{}{}", text.empty() ? "" : " + ", offset);
  return text;
}

std::string float_literal(float value) {
  if (std::isnan(value)) return "__int_as_float(0x7fc00000)";
  if (std::isinf(value)) return value > 0 ? "infinity_()" : "(-infinity_())";
  return format("({:.9e}f)", value);
}

std::string hash_name(const char* prefix, const std::string& text) {
  return format("{}_{:016x}", prefix, std::hash<std::string>()(text));
}

namespace {

// How many neighbours a thread takes: as many as fit into 16 bytes and lie together in every operand.
int64_t vector_of(const GeneratedElementwise& kernel, const Loops& loops) {
  if (loops.dims.empty()) return 1;
  size_t largest = data_type_size(kernel.type);
  for (const GeneratedLeaf& leaf : kernel.leaves) largest = std::max(largest, data_type_size(leaf.type));
  for (int64_t vector = static_cast<int64_t>(16 / std::max<size_t>(largest, 2)); vector > 1; vector /= 2) {
    bool fits = loops.dims.back() % vector == 0;
    const auto whole = [&](const std::vector<int64_t>& strides, int64_t offset, bool may_repeat) {
      if (strides.back() == 0 && may_repeat) return;
      fits = fits && strides.back() == 1 && offset % vector == 0;
      for (size_t d = 0; d + 1 < strides.size(); ++d) fits = fits && strides[d] % vector == 0;
    };
    whole(loops.strides[0], kernel.offset, false);
    size_t at = 1;
    for (const GeneratedLeaf& leaf : kernel.leaves) {
      whole(loops.strides[at++], leaf.offset, true);
      if (leaf.gathered) {
        fits = fits && loops.strides[at].back() == 0;
        if (loops.strides[at - 1].back() != 0) fits = fits && leaf.index_stride % vector == 0;
        ++at;
      }
      fits = fits && leaf.begin.empty();
    }
    if (fits) return vector;
  }
  return 1;
}

// How many vectors a thread takes: a block that stores a few bytes a thread ends before memory is busy. All are read
// before the first is written, so that their reads overlap.
int64_t items_of(int64_t count, int64_t vector_bytes) {
  constexpr int64_t kMostItems = 4, kManyVectors = int64_t{1} << 20;
  return count < kManyVectors ? 1 : std::clamp<int64_t>(16 / vector_bytes, 1, kMostItems);
}

std::string fill_in(const std::string& expression, const std::vector<std::string>& arguments) {
  std::string text;
  for (size_t i = 0; i < expression.size(); ++i) {
    if (expression[i] == '$' && i + 1 < expression.size() && expression[i + 1] >= '0' && expression[i + 1] <= '9') {
      text += arguments[static_cast<size_t>(expression[++i] - '0')];
    } else {
      text += expression[i];
    }
  }
  return text;
}

}  // namespace

std::string loaded(DataType type, const std::string& text) {
  if (type == DataType::kFloat16) return format("from_half({})", text);
  if (type == DataType::kBfloat16) return format("from_bfloat({})", text);
  if (type == DataType::kBool) return format("({} != 0)", text);
  return text;
}

std::string stored(DataType type, const std::string& text) {
  if (type == DataType::kFloat16) return format("to_half({})", text);
  if (type == DataType::kBfloat16) return format("to_bfloat({})", text);
  return format("({})({})", storage_type(type), text);
}

int64_t count_of(const std::vector<int64_t>& dims) {
  return std::accumulate(dims.begin(), dims.end(), int64_t{1}, std::multiplies<>());
}

std::string split_index(const std::vector<int64_t>& dims, const char* variable, const char* from) {
  std::string text = format("  index_t {0}r = {1};\n", variable, from);
  for (size_t d = dims.size(); d-- > 0;) {
    if (d == 0) {
      text += format("  const index_t {0}0 = {0}r;\n", variable);
    } else {
      text += format("  const index_t {0}{1} = {0}r % {2}u; {0}r /= {2}u;\n", variable, d, dims[d]);
    }
  }
  return text;
}

bool needs_wide_index(const std::vector<int64_t>& dims, const std::vector<int64_t>& strides, int64_t offset) {
  constexpr double kMost = 2147483647.0;
  double count = 1, reach = std::fabs(static_cast<double>(offset));
  for (size_t d = 0; d < dims.size(); ++d) {
    count *= static_cast<double>(dims[d]);
    if (d < strides.size()) reach += static_cast<double>(dims[d]) * std::fabs(static_cast<double>(strides[d]));
  }
  return count > kMost || reach > kMost;
}

std::string index_types(bool wide) {
  return wide ? "  typedef unsigned long long index_t;\n  typedef long long place_t;\n"
              : "  typedef unsigned index_t;\n  typedef int place_t;\n";
}

std::string flat_index(int64_t count) {
  return format(
      "  const index_t flat = (index_t)blockIdx.x * {}u + threadIdx.x;\n  begin_kernel();\n  if (flat >= {}u) "
      "return;\n",
      kThreads, count);
}

Result<unsigned> blocks_of(int64_t count, int64_t a_block) {
  const int64_t blocks = (count + a_block - 1) / a_block;
  TENON_UNSUPPORTED_IF(blocks > INT32_MAX, "A kernel has at most {} blocks; {} elements take {}.", INT32_MAX, count,
                       blocks);
  return static_cast<unsigned>(blocks);
}

std::string compute_type(DataType type) {
  switch (type) {
    case DataType::kFloat:
    case DataType::kFloat16:
    case DataType::kBfloat16:
      return "float";
    case DataType::kDouble:
      return "double";
    case DataType::kInt64:
      return "long long";
    case DataType::kUint64:
      return "unsigned long long";
    case DataType::kInt32:
    case DataType::kInt16:
    case DataType::kInt8:
      return "int";
    case DataType::kUint32:
    case DataType::kUint16:
    case DataType::kUint8:
      return "unsigned";
    case DataType::kBool:
      return "bool";
    default:
      return "";
  }
}

namespace {

// Operands whose neighbours lie along another dimension than the output's: read one element at a time they would take a
// sector of memory for each, so a block reads and writes squares of them, turned in shared memory.
struct Tiles {
  static constexpr int64_t kSide = 32, kLeastSide = 16;
  size_t dim = 0;  // in which the turned operands lie together; the output's is the last
  std::vector<bool> turned;

  static std::optional<Tiles> find(const GeneratedElementwise& kernel, const Loops& loops) {
    if (loops.dims.size() < 2 || loops.strides[0].back() != 1 || loops.dims.back() < kLeastSide) return {};
    Tiles tiles{.turned = std::vector<bool>(kernel.leaves.size())};
    constexpr size_t kMostBytes = size_t{32} << 10;
    size_t at = 1, shared_bytes = 0;
    for (size_t l = 0; l < kernel.leaves.size(); at += kernel.leaves[l++].gathered ? 2 : 1) {
      const std::vector<int64_t>& strides = loops.strides[at];
      if (kernel.leaves[l].gathered || strides.back() == 0 || strides.back() == 1) continue;
      const auto dim = static_cast<size_t>(std::find(strides.begin(), strides.end(), 1) - strides.begin());
      if (dim == strides.size() || loops.dims[dim] < kLeastSide || (shared_bytes != 0 && dim != tiles.dim)) continue;
      shared_bytes += kSide * (kSide + 1) * data_type_size(kernel.leaves[l].type);
      if (shared_bytes > kMostBytes) break;
      tiles.dim = dim;
      tiles.turned[l] = true;
    }
    if (shared_bytes == 0) return {};
    return tiles;
  }

  int64_t blocks(const Loops& loops) const {
    int64_t count = 1;
    for (size_t d = 0; d < loops.dims.size(); ++d)
      count *= d == dim || d + 1 == loops.dims.size() ? (loops.dims[d] + kSide - 1) / kSide : loops.dims[d];
    return count;
  }

  // Around `element`, which makes and stores one element of the output.
  std::string text(const GeneratedElementwise& kernel, const Loops& loops, const std::string& element) const {
    const size_t last = loops.dims.size() - 1;
    const auto side = [&](size_t d) { return (loops.dims[d] + kSide - 1) / kSide; };
    std::string text, fill;
    size_t at = 1;
    for (size_t l = 0; l < kernel.leaves.size(); at += kernel.leaves[l++].gathered ? 2 : 1) {
      if (!turned[l]) continue;
      text += format("  __shared__ {} tile{}[{}][{}];\n", storage_type(kernel.leaves[l].type), l, kSide, kSide + 1);
      fill += format("    tile{0}[down + r][across] = a{0}[{1}];\n", l,
                     address(loops.strides[at], kernel.leaves[l].offset));
    }
    text += format(
        "  begin_kernel();\n  const index_t across = threadIdx.x % {0}u, down = threadIdx.x / {0}u;\n"
        "  index_t ir = blockIdx.x;\n  const index_t right = ir % {1}u * {0}u; ir /= {1}u;\n"
        "  const index_t below = ir % {2}u * {0}u; ir /= {2}u;\n",
        kSide, side(last), side(dim));
    for (size_t d = last; d-- > 0;)
      if (d != dim) text += format("  const index_t i{0} = ir % {1}u; ir /= {1}u;\n", d, loops.dims[d]);
    const int64_t rows = kThreads / kSide;
    text += format(
        "#pragma unroll\n  for (unsigned r = 0; r < {0}u; r += {1}u) {{\n"
        "    const index_t i{2} = below + across, i{3} = right + down + r;\n"
        "    if (i{2} >= {4}u || i{3} >= {5}u) continue;\n{6}  }}\n  __syncthreads();\n",
        kSide, rows, dim, last, loops.dims[dim], loops.dims[last], fill);
    text += format(
        "#pragma unroll\n  for (unsigned r = 0; r < {0}u; r += {1}u) {{\n"
        "    const index_t i{2} = below + down + r, i{3} = right + across;\n"
        "    if (i{2} >= {4}u || i{3} >= {5}u) continue;\n{6}  }}\n",
        kSide, rows, dim, last, loops.dims[dim], loops.dims[last], element);
    return text;
  }
};

}  // namespace

Result<GeneratedKernel> generate_elementwise(const GeneratedElementwise& kernel) {
  TENON_UNSUPPORTED_IF(compute_type(kernel.type).empty(), "Kernels cannot make {}.", data_type_name(kernel.type));
  std::vector<std::vector<int64_t>> strides = {kernel.strides};
  for (const GeneratedLeaf& leaf : kernel.leaves) {
    TENON_UNSUPPORTED_IF(compute_type(leaf.type).empty(), "Kernels cannot read {}.", data_type_name(leaf.type));
    strides.push_back(leaf.strides);
    if (leaf.gathered) strides.push_back(leaf.index_strides);
  }
  // Bounds are stated for the dimensions as they are: nothing is joined then.
  const bool padded =
      std::any_of(kernel.leaves.begin(), kernel.leaves.end(), [](const GeneratedLeaf& l) { return !l.begin.empty(); });
  const Loops loops = padded ? Loops{kernel.dims, strides} : join_dims(kernel.dims, strides, 0);
  const std::optional<Tiles> tiles = padded ? std::nullopt : Tiles::find(kernel, loops);
  const int64_t vector = tiles ? 1 : vector_of(kernel, loops), count = count_of(loops.dims) / vector;
  std::vector<int64_t> counted = loops.dims;
  if (vector > 1) counted.back() /= vector;

  std::string parameters, body;
  size_t at = 1;
  std::string element;  // inside the loop over a vector
  for (size_t l = 0; l < kernel.leaves.size(); ++l) {
    const GeneratedLeaf& leaf = kernel.leaves[l];
    const std::string type = storage_type(leaf.type);
    parameters += format("const {}* a{}, ", type, l);
    std::string where = address(loops.strides[at], leaf.offset);
    const bool repeats = loops.dims.empty() || loops.strides[at].back() == 0;
    ++at;
    if (leaf.gathered) {
      body += format("  long long g{0} = x{0}[{1}];\n  if (g{0} < 0) g{0} += {2};\n", l, address(loops.strides[at], 0),
                     leaf.index_limit);
      // A bad index must not leave the memory of the tensor; the host's operators check it, here nobody can be told.
      body += format("  g{0} = g{0} < 0 ? 0 : g{0} >= {1} ? {2} : g{0};\n", l, leaf.index_limit,
                     std::max<int64_t>(leaf.index_limit - 1, 0));
      where += format(" + g{} * {}", l, leaf.index_stride);
      ++at;
    }
    if (tiles && tiles->turned[l]) {
      body += format("  const {} s{} = {};\n", compute_type(leaf.type), l,
                     loaded(leaf.type, format("tile{}[across][down + r]", l)));
      element += format("    const {0} v{1} = s{1};\n", compute_type(leaf.type), l);
    } else if (!leaf.begin.empty()) {
      std::string inside;
      for (size_t d = 0; d < leaf.begin.size(); ++d)
        inside +=
            format("{}(place_t)i{} >= {} && (place_t)i{} < {}", d == 0 ? "" : " && ", d, leaf.begin[d], d, leaf.end[d]);
      if (inside.empty()) inside = "true";
      body += format("  {0} s{1} = {2};\n  if ({3}) s{1} = {4};\n", compute_type(leaf.type), l, leaf.fill, inside,
                     loaded(leaf.type, format("a{}[{}]", l, where)));
      element += format("    const {0} v{1} = s{1};\n", compute_type(leaf.type), l);
    } else if (vector > 1 && !repeats) {
      body += format("  const Pack<{0}, {1}> p{2} = *(const Pack<{0}, {1}>*)(a{2} + ({3}));\n", type, vector, l, where);
      element +=
          format("    const {} v{} = {};\n", compute_type(leaf.type), l, loaded(leaf.type, format("p{}.v[j]", l)));
    } else {
      body +=
          format("  const {} s{} = {};\n", compute_type(leaf.type), l, loaded(leaf.type, format("a{}[{}]", l, where)));
      element += format("    const {0} v{1} = s{1};\n", compute_type(leaf.type), l);
    }
  }
  for (size_t l = 0; l < kernel.leaves.size(); ++l)
    if (kernel.leaves[l].gathered)
      parameters += format("const {}* x{}, ", storage_type(kernel.leaves[l].index_type), l);
  for (size_t s = 0; s < kernel.steps.size(); ++s) {
    std::vector<std::string> arguments;
    for (int argument : kernel.steps[s].arguments)
      arguments.push_back(argument >= 0 ? format("v{}", argument) : format("t{}", ~argument));
    // Whole numbers wrap at every step, as if each were stored.
    const DataType type = kernel.steps[s].type;
    const bool narrow = is_narrow(type);
    element +=
        format("    const {} t{} = {}{}{};\n", compute_type(type), s, narrow ? format("({})(", storage_type(type)) : "",
               fill_in(kernel.steps[s].expression, arguments), narrow ? ")" : "");
  }
  const std::string result = kernel.steps.empty() ? "v0" : format("t{}", kernel.steps.size() - 1);
  const std::string type = storage_type(kernel.type);
  element += format("    out.v[j] = {};\n", stored(kernel.type, result));

  // The last dimension is counted in vectors: its index becomes one of elements.
  std::string index = counted.empty() ? "" : split_index(counted, "i", "flat");
  if (vector > 1) {
    const size_t last = counted.size() - 1;
    const std::string before =
        last == 0 ? "const index_t i0 = ir;" : format("const index_t i{0} = ir % {1}u;", last, counted[last]);
    const std::string after = last == 0 ? format("const index_t i0 = ir * {}u;", vector)
                                        : format("const index_t i{0} = ir % {1}u * {2}u;", last, counted[last], vector);
    index.replace(index.find(before), before.size(), after);
  }
  const std::string signature = format("({}{}* y) {{\n", parameters, type);
  bool wide = needs_wide_index(kernel.dims, kernel.strides, kernel.offset);
  for (const GeneratedLeaf& leaf : kernel.leaves) {
    wide = wide || needs_wide_index(kernel.dims, leaf.strides, leaf.offset);
    if (leaf.gathered) wide = wide || needs_wide_index(kernel.dims, leaf.index_strides, 0);
  }
  const std::string pack = format("Pack<{}, {}>", type, vector);
  const std::string made =
      format("{}  {} out;\n#pragma unroll\n  for (int j = 0; j < {}; ++j) {{\n{}  }}\n", body, pack, vector, element);
  const auto put = [&](const char* result) {
    return format("  *({}*)(y + {}) = {};\n", pack, address(loops.strides[0], kernel.offset), result);
  };
  const int64_t items = tiles ? 1 : items_of(count, vector * static_cast<int64_t>(data_type_size(kernel.type)));
  std::string text = index_types(wide);
  if (tiles) {
    text += tiles->text(kernel, loops, made + put("out"));
  } else if (items == 1) {
    text += flat_index(count) + index + made + put("out");
  } else {
    const std::string each = format("#pragma unroll\n  for (unsigned r = 0; r < {}u; ++r) {{\n", items);
    text += format(
        "  const index_t first = (index_t)blockIdx.x * {}u + threadIdx.x;\n  begin_kernel();\n  {} results[{}];\n",
        kThreads * items, pack, items);
    text += each + format("  const index_t wanted = first + r * {0}u, flat = wanted < {1}u ? wanted : {1}u - 1;\n",
                          kThreads, count);
    text += index + made + "  results[r] = out;\n  }\n";
    text += each + format("  const index_t flat = first + r * {}u;\n  if (flat >= {}u) return;\n", kThreads, count);
    text += index + put("results[r]") + "  }\n";
  }
  text += "}\n";
  GeneratedKernel generated{.name = hash_name("map", signature + text)};
  // A thread reads of such an operand what it writes, and nothing else.
  at = 1;
  for (const GeneratedLeaf& leaf : kernel.leaves) {
    generated.in_place.push_back(!leaf.gathered && leaf.begin.empty() && leaf.offset == kernel.offset &&
                                 loops.strides[at] == loops.strides[0] &&
                                 data_type_bits(leaf.type) == data_type_bits(kernel.type));
    at += leaf.gathered ? 2 : 1;
  }
  for (const GeneratedLeaf& leaf : kernel.leaves)
    if (leaf.gathered) generated.in_place.push_back(false);
  generated.source =
      format("extern \"C\" __global__ void __launch_bounds__({}) {}{}{}", kThreads, generated.name, signature, text);
  generated.threads = kThreads;
  TENON_TRY_ASSIGN(generated.blocks, blocks_of(tiles ? tiles->blocks(loops) : count, tiles ? 1 : kThreads * items));
  return generated;
}

}  // namespace tenon::cuda
