#include "ep/cuda/ops/recurrent/op.h"

#include <algorithm>
#include <array>

#include "base/format.h"
#include "ep/cuda/compute/algorithm_cache.h"
#include "ep/cuda/compute/kernel_library.h"

namespace tenon::cuda {

namespace {

// As recurrent/recurrent.cu has them.
constexpr unsigned kMaxThreads = 640, kStepThreads = 256;
constexpr int64_t kRowLanes = 8, kVectorBytes = 16, kRowsAWarp = 4;
constexpr std::array<int64_t, 3> kHeldChunks = {4, 8, 13}, kHeldHalfChunks = {4, 7, 7};
// More blocks than every device schedules together.
constexpr unsigned kPortableBlocks = 8;
constexpr int32_t kStepUnits = 8;
// Shared memory that a kernel has without asking, and that it declares itself.
constexpr size_t kWithoutAsking = 48 * 1024, kStaticBytes = 64;

int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

std::string_view cell_name(int32_t cell) { return cell == kCellLstm ? "lstm" : cell == kCellGru ? "gru" : "rnn"; }

int32_t sequences_a_block(const RecurrentParams& params) { return params.batch > 1 ? 4 : 1; }

size_t shared_memory_limit(const CudaDevice& device) {
  const int limit = device.attribute(CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN);
  return (limit > 0 ? static_cast<size_t>(limit) : kWithoutAsking) - kStaticBytes;
}

}  // namespace

RecurrentOp::RecurrentOp(std::string label, DataType type, const RecurrentParams& params,
                         const RecurrentTensors& tensors)
    : DeviceOp(std::move(label),
               present({tensors.inputs, tensors.r, tensors.bias, tensors.lengths, tensors.initial_h, tensors.initial_c,
                        tensors.peepholes}),
               present({tensors.y, tensors.y_h, tensors.y_c})),
      type_(type),
      params_(params),
      tensors_(tensors) {}

std::string RecurrentOp::description(const Program&) const { return text_of(params_.length); }

ProblemFamily RecurrentOp::family() const { return {.text = text_of(0), .size = params_.length}; }

std::string RecurrentOp::text_of(int64_t length) const {
  return format("{} {} {}x{} hidden {} directions {}{}", cell_name(params_.cell), data_type_name(type_), length,
                params_.batch, params_.hidden, params_.directions,
                params_.cell == kCellGru && params_.linear_before_reset == 0 ? " two products" : "");
}

size_t RecurrentOp::scratch_bytes(const Program&) const {
  return int64_t{5} * params_.directions * params_.batch * params_.hidden * sizeof(float);
}

RecurrentOp::Choice RecurrentOp::cluster_choice(unsigned blocks) const {
  Choice choice{.text = format("cluster {}", blocks), .blocks = blocks, .cluster = true};
  const int64_t span = kRowLanes * kVectorBytes / static_cast<int64_t>(data_type_size(type_));
  const int64_t batch = sequences_a_block(params_), units = ceil_div(params_.hidden, blocks);
  const int64_t rows = params_.gates * units, needed = ceil_div(params_.hidden, span);
  choice.units = static_cast<int32_t>(units);
  const int64_t warps = std::max(ceil_div(rows, kRowsAWarp), ceil_div(units * batch, 32));
  choice.threads = static_cast<unsigned>(std::min<int64_t>(warps * 32, kMaxThreads));
  const auto& sizes = type_ == DataType::kFloat ? kHeldChunks : kHeldHalfChunks;
  const auto* const size = std::find_if(sizes.begin(), sizes.end(), [&](int64_t n) { return n >= needed; });
  const bool holds = size != sizes.end();
  const int64_t chunks = holds ? *size : needed;
  const int64_t held = holds ? std::min<int64_t>(rows, choice.threads / 32 * kRowsAWarp) : 0;
  const int64_t states = params_.cell == kCellGru && params_.linear_before_reset == 0 ? 3 : 2;
  choice.shared_bytes =
      (rows - held) * chunks * kRowLanes * kVectorBytes + (states * chunks * span + 2 * rows) * batch * 4;
  choice.kernel = format("recurrent_cluster_{}_{}_{}", batch, holds ? chunks : 0, kernel_type(type_));
  return choice;
}

RecurrentOp::Choice RecurrentOp::step_choice() const {
  const int64_t span = kRowLanes * kVectorBytes / static_cast<int64_t>(data_type_size(type_));
  const int64_t batch = sequences_a_block(params_), floats = ceil_div(params_.hidden, span) * span;
  Choice choice{.text = "steps", .units = kStepUnits, .threads = kStepThreads};
  choice.blocks = static_cast<unsigned>(ceil_div(params_.hidden, kStepUnits));
  choice.shared_bytes = (floats + params_.gates * kStepUnits) * batch * 4;
  choice.kernel = format("recurrent_step_{}_{}", batch, kernel_type(type_));
  return choice;
}

bool RecurrentOp::fits(const Choice& choice, size_t shared_bytes) const {
  // Every unit of every sequence has a thread.
  return choice.shared_bytes <= shared_bytes &&
         static_cast<int64_t>(choice.units) * sequences_a_block(params_) <= choice.threads;
}

std::vector<RecurrentOp::Choice> RecurrentOp::choices(int compute_capability, size_t shared_bytes) const {
  std::vector<Choice> all;
  for (unsigned blocks : {8U, 16U, 4U, 2U, 1U}) {
    // A small state is not worth many blocks.
    if (compute_capability < 90 || (blocks > 1 && static_cast<int64_t>(blocks) * 4 > params_.hidden)) continue;
    if (Choice choice = cluster_choice(blocks); fits(choice, shared_bytes)) all.push_back(std::move(choice));
  }
  if (Choice choice = step_choice(); fits(choice, shared_bytes)) all.push_back(std::move(choice));
  return all;
}

std::vector<std::string> RecurrentOp::choice_texts(int compute_capability, size_t shared_bytes) const {
  std::vector<std::string> texts;
  for (const Choice& choice : choices(compute_capability, shared_bytes)) texts.push_back(choice.text);
  return texts;
}

Status RecurrentOp::find_function(const PrepareContext& context, Choice& choice) const {
  // The library keeps a function as it was first asked for: for as much as any choice may need.
  const size_t limit =
      choice.shared_bytes + kStaticBytes > kWithoutAsking ? shared_memory_limit(*context.device) : choice.shared_bytes;
  const auto shared_bytes = static_cast<unsigned>(std::max<size_t>(limit, 1));
  TENON_TRY_ASSIGN(choice.function, context.kernels->find("recurrent", choice.kernel, shared_bytes));
  if (choice.shared_bytes + kStaticBytes > kWithoutAsking)
    TENON_CUDA_TRY(context.device->driver(), FuncSetAttribute, choice.function,
                   CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, static_cast<int>(shared_bytes));
  if (choice.cluster && choice.blocks > kPortableBlocks)
    TENON_CUDA_TRY(context.device->driver(), FuncSetAttribute, choice.function,
                   CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED, 1);
  return Status();
}

Status RecurrentOp::use(const PrepareContext& context, const std::string& text) {
  for (Choice& choice : choices(context.device->compute_capability(), shared_memory_limit(*context.device))) {
    if (choice.text != text) continue;
    TENON_TRY(find_function(context, choice));
    choice_ = std::move(choice);
    return Status();
  }
  return unsupported("{} cannot run as \"{}\".", label(), text);
}

Status RecurrentOp::prepare(const PrepareContext& context) {
  std::vector<Choice> all = choices(context.device->compute_capability(), shared_memory_limit(*context.device));
  TENON_UNSUPPORTED_IF(all.empty(), "{} has a hidden state of {} elements, which no kernel has the memory for.",
                       label(), params_.hidden);
  const PrepareContext::Known known = context.known(*this);
  if (known.choice && use(context, *known.choice).ok()) return Status();
  // How many blocks are best hardly depends on the steps.
  if (context.measure && !known.near.empty() && use(context, known.near.front()).ok()) {
    context.borrow(*this, choice_.text);
    return Status();
  }
  std::vector<Choice> usable;
  for (Choice& choice : all) {
    const bool portable = !choice.cluster || choice.blocks <= kPortableBlocks;
    if (!context.measure || all.size() == 1) {
      if (!portable) continue;
      TENON_TRY(find_function(context, choice));
      choice_ = choice;
      return Status();
    }
    // Thousands of small kernels are never faster than one that fits.
    if (!choice.cluster && !usable.empty()) continue;
    if (find_function(context, choice).ok()) usable.push_back(choice);
  }
  const Result<Fastest> found = find_fastest(
      *context.device, context.stream, usable.size(), context.budget,
      [&](size_t i, CUstream stream) { return queue_choice(usable[i], *context.device, stream, context.addresses); });
  if (!found.ok() || usable.empty()) return unsupported("{} runs in none of its ways.", label());
  choice_ = usable[found->index];
  context.keep(*this, choice_.text, found->hasty);
  return Status();
}

Status RecurrentOp::queue_choice(const Choice& choice, const CudaDevice& device, CUstream stream,
                                 const Addresses& addresses) const {
  RecurrentParams params = params_;
  params.inputs = addresses.pointer(tensors_.inputs);
  params.r = addresses.pointer(tensors_.r);
  params.bias = addresses.pointer(tensors_.bias);
  params.lengths = addresses.pointer<const int32_t>(tensors_.lengths);
  params.initial_h = addresses.pointer(tensors_.initial_h);
  params.initial_c = addresses.pointer(tensors_.initial_c);
  params.peepholes = addresses.pointer(tensors_.peepholes);
  params.y = addresses.pointer(tensors_.y);
  params.y_h = addresses.pointer(tensors_.y_h);
  params.y_c = addresses.pointer(tensors_.y_c);
  params.state = addresses.pointer<float>(scratch());
  params.units = choice.units;
  const auto groups = static_cast<unsigned>(ceil_div(params_.batch, sequences_a_block(params_)));
  LaunchShape shape{.grid_y = static_cast<unsigned>(params_.directions),
                    .block_x = choice.threads,
                    .shared_bytes = static_cast<unsigned>(choice.shared_bytes)};
  void* pointers[] = {&params};
  if (choice.cluster) {
    shape.grid_x = groups;
    shape.grid_z = choice.blocks;
    return queue_kernel(device, choice.function, shape, choice.blocks, stream, pointers);
  }
  shape.grid_x = choice.blocks;
  shape.grid_z = groups;
  const int32_t phases = params_.cell == kCellGru && params_.linear_before_reset == 0 ? 2 : 1;
  // A length of 0 still has last states.
  for (params.step = 0; params.step < std::max(params_.length, 1); ++params.step)
    for (params.phase = 0; params.phase < phases; ++params.phase)
      TENON_TRY(queue_kernel(device, choice.function, shape, 1, stream, pointers));
  return Status();
}

Status RecurrentOp::queue(const QueueContext& context) const {
  return queue_choice(choice_, *context.device, context.stream, context.addresses);
}

}  // namespace tenon::cuda
