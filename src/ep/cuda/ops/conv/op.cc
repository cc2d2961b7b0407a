#include "ep/cuda/ops/conv/op.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <iterator>
#include <limits>
#include <utility>

#include "base/format.h"
#include "ep/cuda/compute/algorithm_cache.h"
#include "ep/cuda/compute/kernel_library.h"
#include "ep/cuda/compute/tuning.h"
#include "ep/cuda/lap.h"

namespace tenon::cuda {

namespace {

// The tiles of conv/gemm.cuh, then those of conv/hopper.cuh, which are a warpgroup's products.
struct Tile {
  int rows, columns, threads, depth_bytes, stages = 4;
  bool group = false;

  // Of a step of the depth on one processor: its products and its reads, in some unit.
  constexpr double step_cost() const {
    constexpr double kRead = 32, kGroup = 0.5;
    return depth_bytes * (rows * columns * (group ? kGroup : 1) + kRead * (rows + columns));
  }
};
constexpr std::array kTiles = {Tile{128, 128, 256, 64},
                               Tile{128, 64, 128, 64},
                               Tile{64, 128, 128, 64},
                               Tile{64, 64, 128, 128},
                               Tile{64, 32, 128, 128},
                               Tile{32, 64, 128, 128},
                               Tile{32, 32, 128, 128},
                               Tile{64, 64, 128, 128, 6, true},
                               Tile{64, 80, 128, 128, 6, true},
                               Tile{128, 80, 256, 128, 6, true},
                               Tile{128, 128, 256, 128, 4, true},
                               Tile{128, 160, 256, 128, 5, true}};
constexpr size_t kDefaultTile = 3;
// Tiles that are expected to take this many times as long as the best are not tried.
constexpr double kFarFromBest = 2.5;
constexpr std::array<unsigned, 4> kSplits = {1, 2, 4, 8};

unsigned shared_bytes(const Tile& tile) {
  constexpr int kGroupAlignment = 1024;
  return static_cast<unsigned>(
      std::max(tile.stages * (tile.rows + tile.columns) * tile.depth_bytes, tile.rows * (tile.columns + 8) * 4) +
      (tile.group ? kGroupAlignment : 0));
}

std::string tile_text(const Tile& tile, unsigned splits) {
  return format("{} {}x{} splits {}", tile.group ? "group" : "tile", tile.rows, tile.columns, splits);
}

int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

unsigned blocks_for(int64_t count, int64_t threads) {
  return static_cast<unsigned>(std::min<int64_t>(ceil_div(count, threads), INT32_MAX));
}

ConvParams with_epilogue(ConvParams params, const Epilogue& epilogue) {
  params.activation = epilogue.activation;
  params.alpha = epilogue.alpha;
  params.beta = epilogue.beta;
  params.residual_after = epilogue.residual_after ? 1 : 0;
  return params;
}

std::vector<TensorId> reads_of(const ConvTensors& tensors) {
  std::vector<TensorId> reads = {tensors.x, tensors.w};
  for (TensorId id : {tensors.bias, tensors.bias_typed, tensors.residual, tensors.parts})
    if (id != kNoTensor) reads.push_back(id);
  return reads;
}

ConvParams bound(ConvParams params, const ConvTensors& tensors, const Addresses& addresses) {
  params.x = addresses.pointer(tensors.x);
  params.w = addresses.pointer(tensors.w);
  params.bias = addresses.pointer<const float>(tensors.bias);
  params.residual = addresses.pointer(tensors.residual);
  params.y = addresses.pointer(tensors.y);
  return params;
}

std::string problem_text(const ConvParams& p, DataType type, bool bias, bool residual) {
  return format("{} {}x{}x{} in {}x{}x{} kernel {}x{} stride {}x{} pad {}x{} dilation {}x{} group {} act {}{}{}",
                data_type_name(type), p.pixels, p.channels, p.depth, p.in_h, p.in_w, p.in_c, p.kernel_h, p.kernel_w,
                p.stride_h, p.stride_w, p.pad_h, p.pad_w, p.dilation_h, p.dilation_w, p.group,
                static_cast<int32_t>(p.activation), bias ? " bias" : "",
                residual ? (p.residual_after != 0 ? " residual after" : " residual") : "");
}

}  // namespace

bool is_product(const ConvParams& params) {
  return params.kernel_h == 1 && params.kernel_w == 1 && params.stride_h == 1 && params.stride_w == 1 &&
         params.pad_h == 0 && params.pad_w == 0 && params.group == 1 && params.in_h == params.out_h &&
         params.in_w == params.out_w;
}

SplitProblem choose_split(DataType type, bool tf32, size_t workspace_bytes, const ConvParams& params) {
  // Splitting and joining take rows * (depth + columns), the product rows * depth * columns: below these numbers that
  // is no longer little beside it. On an H200 a TF32 product of 600 takes 15 to 30 percent longer.
  const int64_t least = tf32 ? 600 : 100;
  constexpr size_t kMostScratchBytes = size_t{96} << 20;
  const int64_t depth = params.depth, columns = params.channels;
  SplitProblem split{.rows = params.pixels, .columns = params.channels, .depth = params.depth};
  if (type != DataType::kFloat || workspace_bytes == 0 || params.group != 1 || params.in_c % 8 != 0 || !split.fits() ||
      params.pixels <= kRowsThatCostNothing || depth * columns < least * (depth + columns) ||
      (tf32 && !is_product(params)))
    return split;
  // Deep products have few results, so that all terms cost little more: 25 percent.
  split.terms = tf32 && depth < 2 * columns ? 2 : 3;
  if (split.scratch_bytes() > kMostScratchBytes) split.terms = 0;
  return split;
}

ConvOp::ConvOp(std::string label, DataType type, const ConvParams& params, const Epilogue& epilogue,
               const ConvTensors& tensors)
    : DeviceOp(std::move(label), reads_of(tensors), {tensors.y}),
      type_(type),
      params_(with_epilogue(params, epilogue)),
      epilogue_(epilogue),
      tensors_(tensors) {}

ConvParams ConvOp::bound_params(const Addresses& addresses) const { return bound(params_, tensors_, addresses); }

std::string ConvOp::text_of(const ConvParams& params) const {
  return (is_product() ? "product " : "conv ") +
         problem_text(params, type_, tensors_.bias != kNoTensor, tensors_.residual != kNoTensor) +
         (has_split_form() ? format(" terms {}", tensors_.terms) : "");
}

std::string ConvOp::description(const Program&) const { return text_of(params_); }

ProblemFamily ConvOp::family() const {
  ConvParams of_any_size = params_;
  of_any_size.pixels = of_any_size.in_h = of_any_size.in_w = 0;
  return {.text = text_of(of_any_size), .size = params_.pixels};
}

bool ConvOp::is_product() const { return tenon::cuda::is_product(params_); }

bool ConvOp::has_tensor_core_form() const {
  return params_.group == 1 && params_.in_c * static_cast<int>(data_type_size(type_)) % 16 == 0;
}

// Warpgroups' products are machine code for one compute capability.
bool ConvOp::has_group_form(const PrepareContext& context) const {
  return has_tensor_core_form() && type_ != DataType::kFloat && context.device->compute_capability() == 90;
}

bool ConvOp::has_blas_form() const {
  if (!is_product() || (tensors_.bias != kNoTensor && tensors_.bias_typed == kNoTensor)) return false;
  if (epilogue_.activation == Activation::kNone) return true;
  if (epilogue_.residual_after && tensors_.residual != kNoTensor) return false;
  // The activation may need a kernel of its own, which takes whole vectors.
  const auto elements = static_cast<int64_t>(params_.pixels) * params_.channels;
  return blas_activation() != Activation::kNone || elements % static_cast<int64_t>(16 / data_type_size(type_)) == 0;
}

bool ConvOp::has_cudnn_form() const {
  const bool known = epilogue_.activation == Activation::kNone || epilogue_.activation == Activation::kRelu;
  return !is_product() && known && tensors_.bias_typed != kNoTensor && params_.scale == 1 &&
         (tensors_.residual == kNoTensor || !epilogue_.residual_after || epilogue_.activation == Activation::kNone);
}

// cuBLASLt computes GELU with tanh: that is as good as the type for 16 bits only.
Activation ConvOp::blas_activation() const {
  const bool gelu = epilogue_.activation == Activation::kGelu || epilogue_.activation == Activation::kGeluTanh;
  if (epilogue_.activation == Activation::kRelu || (gelu && type_ != DataType::kFloat)) return epilogue_.activation;
  return Activation::kNone;
}

bool ConvOp::keeps_nan(const PrepareContext& context, const Choice& choice) const {
  if (!choice.blas || blas_activation() != Activation::kRelu) return true;
  const Result<bool> kept =
      product_->keeps_nan(context.device->driver(), choice.algorithm, blas_pointers(context.addresses), context.stream);
  return kept.ok() && *kept;
}

Result<CUfunction> ConvOp::activate_function(const PrepareContext& context) const {
  if (blas_activation() == epilogue_.activation) return static_cast<CUfunction>(nullptr);
  return context.kernels->find("direct", format("activate_{}", kernel_type(type_)));
}

size_t ConvOp::scratch_bytes(const Program& program) const {
  if (has_split_form()) return split_problem().scratch_bytes() + program.workspace_bytes;
  return has_blas_form() || has_cudnn_form() ? program.workspace_bytes : 0;
}

SplitProblem ConvOp::split_problem() const {
  return {.rows = params_.pixels, .columns = params_.channels, .depth = params_.depth, .terms = tensors_.terms};
}

bool ConvOp::exact(const PrepareContext& context) const {
  return type_ == DataType::kFloat && !rounds_to_tf32(type_, context.tf32, params_.pixels);
}

Result<ConvOp::Choice> ConvOp::tile_choice(const PrepareContext& context, size_t index, unsigned splits) const {
  const Tile& tile = kTiles[index];
  const std::string type(type_ != DataType::kFloat || exact(context) ? kernel_type(type_) : "tf32");
  const std::string module = "conv_" + (tile.group ? "hopper" : type);
  Choice choice{.text = tile_text(tile, splits)};
  choice.shape = {.grid_x = blocks_for(params_.pixels, tile.rows),
                  .grid_y = blocks_for(params_.channels, tile.columns),
                  .grid_z = splits,
                  .block_x = static_cast<unsigned>(tile.threads),
                  .shared_bytes = shared_bytes(tile)};
  choice.splits = splits;
  const std::string name = format("{}{}_{}x{}", tile.group ? "conv_hopper_" : "conv_", type, tile.rows, tile.columns);
  TENON_TRY_ASSIGN(choice.function, context.kernels->find(module, name, choice.shape.shared_bytes));
  return choice;
}

Result<ConvOp::Choice> ConvOp::plain_choice(const PrepareContext& context) const {
  Choice choice{.text = "plain"};
  constexpr unsigned kThreads = 128;
  choice.shape = {
      .grid_x = std::min(blocks_for(static_cast<int64_t>(params_.pixels) * params_.channels, kThreads), 1U << 20),
      .block_x = kThreads};
  TENON_TRY_ASSIGN(choice.function, context.kernels->find("direct", format("conv_plain_{}", kernel_type(type_))));
  return choice;
}

void ConvOp::describe_product(const PrepareContext& context) {
  if (product_ != nullptr || !has_blas_form() || context.blas == nullptr) return;
  Result<std::unique_ptr<BlasProduct>> product =
      BlasProduct::create(*context.blas, {.type = type_,
                                          .tf32 = !exact(context),
                                          .rows = params_.pixels,
                                          .columns = params_.channels,
                                          .depth = params_.depth,
                                          .transposed_w = true,
                                          .bias = tensors_.bias != kNoTensor,
                                          .residual = tensors_.residual != kNoTensor,
                                          .activation = blas_activation(),
                                          .scale = params_.scale,
                                          .workspace_bytes = context.addresses.program->workspace_bytes});
  if (product.ok()) product_ = *std::move(product);
}

void ConvOp::describe_split(const PrepareContext& context) {
  if (split_ != nullptr || !has_split_form() || context.blas == nullptr) return;
  Result<std::unique_ptr<SplitProduct>> made = SplitProduct::create(context, split_problem(), params_);
  if (made.ok()) split_ = *std::move(made);
}

void ConvOp::describe_conv(const PrepareContext& context, int only) {
  if (!has_cudnn_form() || context.cudnn == nullptr) return;
  Result<std::unique_ptr<CudnnConv>> conv =
      CudnnConv::create(*context.cudnn, type_, params_, epilogue_.activation == Activation::kRelu, !exact(context),
                        context.addresses.program->workspace_bytes, only);
  cudnn_ = conv.ok() ? *std::move(conv) : nullptr;
}

std::vector<std::pair<size_t, unsigned>> ConvOp::likely_tiles(const PrepareContext& context,
                                                              double far_from_best) const {
  if (!has_tensor_core_form()) return {};
  struct Candidate {
    size_t tile;
    unsigned splits;
    double cost;
  };
  const auto processors = static_cast<int64_t>(context.device->multiprocessors());
  const bool clusters = context.device->compute_capability() >= 90;
  std::vector<Candidate> candidates;
  double best = 0;
  for (size_t t = 0; t < kTiles.size(); ++t) {
    const Tile& tile = kTiles[t];
    if (tile.group && !has_group_form(context)) continue;
    const int64_t blocks = ceil_div(params_.pixels, tile.rows) * ceil_div(params_.channels, tile.columns);
    const int64_t steps = ceil_div(params_.depth * static_cast<int64_t>(data_type_size(type_)), tile.depth_bytes);
    for (unsigned splits : kSplits) {
      // More blocks than two rounds of the device gain nothing by a split, and a block needs some depth.
      if (splits > 1 && (!clusters || blocks * splits > 2 * processors || steps < 2 * splits)) continue;
      const double cost =
          static_cast<double>(ceil_div(blocks * splits, processors) * ceil_div(steps, splits)) * tile.step_cost();
      candidates.push_back({t, splits, cost});
      best = candidates.size() == 1 ? cost : std::min(best, cost);
    }
  }
  std::stable_sort(candidates.begin(), candidates.end(),
                   [](const Candidate& a, const Candidate& b) { return a.cost < b.cost; });
  std::vector<std::pair<size_t, unsigned>> likely;
  for (const Candidate& one : candidates)
    if (one.tile == kDefaultTile || one.cost <= best * far_from_best) likely.emplace_back(one.tile, one.splits);
  return likely;
}

Result<std::vector<ConvOp::Choice>> ConvOp::choices(const PrepareContext& context, double far_from_best) {
  describe_split(context);
  describe_product(context);
  if (!has_group_form(context) || measures_cudnn(*context.device, type_)) describe_conv(context, -1);
  std::vector<Choice> choices;
  if (split_ != nullptr && split_->find_algorithms().ok()) {
    for (size_t i = 0; i < split_->algorithms(); ++i) choices.push_back(split_choice(i));
  }
  for (const auto& [tile, splits] : likely_tiles(context, far_from_best)) {
    TENON_TRY_ASSIGN(Choice choice, tile_choice(context, tile, splits));
    choices.push_back(std::move(choice));
  }
  if (product_ != nullptr && product_->find_algorithms().ok()) {
    for (size_t i = 0; i < product_->algorithms(); ++i) {
      TENON_TRY_ASSIGN(Choice choice, blas_choice(context, i));
      if (keeps_nan(context, choice)) choices.push_back(std::move(choice));
    }
  }
  if (cudnn_ != nullptr) {
    for (int algorithm : cudnn_->algorithms())
      choices.push_back({.text = format("cudnn {}", algorithm), .cudnn = algorithm});
  }
  if (choices.empty()) {
    TENON_TRY_ASSIGN(Choice choice, plain_choice(context));
    choices.push_back(std::move(choice));
  }
  // The first of each library, whose own order is a guess of what is fast, and two of our tiles; then the rest.
  auto likely = [split = false, blas = false, cudnn = false, tiles = 2](const Choice& choice) mutable {
    if (choice.split_f16) return !std::exchange(split, true);
    if (choice.blas) return !std::exchange(blas, true);
    if (choice.cudnn >= 0) return !std::exchange(cudnn, true);
    return tiles-- > 0;
  };
  std::vector<Choice> ordered, rest;
  for (Choice& choice : choices) (likely(choice) ? ordered : rest).push_back(std::move(choice));
  std::move(rest.begin(), rest.end(), std::back_inserter(ordered));
  return ordered;
}

Result<std::optional<ConvOp::Choice>> ConvOp::remembered(const PrepareContext& context, const std::string& text) {
  if (text == "plain") {
    TENON_TRY_ASSIGN(Choice choice, plain_choice(context));
    return std::optional(std::move(choice));
  }
  if (text.starts_with("blas ")) {
    describe_product(context);
    if (product_ == nullptr) return std::optional<Choice>();
    Result<cublasLtMatmulAlgo_t> algorithm = product_->remembered(text.substr(5));
    if (!algorithm.ok()) return std::optional<Choice>();
    TENON_TRY_ASSIGN(const CUfunction activate, activate_function(context));
    return std::optional(Choice{.text = text, .blas = true, .activate = activate, .algorithm = *algorithm});
  }
  if (text.starts_with("split_f16 ")) {
    describe_split(context);
    if (split_ == nullptr) return std::optional<Choice>();
    Result<SplitProduct::Algorithm> algorithm = split_->remembered(std::string_view(text).substr(10));
    if (!algorithm.ok()) return std::optional<Choice>();
    return std::optional(Choice{.text = text, .split_f16 = *algorithm});
  }
  if (text.starts_with("cudnn ")) {
    int algorithm = -1;
    const auto [end, error] = std::from_chars(text.data() + 6, text.data() + text.size(), algorithm);
    if (error != std::errc() || end != text.data() + text.size() || algorithm < 0) return std::optional<Choice>();
    describe_conv(context, algorithm);
    if (cudnn_ == nullptr) return std::optional<Choice>();
    return std::optional(Choice{.text = text, .cudnn = algorithm});
  }
  if (!has_tensor_core_form()) return std::optional<Choice>();
  for (size_t t = 0; t < kTiles.size(); ++t)
    for (unsigned splits : kSplits) {
      if (text != tile_text(kTiles[t], splits) || (kTiles[t].group && !has_group_form(context))) continue;
      TENON_TRY_ASSIGN(Choice choice, tile_choice(context, t, splits));
      return std::optional(std::move(choice));
    }
  return std::optional<Choice>();
}

ConvOp::Choice ConvOp::split_choice(size_t index) const {
  return {.text = "split_f16 " + split_->algorithm_text(index), .split_f16 = split_->algorithm(index)};
}

Result<ConvOp::Choice> ConvOp::choice_unmeasured(const PrepareContext& context) {
  describe_split(context);
  if (split_ != nullptr && split_->find_algorithms().ok()) return split_choice(0);
  return has_tensor_core_form() ? tile_choice(context, kDefaultTile, 1) : plain_choice(context);
}

Status ConvOp::prepare(const PrepareContext& context) {
  TENON_UNSUPPORTED_IF(kernel_type(type_).empty(), "There is no convolution of {}.", data_type_name(type_));
  const PrepareContext::Known known = context.known(*this);
  if (known.choice) {
    TENON_TRY_ASSIGN(std::optional<Choice> choice, remembered(context, *known.choice));
    if (choice) {
      choice_ = std::move(*choice);
      return Status();
    }
  }
  if (!context.measure) {
    TENON_TRY_ASSIGN(choice_, choice_unmeasured(context));
    return Status();
  }
  TENON_TRY_ASSIGN(std::vector<Choice> few, borrowed(context, known.near));
  if (!few.empty()) {
    const bool compared = known.far && !context.no_time();
    if (compared) TENON_TRY(add_likely(context, few));
    if (Result<Choice> choice = fastest_of_few(context, std::move(few)); choice.ok()) {
      choice_ = *std::move(choice);
      context.borrow(*this, choice_.text, compared);
      return Status();
    }
  }
  TENON_TRY_ASSIGN(std::vector<Choice> all, choices(context, kFarFromBest));
  // With TF32, f16 parts are there for the precision.
  if (context.tf32 &&
      std::any_of(all.begin(), all.end(), [](const Choice& choice) { return choice.split_f16.has_value(); }))
    std::erase_if(all, [](const Choice& choice) { return !choice.split_f16; });
  if (all.size() == 1) {
    choice_ = std::move(all.front());
  } else {
    bool hasty = false;
    TENON_TRY_ASSIGN(choice_, fastest(context, std::move(all), hasty));
    context.keep(*this, choice_.text, hasty);
    return Status();
  }
  context.keep(*this, choice_.text);
  return Status();
}

Result<std::vector<ConvOp::Choice>> ConvOp::borrowed(const PrepareContext& context,
                                                     const std::vector<std::string>& texts) {
  std::vector<Choice> all;
  for (const std::string& text : texts) {
    // cuDNN's are described one at a time.
    if (text.starts_with("cudnn ") && cudnn_ != nullptr) continue;
    TENON_TRY_ASSIGN(std::optional<Choice> choice, remembered(context, text));
    if (choice && keeps_nan(context, *choice)) all.push_back(*std::move(choice));
  }
  return all;
}

Status ConvOp::add_likely(const PrepareContext& context, std::vector<Choice>& few) {
  constexpr size_t kTilesOfModel = 3;
  const auto add = [&](Choice choice) {
    if (std::none_of(few.begin(), few.end(), [&](const Choice& known) { return known.text == choice.text; }))
      few.push_back(std::move(choice));
  };
  describe_split(context);
  if (split_ != nullptr && split_->find_algorithms().ok()) add(split_choice(0));
  // With TF32, f16 parts are there for the precision.
  if (context.tf32 && split_ != nullptr) return Status();
  const std::vector<std::pair<size_t, unsigned>> tiles = likely_tiles(context, kFarFromBest);
  for (size_t i = 0; i < std::min(kTilesOfModel, tiles.size()); ++i) {
    TENON_TRY_ASSIGN(Choice choice, tile_choice(context, tiles[i].first, tiles[i].second));
    add(std::move(choice));
  }
  // At the end: a kernel that the library has not loaded yet takes it ten milliseconds.
  describe_product(context);
  if (product_ == nullptr || !product_->find_algorithms().ok()) return Status();
  TENON_TRY_ASSIGN(Choice choice, blas_choice(context, 0));
  if (keeps_nan(context, choice)) add(std::move(choice));
  return Status();
}

Result<ConvOp::Choice> ConvOp::blas_choice(const PrepareContext& context, size_t index) const {
  TENON_TRY_ASSIGN(const CUfunction activate, activate_function(context));
  return Choice{.text = "blas " + product_->algorithm_text(index),
                .blas = true,
                .activate = activate,
                .algorithm = product_->algorithm(index)};
}

Result<ConvOp::Choice> ConvOp::fastest_of_few(const PrepareContext& context, std::vector<Choice> few) const {
  if (few.size() == 1) return std::move(few.front());
  Lap lap;
  double best = 0;
  Choice fastest;
  Status failed;
  for (Choice& choice : few) {
    if (!fastest.text.empty() && context.no_time()) break;
    Result<double> time = estimate_ns(*context.device, context.stream, [&](CUstream stream) {
      return queue_choice(choice, *context.device, stream, context.addresses);
    });
    if (context.budget != nullptr) context.budget->add(lap.ms());
    if (!time.ok()) {
      failed = std::move(time).status();  // an algorithm that does not run here is only no choice
      continue;
    }
    if (!fastest.text.empty() && *time >= best * kClearlyFaster) continue;
    best = *time;
    fastest = std::move(choice);
  }
  if (fastest.text.empty()) return std::move(failed).with_context(format("while measuring {}", text_of(params_)));
  return fastest;
}

Result<ConvOp::Choice> ConvOp::fastest(const PrepareContext& context, std::vector<Choice> all, bool& hasty) const {
  Result<Fastest> found = find_fastest(
      *context.device, context.stream, all.size(), context.budget,
      [&](size_t i, CUstream stream) { return queue_choice(all[i], *context.device, stream, context.addresses); });
  if (!found.ok()) return std::move(found).status().with_context(format("while measuring {}", text_of(params_)));
  hasty = found->hasty;
  return std::move(all[found->index]);
}

Result<std::vector<std::string>> ConvOp::choice_texts(const PrepareContext& context) {
  TENON_TRY_ASSIGN(const std::vector<Choice> all, choices(context, std::numeric_limits<double>::infinity()));
  std::vector<std::string> texts = {"plain"};
  for (const Choice& choice : all) texts.push_back(choice.text);
  return texts;
}

Status ConvOp::use(const PrepareContext& context, const std::string& text) {
  TENON_TRY_ASSIGN(std::optional<Choice> choice, remembered(context, text));
  TENON_INVALID_IF(!choice, "\"{}\" is no choice here.", text);
  choice_ = *std::move(choice);
  return Status();
}

Status ConvOp::queue_split(const Choice& choice, const CudaDevice& device, CUstream stream,
                           const Addresses& addresses) const {
  return split_->queue(
      device, *choice.split_f16,
      {.x = addresses.pointer(tensors_.x), .weights = addresses.of(tensors_.parts), .scratch = addresses.of(scratch())},
      {.y = addresses.pointer(tensors_.y),
       .bias = addresses.pointer<const float>(tensors_.bias),
       .residual = addresses.pointer(tensors_.residual),
       .activation = params_.activation,
       .alpha = params_.alpha,
       .beta = params_.beta,
       .scale = params_.scale,
       .residual_after = params_.residual_after},
      stream);
}

BlasProduct::Pointers ConvOp::blas_pointers(const Addresses& addresses) const {
  return {.x = addresses.pointer(tensors_.x),
          .w = addresses.pointer(tensors_.w),
          .bias = addresses.pointer(tensors_.bias_typed),
          .residual = addresses.pointer(tensors_.residual),
          .y = addresses.pointer(tensors_.y),
          .workspace = addresses.pointer(scratch())};
}

Status ConvOp::queue_choice(const Choice& choice, const CudaDevice& device, CUstream stream,
                            const Addresses& addresses) const {
  if (choice.split_f16) return queue_split(choice, device, stream, addresses);
  if (choice.blas) {
    TENON_TRY(product_->queue(choice.algorithm, blas_pointers(addresses), stream));
    if (choice.activate == nullptr) return Status();
    ActivateParams activate{.y = addresses.pointer(tensors_.y),
                            .count = static_cast<int64_t>(params_.pixels) * params_.channels,
                            .activation = params_.activation,
                            .alpha = params_.alpha,
                            .beta = params_.beta};
    constexpr unsigned kThreads = 128;
    void* pointers[] = {&activate};
    return queue_kernel(
        device, choice.activate,
        {.grid_x = blocks_for(activate.count, kThreads * static_cast<int64_t>(16 / data_type_size(type_))),
         .block_x = kThreads},
        1, stream, pointers);
  }
  if (choice.cudnn >= 0) {
    return cudnn_->queue(choice.cudnn,
                         {.x = addresses.pointer(tensors_.x),
                          .w = addresses.pointer(tensors_.w),
                          .bias = addresses.pointer(tensors_.bias_typed),
                          .residual = addresses.pointer(tensors_.residual),
                          .y = addresses.pointer(tensors_.y),
                          .workspace = addresses.pointer(scratch())},
                         stream);
  }
  ConvParams params = bound_params(addresses);
  void* pointers[] = {&params};
  return queue_kernel(device, choice.function, choice.shape, choice.splits, stream, pointers);
}

Status ConvOp::queue(const QueueContext& context) const {
  return queue_choice(choice_, *context.device, context.stream, context.addresses);
}

DepthwiseConvOp::DepthwiseConvOp(std::string label, DataType type, const ConvParams& params, const Epilogue& epilogue,
                                 const ConvTensors& tensors)
    : DeviceOp(std::move(label), reads_of(tensors), {tensors.y}),
      type_(type),
      params_(with_epilogue(params, epilogue)),
      tensors_(tensors) {}

std::string DepthwiseConvOp::description(const Program&) const {
  return "depthwise " + problem_text(params_, type_, tensors_.bias != kNoTensor, tensors_.residual != kNoTensor);
}

Status DepthwiseConvOp::prepare(const PrepareContext& context) {
  // Of 3x3, which count in 32 bits; larger windows are tiles (depthwise_tiles.h), this is for what they do not take.
  const bool square = static_cast<int64_t>(params_.pixels) * params_.channels <= INT32_MAX && params_.kernel_h == 3 &&
                      params_.kernel_w == 3 && params_.dilation_h == 1 && params_.dilation_w == 1 &&
                      params_.stride_h == params_.stride_w;
  const char* name = square && params_.stride_h == 1   ? "conv_depthwise3_{}"
                     : square && params_.stride_h == 2 ? "conv_depthwise3s2_{}"
                                                       : "conv_depthwise_{}";
  std::string function(name);
  function.replace(function.find("{}"), 2, kernel_type(type_));
  TENON_TRY_ASSIGN(function_, context.kernels->find("direct", function));
  return Status();
}

Status DepthwiseConvOp::queue(const QueueContext& context) const {
  constexpr unsigned kThreads = 128;
  const auto vector = static_cast<int64_t>(16 / data_type_size(type_));
  ConvParams params = bound(params_, tensors_, context.addresses);
  void* pointers[] = {&params};
  return queue_kernel(
      *context.device, function_,
      {.grid_x = blocks_for(params_.pixels * (params_.channels / vector), kThreads), .block_x = kThreads}, 1,
      context.stream, pointers);
}

}  // namespace tenon::cuda
