// Instance and group normalisation of images with channels last, and what is computed with it.
#include <algorithm>
#include <array>
#include <bit>
#include <numeric>

#include "base/format.h"
#include "ep/cuda/compute/activation.h"
#include "ep/cuda/compute/kernel_template.h"
#include "ep/cuda/ops/narrow_sizes.h"
#include "ep/cuda/ops/norm/channels_last.h"
#include "ops/elementwise.h"
#include "ops/unary.h"

namespace tenon::cuda {

namespace {

int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }
int64_t power_of(int64_t value) { return static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(value))); }

// Lanes that put a group's moments together; a block has a group for each of them.
constexpr int64_t kWideLanes = 32, kNarrowLanes = 8;

// Neighbours that are read together.
constexpr int64_t kLineBytes = 64;

// The widths, in channels, that a block's slice may have, narrowest first: whole groups and whole vectors.
std::vector<int64_t> slice_widths(const GroupNormDesc& desc, int64_t vector, int64_t threads) {
  const int64_t least = std::lcm(desc.group_channels(), vector);
  std::vector<int64_t> widths;
  for (int64_t width = least; width <= desc.channels && width / vector <= threads; width += least)
    if (desc.channels % width == 0 && width / desc.group_channels() <= threads / kNarrowLanes) widths.push_back(width);
  return widths;
}

struct Problem {
  GroupNormDesc desc;
  int64_t element_bytes = 0, vector = 1;
};

ChannelsLastNormParams params_of(const Problem& problem, int64_t width, int64_t threads) {
  const GroupNormDesc& desc = problem.desc;
  const int64_t vectors = width / problem.vector;
  const double count = static_cast<double>(desc.inner) * static_cast<double>(desc.group_channels());
  return {.slices = make_divisor(desc.channels / width),
          .vectors = make_divisor(vectors),
          .group_channels = make_divisor(desc.group_channels()),
          .channels = narrow(desc.channels),
          .pixels = narrow(desc.inner),
          .groups = narrow(desc.groups),
          .slice_groups = narrow(width / desc.group_channels()),
          .rows = narrow(threads / vectors),
          .scale_each_group = desc.scale_each_group ? 1 : 0,
          .epsilon = desc.epsilon,
          .inverse_count = static_cast<float>(1 / count)};
}

// Chunks of whole turns of the block, as many as make `wanted` blocks, if there are so many turns. Returns the blocks.
int64_t set_chunks(ChannelsLastNormParams& params, int64_t images, int64_t turns, int64_t wanted) {
  const int64_t slices = images * static_cast<int64_t>(params.slices.size), turn = params.rows * turns;
  const int64_t all = ceil_div(params.pixels, turn), each = ceil_div(all, std::max<int64_t>(wanted / slices, 1));
  const int64_t chunks = ceil_div(all, each);
  params.chunks = make_divisor(chunks);
  params.chunk_pixels = narrow(std::min<int64_t>(each * turn, INT32_MAX));
  return slices * chunks;
}

bool plan_once(const Problem& problem, ImageNormPlan& plan) {
  // A block that reads more takes longer than a second kernel, unless all multiprocessors have such blocks.
  constexpr int64_t kMostBytes = int64_t{48} << 10, kMostBytesOfMany = int64_t{64} << 10, kMany = 128;
  const GroupNormDesc& desc = problem.desc;
  // More turns would be longer to compile than to run.
  for (const auto& [threads, most_turns] : {std::pair<int64_t, int64_t>{256, 4}, {512, 8}}) {
    const std::vector<int64_t> widths = slice_widths(desc, problem.vector, threads);
    if (widths.empty()) continue;
    const auto wide = std::find_if(widths.begin(), widths.end(),
                                   [&](int64_t width) { return width * problem.element_bytes >= kLineBytes; });
    const int64_t width = wide != widths.end() ? *wide : widths.back();
    ChannelsLastNormParams params = params_of(problem, width, threads);
    const int64_t turns = ceil_div(desc.inner, params.rows), slices = desc.batch * (desc.channels / width);
    const int64_t most_bytes = slices >= kMany ? kMostBytesOfMany : kMostBytes;
    if (turns > most_turns || desc.inner * width * problem.element_bytes > most_bytes) continue;
    plan.once = true;
    plan.threads = threads;
    plan.turns = power_of(turns);
    plan.params = params;
    plan.params.chunk_pixels = params.pixels;
    plan.blocks = slices;
    return true;
  }
  return false;
}

