#include "ep/cuda/compute/elementwise_kernel.h"

#include <algorithm>
#include <cstring>
#include <functional>
#include <optional>

#include "base/format.h"
#include "ep/cuda/compute/kernel_template.h"
#include "ep/cuda/compute/loops.h"

namespace tenon::cuda {

namespace {

constexpr const char* kNamespace = "tenon::cuda::device::";

// How many neighbours a thread takes: as many as fit into 16 bytes and lie together in every operand.
int64_t vector_of(const GeneratedElementwise& kernel, const Loops& loops) {
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

// How many vectors a thread takes: a block that stores a few bytes a thread ends before memory is busy.
int64_t items_of(int64_t count, int64_t vector_bytes) {
  constexpr int64_t kMostItems = 4, kManyVectors = int64_t{1} << 20;
  return count < kManyVectors ? 1 : std::clamp<int64_t>(16 / vector_bytes, 1, kMostItems);
}

// Operands whose neighbours lie along another dimension than the output's are read through transposed tiles.
struct Tiles {
  static constexpr int64_t kSide = 32, kLeastSide = 16;
  size_t dim = 0;  // in which the transposed operands lie together; the output's is the last
  std::vector<bool> turned;

  static std::optional<Tiles> find(const GeneratedElementwise& kernel, const Loops& loops) {
    if (loops.dims.size() < 2 || loops.strides[0].back() != 1 || loops.dims.back() < kLeastSide) return {};
    Tiles tiles{.turned = std::vector<bool>(kernel.leaves.size())};
    constexpr size_t kMostBytes = size_t{32} << 10;
    size_t at = 1, shared_bytes = 0;
    for (size_t l = 0; l < kernel.leaves.size(); at += kernel.leaves[l++].gathered ? 2 : 1) {
      const std::vector<int64_t>& strides = loops.strides[at];
      if (kernel.leaves[l].gathered || strides.back() == 0 || strides.back() == 1) continue;
      const size_t dim = std::find(strides.begin(), strides.end(), 1) - strides.begin();
      if (dim == strides.size() || loops.dims[dim] < kLeastSide || (shared_bytes != 0 && dim != tiles.dim)) continue;
      shared_bytes += kSide * (kSide + 1) * data_type_size(kernel.leaves[l].type);
      if (shared_bytes > kMostBytes) break;
      tiles.dim = dim;
      tiles.turned[l] = true;
    }
    if (shared_bytes == 0) return {};
    return tiles;
  }
};

std::string fill_in(const std::string& expression, const std::vector<std::string>& arguments) {
  std::string text;
  for (size_t i = 0; i < expression.size(); ++i) {
    if (expression[i] == '$' && i + 1 < expression.size() && expression[i + 1] >= '0' && expression[i + 1] <= '9') {
      text += arguments[expression[++i] - '0'];
    } else {
      text += expression[i];
    }
  }
  return text;
}

bool is_narrow(DataType type) {
  return type == DataType::kUint8 || type == DataType::kInt8 || type == DataType::kInt16 || type == DataType::kUint16;
}

// The chain's function: the number of each leaf, then of each step.
std::string chain_text(const GeneratedElementwise& kernel) {
  std::string parameters, lines;
  for (size_t l = 0; l < kernel.leaves.size(); ++l)
    parameters += format("{}{} v{}", l == 0 ? "" : ", ", compute_type(kernel.leaves[l].type), l);
  for (size_t s = 0; s < kernel.steps.size(); ++s) {
    std::vector<std::string> arguments;
    for (int argument : kernel.steps[s].arguments)
      arguments.push_back(argument >= 0 ? format("v{}", argument) : format("t{}", ~argument));
    const DataType type = kernel.steps[s].type;
    std::string made = fill_in(kernel.steps[s].expression, arguments);
    // Whole numbers wrap at every step, as if each were stored.
    if (is_narrow(type)) made = format("({})({})", storage_type(type), made);
    lines += format("    const {} t{} = {};\n", compute_type(type), s, made);
  }
  const DataType made = kernel.steps.empty() ? kernel.leaves[0].type : kernel.steps.back().type;
  const std::string result = kernel.steps.empty() ? "v0" : format("t{}", kernel.steps.size() - 1);
  return format("  static __device__ __forceinline__ {} of({}) {{\n{}    return {};\n  }}\n", compute_type(made),
                parameters, lines, result);
}

// Writes an ElementwiseParams (elementwise.cuh).
class ParamsWriter {
 public:
  explicit ParamsWriter(bool wide) : wide_(wide) {}
  void bits(uint64_t value) { append(value); }
  void divisor(int64_t size) { append(make_divisor(size)); }
  void number(int64_t value) { wide_ ? append(value) : append(static_cast<int32_t>(value)); }
  void numbers(const std::vector<int64_t>& values) {
    for (int64_t value : values) number(value);
  }
  std::vector<std::byte> finish() && {
    bytes_.resize((bytes_.size() + 7) / 8 * 8);
    return std::move(bytes_);
  }

 private:
  template <typename T>
  void append(const T& value) {
    const size_t at = bytes_.size();
    bytes_.resize(at + sizeof(value));
    std::memcpy(bytes_.data() + at, &value, sizeof(value));
  }
  const bool wide_;
  std::vector<std::byte> bytes_;
};

unsigned mask_of(const std::vector<int64_t>& strides) {
  unsigned mask = 0;
  for (size_t d = 0; d < strides.size(); ++d) mask |= strides[d] != 0 ? 1U << d : 0U;
  return mask;
}

// Everything about one kernel that its instance and its parameters are made of.
class Maker {
 public:
  explicit Maker(const GeneratedElementwise& kernel) : kernel_(kernel) {}

  Result<TemplateKernel> make() {
    TENON_TRY(read_operands());
    const int64_t vector = tiles_ ? 1 : vector_of(kernel_, loops_), whole = count_of(loops_.dims);
    const int64_t count = whole / vector, items = tiles_ ? 1 : items_of(count, vector * size_of(kernel_.type));
    const char* const kernel = tiles_ ? "elementwise_tiles" : "elementwise";
    const std::vector<int64_t>& out = loops_.strides[0];
    std::string arguments = format("{}, {}, ", wide_ ? "true" : "false", loops_.dims.size());
    arguments += tiles_ ? format("{}, ", tiles_->dim) : format("{}, {}, ", vector, items);
    arguments += format("{}u, {}", mask_of(out), out.back() == 1 ? "true" : "false");
    if (!tiles_) arguments += format(", {}", windows_);
    arguments += format(", {}{}", template_type(kernel_.type), operand_list(vector));
    // The chain has another name in each instance, so that no program has its text twice.
    const std::string text = chain_text(kernel_),
                      chain = format("chain_{:016x}", std::hash<std::string>()(text + arguments));
    TemplateKernel made{.header = format("ep/cuda/ops/elementwise/{}.cuh", kernel)};
    made.in_place = in_place();
    made.text = format("namespace tenon::cuda::device {{\nstruct {} {{\n{}}};\n}}\n", chain, text);
    made.instance = format("{0}{1}<{0}{2}, {3}>", kNamespace, kernel, chain, arguments);
    made.params = params(vector);
    TENON_UNSUPPORTED_IF(made.params.size() > kMostParamsBytes,
                         "A chain of {} operands of rank {} has too many strides.", kernel_.leaves.size(),
                         loops_.dims.size());
    TENON_TRY_ASSIGN(const unsigned blocks,
                     blocks_of(tiles_ ? tile_count() : count, tiles_ ? 1 : int64_t{kMapThreads} * items));
    made.shape = {.grid_x = blocks, .block_x = kMapThreads};
    return made;
  }

 private:
  static int64_t size_of(DataType type) { return static_cast<int64_t>(data_type_size(type)); }
  static int64_t tiles_along(int64_t size) { return (size + Tiles::kSide - 1) / Tiles::kSide; }

  Status read_operands() {
    TENON_UNSUPPORTED_IF(compute_type(kernel_.type).empty(), "Kernels cannot make {}.", data_type_name(kernel_.type));
    std::vector<std::vector<int64_t>> strides = {kernel_.strides};
    bool padded = false;
    wide_ = needs_wide_index(kernel_.dims, kernel_.strides, kernel_.offset);
    for (const GeneratedLeaf& leaf : kernel_.leaves) {
      TENON_UNSUPPORTED_IF(compute_type(leaf.type).empty(), "Kernels cannot read {}.", data_type_name(leaf.type));
      strides.push_back(leaf.strides);
      wide_ = wide_ || needs_wide_index(kernel_.dims, leaf.strides, leaf.offset);
      if (!leaf.begin.empty()) padded = true, ++windows_;
      if (!leaf.gathered) continue;
      strides.push_back(leaf.index_strides);
      wide_ = wide_ || needs_wide_index(kernel_.dims, leaf.index_strides, 0) ||
              needs_wide_index({leaf.index_limit}, {leaf.index_stride}, 0);
    }
    // Windows are stated for the dimensions as they are: nothing is joined then.
    loops_ = padded ? Loops{kernel_.dims, strides} : join_dims(kernel_.dims, strides, 0);
    if (loops_.dims.empty()) {
      loops_.dims = {1};
      for (std::vector<int64_t>& of_operand : loops_.strides) of_operand = {0};
    }
    if (!padded) tiles_ = Tiles::find(kernel_, loops_);
    return Status();
  }

  // The leaves, then the indices of gathered ones.
  std::string operand_list(int64_t vector) const {
    std::string leaves, indices;
    size_t at = 1, window = 0, index = kernel_.leaves.size();
    for (size_t l = 0; l < kernel_.leaves.size(); ++l) {
      const GeneratedLeaf& leaf = kernel_.leaves[l];
      const std::vector<int64_t>& strides = loops_.strides[at++];
      const char* read = "kElement";
      if (tiles_ && tiles_->turned[l]) {
        read = "kTile";
      } else if (!leaf.begin.empty()) {
        read = "kWindow";
      } else if (vector > 1 && strides.back() != 0) {
        read = "kVector";
      }
      const std::string start =
          format("{}, {}Read::{}, {}u", template_type(leaf.type), kNamespace, read, mask_of(strides));
      if (!leaf.gathered) {
        leaves += format(", {}Operand<{}", kNamespace, start);
        leaves += leaf.begin.empty() ? std::string(">") : format(", {}>", window++);
        continue;
      }
      const std::string type = template_type(leaf.index_type);
      const unsigned mask = mask_of(loops_.strides[at++]);
      leaves += format(", {}Gathered<{}, {}, {}u, {}>", kNamespace, start, type, mask, index++);
      indices += format(", {0}Operand<{1}, {0}Read::kIndex, {2}u>", kNamespace, type, mask);
    }
    return leaves + indices;
  }

  std::vector<std::byte> params(int64_t vector) const {
    ParamsWriter writer(wide_);
    const size_t rank = loops_.dims.size();
    for (size_t d = 0; d < rank; ++d) {
      int64_t size = loops_.dims[d];
      if (tiles_ && (d == tiles_->dim || d + 1 == rank)) size = tiles_along(size);
      writer.divisor(d + 1 == rank ? size / vector : size);
    }
    for (const GeneratedLeaf& leaf : kernel_.leaves) {
      if (leaf.begin.empty()) continue;
      writer.bits(leaf.fill);
      writer.numbers(leaf.begin);
      writer.numbers(leaf.end);
    }
    if (windows_ == 0) {
      writer.bits(0);
      writer.numbers(std::vector<int64_t>(2 * rank));
    }
    const auto operand = [&](int64_t offset, int64_t step, const std::vector<int64_t>& strides) {
      writer.number(offset);
      writer.number(step);
      writer.numbers(strides);
    };
    size_t at = 1;
    for (const GeneratedLeaf& leaf : kernel_.leaves) {
      operand(leaf.offset, leaf.index_stride, loops_.strides[at]);
      at += leaf.gathered ? 2 : 1;
    }
    at = 1;
    for (const GeneratedLeaf& leaf : kernel_.leaves) {
      at += leaf.gathered ? 2 : 1;
      if (leaf.gathered) operand(0, leaf.index_limit, loops_.strides[at - 1]);
    }
    operand(kernel_.offset, 0, loops_.strides[0]);
    writer.number(tiles_ ? loops_.dims[tiles_->dim] : count_of(loops_.dims) / vector);
    writer.number(tiles_ ? loops_.dims.back() : 0);
    return std::move(writer).finish();
  }

  // A thread reads of such an operand what it writes, and nothing else.
  std::vector<bool> in_place() const {
    std::vector<bool> may;
    size_t at = 1, indices = 0;
    for (const GeneratedLeaf& leaf : kernel_.leaves) {
      may.push_back(!leaf.gathered && leaf.begin.empty() && leaf.offset == kernel_.offset &&
                    loops_.strides[at] == loops_.strides[0] &&
                    data_type_bits(leaf.type) == data_type_bits(kernel_.type));
      at += leaf.gathered ? 2 : 1;
      indices += leaf.gathered ? 1 : 0;
    }
    may.resize(may.size() + indices, false);
    return may;
  }

  int64_t tile_count() const {
    int64_t count = 1;
    for (size_t d = 0; d < loops_.dims.size(); ++d)
      count *= d == tiles_->dim || d + 1 == loops_.dims.size() ? tiles_along(loops_.dims[d]) : loops_.dims[d];
    return count;
  }

  const GeneratedElementwise& kernel_;
  Loops loops_;
  std::optional<Tiles> tiles_;
  bool wide_ = false;
  int windows_ = 0;
};

}  // namespace

Result<TemplateKernel> elementwise_kernel(const GeneratedElementwise& kernel) { return Maker(kernel).make(); }

}  // namespace tenon::cuda
