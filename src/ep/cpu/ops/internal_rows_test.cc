// The operators of docs/reference/internal-operators.md on every row of the kernel lists: whatever the passes attach
// (bias, residual, skip, mask, each activation), in every layout that the planner may choose, with constant operands
// and with operands that only the run knows, some kernel takes the node, and agrees with the plain reference. ONNX's
// own operators are tested in tests/golden/rows_test.py.
#include <set>

#include "ep/cpu/kernel_list.h"
#include "ep/cpu/ops/blocked_testing.h"

namespace tenon::cpu {
namespace {

constexpr std::string_view kActivations[] = {"none",      "relu", "clip", "leaky_relu", "sigmoid", "hardsigmoid",
                                             "hardswish", "silu", "gelu", "gelu_tanh",  "tanh"};

struct Operand {
  Shape shape;  // of a float tensor; the rank is 0 and `absent` set where there is none
  bool absent = false;
  bool may_be_constant = true;
  std::vector<int64_t> ints;  // an int64 tensor instead
};
const Operand kNone{.shape = {}, .absent = true};

struct Example {
  std::string name;
  Node node;
  std::vector<Operand> inputs;
  std::vector<Shape> outputs;
};

Node internal(std::string op_type) {
  Node node;
  node.op_type = std::move(op_type);
  node.domain = "tenon";
  node.since_version = 1;
  return node;
}

// The example as it is, and with each activation, and with a residual before and after one.
void add_with_epilogues(std::vector<Example>& examples, const Example& plain, size_t bias, const Shape& bias_shape) {
  for (std::string_view activation : kActivations) {
    // Each beside a bias and a residual; all of their combinations beside two: one a clamp, one not.
    const bool all = activation == "clip" || activation == "sigmoid";
    for (int choice = all ? 0 : 5; choice < 6; ++choice) {
      Example example = plain;
      const bool has_bias = choice % 2 == 1;
      const int residual = choice / 2;  // 0: none, 1: before, 2: after
      example.name += format(" {}{}{}", activation, has_bias ? " bias" : "",
                             residual == 0   ? ""
                             : residual == 1 ? " residual before"
                                             : " residual after");
      example.inputs.resize(bias, kNone);
      example.inputs.push_back(has_bias ? Operand{bias_shape} : kNone);
      if (residual > 0) example.inputs.push_back({example.outputs[0]});
      example.node.set_string("activation", std::string(activation));
      if (activation == "clip") {
        example.node.set_float("activation_alpha", -0.25f);
        example.node.set_float("activation_beta", 0.5f);
      }
      if (residual == 2) example.node.set_int("residual_after", 1);
      examples.push_back(std::move(example));
    }
  }
}

std::vector<Example> convolutions() {
  struct Geometry {
    std::string name;
    Shape x, w, y;
    int64_t group = 1;
    std::vector<int64_t> pads = {}, strides = {};
    bool transposed = false;
  };
  const Geometry geometries[] = {
      {"direct", {2, 9, 6, 5}, {12, 9, 3, 2}, {2, 12, 4, 4}},
      {"strided", {1, 16, 7, 6}, {8, 16, 3, 3}, {1, 8, 4, 3}, 1, {1, 1, 1, 1}, {2, 2}},
      {"few channels", {1, 3, 7, 6}, {8, 3, 3, 3}, {1, 8, 5, 4}},
      {"few outputs", {1, 16, 7, 6}, {3, 16, 3, 3}, {1, 3, 5, 4}},
      {"point", {2, 24, 5, 3}, {11, 24, 1, 1}, {2, 11, 5, 3}},
      {"winograd", {1, 16, 18, 18}, {20, 16, 3, 3}, {1, 20, 16, 16}},
      {"winograd line", {1, 16, 60}, {17, 16, 3}, {1, 17, 58}},
      {"line", {2, 9, 7}, {8, 9, 3}, {2, 8, 5}},
      {"depthwise", {2, 12, 6, 5}, {12, 1, 3, 3}, {2, 12, 6, 5}, 12, {1, 1, 1, 1}},
      {"groups of blocks", {1, 16, 6, 5}, {16, 8, 1, 1}, {1, 16, 6, 5}, 2},
      {"groups", {1, 12, 6, 5}, {6, 4, 3, 3}, {1, 6, 4, 3}, 3},
      {"volume", {1, 9, 3, 4, 3}, {8, 9, 2, 2, 2}, {1, 8, 2, 3, 2}},
      {"empty batch", {0, 9, 6, 5}, {12, 9, 3, 2}, {0, 12, 4, 4}},
      {"transposed", {1, 9, 4, 5}, {9, 12, 3, 3}, {1, 12, 9, 11}, 1, {}, {2, 2}, true},
      {"transposed to a plain output", {1, 9, 4, 5}, {9, 2, 2, 2}, {1, 2, 8, 10}, 1, {}, {2, 2}, true},
      {"transposed groups", {1, 6, 4, 5}, {6, 2, 3, 3}, {1, 6, 6, 7}, 3, {}, {}, true},
      {"transposed line", {1, 9, 6}, {9, 5, 3}, {1, 5, 8}, 1, {}, {}, true},
  };
  std::vector<Example> examples;
  for (const Geometry& g : geometries) {
    Example example{.name = g.name, .node = internal(g.transposed ? "ConvTranspose" : "Conv")};
    example.inputs = {{g.x}, {g.w}};
    example.outputs = {g.y};
    if (g.group != 1) example.node.set_int("group", g.group);
    if (!g.pads.empty()) example.node.set_ints("pads", g.pads);
    if (!g.strides.empty()) example.node.set_ints("strides", g.strides);
    add_with_epilogues(examples, example, 2, {g.y[1]});
  }
  return examples;
}

std::vector<Example> others() {
  std::vector<Example> examples;
  for (auto [a, b, y, trans_b] : {std::tuple<Shape, Shape, Shape, int>{{5, 7}, {7, 9}, {5, 9}, 0},
                                  {{5, 7}, {9, 7}, {5, 9}, 1},
                                  {{2, 5, 7}, {7, 9}, {2, 5, 9}, 0},
                                  {{2, 3, 5, 7}, {3, 9, 7}, {2, 3, 5, 9}, 1}}) {
    Example example{.name = "product", .node = internal("MatMul")};
    example.inputs = {{a}, {b}};
    example.outputs = {y};
    if (trans_b != 0) example.node.set_int("trans_b", 1);
    example.node.set_float("alpha", 0.5f);
    add_with_epilogues(examples, example, 2, {9});
  }
  for (std::string_view activation : kActivations) {
    for (const Shape& shape : {Shape{2, 9, 3, 5}, Shape{3, 7}, Shape{}}) {
      Example example{.name = std::string(activation), .node = internal("Activation")};
      example.inputs = {{shape}};
      example.outputs = {shape};
      example.node.set_string("activation", std::string(activation));
      examples.push_back(std::move(example));
    }
  }
  for (int choice = 0; choice < 8; ++choice) {
    const Shape x{2, 9, 8};
    Example example{.name = format("norm {}", choice), .node = internal("LayerNorm")};
    example.inputs = {{x}, choice & 1 ? Operand{x} : kNone, {{8}}};
    if (choice & 2) example.inputs.push_back({{8}});
    example.outputs = {x};
    if (choice & 4) example.outputs.push_back(x);
    example.node.set_int("axis", 2);
    examples.push_back(example);
    example.node.set_int("subtract_mean", 0);
    examples.push_back(std::move(example));
  }
  for (const Operand& mask : {kNone, Operand{{4, 6}}, Operand{{2, 1, 1, 6}}, Operand{{2, 2, 4, 6}}}) {
    Example example{.name = "attention", .node = internal("Attention")};
    example.inputs = {{{2, 4, 8}}, {{2, 6, 8}}, {{2, 6, 10}}, mask};
    example.outputs = {{2, 4, 10}};
    example.node.set_int("num_heads", 2);
    example.node.set_float("scale", 0.5f);
    examples.push_back(std::move(example));
  }
  for (const Operand& mask : {kNone, Operand{{1, 6}}, Operand{{3, 4, 1}}, Operand{{2, 3, 4, 6}}}) {
    Example example{.name = "attention of heads", .node = internal("Attention")};
    example.inputs = {{{2, 3, 4, 8}}, {{2, 3, 6, 8}}, {{2, 3, 6, 5}}, mask};
    example.outputs = {{2, 3, 4, 5}};
    example.node.set_int("num_heads", 3);
    example.node.set_float("scale", 0.5f);
    examples.push_back(std::move(example));
  }
  // Keys and values of fewer heads, capped scores; few queries, whose keys are read where they lie, and more.
  for (const int64_t queries : {1, 4, 19})
    for (const float cap : {0.0f, 0.25f}) {
      Example example{.name = format("grouped attention {} {}", queries, cap), .node = internal("Attention")};
      example.inputs = {{{2, 6, queries, 8}}, {{2, 2, 150, 8}}, {{2, 2, 150, 5}}, {{2, 1, 1, 150}}};
      example.outputs = {{2, 6, queries, 5}};
      example.node.set_int("num_heads", 6);
      example.node.set_float("scale", 0.5f);
      example.node.set_float("softcap", cap);
      examples.push_back(std::move(example));
    }
  for (const bool interleaved : {false, true})
    for (const int64_t turned : {4, 10}) {
      Example example{.name = format("rotation of {}", turned), .node = internal("RotateHalf")};
      example.inputs = {{{2, 3, 5, 10}}, {{2, 1, 5, turned}}, {{5, turned}}};
      example.outputs = {{2, 3, 5, 10}};
      example.node.set_int("interleaved", interleaved ? 1 : 0);
      examples.push_back(example);
      // The rows of Y that X and the angles repeat, and X in another order.
      example.inputs = {{{1, 5, 3, 10}}, {{2, 1, 1, turned}}, {{1, turned}}};
      example.outputs = {{2, 3, 5, 10}};
      example.node.set_ints("perm", {0, 2, 1, 3});
      examples.push_back(std::move(example));
    }
  for (const Operand& mask : {kNone, Operand{{2, 1, 1, 6}}}) {
    Example example{.name = "packed attention", .node = internal("PackedAttention")};
    example.inputs = {{{2, 6, 24}}, mask};
    example.outputs = {{2, 6, 8}};
    example.node.set_int("num_heads", 2);
    example.node.set_float("scale", 0.5f);
    examples.push_back(example);
    example.node.set_int("depth", 3);
    example.outputs = {{2, 6, 12}};
    examples.push_back(std::move(example));
  }
  Example softmax{.name = "guarded softmax", .node = internal("GuardedSoftmax")};
  softmax.inputs = {{{2, 3, 5, 7}}};
  softmax.outputs = {{2, 3, 5, 7}};
  for (const int64_t axis : {1, 3}) {
    softmax.node.set_int("axis", axis);
    examples.push_back(softmax);
  }
  Example lookup{.name = "lookup", .node = internal("LookupOrDefault")};
  lookup.inputs = {{{5, 3}}, {.shape = {4}, .ints = {0, 3, 9, -1}}};
  lookup.outputs = {{4, 3}};
  examples.push_back(std::move(lookup));
  return examples;
}

// Attention with fewer heads of keys, masks, windows and caches; long enough for several blocks of keys, and with few
// queries, whose keys are read where they lie.
std::vector<Example> cached_attentions() {
  std::vector<Example> examples;
  const auto add = [&](std::string name, std::vector<Operand> inputs, std::vector<Shape> outputs, int64_t causal = 0,
                       int64_t left = -1, int64_t right = -1) {
    Example example{.name = std::move(name), .node = internal("CachedAttention")};
    example.inputs = std::move(inputs);
    example.outputs = std::move(outputs);
    for (const auto& [key, value] :
         {std::pair{"q_num_heads", int64_t{4}}, std::pair{"kv_num_heads", int64_t{2}}, std::pair{"is_causal", causal},
          std::pair{"left_window_size", left}, std::pair{"right_window_size", right}})
      example.node.set_int(key, value);
    examples.push_back(std::move(example));
  };
  for (const int64_t queries : {1, 3, 37}) {
    const Operand q{{1, queries, 32}}, k{{1, 1200, 16}}, v{{1, 1200, 12}};
    const Shape y{1, queries, 24};
    add("long", {q, k, v}, {y});
    add("long causal", {q, k, v}, {y}, 1);
    add("window", {q, k, v}, {y}, 0, 3, 2);
    add("ends", {q, k, v, kNone, kNone, kNone, {.shape = {1}, .ints = {1103}}}, {y}, 1, 600);
    add("no key", {q, k, v, kNone, kNone, kNone, {.shape = {1}, .ints = {1}}}, {y}, 1);
  }
  add("mask", {{{2, 7, 32}}, {{2, 9, 16}}, {{2, 9, 12}}, {{2, 1, 7, 9}}}, {{2, 7, 24}});
  add("short mask", {{{2, 7, 32}}, {{2, 9, 16}}, {{2, 9, 12}}, {{7, 6}}}, {{2, 7, 24}});
  add("packed", {{{2, 7, 64}}}, {{2, 7, 32}}, 1);
  add("present", {{{2, 3, 32}}, {{2, 3, 16}}, {{2, 3, 12}}, kNone, {{2, 2, 5, 8}}, {{2, 2, 5, 6}}},
      {{2, 3, 24}, {2, 2, 8, 8}, {2, 2, 8, 6}}, 1);
  add("one present", {{{2, 3, 32}}, {{2, 3, 16}}, {{2, 3, 12}}, kNone, {{2, 2, 5, 8}}, {{2, 2, 5, 6}}}, {{2, 3, 24}});
  add("shared",
      {{{2, 2, 32}},
       {{2, 2, 16}},
       {{2, 2, 12}},
       kNone,
       {{2, 2, 9, 8}},
       {{2, 2, 9, 6}},
       {.shape = {2}, .ints = {7, 4}},
       {.shape = {1}, .ints = {7}},
       {{4}}},
      {{2, 2, 24}}, 1);
  add("shared, one query",
      {{{2, 1, 32}},
       {{2, 1, 16}},
       {{2, 1, 12}},
       kNone,
       {{2, 2, 300, 8}},
       {{2, 2, 300, 6}},
       {.shape = {2}, .ints = {280, 141}},
       {.shape = {1}, .ints = {280}}},
      {{2, 1, 24}}, 1, 200);
  add("shared, first",
      {{{2, 6, 32}},
       {{2, 6, 16}},
       {{2, 6, 12}},
       kNone,
       {{2, 2, 9, 8}},
       {{2, 2, 9, 6}},
       {.shape = {2}, .ints = {6, 4}},
       {.shape = {1}, .ints = {6}}},
      {{2, 6, 24}}, 1);
  examples.back().node.set_float("softcap", 0.5F);
  for (const bool has_total : {false, true}) {
    Example update{.name = "cache", .node = internal("CacheUpdate")};
    update.node.set_int("kv_num_heads", 2);
    update.inputs = {{{2, 2, 16}}, {{2, 2, 9, 8}}, {.shape = {2}, .ints = {7, 4}}};
    if (has_total) update.inputs.push_back({.shape = {1}, .ints = {7}});
    update.outputs = {{2, 2, 9, 8}};
    examples.push_back(std::move(update));
  }
  return examples;
}

// An example with its data, asked in one combination of constants and layouts.
class Asked {
 public:
  explicit Asked(const Example& example) : example_(example) {
    std::mt19937 random(7);
    for (const Operand& operand : example.inputs) {
      TensorSpec& spec = specs_.emplace_back();
      auto& plain = plain_.emplace_back();
      constants_.emplace_back();
      if (operand.absent) continue;
      spec = {.type = operand.ints.empty() ? DataType::kFloat : DataType::kInt64, .shape = operand.shape};
      if (!operand.ints.empty()) {
        plain.resize(operand.ints.size() * sizeof(int64_t));
        std::memcpy(plain.data(), operand.ints.data(), plain.size());
        continue;
      }
      const std::vector<float> values = uniform_floats(random, operand.shape.element_count());
      plain.resize(values.size() * sizeof(float));
      if (!values.empty()) std::memcpy(plain.data(), values.data(), plain.size());
    }
    for (const Shape& shape : example.outputs) outputs_.push_back({.type = DataType::kFloat, .shape = shape});
    for (size_t i = 0; i < example.inputs.size(); ++i) {
      if (example.inputs[i].absent) continue;
      auto held = std::make_shared<Constant>();
      held->type = specs_[i].type;
      held->shape = specs_[i].shape;
      held->data = plain_[i].data();
      held->size_bytes = plain_[i].size();
      held_.push_back(i);
      all_constants_.resize(example.inputs.size());
      all_constants_[i] = std::move(held);
    }
    all_constants_.resize(example.inputs.size());
  }

