#include "ep/cpu/ops/unpacking_kernel.h"

#include <utility>

#include "ep/cpu/ops/small_types.h"

namespace tenon::cpu::ref {

namespace {

size_t aligned(size_t bytes) { return (bytes + 63) / 64 * 64; }

std::vector<TensorSpec> widened(std::span<const TensorSpec> specs) {
  std::vector<TensorSpec> wide(specs.begin(), specs.end());
  for (TensorSpec& spec : wide) {
    if (has_type(kPackedSet, spec.type)) spec.type = DataType::kUint8;
  }
  return wide;
}

// What the maker's function runs in: packed tensors are bytes, and dynamic packed outputs are kept until they are
// packed.
class WideContext final : public KernelContext {
 public:
  WideContext(KernelContext& outer, std::span<const TensorSpec> specs) : outer_(outer), specs_(specs) {
    pool = outer.pool;
    inputs_.assign(outer.inputs.begin(), outer.inputs.end());
    outputs_.assign(outer.outputs.begin(), outer.outputs.end());
    made_.resize(specs.size());
  }
  void set_input(size_t index, const void* data) { inputs_[index] = data; }
  void set_output(size_t index, void* data) { outputs_[index] = data; }
  void show() {
    inputs = inputs_;
    outputs = outputs_;
  }

  Result<void*> allocate_output(size_t index, const Shape& shape) override {
    if (!has_type(kPackedSet, specs_[index].type)) return outer_.allocate_output(index, shape);
    TENON_TRY_ASSIGN(const int64_t count, shape.checked_element_count());
    Made& made = made_[index];
    TENON_TRY_ASSIGN(made.packed, outer_.allocate_output(index, shape));
    made.codes.resize(static_cast<size_t>(count));
    return static_cast<void*>(made.codes.data());
  }
  void pack_dynamic() {
    for (size_t i = 0; i < made_.size(); ++i) {
      const Made& made = made_[i];
      if (made.packed == nullptr) continue;
      pack_codes(specs_[i].type, made.codes.data(), 0, std::ssize(made.codes), made.packed);
    }
  }

 private:
  struct Made {
    void* packed = nullptr;
    std::vector<uint8_t> codes;
  };
  KernelContext& outer_;
  std::span<const TensorSpec> specs_;
  std::vector<const void*> inputs_;
  std::vector<void*> outputs_;
  std::vector<Made> made_;
};

class UnpackingKernel final : public Kernel {
 public:
  UnpackingKernel(RefImpl impl, const RefNode& node, const KernelNode& asked)
      : impl_(std::move(impl)),
        inputs_(asked.inputs.begin(), asked.inputs.end()),
        outputs_(asked.outputs.begin(), asked.outputs.end()),
        settled_(node.settled) {
    scratch_ = aligned(impl_.scratch_bytes);
    for (const TensorSpec& spec : inputs_) input_at_.push_back(place(spec));
    for (const TensorSpec& spec : outputs_) output_at_.push_back(place(spec));
  }

  Status run(KernelContext& context) const override {
    WideContext wide(context, outputs_);
    wide.scratch = context.scratch;
    for (size_t i = 0; i < inputs_.size(); ++i) {
      if (input_at_[i] == kNowhere || context.inputs[i] == nullptr) continue;
      auto* const codes = reinterpret_cast<uint8_t*>(context.scratch + input_at_[i]);
      unpack_codes(inputs_[i].type, context.inputs[i], 0, inputs_[i].shape.element_count(), codes);
      wide.set_input(i, codes);
    }
    for (size_t i = 0; i < outputs_.size(); ++i) {
      if (output_at_[i] != kNowhere && context.outputs[i] != nullptr) {
        wide.set_output(i, context.scratch + output_at_[i]);
      }
    }
    for (const auto& [index, shape] : settled_) {
      TENON_TRY_ASSIGN(void* const data, wide.allocate_output(index, shape));
      wide.set_output(index, data);
    }
    wide.show();
    TENON_TRY(impl_.run(wide));
    for (size_t i = 0; i < outputs_.size(); ++i) {
      if (output_at_[i] == kNowhere || context.outputs[i] == nullptr) continue;
      pack_codes(outputs_[i].type, reinterpret_cast<const uint8_t*>(context.scratch + output_at_[i]), 0,
                 outputs_[i].shape.element_count(), context.outputs[i]);
    }
    wide.pack_dynamic();
    return {};
  }
  size_t scratch_bytes() const override { return scratch_; }
  std::string_view name() const override { return "ref"; }

 private:
  static constexpr size_t kNowhere = SIZE_MAX;

  // Where the codes of a packed tensor lie in the scratch memory.
  size_t place(const TensorSpec& spec) {
    if (!has_type(kPackedSet, spec.type) || spec.dynamic) return kNowhere;
    return std::exchange(scratch_, scratch_ + aligned(static_cast<size_t>(spec.shape.element_count())));
  }

  const RefImpl impl_;
  const std::vector<TensorSpec> inputs_, outputs_;
  const std::vector<std::pair<size_t, Shape>> settled_;
  size_t scratch_ = 0;
  std::vector<size_t> input_at_, output_at_;
};

}  // namespace

Result<std::unique_ptr<Kernel>> make_unpacking_kernel(const KernelNode& node, RefMaker maker) {
  const std::vector<TensorSpec> inputs = widened(node.inputs), outputs = widened(node.outputs);
  RefNode ref{node, {}, node.outputs.empty() ? DataType::kUndefined : node.outputs[0].type};
  ref.inputs = inputs;
  ref.outputs = outputs;
  TENON_TRY_ASSIGN(RefImpl impl, maker(ref));
  return std::unique_ptr<Kernel>(std::make_unique<UnpackingKernel>(std::move(impl), ref, node));
}

}  // namespace tenon::cpu::ref