// Narrow enough for so many blocks that few chunks of each group are to be put together, and no narrower.
int64_t moments_width(const Problem& problem, const std::vector<int64_t>& widths, int64_t slices) {
  int64_t best = 0;
  for (int64_t width : widths) {
    if (best != 0 && problem.desc.batch * (problem.desc.channels / width) < slices) break;
    if (width * problem.element_bytes >= kLineBytes || width == widths.back()) best = width;
  }
  return best;
}

int64_t lanes_of(const ChannelsLastNormParams& params, int64_t threads) {
  return params.slice_groups <= threads / kWideLanes ? kWideLanes : kNarrowLanes;
}

bool plan_twice(const Problem& problem, ImageNormPlan& plan) {
  // The moments of a turn are joined to those before; what is normalised needs no more than to be in flight.
  constexpr int64_t kMomentTurns = 4, kTurns = 2, kMostVectors = 64, kMomentBlocks = 256, kMostParts = 64,
                    kBlocks = 1056;
  const std::vector<int64_t> widths = slice_widths(problem.desc, problem.vector, plan.threads);
  int64_t best = 0, best_busy = 0;
  for (int64_t width : widths) {
    const int64_t vectors = width / problem.vector;
    if (vectors > kMostVectors && best != 0) break;
    const int64_t busy = plan.threads / vectors * vectors;
    // A little less of a block is worth longer lines of memory.
    if (busy * 10 >= best_busy * 9) best = width, best_busy = std::max(best_busy, busy);
  }
  if (best == 0) return false;
  plan.turns = kTurns;
  plan.params = params_of(problem, best, plan.threads);
  plan.blocks = set_chunks(plan.params, problem.desc.batch, kTurns, kBlocks);
  const int64_t width = moments_width(problem, widths, kMomentBlocks / kMostParts);
  const int64_t slices = problem.desc.batch * (problem.desc.channels / width);
  plan.moments = params_of(problem, width, plan.threads);
  plan.moment_blocks =
      set_chunks(plan.moments, problem.desc.batch, kMomentTurns, std::min(kMomentBlocks, kMostParts * slices));
  plan.moment_turns = kMomentTurns;
  plan.moment_lanes = lanes_of(plan.moments, plan.threads);
  plan.params.part_pixels = plan.moments.chunk_pixels;
  plan.params.part_count = static_cast<int32_t>(plan.moments.chunks.size);
  return true;
}

}  // namespace

std::optional<ImageNormPlan> plan_image_norm(const GroupNormDesc& desc, DataType type) {
  if (!is_kernel_float(type) || desc.batch == 0 || desc.channels == 0 || desc.inner == 0 ||
      desc.batch * desc.channels > INT32_MAX / desc.inner)
    return std::nullopt;
  Problem problem{.desc = desc, .element_bytes = static_cast<int64_t>(data_type_size(type))};
  problem.vector = 16 / problem.element_bytes;
  while (desc.channels % problem.vector != 0) problem.vector /= 2;
  ImageNormPlan plan;
  if (!plan_once(problem, plan) && !plan_twice(problem, plan)) return std::nullopt;
  plan.vector = problem.vector;
  plan.whole = desc.group_channels() % plan.vector == 0;
  plan.lanes = lanes_of(plan.params, plan.threads);
  return plan;
}

