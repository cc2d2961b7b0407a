// Attention over caches: com.microsoft's GroupQueryAttention, whose present is the past with the new keys and values in
// their places, and RotaryEmbedding.
#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <memory>

#include "base/format.h"
#include "ep/cuda/compute/map_template.h"
#include "ep/cuda/ops/attention/cached.h"
#include "ep/cuda/ops/attention/op.h"
#include "ep/cuda/ops/narrow_sizes.h"
#include "ops/attributes.h"
#include "ops/rotary.h"

namespace tenon::cuda {

namespace {

constexpr char kHeader[] = "ep/cuda/ops/attention/cached.cuh", kStepHeader[] = "ep/cuda/ops/attention/step.cuh";

// Elements that a thread moves at once; heads have a multiple of it (takes_cached).
constexpr int kPack = 8;

int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

// The new rows of a head: a tensor, from `offset` elements on, with `row` elements from one token to the next.
struct HeadRows {
  TensorId tensor = kNoTensor;
  int64_t row = 0;
};

enum GroupedInput : size_t {
  kQuery,
  kKey,
  kValue,
  kPastKey,
  kPastValue,
  kLastPositions,
  kTotal,
  kCos,
  kSin,
  kPositions,
  kBias,
  kSink,
  kKeyScale,
  kValueScale,
  kQueryNorm,
  kKeyNorm
};

// The cache with room for the new rows, and the old ones in it: where it is the past's memory, they are there.
Result<TensorId> make_present(Lowering& to, const Node& node, size_t output, ValueId past, const Shape& wanted,
                              const KeyPositions& at, TensorId lengths, TensorId total) {
  const ValueId id = output < node.outputs.size() ? node.outputs[output] : kNoValue;
  const DataType type = to.type_of(node.inputs[kQuery]);
  TensorId present = kNoTensor;
  if (id != kNoValue) {
    TENON_UNSUPPORTED_IF(to.value(id).shape() != wanted || to.type_of(id) != type, "{} makes a cache {} of {}.",
                         to.label(node), to.value(id).shape().to_string(), data_type_name(to.type_of(id)));
    TENON_TRY_ASSIGN(present, to.make(id));
  } else {
    TENON_TRY_ASSIGN(present, to.program().add_tensor(type, wanted));
  }
  PastParams params{.at = at,
                    .kv_heads = narrow(wanted[1]),
                    .depth = narrow(wanted[3]),
                    .room = narrow(wanted[2]),
                    .count = wanted.element_count() / kPack};
  TensorId from = kNoTensor;
  if (past != kNoValue) {
    TENON_TRY_ASSIGN(from, to.plain(past));
    const DeviceTensor old = to.program().tensor(from);
    TENON_UNSUPPORTED_IF(old.type != type || old.shape.rank() != 4 || old.shape[2] > wanted[2] ||
                             old.shape != Shape({wanted[0], wanted[1], old.shape[2], wanted[3]}),
                         "{} has a past {} of {}.", to.label(node), old.shape.to_string(), data_type_name(old.type));
    params.past = narrow(old.shape[2]);
  }
  if (params.count == 0) return present;
  TENON_UNSUPPORTED_IF(params.count > UINT32_MAX, "{} makes a cache {}.", to.label(node), wanted.to_string());
  TENON_TRY_ASSIGN(const LaunchShape shape, map_launch(params.count));
  const bool in_place = params.past == params.room;
  TENON_TRY(to.add_kernel(node, "keep past",
                          {.header = kHeader,
                           .instance = template_instance("keep_past", type, kPack),
                           .params = kernel_params(params),
                           .shape = shape,
                           .in_place = {in_place},
                           .nothing_in_place = in_place,
                           .text = ""},
                          {from, lengths, total}, {present}));
  return present;
}

// The inputs of a step besides its caches, and their known properties.
struct Step {
  PlaceParams place;
  CachedParams params;
  bool turns = false, interleaved = false;
  HeadRows q, k, v;
  TensorId cos = kNoTensor, sin = kNoTensor, positions = kNoTensor;
  TensorId past_k = kNoTensor, past_v = kNoTensor;
};

// Caches that may be read before the kernels ahead have ended: the run's inputs. What the queries are turned by is read
// there too.
std::vector<TemplateKernel::EarlyRead> early_reads(const Program& program, const Step& step,
                                                   const CachedTensors& tensors) {
  const auto given = [&](TensorId id, bool constant) {
    const StorageKind kind = id == kNoTensor ? StorageKind::kArena : program.storage_of(id).kind;
    return kind == StorageKind::kInput || (constant && kind == StorageKind::kConstant);
  };
  if (!given(step.past_k, false) || !given(step.past_v, false)) return {};
  if (step.turns && (!given(step.cos, true) || !given(step.sin, true))) return {};
  return {{step.past_k, tensors.k}, {step.past_v, tensors.v}};
}

// At most so much shared memory has the kernel whose groups of `lanes` threads have `held` keys at once.
int64_t step_memory_bytes(int64_t heads, int64_t lanes, int64_t held, int64_t element_bytes) {
  constexpr int64_t kWarps = kStepThreads / 32;
  const int64_t row = lanes * kPack;
  const int64_t rows = 2 * (held * kStepThreads * kPack + row) * element_bytes;
  const int64_t floats = row + heads * row * (2 + kWarps) + kWarps * heads * (held * 32 / lanes + 2);
  return rows + 4 * (floats + kMostStepSplits * (2 * heads + 1)) + 64;
}

// The attention of one token a batch and the places of its key and value in one kernel.
Status add_step(Lowering& to, const Node& node, DataType type, const Step& step, const CachedTensors& tensors) {
  StepParams params{.attention = step.params,
                    .turned = step.place.turned,
                    .cos_rows = step.place.cos_rows,
                    .room = step.place.room,
                    .new_k_batch = step.k.row,
                    .new_v_batch = step.v.row};
  CachedParams& p = params.attention;
  p.q_batch = p.q_row = step.q.row;
  const auto lanes = static_cast<int>(std::bit_ceil(static_cast<uint64_t>(p.depth / kPack)));
  // Wide heads take more shared memory.
  const int64_t sharing = p.heads / p.kv_heads, together = std::min<int64_t>(sharing, lanes > 16 ? 2 : 4);
  const int64_t row = lanes * kPack, turns = ceil_div(sharing, together),
                blocks = int64_t{p.batch} * p.kv_heads * turns;
  // About a block a processor, and enough keys in a split to be worth its part of the sum; a power of two divides the
  // results of a block.
  constexpr int64_t kWantedBlocks = 132, kLeastKeys = 64;
  const int64_t groups = kStepThreads / lanes;
  const int64_t wanted = std::min(kWantedBlocks / blocks, ceil_div(params.room, kLeastKeys));
  const auto splits = static_cast<int64_t>(
      std::bit_floor(static_cast<uint64_t>(std::clamp<int64_t>(wanted, 1, std::min(int64_t{kMostStepSplits}, row)))));
  p.splits = narrow(splits);
  p.split_keys = narrow(ceil_div(params.room, splits));
  int held = 4;
  while (held > 1 &&
         (p.split_keys <= held / 2 * groups ||
          step_memory_bytes(together, lanes, held, static_cast<int64_t>(data_type_size(type))) > kStepMemoryBytes))
    held /= 2;
  const bool plain = tensors.mask == kNoTensor && tensors.sink == kNoTensor && p.softcap == 0;
  return to.add_kernel(
      node,
      format("step of attention {} {}x{}x{} keys {} of {} heads splits {}", data_type_name(type), p.batch, p.heads,
             p.depth, params.room, p.kv_heads, p.splits),
      {.header = kStepHeader,
       .instance = template_instance("attend_step", type, together, lanes, held, plain, step.turns, step.interleaved),
       .params = kernel_params(params),
       .shape = {.grid_x = static_cast<unsigned>(p.kv_heads * turns),
                 .grid_y = static_cast<unsigned>(p.batch),
                 .grid_z = static_cast<unsigned>(p.splits),
                 .block_x = kStepThreads},
       .in_place = {},
       .text = "",
       .cluster_z = static_cast<unsigned>(p.splits),
       .early = early_reads(to.program(), step, tensors)},
      {step.q.tensor, step.k.tensor, step.v.tensor, step.cos, step.sin, tensors.mask, tensors.sink, tensors.lengths,
       tensors.total, step.positions},
      {tensors.k, tensors.v, tensors.y, kNoTensor});
}

}  // namespace

Status can_attend_grouped(const Graph& graph, const Node& node) {
  const Attributes attributes(node);
  const auto refuse = [&](bool has, const char* what) {
    return has ? unsupported("{} has {}.", node.label(graph), what) : Status();
  };
  const auto has = [&](size_t input) { return node.input(input) != kNoValue; };
  TENON_TRY(refuse(attributes.find_integer("sliding_window_cache").value_or(0) != 0, "a cache of the window alone"));
  TENON_TRY(refuse(attributes.find_integer("smooth_softmax").value_or(0) > 0 && !has(kSink), "a smooth softmax"));
  TENON_TRY(refuse(has(kKeyScale) || has(kValueScale), "a cache of codes"));
  TENON_TRY(refuse(has(kQueryNorm) || has(kKeyNorm), "norms of heads"));
  TENON_TRY(refuse(node.outputs.size() > 3 && node.outputs[3] != kNoValue, "an output of scores"));
  TENON_TRY(refuse(attributes.find_integer("causal").value_or(1) == 0, "attention to what follows"));
  TENON_TRY(refuse(has(kPastKey) != has(kPastValue), "one past alone"));
  // The kernels have heads of certain sizes: what follows from a size that may be any is no claim.
  const int64_t heads = attributes.find_integer("num_heads").value_or(0),
                kv_heads = attributes.find_integer("kv_num_heads").value_or(0);
  const Value& q = graph.value(node.inputs[kQuery]);
  const int64_t units = has(kKey) ? heads : heads + 2 * kv_heads;
  const bool known = q.has_rank && q.dims.size() == 3 && q.dims[2].known() && heads > 0 && kv_heads > 0;
  return refuse(!known || q.dims[2].value % units != 0 || !takes_cached(q.dims[2].value / units),
                "heads of a size that no kernel has");
}

bool takes_cached(int64_t depth) { return depth >= 8 && depth % 8 == 0 && depth <= 256; }

Status add_cached_attention(Lowering& to, const Node& node, DataType type, CachedParams params,
                            const CachedTensors& tensors, int64_t most_keys) {
  const int64_t sharing = params.heads / params.kv_heads;
  const int64_t together = std::min<int64_t>(sharing, 4), turns = ceil_div(sharing, together);
  const int lanes = static_cast<int>(std::bit_ceil(static_cast<uint64_t>(params.depth / 8)));
  const int64_t queries = int64_t{params.batch} * params.at.tokens;
  TENON_UNSUPPORTED_IF(queries > 65535 || params.kv_heads * turns > 65535, "{} has {} queries of {} heads.",
                       to.label(node), queries, params.heads);
  // Two blocks a processor; a split has enough keys to be worth its part of the sum.
  constexpr int64_t kWantedBlocks = 264, kLeastKeys = 32, kMostSplits = 64;
  const int64_t blocks = std::max<int64_t>(queries * params.kv_heads * turns, 1);
  const int64_t splits =
      std::clamp<int64_t>(std::min(ceil_div(kWantedBlocks, blocks), ceil_div(most_keys, kLeastKeys)), 1, kMostSplits);
  params.split_keys = narrow(std::max<int64_t>(ceil_div(ceil_div(most_keys, splits), 16) * 16, 16));
  params.splits = narrow(std::max<int64_t>(ceil_div(most_keys, params.split_keys), 1));
  const int most_turns = type == DataType::kFloat ? 4 : 8, groups = kCachedThreads / lanes;
  const int at_once = static_cast<int>(std::bit_ceil(static_cast<uint64_t>(ceil_div(params.split_keys, groups))));
  TensorId parts = kNoTensor, ends = kNoTensor;
  if (params.splits > 1) {
    const int64_t count = queries * params.heads * params.splits;
    TENON_TRY_ASSIGN(parts, to.program().add_tensor(DataType::kFloat, Shape{count, params.depth}));
    TENON_TRY_ASSIGN(ends, to.program().add_tensor(DataType::kFloat, Shape{count, 2}));
  }
  TENON_TRY(to.add_kernel(
      node,
      format("cached_attention {} {}x{}x{}x{} keys {} of {} heads splits {}", data_type_name(type), params.batch,
             params.heads, params.at.tokens, params.depth, most_keys, params.kv_heads, params.splits),
      {.header = kHeader,
       .instance = template_instance("attend_split", type, together, lanes, std::min(at_once, most_turns)),
       .params = kernel_params(params),
       .shape = {.grid_x = static_cast<unsigned>(params.splits),
                 .grid_y = static_cast<unsigned>(params.kv_heads * turns),
                 .grid_z = static_cast<unsigned>(queries),
                 .block_x = kCachedThreads},
       .in_place = {},
       .text = ""},
      {tensors.q, tensors.k, tensors.v, tensors.mask, tensors.sink, tensors.lengths, tensors.total},
      {params.splits > 1 ? kNoTensor : tensors.y, parts, ends}));
  if (params.splits == 1) return Status();
  return add_map(to, node, "join_splits", kHeader, template_instance("join_splits", type), params,
                 queries * params.heads * params.depth, {parts, ends, tensors.sink}, {tensors.y});
}

// Many queries are the tensor cores', where their kernel has all that is asked for.
Status add_attention(Lowering& to, const Node& node, DataType type, const CachedParams& from,
                     const CachedTensors& tensors, int64_t most_keys) {
  constexpr int32_t kManyQueries = 16;
  const bool plain = from.softcap == 0 && from.left < 0 && from.right < 0 && tensors.sink == kNoTensor &&
                     tensors.total == kNoTensor && from.mask_keys >= most_keys && most_keys <= INT32_MAX;
  if (from.at.tokens < kManyQueries || !plain) return add_cached_attention(to, node, type, from, tensors, most_keys);
  AttentionParams params;
  params.batch = from.batch, params.heads = from.heads, params.queries = from.at.tokens;
  params.keys = narrow(most_keys);
  params.head_size = params.value_size = from.depth;
  params.sharing = from.heads / from.kv_heads;
  params.q_batch = from.q_batch, params.q_head = from.q_head, params.q_row = from.q_row;
  params.k_batch = from.k_batch, params.k_head = from.k_head, params.k_row = from.k_row;
  params.v_batch = from.v_batch, params.v_head = from.v_head, params.v_row = from.v_row;
  params.y_batch = from.y_batch, params.y_head = from.y_head, params.y_row = from.y_row;
  params.mask_batch = from.mask_strides[0], params.mask_head = from.mask_strides[1];
  params.mask_query = from.mask_strides[2], params.mask_key = from.mask_strides[3];
  params.causal = from.causal;
  params.before = from.at.known_before;
  params.first_run = from.at.known_total == from.at.tokens ? 1 : 0;
  params.scale = from.scale;
  params.guarded = 1;
  to.program().add_op(std::make_unique<AttentionOp>(node.name, type, params,
                                                    AttentionOp::Tensors{.q = tensors.q,
                                                                         .k = tensors.k,
                                                                         .v = tensors.v,
                                                                         .mask = tensors.mask,
                                                                         .y = tensors.y,
                                                                         .lengths = tensors.lengths}));
  return Status();
}

Status lower_grouped_query(Lowering& to, const Node& node) {
  TENON_TRY(can_attend_grouped(to.graph(), node));
  const Attributes attributes(node);
  const DataType type = to.type_of(node.inputs[kQuery]);
  TENON_UNSUPPORTED_IF(!is_kernel_float(type), "{} is computed in {}.", to.label(node), data_type_name(type));
  const int64_t heads = attributes.find_integer("num_heads").value_or(0),
                kv_heads = attributes.find_integer("kv_num_heads").value_or(0);
  TENON_INVALID_IF(heads < 1 || kv_heads < 1 || heads % kv_heads != 0, "{} has {} heads of queries and {} of keys.",
                   to.label(node), heads, kv_heads);
  const Shape rows = to.value(node.inputs[kQuery]).shape();
  TENON_UNSUPPORTED_IF(rows.rank() != 3, "{} has queries {}.", to.label(node), rows.to_string());
  const bool packed = node.input(kKey) == kNoValue;
  const int64_t batch = rows[0], tokens = rows[1], depth = rows[2] / (packed ? heads + 2 * kv_heads : heads);
  TENON_UNSUPPORTED_IF(!takes_cached(depth) || depth * (packed ? heads + 2 * kv_heads : heads) != rows[2],
                       "{} has heads of {} elements.", to.label(node), depth);
  TENON_TRY(check_sizes(to, node, {batch * tokens, rows[2]}));
  HeadRows q, k, v;
  TENON_TRY_ASSIGN(q.tensor, to.plain(node.inputs[kQuery]));
  q.row = rows[2];
  if (packed) {
    const auto part = [&](int64_t head) {
      return HeadRows{
          to.program().add_view(q.tensor, type, rows, DeviceLayout::kPlain, head * depth * data_type_size(type)),
          rows[2]};
    };
    k = part(heads), v = part(heads + kv_heads);
  } else {
    TENON_INVALID_IF(node.input(kValue) == kNoValue, "{} has keys without values.", to.label(node));
    for (const auto& [input, to_rows] : {std::pair{size_t{kKey}, &k}, std::pair{size_t{kValue}, &v}}) {
      const Shape shape = to.value(node.inputs[input]).shape();
      TENON_INVALID_IF(shape != Shape({batch, tokens, kv_heads * depth}), "{} has keys or values {} for queries {}.",
                       to.label(node), shape.to_string(), rows.to_string());
      TENON_TRY_ASSIGN(to_rows->tensor, to.plain(node.inputs[input]));
      to_rows->row = kv_heads * depth;
    }
  }
  const Value& y = to.value(node.outputs[0]);
  TENON_UNSUPPORTED_IF(y.shape() != Shape({batch, tokens, heads * depth}), "{} makes {}.", to.label(node),
                       y.shape().to_string());

  PlaceParams place{
      .batch = narrow(batch), .heads = narrow(heads), .kv_heads = narrow(kv_heads), .depth = narrow(depth)};
  place.at.tokens = narrow(tokens);
  TensorId lengths = kNoTensor, total = kNoTensor;
  TENON_INVALID_IF(node.input(kLastPositions) == kNoValue || node.input(kTotal) == kNoValue ||
                       to.value(node.inputs[kLastPositions]).shape().element_count() != batch,
                   "{} needs the length of each of {} batches, and the largest.", to.label(node), batch);
  TENON_UNSUPPORTED_IF(to.type_of(node.inputs[kLastPositions]) != DataType::kInt32 ||
                           to.type_of(node.inputs[kTotal]) != DataType::kInt32,
                       "{} has lengths of {}.", to.label(node),
                       data_type_name(to.type_of(node.inputs[kLastPositions])));
  TENON_TRY_ASSIGN(lengths, to.plain(node.inputs[kLastPositions]));
  if (to.constant(node.inputs[kTotal]) != nullptr) {
    TENON_TRY_ASSIGN(const std::vector<int64_t> known, to.integers(node, kTotal));
    TENON_INVALID_IF(known.size() != 1, "{} has {} largest lengths.", to.label(node), known.size());
    place.at.known_total = static_cast<int32_t>(std::clamp<int64_t>(known[0], 0, INT32_MAX));
  } else {
    TENON_TRY_ASSIGN(total, to.plain(node.inputs[kTotal]));
  }

  const auto room_of = [&](size_t output, size_t past) -> Result<int64_t> {
    const ValueId id =
        output < node.outputs.size() && node.outputs[output] != kNoValue ? node.outputs[output] : node.input(past);
    if (id == kNoValue) return place.at.known_total;
    const Shape shape = to.value(id).shape();
    TENON_UNSUPPORTED_IF(shape.rank() != 4, "{} has a cache {}.", to.label(node), shape.to_string());
    return shape[2];
  };
  TENON_TRY_ASSIGN(const int64_t room, room_of(1, kPastKey));
  TENON_UNSUPPORTED_IF(room < tokens, "{} has a cache of {} positions for {} tokens.", to.label(node), room, tokens);
  const Shape cache{batch, kv_heads, room, depth};
  TENON_TRY_ASSIGN(const TensorId k_cache,
                   make_present(to, node, 1, node.input(kPastKey), cache, place.at, lengths, total));
  TENON_TRY_ASSIGN(const TensorId v_cache,
                   make_present(to, node, 2, node.input(kPastValue), cache, place.at, lengths, total));
  TENON_TRY_ASSIGN(const TensorId out, to.make(node.outputs[0]));
  if (batch * tokens == 0) return Status();

  const bool turns = attributes.find_integer("do_rotary").value_or(0) != 0;
  const bool interleaved = attributes.find_integer("rotary_interleaved").value_or(0) != 0;
  TensorId cos = kNoTensor, sin = kNoTensor, positions = kNoTensor;
  if (turns) {
    TENON_INVALID_IF(node.input(kCos) == kNoValue || node.input(kSin) == kNoValue, "{} lacks cosines or sines.",
                     to.label(node));
    const Shape angles = to.value(node.inputs[kCos]).shape();
    TENON_INVALID_IF(
        angles != to.value(node.inputs[kSin]).shape() || angles.rank() != 2 || angles[0] < 1 || 2 * angles[1] > depth,
        "{} turns heads of {} elements by {}.", to.label(node), depth, angles.to_string());
    TENON_TRY_ASSIGN(cos, to.plain(node.inputs[kCos]));
    TENON_TRY_ASSIGN(sin, to.plain(node.inputs[kSin]));
    TENON_UNSUPPORTED_IF(to.program().tensor(cos).type != type || to.program().tensor(sin).type != type,
                         "{} has cosines of {}.", to.label(node), data_type_name(to.program().tensor(cos).type));
    place.turned = narrow(2 * angles[1]);
    place.cos_rows = static_cast<int32_t>(std::min<int64_t>(angles[0], INT32_MAX));
    if (node.input(kPositions) != kNoValue) {
      TENON_UNSUPPORTED_IF(to.type_of(node.inputs[kPositions]) != DataType::kInt64 ||
                               to.value(node.inputs[kPositions]).shape().element_count() != batch * tokens,
                           "{} has positions {} of {}.", to.label(node),
                           to.value(node.inputs[kPositions]).shape().to_string(),
                           data_type_name(to.type_of(node.inputs[kPositions])));
      TENON_TRY_ASSIGN(positions, to.plain(node.inputs[kPositions]));
    }
  }
  place.room = narrow(room);
  place.q_row = narrow(q.row), place.k_row = narrow(k.row), place.v_row = narrow(v.row);
  const std::array<TensorId, 5> packed_reads = {q.tensor, k.tensor, v.tensor, cos, sin};
  // A pack lies in one half of what is turned, and begins at a multiple of its size.
  const bool whole = place.turned % (interleaved ? kPack : 2 * kPack) == 0 &&
                     std::all_of(packed_reads.begin(), packed_reads.end(), [&](TensorId id) {
                       return id == kNoTensor || to.program().tensor(id).offset_bytes % 16 == 0;
                     });

  CachedParams params{.at = place.at,
                      .batch = place.batch,
                      .heads = place.heads,
                      .kv_heads = place.kv_heads,
                      .depth = place.depth,
                      .causal = 1,
                      .mask_keys = INT32_MAX};
  const float scale = attributes.find_number("scale").value_or(0);
  params.scale = scale != 0 ? scale : 1 / std::sqrt(static_cast<float>(depth));
  params.softcap = attributes.find_number("softcap").value_or(0);
  const int64_t window = attributes.find_integer("local_window_size").value_or(-1);
  if (window > 0) params.left = static_cast<int32_t>(std::min<int64_t>(window - 1, INT32_MAX));
  CachedTensors tensors{.k = k_cache, .v = v_cache, .lengths = lengths, .total = total, .y = out};
  params.q_head = depth;
  params.k_batch = params.v_batch = kv_heads * room * depth;
  params.k_head = params.v_head = room * depth;
  params.k_row = params.v_row = depth;
  params.y_batch = tokens * heads * depth, params.y_head = depth, params.y_row = heads * depth;
  if (node.input(kBias) != kNoValue) {
    const Shape bias = to.value(node.inputs[kBias]).shape();
    TENON_UNSUPPORTED_IF(bias.rank() != 4 || to.type_of(node.inputs[kBias]) != type, "{} has a bias {} of {}.",
                         to.label(node), bias.to_string(), data_type_name(to.type_of(node.inputs[kBias])));
    const std::array<int64_t, 4> wanted = {batch, heads, tokens, bias[3]};
    int64_t stride = 1;
    for (int i = 3; i >= 0; --i) {
      TENON_UNSUPPORTED_IF(bias[i] != 1 && bias[i] != wanted[i], "{} has a bias {}.", to.label(node), bias.to_string());
      params.mask_strides[i] = bias[i] == 1 && i != 3 ? 0 : stride;
      stride *= bias[i];
    }
    params.mask_keys = static_cast<int32_t>(std::min<int64_t>(bias[3], INT32_MAX));
    TENON_TRY_ASSIGN(tensors.mask, to.plain(node.inputs[kBias]));
  }
  if (node.input(kSink) != kNoValue) {
    TENON_UNSUPPORTED_IF(
        to.type_of(node.inputs[kSink]) != type || to.value(node.inputs[kSink]).shape().element_count() != heads,
        "{} has a sink of {}.", to.label(node), data_type_name(to.type_of(node.inputs[kSink])));
    TENON_TRY_ASSIGN(tensors.sink, to.plain(node.inputs[kSink]));
  }
  if (to.options().clusters && tokens == 1 && whole && batch <= 65535) {
    Step step{.place = place,
              .params = params,
              .turns = turns,
              .interleaved = interleaved,
              .q = q,
              .k = k,
              .v = v,
              .cos = cos,
              .sin = sin,
              .positions = positions};
    if (node.input(kPastKey) != kNoValue) {
      TENON_TRY_ASSIGN(step.past_k, to.plain(node.inputs[kPastKey]));
      TENON_TRY_ASSIGN(step.past_v, to.plain(node.inputs[kPastValue]));
    }
    return add_step(to, node, type, step, tensors);
  }
  const int pack = whole ? kPack : 1;
  place.count = batch * tokens * ((turns ? heads : 0) + 2 * kv_heads) * depth / pack;
  TENON_UNSUPPORTED_IF(place.count > UINT32_MAX, "{} places {} elements.", to.label(node), place.count * pack);
  tensors.q = q.tensor;
  if (turns) {
    TENON_TRY_ASSIGN(tensors.q, to.program().add_tensor(type, Shape{batch, tokens, heads, depth}));
  }
  TENON_TRY(add_map(to, node, turns ? "turn and place heads" : "place heads", kHeader,
                    template_instance("place_heads", type, turns, interleaved, pack), place, place.count,
                    {q.tensor, k.tensor, v.tensor, cos, sin, lengths, total, positions},
                    {turns ? tensors.q : kNoTensor, k_cache, v_cache}));
  params.q_row = turns ? heads * depth : q.row;
  params.q_batch = params.q_row * tokens;
  return add_attention(to, node, type, params, tensors, room);
}

Status lower_rotary(Lowering& to, const Node& node) {
  const Shape x = to.value(node.inputs[0]).shape();
  TENON_TRY_ASSIGN(const RotaryDesc desc, read_rotary(node, input_shapes(to.graph(), node)));
  const DataType type = to.type_of(node.inputs[0]);
  TENON_UNSUPPORTED_IF(
      !is_kernel_float(type) || to.type_of(node.inputs[desc.cos]) != type || to.type_of(node.inputs[desc.sin]) != type,
      "{} turns {} by {}.", to.label(node), data_type_name(type), data_type_name(to.type_of(node.inputs[desc.cos])));
  const float scale = Attributes(node).find_number("scale").value_or(1);
  TENON_UNSUPPORTED_IF(scale != 1 && scale != 0, "{} has a scale of {}.", to.label(node), scale);
  TENON_TRY(check_sizes(to, node, {desc.batch * desc.tokens, desc.heads * desc.depth, desc.rows}));
  TurnParams params{.tokens = narrow(desc.tokens),
                    .heads = narrow(desc.heads),
                    .depth = narrow(desc.depth),
                    .turned = narrow(desc.turned),
                    .rows = narrow(desc.rows),
                    .batch_stride = desc.at.batch,
                    .head_stride = desc.at.head,
                    .row_stride = desc.at.row,
                    .count = x.element_count()};
  params.follows = desc.positions == RotaryDesc::Positions::kFollowing ? 1 : 0;
  TensorId ids = kNoTensor;
  if (desc.ids != kNoInput) {
    TENON_UNSUPPORTED_IF(to.type_of(node.inputs[desc.ids]) != DataType::kInt64, "{} has positions of {}.",
                         to.label(node), data_type_name(to.type_of(node.inputs[desc.ids])));
    TENON_TRY_ASSIGN(ids, to.plain(node.inputs[desc.ids]));
  }
  TENON_TRY_ASSIGN(const TensorId from, to.plain(node.inputs[0]));
  TENON_TRY_ASSIGN(const TensorId cos, to.plain(node.inputs[desc.cos]));
  TENON_TRY_ASSIGN(const TensorId sin, to.plain(node.inputs[desc.sin]));
  TENON_TRY_ASSIGN(const TensorId out, to.make(node.outputs[0]));
  return add_map(to, node, "turn heads", kHeader, template_instance("turn_heads", type, desc.interleaved), params,
                 params.count, {from, cos, sin, ids}, {out});
}

}  // namespace tenon::cuda
