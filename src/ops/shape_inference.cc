#include "ops/shape_inference.h"

#include <string_view>
#include <vector>

#include "base/name_index.h"
#include "base/status.h"
#include "graph/schema.h"
#include "ops/float_types.h"
#include "ops/shape_inference_context.h"

namespace tenon {
namespace {

// The functions of one domain by operator.
class Table {
 public:
  explicit Table(std::initializer_list<std::span<const infer::Row>> families) : index_(count(families)) {
    rows_.reserve(count(families));
    for (std::span<const infer::Row> rows : families) {
      for (const infer::Row& row : rows) {
        index_.add(row.op_type);
        rows_.push_back(row.infer);
      }
    }
  }

  infer::InferFunction find(std::string_view op_type) const {
    const int32_t row = index_.first(op_type);
    return row == NameIndex::kNone ? nullptr : rows_[static_cast<size_t>(row)];
  }

 private:
  static size_t count(std::initializer_list<std::span<const infer::Row>> families) {
    size_t rows = 0;
    for (std::span<const infer::Row> family : families) rows += family.size();
    return rows;
  }

  NameIndex index_;
  std::vector<infer::InferFunction> rows_;
};
#define TENON_ROWS_(function) infer::function(),

const Table& onnx_table() {
  static const Table table({TENON_INFER_FAMILIES(TENON_ROWS_)});
  return table;
}

const Table& contrib_table() {
  static const Table table({TENON_CONTRIB_INFER_FAMILIES(TENON_ROWS_)});
  return table;
}

const Table& ml_table() {
  static const Table table({TENON_ML_INFER_FAMILIES(TENON_ROWS_)});
  return table;
}

const Table& internal_table() {
  static const Table table({TENON_INTERNAL_INFER_FAMILIES(TENON_ROWS_)});
  return table;
}
#undef TENON_ROWS_

const Table* table_of(std::string_view domain) {
  if (domain.empty()) return &onnx_table();
  if (domain == "tenon") return &internal_table();
  if (domain == kContribDomain) return &contrib_table();
  return domain == "ai.onnx.ml" ? &ml_table() : nullptr;
}

infer::InferFunction find_function(const Node& node) {
  const Table* table = table_of(node.domain);
  return table == nullptr ? nullptr : table->find(node.op_type);
}

// Inputs whose values set the output's shape, as a bit mask; bit 31 stands for every input.
struct ValueDependence {
  std::string_view op_type;
  uint32_t inputs;
};
constexpr uint32_t kEveryInput = 1u << 31;
constexpr ValueDependence kValueDependences[] = {
    {"AffineGrid", 1u << 1},
    {"BlackmanWindow", 1u << 0},
    {"CenterCropPad", 1u << 1},
    {"Col2Im", 1u << 1 | 1u << 2},
    {"Compress", kEveryInput},
    {"ConcatFromSequence", kEveryInput},
    {"ConstantOfShape", 1u << 0},
    {"DFT", 1u << 1 | 1u << 2},
    {"Expand", 1u << 1},
    {"HammingWindow", 1u << 0},
    {"HannWindow", 1u << 0},
    {"If", 1u << 0},
    {"ImageDecoder", kEveryInput},
    {"Loop", kEveryInput},
    {"MaxUnpool", 1u << 2},
    {"MelWeightMatrix", 1u << 0 | 1u << 1},
    {"NonMaxSuppression", kEveryInput},
    {"NonZero", kEveryInput},
    {"OneHot", 1u << 1},
    {"OptionalGetElement", kEveryInput},
    {"Pad", 1u << 1 | 1u << 3},
    {"Range", kEveryInput},
    {"ReduceL1", 1u << 1},
    {"ReduceL2", 1u << 1},
    {"ReduceLogSum", 1u << 1},
    {"ReduceLogSumExp", 1u << 1},
    {"ReduceMax", 1u << 1},
    {"ReduceMean", 1u << 1},
    {"ReduceMin", 1u << 1},
    {"ReduceProd", 1u << 1},
    {"ReduceSum", 1u << 1},
    {"ReduceSumSquare", 1u << 1},
    {"Reshape", 1u << 1},
    {"Resize", 1u << 1 | 1u << 2 | 1u << 3},
    {"STFT", 1u << 1 | 1u << 3},
    {"SequenceAt", kEveryInput},
    {"Slice", 1u << 1 | 1u << 2 | 1u << 3 | 1u << 4},
    {"Split", 1u << 1},
    {"Squeeze", 1u << 1},
    {"StringNormalizer", kEveryInput},
    {"StringSplit", kEveryInput},
    {"Tile", 1u << 1},
    {"TopK", 1u << 1},
    {"Unique", kEveryInput},
    {"Unsqueeze", 1u << 1},
    {"Upsample", 1u << 1},
};

}  // namespace

Status infer_node(Graph& graph, Node& node) {
  infer::InferFunction function = find_function(node);
  if (!function) return {};
  // The shape that the file declares for a node's output is a claim: only dims that follow from the inputs stay.
  for (ValueId id : node.outputs) {
    if (id == kNoValue) continue;
    Value& value = graph.value(id);
    if (!value.is_tensor) continue;
    value.has_rank = false;
    value.dims.clear();
  }
  infer::Context context(graph, node);
  TENON_TRY_CONTEXT(function(context), "while inferring the shapes of {}", node.label(graph));
  if (const Attribute* const stored = node.find(kStoredType); stored && node.outputs[0] != kNoValue)
    graph.value(node.outputs[0]).type = static_cast<DataType>(stored->i);
  return {};
}

Status infer_shapes(Graph& graph) {
  for (Node& node : graph.nodes) TENON_TRY(infer_node(graph, node));
  return {};
}

bool shape_depends_on_value(const Node& node, size_t input) {
  if (node.domain == "tenon" && node.op_type == "SearchStart") return input == 1 || input == 2;
  // A cache becomes as large as the largest length asks for.
  if (node.domain == "com.microsoft" && node.op_type == "GroupQueryAttention") return input == 6;
  if (!node.domain.empty()) return false;
  for (const ValueDependence& row : kValueDependences) {
    if (row.op_type != node.op_type) continue;
    if (row.inputs == kEveryInput) return true;
    // Resize-10 has (X, scales); from 11 on roi stands between them and sets no size.
    if (node.op_type == "Resize" && node.since_version >= 11 && input == 1) return false;
    return input < 31 && (row.inputs >> input & 1u) != 0;
  }
  return false;
}

}  // namespace tenon
