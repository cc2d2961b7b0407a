// QEmbedLayerNormalization.
#include <algorithm>
#include <cmath>

#include "ep/api/input_shapes.h"
#include "ep/cpu/ops/gather/indices.h"
#include "ops/quantized_attention.h"

namespace tenon::cpu::ref {

namespace {

// One byte of an input, or 0 where the input is absent.
struct Bytes {
  const uint8_t* data = nullptr;
  bool is_signed = false;

  Bytes(const KernelContext& context, size_t input, DataType type)
      : data(context.input<uint8_t>(input)), is_signed(type == DataType::kInt8) {}
  int32_t operator[](int64_t i) const {
    if (data == nullptr) return 0;
    return is_signed ? static_cast<int8_t>(data[i]) : data[i];
  }
};

bool is_byte(DataType type) { return type == DataType::kInt8 || type == DataType::kUint8; }

using Embedding = QuantizedEmbeddingDesc;

// A dequantised row of one of the five tables.
struct Table {
  Bytes bytes;
  float scale = 1;
  int32_t zero = 0;

  // `index` counts words, positions, segments, gamma and beta.
  Table(const KernelContext& context, size_t input, size_t index, DataType type) : bytes(context, input, type) {
    if (bytes.data == nullptr) return;
    scale = *context.input<float>(Embedding::kScales + index);
    zero = Bytes(context, Embedding::kZeros + index, type)[0];
  }
  float at(int64_t i) const { return bytes.data == nullptr ? 0 : static_cast<float>(bytes[i] - zero) * scale; }
};

Status run_embedding(const Embedding& desc, DataType type, KernelContext& context) {
  const Table word(context, Embedding::kWord, 0, type), position(context, Embedding::kPosition, 1, type),
      segment(context, Embedding::kSegment, 2, type), gamma(context, Embedding::kGamma, 3, type),
      beta(context, Embedding::kBeta, 4, type);
  const auto *ids = context.input<int32_t>(Embedding::kIds), *segments = context.input<int32_t>(Embedding::kSegmentIds);
  const int64_t n = desc.hidden;
  for (int64_t row = 0; row < desc.batch * desc.length; ++row) {
    TENON_INVALID_IF(ids[row] < 0 || ids[row] >= desc.words, "Id {} of row {} is outside [0, {}).", ids[row], row,
                     desc.words);
    const int64_t part = segments != nullptr ? segments[row] : 0;
    TENON_INVALID_IF(segments != nullptr && (part < 0 || part >= desc.segments),
                     "Segment {} of row {} is outside [0, {}).", part, row, desc.segments);
    float* const y = context.output<float>(0) + row * n;
    double sum = 0, squares = 0;
    for (int64_t j = 0; j < n; ++j) {
      y[j] = word.at(ids[row] * n + j) + position.at(row % desc.length * n + j) + segment.at(part * n + j);
      sum += static_cast<double>(y[j]);
    }
    const double mean = sum / static_cast<double>(n);
    for (int64_t j = 0; j < n; ++j) squares += (static_cast<double>(y[j]) - mean) * (static_cast<double>(y[j]) - mean);
    const double deviation = std::sqrt(squares / static_cast<double>(n) + static_cast<double>(desc.epsilon));
    for (int64_t j = 0; j < n; ++j) {
      y[j] = static_cast<float>((static_cast<double>(y[j]) - mean) / deviation) * gamma.at(j) + beta.at(j);
    }
  }
  const auto* mask = context.input<int32_t>(Embedding::kMask);
  if (auto* lengths = context.output<int32_t>(1)) {
    for (int64_t b = 0; b < desc.batch; ++b) {
      const int32_t* row = mask + b * desc.length;
      lengths[b] = mask == nullptr ? 0 : static_cast<int32_t>(std::count(row, row + desc.length, 1));
    }
  }
  return {};
}

Result<RefImpl> make_embedding(RefNode& node) {
  TENON_TRY_ASSIGN(const Embedding desc, read_quantized_embedding(*node.node, input_shapes(node)));
  const DataType type = node.inputs[Embedding::kWord].type;
  for (size_t i = 0; i < node.inputs.size(); ++i) {
    const TensorSpec& spec = node.inputs[i];
    const bool ids = i <= Embedding::kSegmentIds || i == Embedding::kMask;
    const bool scale = i >= Embedding::kScales && i < Embedding::kZeros;
    const DataType wanted = ids ? DataType::kInt32 : scale ? DataType::kFloat : type;
    TENON_INVALID_IF(spec.present() && (spec.type != wanted || !is_byte(type)),
                     "QEmbedLayerNormalization has input {} of {}.", i, data_type_name(spec.type));
  }
  for (size_t i : {0, 1, 3, 4}) {
    TENON_INVALID_IF(!input_spec(node, Embedding::kScales + i).present(),
                     "QEmbedLayerNormalization needs input {}, which is absent.", Embedding::kScales + i);
  }
  TENON_INVALID_IF(desc.segments > 0 && !input_spec(node, Embedding::kScales + 2).present(),
                   "QEmbedLayerNormalization needs input {}, which is absent.", Embedding::kScales + 2);
  TENON_TRY(require_output(node, 0, desc.y));
  TENON_TRY(require_output(node, 1, Shape{desc.batch}));
  RefImpl impl;
  impl.run = [desc, type](KernelContext& context) { return run_embedding(desc, type, context); };
  return impl;
}

constexpr TypeSet kBytes = type_set(TypeList<int8_t, uint8_t>());
constexpr std::string_view kDomain = "com.microsoft";

constexpr KernelEntry kRows[] = {
    ref_row<kBytes, &make_embedding, 2>("QEmbedLayerNormalization", 1, kAnyVersion, kDomain),
};

}  // namespace

std::span<const KernelEntry> ref_quantized_attention_rows() { return kRows; }

}  // namespace tenon::cpu::ref
