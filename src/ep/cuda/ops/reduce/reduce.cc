#include "ep/cuda/ops/reduce/reduce.h"

#include <algorithm>
#include <bit>

#include "ep/cuda/compute/kernel_template.h"

namespace tenon::cuda {

namespace {

constexpr int64_t kThreads = kReduceThreads;

bool chooses(const Reduction& reduction) {
  return reduction.kind == ReduceKind::kArgMax || reduction.kind == ReduceKind::kArgMin;
}

// Truth values are reduced as the numbers 0 and 1.
DataType number_type(DataType type) { return type == DataType::kBool ? DataType::kUint8 : type; }

int64_t power_above(int64_t value) { return static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(value))); }

// The work of a block's threads: `lanes` share each of `results`.
struct Mapping {
  Loops kept, reduced;  // strides of the input first
  bool beside = false;  // results lie beside each other in the input: neighbours are threads of different results
  int64_t lanes = 1, results = kThreads;
  int64_t vector = 1;              // elements of the reduced dimensions that are read at once
  int64_t outputs = 1, steps = 1;  // steps: vectors of a result
};

Mapping map_threads(const Reduction& reduction) {
  Mapping map;
  map.kept = join_dims(reduction.dims, {reduction.strides, reduction.out_strides}, 0);
  map.reduced = join_dims(reduction.reduced, {reduction.reduced_strides}, 0);
  map.outputs = count_of(reduction.dims);
  const int64_t inner = count_of(reduction.reduced);
  map.steps = reduction.candidates != 0 ? reduction.candidates : inner;
  if (map.outputs == 0 || inner == 0) return map;
  const std::vector<int64_t>& kept = map.kept.strides[0];
  map.beside = !kept.empty() && kept.back() == 1;
  if (map.beside) {
    const int64_t most = kThreads / std::min<int64_t>(power_above(map.kept.dims.back()), 32);
    map.lanes =
        static_cast<int64_t>(std::bit_floor(static_cast<uint64_t>(std::clamp<int64_t>(map.steps / 4, 1, most))));
  } else {
    const std::vector<int64_t>& strides = map.reduced.strides[0];
    if (reduction.candidates == 0 && !strides.empty() && strides.back() == 1) {
      map.vector = static_cast<int64_t>(16 / data_type_size(number_type(reduction.type)));
      const auto divides = [&](int64_t value) { return value % map.vector == 0; };
      while (!divides(map.reduced.dims.back()) || !std::all_of(kept.begin(), kept.end(), divides) ||
             !std::all_of(strides.begin(), strides.end() - 1, divides))
        map.vector /= 2;
    }
    map.steps /= map.vector;
    // Four vectors a thread keep memory busy; a few threads together read whole sectors.
    map.lanes =
        std::clamp<int64_t>(power_above((map.steps + 3) / 4), std::min<int64_t>(power_above(map.steps), 8), kThreads);
  }
  map.results = kThreads / map.lanes;
  return map;
}

Status check(const Reduction& reduction) {
  const std::string type = compute_type(number_type(reduction.type));
  const bool real = type == "float" || type == "double";
  TENON_UNSUPPORTED_IF(type.empty() || compute_type(number_type(reduction.out_type)).empty(),
                       "Kernels cannot reduce {}.", data_type_name(reduction.type));
  TENON_UNSUPPORTED_IF((reduction.kind == ReduceKind::kLogSum || reduction.kind == ReduceKind::kLogSumExp) && !real,
                       "Kernels take no logarithm of {}.", data_type_name(reduction.type));
  TENON_UNSUPPORTED_IF(reduction.type == DataType::kBool && reduction.kind != ReduceKind::kMax &&
                           reduction.kind != ReduceKind::kMin && !chooses(reduction),
                       "Kernels do not add up {}.", data_type_name(reduction.type));
  return Status();
}

}  // namespace

int64_t reduction_parts(const Reduction& reduction) {
  if (reduction.kind == ReduceKind::kLogSumExp) return 1;
  // The blocks that keep every device busy, and the least steps that a thread of a part takes.
  constexpr int64_t kBlocks = 1024, kLeastSteps = 8;
  const Mapping map = map_threads(reduction);
  const int64_t blocks = (map.outputs + map.results - 1) / map.results;
  if (map.outputs == 0 || blocks * 2 > kBlocks) return 1;
  return std::clamp<int64_t>(map.steps / map.lanes / kLeastSteps, 1, kBlocks / blocks);
}

ReduceKind first_reduction(ReduceKind kind) {
  if (kind == ReduceKind::kMean || kind == ReduceKind::kLogSum) return ReduceKind::kSum;
  return kind == ReduceKind::kL2 ? ReduceKind::kSumSquare : kind;
}

ReduceKind second_reduction(ReduceKind kind) {
  if (kind == ReduceKind::kL1 || kind == ReduceKind::kSumSquare) return ReduceKind::kSum;
  return kind == ReduceKind::kL2 ? ReduceKind::kRoot : kind;
}

