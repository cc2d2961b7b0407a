// Reductions: a group of a block's threads for each result, laid out so that neighbours read neighbours.
#include <algorithm>
#include <bit>

#include "base/format.h"
#include "ep/cuda/compute/codegen.h"
#include "ep/cuda/compute/codegen_text.h"

namespace tenon::cuda {

namespace {

constexpr int64_t kThreads = kGeneratedThreads;

// The least and the greatest number of a type, as text.
std::pair<std::string, std::string> limits_of(DataType type) {
  switch (type) {
    case DataType::kInt64:
      return {"(-9223372036854775807LL - 1)", "9223372036854775807LL"};
    case DataType::kUint64:
      return {"0", "18446744073709551615ULL"};
    case DataType::kInt32:
      return {"(-2147483647 - 1)", "2147483647"};
    case DataType::kUint32:
      return {"0", "4294967295u"};
    case DataType::kInt16:
      return {"(-32768)", "32767"};
    case DataType::kUint16:
      return {"0", "65535u"};
    case DataType::kInt8:
      return {"(-128)", "127"};
    case DataType::kUint8:
      return {"0", "255u"};
    default:
      return {"-infinity_()", "infinity_()"};
  }
}

bool chooses(const GeneratedReduction& kernel) { return kernel.kind == "argmax" || kernel.kind == "argmin"; }

// Truth values are reduced as the numbers 0 and 1.
DataType number_type(DataType type) { return type == DataType::kBool ? DataType::kUint8 : type; }

int64_t power_above(int64_t value) { return static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(value))); }

// Which threads of a block do what: `lanes` share each of `results`.
struct Mapping {
  Loops kept, reduced;  // strides of the input first
  bool beside = false;  // results lie beside each other in the input: neighbours are threads of different results
  int64_t lanes = 1, results = kThreads;
  int64_t vector = 1;              // elements of the reduced dimensions that are read at once
  int64_t outputs = 1, steps = 1;  // steps: vectors of a result
};

