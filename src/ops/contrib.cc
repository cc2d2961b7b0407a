#include "ops/contrib.h"

#include <algorithm>

#include "ops/attributes.h"
#include "ops/axes.h"
#include "ops/collective.h"
#include "ops/input_shapes.h"
#include "ops/pool.h"

namespace tenon {

Result<InverseDesc> read_inverse(const Shape& x) {
  TENON_INVALID_IF(x.rank() < 2 || x[x.rank() - 1] != x[x.rank() - 2], "Inverse takes square matrices, not {}.",
                   x.to_string());
  return InverseDesc{span_product(x, 0, x.rank() - 2), x[x.rank() - 1]};
}

Result<NGramDesc> read_ngram(const Node& node, const Shape& ids, const Shape& scores) {
  TENON_INVALID_IF(ids.rank() != 2 || scores.rank() != 2 || ids[0] != scores[0],
                   "NGramRepeatBlock has ids {} and scores {}.", ids.to_string(), scores.to_string());
  const NGramDesc desc{ids[0], ids[1], scores[1], Attributes(node).find_integer("ngram_size").value_or(0)};
  TENON_INVALID_IF(desc.length < 1, "Attribute \"ngram_size\" ({}) has to be positive.", desc.length);
  return desc;
}

Result<CropDesc> read_crop(const Node& node, const Shape& x, const Shape& boxes, const Shape& images) {
  TENON_INVALID_IF(x.rank() != 4 || boxes.rank() != 2 || boxes[1] != 4 || images != Shape{boxes[0]},
                   "CropAndResize has images {}, boxes {} and numbers of images {}.", x.to_string(), boxes.to_string(),
                   images.to_string());
  const Attributes attributes(node);
  const std::string_view mode = attributes.text("mode");
  TENON_INVALID_IF(mode != "bilinear" && mode != "nearest", "CropAndResize has the mode \"{}\".", mode);
  return CropDesc{x[0], x[1], x[2], x[3], boxes[0], mode == "nearest", attributes.number("extrapolation_value")};
}

Result<UnfoldDesc> read_unfold(const Node& node, const Shape& x) {
  const Attributes attributes(node);
  TENON_INVALID_IF(x.rank() >= Shape::kMaxRank, "UnfoldTensor adds a dimension to {}, which has {}.", x.to_string(),
                   x.rank());
  TENON_TRY_ASSIGN(const int axis, normalized_axis(attributes.integer("dim"), x.rank()));
  UnfoldDesc desc{.outer = span_product(x, 0, axis),
                  .length = x[axis],
                  .inner = span_product(x, axis + 1, x.rank()),
                  .size = attributes.find_integer("size").value_or(0),
                  .step = attributes.integer("step"),
                  .output = x};
  TENON_INVALID_IF(desc.size < 1 || desc.size > desc.length || desc.step < 1,
                   "UnfoldTensor takes slices of {}, {} apart, from {} elements.", desc.size, desc.step, desc.length);
  desc.slices = (desc.length - desc.size) / desc.step + 1;
  desc.output[axis] = desc.slices;
  desc.output.push_back(desc.size);
  return desc;
}

Result<NGramHashDesc> read_ngram_hash(const Node& node, std::span<const Shape> inputs) {
  const Attributes attributes(node);
  const bool packed = node.op_type == "VarlenNGramHashMapping";
  const Shape& ids = inputs[0];
  TENON_INVALID_IF(ids.rank() != (packed ? 1 : 2), "{} has ids {}.", node.op_type, ids.to_string());
  NGramHashDesc desc{.batch = packed ? inputs[3].element_count() - 1 : ids[0],
                     .length = ids[ids.rank() - 1],
                     .largest = attributes.find_integer("max_ngram_size").value_or(0),
                     .heads = attributes.find_integer("n_head_per_ngram").value_or(0),
                     .pad = attributes.find_integer("pad_id").value_or(0),
                     .captured = packed ? attributes.integer("state_update_capacity") : 0,
                     .resets = attributes.flag("reset_on_eos"),
                     .outputs = {}};
  TENON_INVALID_IF(desc.largest < 2 || desc.largest > 64 || desc.heads < 1 || desc.heads > INT32_MAX,
                   "{} has n-grams of {} ids and {} heads for each.", node.op_type, desc.largest, desc.heads);
  TENON_INVALID_IF(desc.batch < 0 || desc.captured < 0 || desc.captured > 8, "{} has {} sequences and keeps {} states.",
                   node.op_type, desc.batch, desc.captured);
  const int64_t before = desc.largest - 1, hashes = before * desc.heads;
  const size_t more = packed ? 1 : 0;
  const auto fits = [&](size_t input, const Shape& shape) {
    return input >= inputs.size() || node.input(input) == kNoValue || inputs[input] == shape;
  };
  TENON_INVALID_IF(inputs[1].element_count() < desc.largest || inputs[2] != Shape{hashes} ||
                       !fits(3 + more, Shape{desc.batch, before}) || !fits(4 + more, Shape{hashes}) ||
                       !fits(6 + more, ids) || (packed && !fits(8, Shape{desc.batch, before})) ||
                       (packed && !fits(9, Shape{desc.batch})),
                   "{} has inputs that do not fit ids {} and {} hashes.", node.op_type, ids.to_string(), hashes);
  desc.outputs = {packed ? Shape{ids[0], hashes} : Shape{ids[0], ids[1], hashes}, Shape{desc.batch, before}};
  if (packed) desc.outputs.insert(desc.outputs.end(), {desc.outputs[1], Shape{desc.batch, desc.captured, before}});
  return desc;
}

Result<WordConvDesc> read_word_conv(const Node& node, const Shape& words, const Shape& weights, const Shape& bias,
                                    const Shape& table) {
  const bool ranks = words.rank() == 2 && weights.rank() == 4 && table.rank() == 2;
  TENON_INVALID_IF(!ranks || weights[1] != 1 || bias != Shape{weights[0]} || table[1] != weights[3] || weights[2] < 1 ||
                       words[1] < weights[2],
                   "WordConvEmbedding has words {}, weights {}, a bias {} and characters {}.", words.to_string(),
                   weights.to_string(), bias.to_string(), table.to_string());
  const Attributes attributes(node);
  const auto stated = [&](const char* name, int64_t size) {
    return attributes.find_integer(name).value_or(size) == size;
  };
  TENON_INVALID_IF(!stated("embedding_size", weights[0]) || !stated("conv_window_size", weights[2]) ||
                       !stated("char_embedding_size", weights[3]),
                   "The attributes of WordConvEmbedding do not fit its weights {}.", weights.to_string());
  return WordConvDesc{words[0], words[1], weights[0], weights[2], weights[3], table[0]};
}

namespace infer {
namespace {

Status infer_inverse(Context& c) {
  if (c.ranked(0) && c.in(0).fully_known()) TENON_TRY(read_inverse(c.in(0).shape()).status());
  return c.copy(0);
}

Status infer_scores(Context& c) { return c.copy(1); }

Status infer_crop(Context& c) {
  c.set_type(0, c.type(0));
  if (!c.ranked(0) || c.rank(0) != 4) return c.set_unknown_dims(4);
  const Dim boxes = c.ranked(1) && c.rank(1) == 2 ? c.dims(1)[0] : Dim{};
  const auto size = c.values(3);
  if (size) {
    TENON_INVALID_IF(size->size() != 2 || (*size)[0] < 1 || (*size)[1] < 1,
                     "CropAndResize has a size of {} numbers, which have to be two and positive.", size->size());
  }
  return c.set_dims(0, {boxes, c.dims(0)[1], size ? number((*size)[0]) : Dim{}, size ? number((*size)[1]) : Dim{}});
}

Status infer_unfold(Context& c) {
  c.set_type(0, c.type(0));
  if (!c.ranked(0)) return {};
  if (c.in(0).fully_known()) {
    TENON_TRY_ASSIGN(const UnfoldDesc desc, read_unfold(c.node(), c.in(0).shape()));
    return c.set_dims(0, to_dims(desc.output));
  }
  return c.set_unknown_dims(c.rank(0) + 1);
}

Status infer_experts(Context& c) { return c.copy(0); }

Status infer_hash(Context& c) {
  c.set_type(0, Attributes(c.node()).flag("positive") ? DataType::kUint32 : DataType::kInt32);
  return c.ranked(0) ? c.set_dims(0, c.dims(0)) : Status();
}

Status infer_time_warping(Context& c) {
  c.set_type(0, DataType::kInt32);
  return c.set_dims(0, {number(2), Dim{}});
}

Status infer_tokenizer(Context& c) {
  c.set_type(0, DataType::kString);
  if (!c.ranked(0)) return {};
  TENON_INVALID_IF(c.rank(0) != 1 && c.rank(0) != 2, "Tokenizer takes [C] or [N,C], not {}.", text(c.dims(0)));
  Dims dims = c.dims(0);
  if (!std::all_of(dims.begin(), dims.end(), [](const Dim& dim) { return dim.known(); })) return {};
  // Without texts there is no dimension of tokens.
  if (std::any_of(dims.begin(), dims.end(), [](const Dim& dim) { return dim.value == 0; })) {
    dims.back() = number(0);
  } else {
    dims.emplace_back();
  }
  return c.set_dims(0, std::move(dims));
}

Status infer_word_conv(Context& c) {
  c.set_type(0, c.type(1));
  if (!c.ranked(0) || !c.ranked(1) || c.rank(0) != 2 || c.rank(1) != 4) return c.set_unknown_dims(2);
  return c.set_dims(0, {c.dims(0)[0], c.dims(1)[0]});
}

Status infer_bifurcation(Context& c) {
  c.set_type(0, DataType::kInt64);
  TENON_TRY(c.set_dims(0, {c.has(3) || !c.ranked(1) || c.rank(1) != 1 ? Dim{} : c.dims(1)[0]}));
  return c.has_output(1) ? c.copy(2, 1) : Status();
}

Status infer_ngram_hash(Context& c) {
  std::vector<Shape> shapes;
  bool known = true;
  for (size_t i = 0; i < c.node().inputs.size(); ++i) {
    known = known && (!c.has(i) || c.in(i).fully_known());
    shapes.push_back(known && c.has(i) ? c.in(i).shape() : Shape());
  }
  const bool packed = c.node().op_type == "VarlenNGramHashMapping";
  std::vector<Shape> outputs;
  if (known && shapes.size() > (packed ? 3 : 2)) {
    TENON_TRY_ASSIGN(const NGramHashDesc desc, read_ngram_hash(c.node(), shapes));
    outputs = desc.outputs;
  }
  for (size_t i = 0; i < c.node().outputs.size(); ++i) {
    if (!c.has_output(i)) continue;
    c.set_type(i, i == 2 ? DataType::kInt32 : c.type(0));
    if (i < outputs.size()) TENON_TRY(c.set_dims(i, to_dims(outputs[i])));
  }
  return {};
}

Status infer_masked_pool(Context& c) {
  c.set_type(0, c.type(0));
  if (!c.ranked(0)) return {};
  std::vector<int64_t> sizes;
  for (const Dim& dim : c.dims(0)) sizes.push_back(dim.known() ? dim.value : kUnknownSize);
  TENON_TRY_ASSIGN(const PoolDesc pool, read_pool(c.node(), sizes));
  Dims dims = c.dims(0);
  for (size_t i = 2; i < dims.size(); ++i) {
    const int64_t size = pool.axis(static_cast<int>(i) - 2).out;
    dims[i] = size >= 0 ? number(size) : Dim{};
  }
  return c.set_dims(0, std::move(dims));
}

// Y, and caches that become larger where the run's largest length needs it.
Status infer_grouped_query(Context& c) {
  for (size_t i = 0; i < 3; ++i) c.set_type(i, c.type(i == 0 || !c.has(i + 2) ? 0 : i + 2));
  const int64_t heads = Attributes(c.node()).find_integer("num_heads").value_or(0),
                kv_heads = Attributes(c.node()).find_integer("kv_num_heads").value_or(0);
  if (!c.ranked(0) || c.rank(0) != 3 || heads < 1 || kv_heads < 1 || heads > INT32_MAX || kv_heads > INT32_MAX)
    return {};
  const Dims& q = c.dims(0);
  const int64_t units = c.has(1) ? heads : heads + 2 * kv_heads;
  const Dim depth = q[2].known() ? number(q[2].value / units) : Dim{};
  TENON_TRY(c.set_dims(0, {q[0], q[1], depth.known() ? number(depth.value * heads) : Dim{}}));
  const auto total = c.values(6);
  for (size_t i = 1; i < 3; ++i) {
    Dim room;
    if (total && total->size() == 1) {
      const Dim past = !c.has(i + 2) ? number(0) : c.ranked(i + 2) && c.rank(i + 2) == 4 ? c.dims(i + 2)[2] : Dim{};
      if (past.known()) room = number(std::max(past.value, (*total)[0]));
    }
    // Caches of codes may lie two a byte.
    const Dim last = c.has(i + 2) ? (c.ranked(i + 2) && c.rank(i + 2) == 4 ? c.dims(i + 2)[3] : Dim{}) : depth;
    if (c.has_output(i)) TENON_TRY(c.set_dims(i, {q[0], number(kv_heads), room, last}));
  }
  return {};
}

// Y, and the sum that was normalised.
Status infer_skip_norm(Context& c) {
  TENON_TRY(c.copy(0));
  return c.copy(0, 3);
}

constexpr Row kRows[] = {{"AllGather", &infer_collective},
                         {"AllReduce", &infer_collective},
                         {"AllToAll", &infer_collective},
                         {"BifurcationDetector", &infer_bifurcation},
                         {"CropAndResize", &infer_crop},
                         {"DynamicTimeWarping", &infer_time_warping},
                         {"GroupQueryAttention", &infer_grouped_query},
                         {"Inverse", &infer_inverse},
                         {"MaxpoolWithMask", &infer_masked_pool},
                         {"MoE", &infer_experts},
                         {"MurmurHash3", &infer_hash},
                         {"NGramHashMapping", &infer_ngram_hash},
                         {"NGramRepeatBlock", &infer_scores},
                         {"QMoE", &infer_experts},
                         {"SkipLayerNormalization", &infer_skip_norm},
                         {"SkipSimplifiedLayerNormalization", &infer_skip_norm},
                         {"Tokenizer", &infer_tokenizer},
                         {"UnfoldTensor", &infer_unfold},
                         {"VarlenNGramHashMapping", &infer_ngram_hash},
                         {"WordConvEmbedding", &infer_word_conv}};

}  // namespace

std::span<const Row> contrib_rows() { return kRows; }

}  // namespace infer
}  // namespace tenon