  const std::vector<size_t>& operands() const { return held_; }

  // Bit k: operand k of operands() is constant; or comes blocked, if it is not constant and can be.
  void set(uint32_t constant, uint32_t blocked) {
    for (size_t k = 0; k < held_.size(); ++k) {
      const size_t i = held_[k];
      constants_[i] = (constant >> k & 1) != 0 ? all_constants_[i] : nullptr;
      const bool as_blocks = (blocked >> k & 1) != 0 && constants_[i] == nullptr && specs_[i].shape.rank() >= 3;
      specs_[i].layout = as_blocks ? Layout::kBlocked8 : Layout::kPlain;
    }
    for (TensorSpec& spec : outputs_) spec.layout = Layout::kPlain;
  }

  KernelNode view() const {
    KernelNode node;
    node.graph = &graph_;
    node.node = &example_.node;
    node.inputs = specs_;
    node.outputs = outputs_;
    node.constants = constants_;
    return node;
  }

  // As the planner does it: constants stay plain, other tensors of rank 3 and more are put into the layout.
  void take(const LayoutChoice& choice) {
    for (size_t i = 0; i < specs_.size(); ++i)
      if (constants_[i] == nullptr && specs_[i].shape.rank() >= 3) specs_[i].layout = choice.inputs[i];
    for (size_t i = 0; i < outputs_.size(); ++i)
      if (outputs_[i].shape.rank() >= 3) outputs_[i].layout = choice.outputs[i];
  }