namespace {

// A norm and what is computed with it: y = chain((x + addend - mean) * ..., other).
struct FusedNorm {
  const Node* norm = nullptr;
  ValueId x = kNoValue, addend = kNoValue;  // addend: a number for each channel, or for each of each image
  const Node* sum = nullptr;                // that adds it
  const Node* tail = nullptr;               // the last one of the chain; the norm where there is none
  std::vector<const Node*> nodes;           // of the chain
  std::vector<std::string> lines;           // of its text; the number is `v`, the other operand's is `o`
  std::string names;
  ValueId other = kNoValue;
};

std::string chain_text(const FusedNorm& fused, const std::string& name) {
  std::string text = format(
      "namespace tenon::cuda::device {{\nstruct {} {{\n"
      "  static __device__ __forceinline__ float of(float v, float o) {{\n",
      name);
  for (const std::string& line : fused.lines) text += "    v = " + line + ";\n";
  return text + "    return v;\n  }\n};\n}\n";
}

// Names the chain, whose text is in no other instance.
void set_chain(const FusedNorm& fused, std::string_view kernel, const std::string& arguments, TemplateKernel& made) {
  std::string chain = "tenon::cuda::device::NormAlone";
  if (!fused.lines.empty()) {
    const std::string body = chain_text(fused, "");
    const std::string name =
        format("norm_chain_{:016x}", std::hash<std::string>()(body + std::string(kernel) + arguments));
    made.text = chain_text(fused, name);
    chain = "tenon::cuda::device::" + name;
  }
  made.instance = format("tenon::cuda::device::{}<{}, {}>", kernel, chain, arguments);
}

Result<bool> lower_fused(Lowering& to, const FusedNorm& fused) {
  const Node& node = *fused.norm;
  if (!to.has_channels_last(fused.x)) return false;
  const Shape x = to.value(fused.x).shape();
  const DataType type = to.type_of(fused.x);
  TENON_TRY_ASSIGN(const GroupNormDesc desc, read_group_norm(node, x));
  std::optional<ImageNormPlan> plan = plan_image_norm(desc, type);
  if (!plan || x.rank() < 3) return false;
  TENON_TRY_ASSIGN(const TensorId from, to.channels_last(fused.x));
  TensorId addend = kNoTensor, other = kNoTensor;
  if (fused.addend != kNoValue) {
    TENON_TRY_ASSIGN(addend, to.plain(fused.addend));
    if (to.program().tensor(addend).shape[0] != 1) plan->params.addend_image = plan->params.channels;
    plan->moments.addend_image = plan->params.addend_image;
  }
  if (fused.other != kNoValue) {
    TENON_TRY_ASSIGN(other, to.channels_last(fused.other));
  }
  std::array<TensorId, 2> scales;
  for (size_t i = 0; i < 2; ++i) {
    const ValueId id = node.input(i + 1);
    TENON_TRY_ASSIGN(scales[i], to.constant(id) != nullptr ? to.float_constant(id) : to.plain(id));
  }
  TENON_TRY_ASSIGN(const TensorId out, to.make(fused.tail->outputs[0], DeviceLayout::kChannelsLast));
  const auto type_of = [&](TensorId id) { return id == kNoTensor ? type : to.program().tensor(id).type; };
  const std::string header = "ep/cuda/ops/norm/channels_last.cuh";
  const auto threads = static_cast<unsigned>(plan->threads);
  TemplateKernel kernel{
      .header = header,
      .params = kernel_params(plan->params),
      .shape = {.grid_x = static_cast<unsigned>(plan->blocks), .block_x = threads},
  };
  std::string types;
  for (DataType each : {type, type_of(scales[0]), type_of(scales[1]), type_of(other)})
    types += template_type(each) + ", ";
  const std::string sizes = format("{}, {}, {}", plan->threads, plan->turns, plan->vector);
  const std::string what = "image_norm" + fused.names;
  if (plan->once) {
    set_chain(fused, "norm_of_slices", format("{}{}, {}, {}", types, sizes, plan->whole, plan->lanes), kernel);
    kernel.in_place = {true, false, false, false, true};
    TENON_TRY(to.add_kernel(node, what, std::move(kernel), {from, addend, scales[0], scales[1], other}, {out}));
    return true;
  }
  TENON_TRY_ASSIGN(
      const TensorId moments,
      to.program().add_tensor(DataType::kFloat, Shape{desc.batch, desc.groups, int64_t{plan->params.part_count}, 2}));
  TENON_TRY(to.add_kernel(node, "image_moments",
                          {.header = header,
                           .instance = template_instance("moments_of_chunks", type, plan->threads, plan->moment_turns,
                                                         plan->vector, plan->whole, plan->moment_lanes),
                           .params = kernel_params(plan->moments),
                           .shape = {.grid_x = static_cast<unsigned>(plan->moment_blocks), .block_x = threads},
                           .in_place = {}},
                          {from, addend}, {moments}));
  set_chain(fused, "norm_by_moments", format("{}{}, {}", types, sizes, plan->lanes), kernel);
  kernel.in_place = {true, false, false, false, false, true};
  TENON_TRY(to.add_kernel(node, what, std::move(kernel), {from, addend, moments, scales[0], scales[1], other}, {out}));
  return true;
}

// The operands of an addition of a number for each channel.
bool find_addend(Lowering& to, FusedNorm& fused) {
  const ValueId x = fused.norm->inputs[0];
  const Node* const sum = to.producer(x);
  if (sum == nullptr || sum->op_type != "Add" || !sum->domain.empty() || sum->inputs.size() != 2 || !to.read_once(x) ||
      to.is_lowered_by_other(*sum))
    return false;
  const Shape shape = to.value(x).shape();
  for (size_t side = 0; side < 2; ++side) {
    const ValueId image = sum->inputs[side], addend = sum->inputs[1 - side];
    if (image == kNoValue || addend == kNoValue || !to.value(image).fully_known() || !to.value(addend).fully_known())
      return false;
    if (to.joined_producer(image) != nullptr || to.joined_producer(addend) != nullptr) return false;
    const Shape of_image = to.value(image).shape(), numbers = to.value(addend).shape();
    if (of_image != shape || numbers.rank() != shape.rank() || numbers[1] != shape[1] ||
        (numbers[0] != 1 && numbers[0] != shape[0]) || numbers.element_count() != numbers[0] * numbers[1])
      continue;
    if (to.constant(image) != nullptr || to.part(image) != nullptr) continue;
    fused.x = image;
    fused.addend = addend;
    fused.sum = sum;
    return true;
  }
  return false;
}

// The step as a line of text. False where it is none that the kernel can take.
bool add_step(const Lowering& to, const Node& step, ValueId from, FusedNorm& fused) {
  if (is_unary(step)) {
    if (step.op_type == "Clip" && step.domain.empty() && read_clip(step).bounds_are_inputs) return false;
    const Result<UnaryDesc> unary = read_unary(step);
    if (!unary.ok()) return false;
    fused.lines.push_back(unary_expression(*unary, "v"));
    fused.names += " " + (step.domain == "tenon" ? std::string(row_of(unary->function).text) : step.op_type);
    return true;
  }
  if ((step.op_type != "Add" && step.op_type != "Mul") || !step.domain.empty() || step.inputs.size() != 2 ||
      fused.other != kNoValue)
    return false;
  const ValueId other = step.inputs[0] == from ? step.inputs[1] : step.inputs[0];
  if (other == from || other == kNoValue || to.constant(other) != nullptr || to.joined_producer(other) != nullptr ||
      !to.value(other).fully_known() || to.value(other).shape() != to.value(from).shape() ||
      to.type_of(other) != to.type_of(from))
    return false;
  fused.other = other;
  fused.lines.emplace_back(step.op_type == "Add" ? "v + o" : "v * o");
  fused.names += " " + step.op_type;
  return true;
}

void find_chain(const Lowering& to, FusedNorm& fused) {
  for (;;) {
    const ValueId out = fused.tail->outputs[0];
    if (!to.read_once(out)) return;
    const Node& step = to.graph().nodes[to.readers(out)[0]];
    if (to.is_claimed(step) || step.outputs.size() != 1 || !is_elementwise(to.graph(), step) ||
        !to.value(step.outputs[0]).fully_known() || to.value(step.outputs[0]).shape() != to.value(out).shape() ||
        to.type_of(step.outputs[0]) != to.type_of(out) || !add_step(to, step, out, fused))
      return;
    fused.tail = &step;
    fused.nodes.push_back(&step);
    if (!to.joined(step)) return;
  }
}

Status lower_parts(Lowering& to, const FusedNorm& fused) {
  TENON_TRY_ASSIGN(const bool lowered, lower_fused(to, fused));
  if (lowered) return Status();
  if (fused.sum != nullptr) TENON_TRY(lower_elementwise(to, *fused.sum));
  TENON_TRY(lower_group_norm(to, *fused.norm));
  return fused.tail != fused.norm ? lower_elementwise(to, *fused.tail) : Status();
}

}  // namespace

