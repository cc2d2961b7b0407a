// Runs whole models as one region on the device, without a host program:
//
//     tenon_cuda_region_benchmark MODEL.onnx [--input FILE]... [--output PREFIX] [--runs N] [--cache FILE] [--no-tf32]
//                                 [--budget MS] [--report] [--no-measure] [--text] [--source]
//     tenon_cuda_region_benchmark MODEL.onnx --compile 1x3x32x32 [--compile 2x3x48x48]... [--text]
//     tenon_cuda_region_benchmark --claims MODEL.onnx...
//
// Inputs are raw bytes in the order of the graph (zeros when none are given); outputs are written as PREFIX.0, ... It
// prints one JSON line: the median and spread of a run with a wait, what the captured graphs did, and how long
// preparing took.
//
// --compile needs no device: for each set of input shapes (commas between inputs), in turn, it prints a JSON line with
// the time of lowering, the number of kernels that are compiled at run time, how many of them an earlier set did not
// have, and the time that NVRTC takes for those; with --text the program too. --claims needs none either: for each
// model, how many nodes are claimed, the operators of the others, and what is given back because its region cannot be
// lowered.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <iterator>
#include <map>
#include <set>

#include "base/format.h"
#include "ep/cuda/compute/claims.h"
#include "ep/cuda/compute/parallel.h"
#include "ep/cuda/compute/plain_memory.h"
#include "ep/cuda/compute/plan.h"
#include "ep/cuda/compute/region_trial.h"
#include "graph/reader.h"
#include "ops/shape_inference.h"