  std::vector<std::vector<float>> run(const Kernel& kernel, int threads) {
    struct Context final : KernelContext {
      Result<void*> allocate_output(size_t, const Shape&) override { return internal_error("No output is dynamic."); }
    } context;
    std::vector<std::vector<float>> data;
    std::vector<const void*> inputs;
    for (size_t i = 0; i < specs_.size(); ++i) {
      inputs.push_back(specs_[i].present() ? plain_[i].data() : nullptr);
      if (specs_[i].layout == Layout::kPlain) continue;
      std::vector<float> values(plain_[i].size() / sizeof(float));
      if (!values.empty()) std::memcpy(values.data(), plain_[i].data(), plain_[i].size());
      data.push_back(specs_[i].shape.element_count() > 0 ? to_blocked(specs_[i].shape, values) : std::vector<float>(8));
      inputs.back() = data.back().data();
    }
    std::vector<std::vector<float>> results;
    std::vector<void*> outputs;
    results.reserve(outputs_.size());
    outputs.reserve(outputs_.size());
    for (const TensorSpec& spec : outputs_) {
      results.emplace_back(std::max<size_t>(1, spec.size_bytes() / sizeof(float)), std::nanf(""));
    }
    for (auto& result : results) outputs.push_back(result.data());
    std::vector<float> scratch(kernel.scratch_bytes() / sizeof(float) + 32, std::nanf(""));
    context.inputs = inputs;
    context.outputs = outputs;
    const auto address = reinterpret_cast<uintptr_t>(scratch.data());
    context.scratch = reinterpret_cast<std::byte*>((address + 63) / 64 * 64);

    const auto pool = ThreadPool::create({.threads = threads}).value();
    context.pool = pool.get();
    pool->enter_run();
    const Status status = kernel.run(context);
    pool->leave_run();
    EXPECT_TRUE(status.ok()) << status.message();
    for (size_t i = 0; i < outputs_.size(); ++i) {
      const Shape& shape = outputs_[i].shape;
      std::vector<float> plain(shape.element_count());
      if (outputs_[i].layout == Layout::kPlain) {
        std::copy_n(results[i].begin(), plain.size(), plain.begin());
      } else if (!plain.empty()) {
        const int64_t pixels = shape.element_count() / (shape[0] * shape[1]);
        for (size_t e = 0; e < plain.size(); ++e) {
          const auto at = static_cast<int64_t>(e);
          plain[e] = results[i][blocked_at(shape, at / pixels / shape[1], at / pixels % shape[1], at % pixels)];
        }
      }
      results[i] = std::move(plain);
    }
    return results;
  }

