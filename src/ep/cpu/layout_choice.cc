// Chooses the nodes that work on the blocked layout: convolutions start, other nodes join where they can.
#include <algorithm>

#include "ep/cpu/cpu_provider.h"
#include "ep/cpu/kernel_list.h"
#include "ep/cpu/ops/kernel_support.h"
#include "ep/cpu/ops/pool/rows.h"
#include "ops/reorder.h"

namespace tenon::cpu {

namespace {

// A node with other layouts than it has now, to ask the rows with.
class Question {
 public:
  explicit Question(const KernelNode& node)
      : node_(node),
        inputs_(node.inputs.begin(), node.inputs.end()),
        outputs_(node.outputs.begin(), node.outputs.end()) {
    for (TensorSpec& input : inputs_) input.layout = Layout::kPlain;
    for (TensorSpec& output : outputs_) output.layout = Layout::kPlain;
    node_.inputs = inputs_;
    node_.outputs = outputs_;
  }

  void input(size_t index, Layout layout) {
    if (index < inputs_.size() && inputs_[index].present() && inputs_[index].shape.rank() >= 3)
      inputs_[index].layout = layout;
  }
  void outputs(Layout layout) {
    for (TensorSpec& output : outputs_)
      if (output.shape.rank() >= 3) output.layout = layout;
  }
  // A constant stays plain: a kernel that wants it otherwise packs it when it is made.
  void input_unless_constant(size_t index, Layout layout) {
    if (index >= node_.constants.size() || node_.constants[index] == nullptr) input(index, layout);
  }
  const KernelNode& node() const { return node_; }
  // Does a row of blocked_kernels() take the node with these layouts?
  bool served() const {
    for (std::span<const TensorSpec> specs : {node_.inputs, node_.outputs})
      for (const TensorSpec& spec : specs)
        if (spec.present() && spec.layout == Layout::kBlocked8 && !expect_blocked_type(spec).ok()) return false;
    for (const KernelEntry& entry : blocked_kernels()) {
      if (entry.op_type == node_.node->op_type && entry.domain == node_.node->domain &&
          entry.since <= node_.node->since_version && node_.node->since_version <= entry.until &&
          entry.match(node_).ok())
        return true;
    }
    return false;
  }
  LayoutChoice choice() const {
    LayoutChoice choice;
    for (const TensorSpec& input : inputs_) choice.inputs.push_back(input.layout);
    for (const TensorSpec& output : outputs_) choice.outputs.push_back(output.layout);
    return choice;
  }

 private:
  KernelNode node_;
  std::vector<TensorSpec> inputs_, outputs_;
};

LayoutChoice all_plain(const KernelNode& node) { return Question(node).choice(); }

bool is_conv(const Node& node) { return node.op_type == "Conv" || node.op_type == "ConvTranspose"; }

bool has_point_window(const Shape& weights) {
  return std::all_of(weights.begin() + std::min(weights.rank(), 2), weights.end(),
                     [](int64_t size) { return size == 1; });
}

// Whether a convolution whose outputs are read plain takes less time on plain tensors than in blocks that are
// reordered: it copies the few taps of each output. Where windows overlap evenly rows are copied, else single elements,
// which has to pay for many outputs.
bool is_better_plain(const Shape& x, const Shape& weights, const Shape& y) {
  constexpr int64_t kFewTaps = 16, kMostTaps = 64, kOutputsForTap = 8;
  int64_t taps = 1;
  for (int i = 1; i < weights.rank(); ++i) taps *= weights[i];
  if (taps > kMostTaps || x.rank() != y.rank()) return false;
  if (weights[0] >= kOutputsForTap * taps) return true;
  return taps <= kFewTaps && std::equal(x.begin() + 2, x.end(), y.begin() + 2, y.end());
}

LayoutChoice choose_conv(const KernelNode& node) {
  const TensorSpec& x = node.inputs[0];
  if (x.shape.rank() < 3) return all_plain(node);
  const int64_t channels = x.shape[1], outputs = node.outputs[0].shape.rank() > 1 ? node.outputs[0].shape[1] : 0;
  const bool blocked_now = x.layout == Layout::kBlocked8;
  // A window of one element over plain volumes is a product of the channels as they lie: there and back would cost
  // more.
  if (x.shape.rank() > 4 && !blocked_now && has_point_window(node.inputs[1].shape)) return all_plain(node);
  Question question(node);
  question.input_unless_constant(3, Layout::kBlocked8);
  if (node.node->op_type == "ConvTranspose") {
    question.input_unless_constant(0, Layout::kBlocked8);
    // Straight into the plain output where that is possible: it is often the last node.
    if (outputs < 8 && question.served()) return question.choice();
    question.outputs(Layout::kBlocked8);
    return question.served() ? question.choice() : all_plain(node);
  }
  if (node.outputs_read_plain && !blocked_now && is_better_plain(x.shape, node.inputs[1].shape, node.outputs[0].shape))
    return all_plain(node);
  if (outputs < 8) {
    Question few(node);
    if (blocked_now || channels >= 8) few.input_unless_constant(0, Layout::kBlocked8);
    if (few.served()) return few.choice();
  }
  question.outputs(Layout::kBlocked8);
  // Few plain channels are read as they are; blocking would pad them to 8.
  if (!blocked_now && (channels < 8 || (channels < 32 && outputs < 8)) && question.served()) return question.choice();
  question.input_unless_constant(0, Layout::kBlocked8);
  return question.served() ? question.choice() : all_plain(node);
}

bool is_conv_of_bytes(const Node& node) { return node.op_type == "QLinearConv" || node.op_type == "QuantizedConv"; }

// Few plain channels are read as they are. Blocks need no copy of their taps.
LayoutChoice choose_conv_of_bytes(const KernelNode& node) {
  Question question(node);
  question.outputs(Layout::kBlocked8);
  if (node.inputs[0].layout == Layout::kPlain && question.served()) return question.choice();
  question.input(0, Layout::kBlocked8);
  return question.served() ? question.choice() : all_plain(node);
}

}  // namespace

LayoutChoice choose_kernel_layouts(const KernelNode& node) {
  if (node.inputs.empty() || node.outputs.empty()) return all_plain(node);
  if (is_reorder(*node.node)) {
    const Result<ReorderDesc> reorder = read_reorder(*node.node);
    const bool to_blocked = reorder.ok() && reorder->to == Layout::kBlocked8;
    return {{to_blocked ? Layout::kPlain : Layout::kBlocked8}, {to_blocked ? Layout::kBlocked8 : Layout::kPlain}};
  }
  if (is_conv(*node.node)) return choose_conv(node);
  if (is_conv_of_bytes(*node.node)) return choose_conv_of_bytes(node);
  const bool any_blocked = std::any_of(node.inputs.begin(), node.inputs.end(),
                                       [](const TensorSpec& spec) { return spec.layout == Layout::kBlocked8; });
  Question question(node);
  // A pool begins to work on the blocked layout where the plain one has no kernel for its windows.
  const bool starts = (node.node->op_type == "MaxPool" || node.node->op_type == "AveragePool") &&
                      node.inputs[0].shape.rank() > 1 && node.inputs[0].shape[1] >= 8 &&
                      !nn::match_plain_pool(question.node()).ok();
  if (!any_blocked && !starts) return all_plain(node);
  for (size_t i = 0; i < node.inputs.size(); ++i) question.input_unless_constant(i, Layout::kBlocked8);
  question.outputs(Layout::kBlocked8);
  return question.served() ? question.choice() : all_plain(node);
}

}  // namespace tenon::cpu