namespace tenon::cuda {
namespace {

double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

struct Arguments {
  std::string model, output, cache;
  std::vector<std::string> inputs;
  int runs = 60, budget_ms = 0;
  std::vector<std::string> shapes;  // of --compile
  bool tf32 = true, report = false, measure = true, text = false, source = false;
};

Result<std::vector<char>> read_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  TENON_INVALID_IF(!file.good(), "Cannot read {}.", path);
  return std::vector<char>(std::istreambuf_iterator<char>(file), {});
}

// Prints the program that would run, without a device.
Status print_program(const Arguments& arguments) {
  TENON_TRY_ASSIGN(Model model, read_model_file(arguments.model));
  TENON_TRY_ASSIGN(const Region region, Region::prepare(std::move(model.graph)));
  std::vector<Shape> shapes;
  for (ValueId id : region.graph().inputs) shapes.push_back(region.graph().value(id).shape());
  TENON_TRY_ASSIGN(const Program program,
                   region.lower_at(shapes, arguments.tf32, Program::kWorkspaceBytes, cublaslt().ok(), true));
  std::printf("%s%zu operators, %zu arena bytes, %zu constants\n", program.to_text().c_str(), program.ops.size(),
              program.arena_bytes, program.constants.size());
  if (arguments.source) std::printf("%s", kernel_text(program.kernels).c_str());
  return Status();
}

Status print_claims(const std::string& path) {
  TENON_TRY_ASSIGN(const Model model, read_model_file(path));
  Graph graph = model.graph;
  TENON_TRY(infer_shapes(graph));
  // As an EP sees it, which gets the nodes of bodies by themselves (graph_import.h).
  PerNode<bool> barriers;
  for (Node& node : graph.nodes)
    barriers.push_back(
        std::erase_if(node.attributes.edit(), [](const Attribute& one) { return one.graph != nullptr; }) != 0);
  PerNode<bool> claimed = claim_nodes(graph);
  for (NodeId n : claimed.ids()) claimed[n] = claimed[n] && !barriers[n];
  const SettledClaims settled = settle_claims(graph, std::move(claimed), barriers, true);
  const auto count = std::count_if(settled.groups.begin(), settled.groups.end(), [](int group) { return group >= 0; });
  std::printf("%s: %zu of %zu nodes\n", path.c_str(), static_cast<size_t>(count), graph.nodes.size());
  std::map<std::string, std::vector<std::string>> left;
  for (NodeId n : graph.nodes.ids())
    if (settled.groups[n] < 0) left[graph.nodes[n].op_type].push_back(graph.nodes[n].label(graph));
  for (const auto& [op_type, labels] : left)
    std::printf("  left: %zu %s, first %s\n", labels.size(), op_type.c_str(), labels[0].c_str());
  for (const std::string& refusal : settled.refusals) std::printf("  %s\n", refusal.c_str());
  return Status();
}

Result<std::vector<Shape>> parse_shapes(const std::string& text) {
  std::vector<Shape> shapes;
  std::vector<int64_t> dims;
  const char* at = text.c_str();
  for (;;) {
    char* end = nullptr;
    dims.push_back(std::strtoll(at, &end, 10));
    TENON_INVALID_IF(end == at || (*end != 'x' && *end != ',' && *end != 0), "\"{}\" is not a list of shapes.", text);
    if (*end != 'x') {
      shapes.emplace_back(dims);
      dims.clear();
    }
    if (*end == 0) return shapes;
    at = end + 1;
  }
}

Status compile(const Arguments& arguments) {
  constexpr int kArchitecture = 90;
  TENON_TRY_ASSIGN(const Nvrtc* compiler, nvrtc());
  TENON_TRY_ASSIGN(Model model, read_model_file(arguments.model));
  TENON_TRY_ASSIGN(const Region region, Region::prepare(std::move(model.graph)));
  std::set<std::string> known;
  for (const std::string& text : arguments.shapes) {
    TENON_TRY_ASSIGN(const std::vector<Shape> shapes, parse_shapes(text));
    auto start = std::chrono::steady_clock::now();
    TENON_TRY_ASSIGN(const Program program,
                     region.lower_at(shapes, arguments.tf32, Program::kWorkspaceBytes, false, true));
    const double lower_s = seconds_since(start);
    if (arguments.text) std::printf("%s", program.to_text().c_str());
    if (arguments.source)
      for (const KernelCode& kernel : program.kernels) std::printf("%s\n", kernel.name.c_str());
    std::vector<KernelCode> missing;
    for (const KernelCode& kernel : program.kernels)
      if (known.insert(kernel.name).second) missing.push_back(kernel);
    start = std::chrono::steady_clock::now();
    const std::vector<std::span<const KernelCode>> groups = program_groups(missing, compiling_threads());
    std::vector<Status> statuses(groups.size());
    run_parallel(
        groups.size(), [&](size_t i) { statuses[i] = compile_kernels(*compiler, groups[i], kArchitecture).status(); },
        compiling_threads());
    for (Status& status : statuses) TENON_TRY(std::move(status));
    std::printf(
        "%s\n",
        format("{{\"model\": \"{}\", \"shapes\": \"{}\", \"lower_ms\": {:.1f}, \"kernels\": {}, \"compiled\": {}, "
               "\"nvrtc_ms\": {:.1f}}}",
               arguments.model, text, lower_s * 1e3, program.kernels.size(), missing.size(), seconds_since(start) * 1e3)
            .c_str());
  }
  return Status();
}

Status run(const Arguments& arguments) {
  TENON_TRY_ASSIGN(const CudaDriver* driver, cuda_driver());
  TENON_TRY_ASSIGN(std::shared_ptr<CudaDevice> device, CudaDevice::open(*driver, 0));
  TENON_TRY_ASSIGN(const ContextScope scope, ContextScope::enter(*device));
  auto start = std::chrono::steady_clock::now();
  TENON_TRY_ASSIGN(Model model, read_model_file(arguments.model));
  const double load = seconds_since(start);
  start = std::chrono::steady_clock::now();
  TENON_TRY_ASSIGN(std::shared_ptr<ComputeContext> context,
                   ComputeContext::create(device, std::make_shared<PlainMemory>(device),
                                          {.tf32 = arguments.tf32,
                                           .measure = arguments.measure,
                                           .cache_file = arguments.cache,
                                           .tune_budget_ms = arguments.budget_ms}));
  context->load_early(model.graph);
  TENON_TRY_ASSIGN(std::shared_ptr<ComputeRegion> region, ComputeRegion::create(context, std::move(model.graph)));
  std::vector<Shape> shapes;
  for (ValueId id : region->region().graph().inputs) {
    const Value& value = region->region().graph().value(id);
    TENON_UNSUPPORTED_IF(!value.fully_known(), "Input \"{}\" has no fixed shape.", value.name);
    shapes.push_back(value.shape());
  }
  TENON_TRY_ASSIGN(std::shared_ptr<ComputePlan> plan, region->plan(shapes));
  const double prepare = seconds_since(start);
  const Program& program = plan->program();
  std::vector<DeviceBlockRef> blocks;
  std::vector<CUdeviceptr> inputs, outputs;
  for (size_t i = 0; i < program.inputs.size(); ++i) {
    const size_t bytes = program.tensor(program.inputs[i]).size_bytes();
    TENON_TRY_ASSIGN(DeviceBlockRef block, context->allocate(bytes));
    std::vector<char> data(bytes);
    if (i < arguments.inputs.size()) {
      TENON_TRY_ASSIGN(data, read_file(arguments.inputs[i]));
      TENON_INVALID_IF(data.size() != bytes, "{} has {} bytes; {} are needed.", arguments.inputs[i], data.size(),
                       bytes);
    }
    TENON_CUDA_TRY(*driver, MemcpyHtoDAsync, block->address(), data.data(), bytes, context->stream());
    TENON_CUDA_TRY(*driver, StreamSynchronize, context->stream());
    inputs.push_back(block->address());
    blocks.push_back(std::move(block));
  }
  for (TensorId id : program.outputs) {
    TENON_TRY_ASSIGN(DeviceBlockRef block, context->allocate(program.tensor(id).size_bytes()));
    outputs.push_back(block->address());
    blocks.push_back(std::move(block));
  }
  std::vector<double> times;
  for (int i = 0; i < arguments.runs + 10; ++i) {
    start = std::chrono::steady_clock::now();
    TENON_TRY(plan->run(inputs, outputs, context->stream()));
    TENON_CUDA_TRY(*driver, StreamSynchronize, context->stream());
    if (i >= 10) times.push_back(seconds_since(start) * 1e6);
  }
  std::sort(times.begin(), times.end());
  for (size_t i = 0; i < outputs.size() && !arguments.output.empty(); ++i) {
    std::vector<char> data(program.tensor(program.outputs[i]).size_bytes());
    TENON_CUDA_TRY(*driver, MemcpyDtoHAsync, data.data(), outputs[i], data.size(), context->stream());
    TENON_CUDA_TRY(*driver, StreamSynchronize, context->stream());
    std::ofstream(format("{}.{}", arguments.output, i), std::ios::binary)
        .write(data.data(), static_cast<std::streamsize>(data.size()));
  }
  if (arguments.report) {
    TENON_TRY_ASSIGN(const std::string text, plan->report(true));
    std::printf("%s", text.c_str());
  }
  const ComputePlan::Stats stats = plan->stats();
  std::printf(
      "%s\n",
      format("{{\"model\": \"{}\", \"median_us\": {:.1f}, \"p10_us\": {:.1f}, \"p90_us\": {:.1f}, \"operators\": {}, "
             "\"arena_bytes\": {}, \"captured\": {}, \"launched\": {}, \"direct\": {}, \"load_s\": {:.2f}, "
             "\"prepare_s\": {:.2f}, \"measured\": {}}}",
             arguments.model, times[times.size() / 2], times[times.size() / 10], times[times.size() * 9 / 10],
             program.ops.size(), program.arena_bytes, stats.captured, stats.launched, stats.direct, load, prepare,
             context->algorithms().measured())
          .c_str());
  return Status();
}

}  // namespace
}  // namespace tenon::cuda