Mapping map_threads(const GeneratedReduction& kernel) {
  Mapping map;
  map.kept = join_dims(kernel.dims, {kernel.strides, kernel.out_strides}, 0);
  map.reduced = join_dims(kernel.reduced, {kernel.reduced_strides}, 0);
  map.outputs = count_of(kernel.dims);
  const int64_t inner = count_of(kernel.reduced);
  map.steps = kernel.candidates != 0 ? kernel.candidates : inner;
  if (map.outputs == 0 || inner == 0) return map;
  const std::vector<int64_t>& kept = map.kept.strides[0];
  map.beside = !kept.empty() && kept.back() == 1;
  if (map.beside) {
    const int64_t most = kThreads / std::min<int64_t>(power_above(map.kept.dims.back()), 32);
    map.lanes =
        static_cast<int64_t>(std::bit_floor(static_cast<uint64_t>(std::clamp<int64_t>(map.steps / 4, 1, most))));
  } else {
    const std::vector<int64_t>& strides = map.reduced.strides[0];
    if (kernel.candidates == 0 && !strides.empty() && strides.back() == 1) {
      map.vector = static_cast<int64_t>(16 / data_type_size(number_type(kernel.type)));
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

struct Kind {
  std::string_view name;
  const char *start, *take, *join, *end;
};

// `doubles`: computed in double. LOWEST, HIGHEST, COUNT and ROOT(...) are filled in later.
constexpr Kind kKinds[] = {{"sum", "0", "acc + v", "acc + v", "acc"},
                           {"mean", "0", "acc + v", "acc + v", "acc / COUNT"},
                           {"max", "LOWEST", "max_of(acc, v)", "max_of(acc, v)", "acc"},
                           {"min", "HIGHEST", "min_of(acc, v)", "min_of(acc, v)", "acc"},
                           {"prod", "1", "acc * v", "acc * v", "acc"},
                           {"l1", "0", "acc + (v < 0 ? -v : v)", "acc + v", "acc"},
                           {"l2", "0", "acc + v * v", "acc + v", "SQRT(acc)"},
                           {"root", "0", "acc + v", "acc + v", "SQRT(acc)"},
                           {"sum_square", "0", "acc + v * v", "acc + v", "acc"},
                           {"log_sum", "0", "acc + v", "acc + v", "LOG(acc)"},
                           // Beside the greatest, or beside 0 where that is no number.
                           {"log_sum_exp", "0", "acc + EXP(v - most)", "acc + v", "most + LOG(acc)"}};
constexpr const Kind& kGreatest = kKinds[2];

const Kind* find_kind(std::string_view name) {
  const auto found = std::find_if(std::begin(kKinds), std::end(kKinds), [&](const Kind& k) { return k.name == name; });
  return found == std::end(kKinds) ? nullptr : found;
}

// Writes the kernel's body, piece by piece.
class Writer {
 public:
  Writer(const GeneratedReduction& kernel, const Mapping& map)
      : kernel_(kernel), map_(map), in_(number_type(kernel.type)), type_(compute_type(in_)) {}

  // Declares the thread's place, the result that it shares and the vectors that are its own.
  std::string begin() const {
    const int64_t each = (map_.steps + kernel_.parts - 1) / kernel_.parts;
    std::string text = format(
        "  begin_kernel();\n  const index_t {0} = threadIdx.x % {2}u, {1} = threadIdx.x / {2}u;\n"
        "  const index_t part = blockIdx.x % {3}u, flat = (index_t)(blockIdx.x / {3}u) * {4}u + result;\n"
        "  index_t last = part * {5}u + {5}u;\n  if (last > {6}u) last = {6}u;\n",
        map_.beside ? "result" : "lane", map_.beside ? "lane" : "result", map_.beside ? map_.results : map_.lanes,
        kernel_.parts, map_.results, each, map_.steps);
    if (!map_.kept.dims.empty()) text += split_index(map_.kept.dims, "i", "flat");
    return text + format("  const index_t first = part * {}u + lane;\n", each);
  }

  // Goes through the thread's elements `v`; `position` is the text of their places among those reduced.
  std::string each(const std::string& take, bool wants_position) const {
    std::string text =
        format("  if (flat < {}u) {{\n#pragma unroll 4\n  for (index_t step = first; step < last; step += {}u) {{\n",
               map_.outputs, map_.lanes);
    text +=
        kernel_.candidates != 0
            ? format("    const long long k = w[flat * {}u + step];\n    if (k < 0) continue;\n", kernel_.candidates)
            : std::string("    const index_t k = step;\n");
    std::vector<int64_t> dims = map_.reduced.dims, strides = map_.reduced.strides[0];
    if (map_.vector > 1) dims.back() /= map_.vector, strides.back() = map_.vector;
    if (!dims.empty()) text += split_index(dims, "k", "k");
    const std::string place = format("{} + {}", address(map_.kept.strides[0], 0), address(strides, 0, "k"));
    const std::string storage = storage_type(in_);
    if (map_.vector == 1) {
      text += format("    const {} v = {};\n", type_, loaded(in_, format("a[{}]", place)));
      if (wants_position) text += "    const long long at = k;\n";
      return text + take + "  }\n  }\n";
    }
    text += format("    const Pack<{0}, {1}> p = *(const Pack<{0}, {1}>*)(a + ({2}));\n#pragma unroll\n", storage,
                   map_.vector, place);
    text += format("    for (int j = 0; j < {}; ++j) {{\n    const {} v = {};\n", map_.vector, type_,
                   loaded(in_, "p.v[j]"));
    if (wants_position) text += format("    const long long at = (long long)k * {} + j;\n", map_.vector);
    return text + take + "    }\n  }\n  }\n";
  }

  // What lanes that share a result do to have it in the first: `join` takes that of the thread `other`.
  std::string together(const std::string& join) const {
    if (map_.lanes == 1) return "";
    return format(
        "  __syncthreads();\n  for (unsigned n = {0}u; n > 0; n /= 2) {{\n    if (lane < n) {{\n"
        "    const unsigned other = threadIdx.x + n * {1}u;\n{2}    }}\n    __syncthreads();\n  }}\n",
        map_.lanes / 2, distance(), join);
  }

  std::string end(const std::string& value) const {
    const DataType made = number_type(kernel_.out_type);
    return format("  if (lane != 0 || flat >= {}u) return;\n  y[{}{}] = {};\n}}\n", map_.outputs,
                  address(map_.kept.strides[1], 0), kernel_.parts > 1 ? " + part" : "", stored(made, value));
  }

  // The thread that has the result.
  std::string first_lane() const { return format("threadIdx.x - lane * {}u", distance()); }
  const std::string& type() const { return type_; }
  DataType in() const { return in_; }

 private:
  int64_t distance() const { return map_.beside ? map_.results : 1; }

  const GeneratedReduction& kernel_;
  const Mapping& map_;
  const DataType in_;
  const std::string type_;
};

std::string replaced(std::string text, std::string_view from, const std::string& to) {
  for (size_t at = 0; (at = text.find(from, at)) != std::string::npos; at += to.size())
    text.replace(at, from.size(), to);
  return text;
}

std::string sums_text(const GeneratedReduction& kernel, const Kind& kind, const Mapping& map, const Writer& writer) {
  const std::pair<std::string, std::string> limits = limits_of(writer.in());
  const std::string letter = writer.in() == DataType::kDouble ? "" : "f";
  const int64_t count = kernel.count != 0 ? kernel.count : count_of(kernel.reduced);
  const auto filled = [&](std::string text) {
    text = replaced(replaced(std::move(text), "LOWEST", limits.first), "HIGHEST", limits.second);
    for (const char* function : {"SQRT", "LOG", "EXP"}) {
      std::string lower = function;
      std::transform(lower.begin(), lower.end(), lower.begin(), [](char c) { return static_cast<char>(c + 32); });
      text = replaced(std::move(text), function, lower.append(letter));
    }
    return replaced(std::move(text), "COUNT", format("({})({})", writer.type(), count));
  };
  // After a pass the first of the lanes has it all in `acc`.
  const auto pass = [&](const Kind& of) {
    std::string text =
        format("  acc = {};\n", filled(of.start)) + writer.each(format("    acc = {};\n", filled(of.take)), false);
    if (map.lanes > 1) text += "  parts[threadIdx.x] = acc;\n";
    return text +
           writer.together(format("    const {} v = parts[other];\n    acc = {};\n    parts[threadIdx.x] = acc;\n",
                                  writer.type(), filled(of.join)));
  };
  std::string text = map.lanes > 1 ? format("  __shared__ {} parts[{}];\n", writer.type(), kThreads) : std::string();
  text += format("  {} acc;\n", writer.type());
  if (kind.name == "log_sum_exp") {
    text += pass(kGreatest);
    text += format("  {} most = {};\n  if (most - most != 0) most = 0;\n", writer.type(),
                   map.lanes > 1 ? format("parts[{}]", writer.first_lane()) : std::string("acc"));
    if (map.lanes > 1) text += "  __syncthreads();\n";
  }
  return text + pass(kind) + writer.end(filled(kind.end));
}

// A NaN is beyond every number, whichever extreme is asked for; of several the first counts, or the last where the node
// says so.
std::string choice_text(const GeneratedReduction& kernel, const Mapping& map, const Writer& writer) {
  const char* const better = kernel.kind == "argmax" ? ">" : "<";
  std::string text = format("  {} best = 0;\n  long long where = -1;\n", writer.type());
  // Of one thread's elements, which come in order.
  text += writer.each(format("    if (where < 0 || v {} best || (v != v{})) {{ best = v; where = at; }}\n",
                             kernel.last ? std::string(better) + "=" : better, kernel.last ? "" : " && best == best"),
                      true);
  if (map.lanes > 1) {
    text += format(
        "  __shared__ {0} bests[{1}];\n  __shared__ long long places[{1}];\n  bests[threadIdx.x] = best;\n"
        "  places[threadIdx.x] = where;\n",
        writer.type(), kThreads);
    text += writer.together(format(
        "    const {0} v = bests[other];\n    const long long at = places[other];\n"
        "    const bool nan = v != v, worse = best == best, same = v == best || (nan && !worse);\n"
        "    if (at >= 0 && (where < 0 || v {1} best || (nan && worse) || (same && at {2} where))) {{\n"
        "      best = v;\n      where = at;\n      bests[threadIdx.x] = best;\n      places[threadIdx.x] = where;\n"
        "    }}\n",
        writer.type(), better, kernel.last ? ">" : "<"));
  }
  return text + writer.end("where");
}

}  // namespace

int64_t reduction_parts(const GeneratedReduction& kernel) {
  if (kernel.kind == "log_sum_exp") return 1;
  // What every device needs to be busy, and what a thread of a part has at least to do.
  constexpr int64_t kBlocks = 1024, kLeastSteps = 8;
  const Mapping map = map_threads(kernel);
  const int64_t blocks = (map.outputs + map.results - 1) / map.results;
  if (map.outputs == 0 || blocks * 2 > kBlocks) return 1;
  return std::clamp<int64_t>(map.steps / map.lanes / kLeastSteps, 1, kBlocks / blocks);
}

std::string first_reduction(const std::string& kind) {
  return kind == "mean" || kind == "log_sum" ? "sum" : kind == "l2" ? "sum_square" : kind;
}

std::string second_reduction(const std::string& kind) {
  return kind == "l1" || kind == "sum_square" ? "sum" : kind == "l2" ? "root" : kind;
}

Result<GeneratedKernel> generate_reduction(const GeneratedReduction& kernel) {
  const DataType in = number_type(kernel.type), made = number_type(kernel.out_type);
  const bool truths = kernel.type == DataType::kBool, choice = chooses(kernel);
  const std::string type = compute_type(in);
  TENON_UNSUPPORTED_IF(type.empty() || compute_type(made).empty(), "Kernels cannot reduce {}.",
                       data_type_name(kernel.type));
  const Kind* const kind = find_kind(kernel.kind);
  TENON_UNSUPPORTED_IF(kind == nullptr && !choice, "There is no reduction \"{}\".", kernel.kind);
  TENON_UNSUPPORTED_IF(kernel.kind.starts_with("log") && type != "float" && in != DataType::kDouble,
                       "Kernels take no logarithm of {}.", data_type_name(kernel.type));
  TENON_UNSUPPORTED_IF(truths && kernel.kind != "max" && kernel.kind != "min" && !choice, "Kernels do not add up {}.",
                       data_type_name(kernel.type));
  const Mapping map = map_threads(kernel);
  std::vector<int64_t> dims = kernel.dims, strides = kernel.strides;
  dims.insert(dims.end(), kernel.reduced.begin(), kernel.reduced.end());
  strides.insert(strides.end(), kernel.reduced_strides.begin(), kernel.reduced_strides.end());
  const Writer writer(kernel, map);
  std::string text = index_types(needs_wide_index(dims, strides, 0)) + writer.begin();
  text += choice ? choice_text(kernel, map, writer) : sums_text(kernel, *kind, map, writer);
  const std::string signature = format("(const {}* a, {}{}* y) {{\n", storage_type(in),
                                       kernel.candidates != 0 ? "const long long* w, " : "", storage_type(made));
  GeneratedKernel generated{.name = hash_name("reduce", signature + text)};
  generated.source =
      format("extern \"C\" __global__ void __launch_bounds__({}) {}{}{}", kThreads, generated.name, signature, text);
  generated.threads = kThreads;
  TENON_TRY_ASSIGN(generated.blocks, blocks_of(map.outputs, map.results));
  TENON_UNSUPPORTED_IF(int64_t{generated.blocks} * kernel.parts > INT32_MAX, "A reduction to {} numbers in {} parts.",
                       map.outputs, kernel.parts);
  generated.blocks *= static_cast<unsigned>(kernel.parts);
  return generated;
}

}  // namespace tenon::cuda