  // By the last reference row, on plain tensors of which none is constant.
  std::vector<std::vector<float>> expected() {
    set(0, 0);
    const std::vector<const KernelEntry*> rows = reference_rows_of(example_.node);
    EXPECT_FALSE(rows.empty()) << example_.node.op_type;
    if (rows.empty()) return {};
    EXPECT_TRUE(rows.back()->match(view()).ok()) << rows.back()->match(view()).message();
    const auto kernel = rows.back()->create(view());
    EXPECT_TRUE(kernel.ok()) << kernel.status().message();
    return kernel.ok() ? run(**kernel, 1) : std::vector<std::vector<float>>();
  }

 private:
  const Example& example_;
  Graph graph_;
  std::vector<TensorSpec> specs_, outputs_;
  std::vector<std::vector<std::byte>> plain_;
  std::vector<ConstantRef> constants_, all_constants_;
  std::vector<size_t> held_;
};

void check(const Example& example, std::set<std::string>& used) {
  Asked asked(example);
  const auto want = asked.expected();
  const auto provider = make_cpu_provider();
  const uint32_t count = uint32_t{1} << asked.operands().size();
  std::set<std::string> seen;  // the same node may come of several layouts
  for (uint32_t constant = 0; constant < count; ++constant) {
    for (uint32_t blocked = 0; blocked < count; ++blocked) {
      if ((constant & blocked) != 0) continue;
      asked.set(constant, blocked);
      asked.take(provider->choose_layouts(asked.view()));
      std::string key = format("{}", constant);
      for (const TensorSpec& spec : asked.view().inputs) key += spec.layout == Layout::kPlain ? "p" : "b";
      for (const TensorSpec& spec : asked.view().outputs) key += spec.layout == Layout::kPlain ? "p" : "b";
      if (!seen.insert(key).second) continue;
      SCOPED_TRACE(format("{} {}, constants and layouts {}", example.node.op_type, example.name, key));
      const auto kernel = provider->create_kernel(asked.view());
      ASSERT_TRUE(kernel.ok()) << kernel.status().message();
      used.emplace((*kernel)->name());
      const auto got = asked.run(**kernel, 2);
      ASSERT_EQ(got.size(), want.size());
      for (size_t i = 0; i < got.size(); ++i)
        expect_close(got[i], std::vector<double>(want[i].begin(), want[i].end()), 2e-4);
    }
  }
}

TEST(InternalRows, ConvolutionsTakeWhateverPassesAttach) {
  std::set<std::string> used;
  for (const Example& example : convolutions()) check(example, used);
  // The examples reach every kernel, also the reference.
  for (const char* name : {"conv3x2", "conv1x1", "conv3x3_plain", "conv3x3_winograd", "conv_line_winograd",
                           "conv3x3_depthwise", "conv_transpose", "conv_transpose_plain", "ref"})
    EXPECT_TRUE(used.contains(name)) << name;
}

TEST(InternalRows, OtherOperatorsTakeWhateverPassesAttach) {
  std::set<std::string> used;
  for (const Example& example : others()) check(example, used);
}

TEST(InternalRows, AttentionWithCachesAgreesWithTheReference) {
  std::set<std::string> used;
  for (const Example& example : cached_attentions()) check(example, used);
  for (const char* name : {"attention f32", "attention few rows f32"}) EXPECT_TRUE(used.contains(name)) << name;
}

// A new internal operator needs examples above.
TEST(InternalRows, EveryOperatorHasAnExample) {
  // Reorder stands between the layouts of all of the above. The others take plain tensors alone, and are compared in
  // tests/golden/quantized_test.py (those of bytes) and tests/golden/contrib_test.py (the steps of a search).
  std::set<std::string_view> examples = {"Reorder",          "LookupBytes", "QuantizedConv", "QuantizedMatMul",
                                         "QuantizedSoftmax", "SearchStart", "SearchStep",    "SearchEnd"};
  const std::vector<Example> first = convolutions(), second = others(), third = cached_attentions();
  for (const auto* list : {&first, &second, &third})
    for (const Example& example : *list) examples.insert(example.node.op_type);
  std::vector<std::span<const KernelEntry>> lists = {blocked_kernels(), vector_kernels()};
  lists.insert(lists.end(), reference_kernels().begin(), reference_kernels().end());
  for (std::span<const KernelEntry> list : lists)
    for (const KernelEntry& row : list)
      EXPECT_TRUE(row.domain != "tenon" || examples.contains(row.op_type)) << row.op_type;
}

}  // namespace
}  // namespace tenon::cpu