int main(int argc, char** argv) {
  tenon::cuda::Arguments arguments;
  if (argc > 1 && std::string_view(argv[1]) == "--claims") {
    int failed = 0;
    for (int i = 2; i < argc; ++i) {
      const tenon::Status status = tenon::cuda::print_claims(argv[i]);
      if (status.ok()) continue;
      ++failed;
      std::printf("%s: %s\n", argv[i], status.to_string().c_str());
    }
    return failed == 0 ? 0 : 1;
  }
  for (int i = 1; i < argc; ++i) {
    const std::string name = argv[i];
    const char* next = i + 1 < argc ? argv[i + 1] : "";
    if (name == "--input")
      arguments.inputs.push_back(next), ++i;
    else if (name == "--output")
      arguments.output = next, ++i;
    else if (name == "--compile")
      arguments.shapes.emplace_back(next), ++i;
    else if (name == "--cache")
      arguments.cache = next, ++i;
    else if (name == "--budget")
      arguments.budget_ms = std::atoi(next), ++i;
    else if (name == "--runs")
      arguments.runs = std::max(1, std::atoi(next)), ++i;
    else if (name == "--no-tf32")
      arguments.tf32 = false;
    else if (name == "--no-measure")
      arguments.measure = false;
    else if (name == "--report")
      arguments.report = true;
    else if (name == "--text")
      arguments.text = true;
    else if (name == "--source")
      arguments.text = arguments.source = true;
    else
      arguments.model = name;
  }
  const tenon::Status status = !arguments.shapes.empty() ? tenon::cuda::compile(arguments)
                               : arguments.text          ? tenon::cuda::print_program(arguments)
                                                         : tenon::cuda::run(arguments);
  if (status.ok()) return 0;
  std::fprintf(stderr, "%s\n", status.to_string().c_str());
  return 1;
}