Result<bool> lower_image_norm(Lowering& to, const Node& node) {
  return lower_fused(to, {.norm = &node, .x = node.inputs[0], .tail = &node});
}

void find_group_norms(Lowering& to) {
  for (const Node& node : to.graph().nodes) {
    if ((node.op_type != "InstanceNormalization" && node.op_type != "GroupNormalization") || !node.domain.empty() ||
        to.is_claimed(node) || node.outputs.size() != 1 || node.input(2) == kNoValue)
      continue;
    const Value &x = to.value(node.inputs[0]), &y = to.value(node.outputs[0]);
    if (!x.fully_known() || !y.fully_known() || x.dims.size() < 3) continue;
    const Result<GroupNormDesc> desc = read_group_norm(node, x.shape());
    if (!desc.ok() || !plan_image_norm(*desc, to.type_of(node.inputs[0]))) continue;
    const auto fits = [&](ValueId id) {
      return to.value(id).fully_known() && to.value(id).shape().element_count() == desc->parameters();
    };
    if (!fits(node.inputs[1]) || !fits(node.inputs[2])) continue;
    FusedNorm fused{.norm = &node, .x = node.inputs[0], .tail = &node};
    (void)find_addend(to, fused);
    find_chain(to, fused);
    if (fused.sum == nullptr && fused.nodes.empty()) continue;
    if (fused.sum != nullptr) to.lower_elsewhere(*fused.sum);
    to.lower_elsewhere(node);
    for (const Node* step : fused.nodes) to.lower_elsewhere(*step);
    if (to.joined(*fused.tail)) to.end_chain(*fused.tail);
    to.lower_by(*fused.tail, [&to, fused] { return lower_parts(to, fused); });
  }
}

}  // namespace tenon::cuda