Result<TemplateKernel> reduction_kernel(const Reduction& reduction) {
  TENON_TRY(check(reduction));
  const Mapping map = map_threads(reduction);
  std::vector<int64_t> dims = reduction.dims, strides = reduction.strides;
  dims.insert(dims.end(), reduction.reduced.begin(), reduction.reduced.end());
  strides.insert(strides.end(), reduction.reduced_strides.begin(), reduction.reduced_strides.end());
  const bool wide = needs_wide_index(dims, strides, 0);

  ReduceParams params{.outputs = map.outputs,
                      .steps = map.steps,
                      .steps_a_part = (map.steps + reduction.parts - 1) / reduction.parts,
                      .count = reduction.count != 0 ? reduction.count : count_of(reduction.reduced),
                      .candidates = reduction.candidates,
                      .parts = make_divisor(reduction.parts),
                      .lane_bits = static_cast<uint32_t>(std::countr_zero(static_cast<uint64_t>(map.lanes))),
                      .beside = map.beside ? 1 : 0};
  TENON_TRY_ASSIGN(params.kept, loop_params<2>(map.kept));
  Loops reduced = map.reduced;
  if (map.vector > 1) reduced.dims.back() /= map.vector, reduced.strides[0].back() = map.vector;
  TENON_TRY_ASSIGN(params.reduced, loop_params<1>(reduced));

  TENON_TRY_ASSIGN(const unsigned blocks, blocks_of(map.outputs, map.results));
  TENON_UNSUPPORTED_IF(int64_t{blocks} * reduction.parts > INT32_MAX, "A reduction to {} numbers in {} parts.",
                       map.outputs, reduction.parts);
  const DataType in = number_type(reduction.type), out = number_type(reduction.out_type);
  const TemplateEnum kind{"tenon::cuda::ReduceKind", static_cast<int>(reduction.kind)};
  const size_t rank = map.reduced.dims.size();
  std::string instance;
  if (!chooses(reduction)) {
    instance = template_instance("reduce", in, out, kind, rank, map.vector, wide);
  } else if (reduction.candidates == 0) {
    instance = template_instance("choose", in, out, kind, reduction.last, rank, map.vector, wide);
  } else {
    instance = template_instance("choose_candidate", in, out, kind, reduction.last, rank, wide);
  }
  return TemplateKernel{.header = "ep/cuda/ops/reduce/reduce.cuh",
                        .instance = std::move(instance),
                        .params = kernel_params(params),
                        .shape = {.grid_x = blocks * static_cast<unsigned>(reduction.parts), .block_x = kReduceThreads},
                        .in_place = {}};
}

// The order of all additions follows from the sizes alone, so each run gives the same.
Status add_reduction(Lowering& to, const Node& node, const std::string& what, const Reduction& reduction, TensorId from,
                     TensorId out) {
  const int64_t parts = reduction_parts(reduction);
  if (parts == 1) {
    TENON_TRY_ASSIGN(TemplateKernel whole, reduction_kernel(reduction));
    return to.add_kernel(node, what, std::move(whole), {from}, {out});
  }
  const bool choice = chooses(reduction);
  const int64_t outputs = count_of(reduction.dims);
  // Parts are as exact as what they are made of is computed.
  const std::string computed = compute_type(reduction.type);
  DataType type = reduction.type;
  if (choice) {
    type = DataType::kInt64;
  } else if (computed == "float") {
    type = DataType::kFloat;
  } else if (computed == "int") {
    type = DataType::kInt32;
  } else if (computed == "unsigned" || computed == "bool") {
    type = DataType::kUint32;
  }
  TENON_TRY_ASSIGN(const TensorId made, to.program().add_tensor(type, Shape{outputs, parts}));
  Reduction first = reduction;
  first.parts = parts;
  first.out_type = type;
  if (!choice) first.kind = first_reduction(reduction.kind);
  int64_t stride = parts;
  for (size_t d = first.dims.size(); d-- > 0; stride *= first.dims[d]) first.out_strides[d] = stride;
  TENON_TRY_ASSIGN(TemplateKernel pieces, reduction_kernel(first));
  TENON_TRY(to.add_kernel(node, what + " of parts", std::move(pieces), {from}, {made}));
  Reduction second = reduction;
  std::vector<TensorId> reads = {from, made};
  if (choice) {
    second.candidates = parts;
  } else {
    second = {.dims = {outputs},
              .strides = {parts},
              .out_strides = {1},
              .reduced = {parts},
              .reduced_strides = {1},
              .type = type,
              .out_type = reduction.out_type,
              .kind = second_reduction(reduction.kind),
              .count = count_of(reduction.reduced)};
    reads = {made};
  }
  TENON_TRY_ASSIGN(TemplateKernel joined, reduction_kernel(second));
  return to.add_kernel(node, what, std::move(joined), std::move(reads), {out});
}

}  // namespace tenon::cuda
