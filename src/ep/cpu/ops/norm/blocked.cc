// InstanceNormalization and GroupNormalization on the blocked layout.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "ep/cpu/ops/blocked_rows.h"
#include "ep/cpu/ops/kernel_support.h"
#include "ep/cpu/simd/blocked.h"
#include "ops/norm.h"

namespace tenon::cpu {

namespace {

constexpr int64_t kChunk = 1024;  // pixels of a block that are added up together

// Sums of chunks, then the mean of each group, then the same for squares, then the result. A unit is the least number
// of whole blocks and whole groups. Where there are units for all threads each is done from sums to results, while it
// is in the cache; else threads share the chunks of each step. Both add up the same chunks in the same order.
class BlockedGroupNorm final : public Kernel {
 public:
  explicit BlockedGroupNorm(const GroupNormDesc& desc)
      : d_(desc),
        blocks_(desc.channels / 8),
        chunks_((desc.inner + kChunk - 1) / kChunk),
        unit_blocks_(std::lcm<int64_t>(8, desc.group_channels()) / 8) {}

  Status run(KernelContext& context) const override {
    const State state(*this, context);
    ThreadPool& pool = *context.pool;
    const int64_t units = d_.batch * blocks_ / unit_blocks_, chunks = unit_blocks_ * chunks_;
    if (units >= 2 * pool.threads() || pool.threads() == 1) {
      pool.parallel_for(units, grain_of(unit_blocks_ * d_.inner * 4), [&](int64_t begin, int64_t end) {
        for (int64_t unit = begin; unit < end; ++unit) {
          state.add_up(unit * chunks, (unit + 1) * chunks);
          state.find_means(unit);
          state.add_up_squares(unit * chunks, (unit + 1) * chunks);
          state.find_factors(unit);
          state.standardise(unit * chunks, (unit + 1) * chunks);
        }
      });
      return {};
    }
    const int64_t all = units * chunks, grain = grain_of(std::min(kChunk, d_.inner));
    pool.parallel_for(all, grain, [&](int64_t begin, int64_t end) { state.add_up(begin, end); });
    for (int64_t unit = 0; unit < units; ++unit) state.find_means(unit);
    pool.parallel_for(all, grain, [&](int64_t begin, int64_t end) { state.add_up_squares(begin, end); });
    for (int64_t unit = 0; unit < units; ++unit) state.find_factors(unit);
    pool.parallel_for(all, grain, [&](int64_t begin, int64_t end) { state.standardise(begin, end); });
    return {};
  }
  size_t scratch_bytes() const override { return d_.batch * blocks_ * (chunks_ + 3) * 8 * sizeof(float); }
  bool may_run_in_place(size_t input, size_t) const override { return input == 0; }
  std::string_view name() const override { return "blocked_group_norm"; }

 private:
  // One run. Chunks are counted through all blocks of all images.
  class State {
   public:
    State(const BlockedGroupNorm& kernel, const KernelContext& context)
        : k_(kernel),
          x_(context.input<float>(0)),
          scale_(context.input<float>(1)),
          bias_(context.input<float>(2)),
          y_(context.output<float>(0)),
          sums_(reinterpret_cast<float*>(context.scratch)),
          means_(sums_ + kernel.d_.batch * kernel.blocks_ * kernel.chunks_ * 8),
          factors_(means_ + kernel.d_.batch * kernel.d_.channels),
          offsets_(factors_ + kernel.d_.batch * kernel.d_.channels) {}

    void add_up(int64_t begin, int64_t end) const {
      for (int64_t chunk = begin; chunk < end; ++chunk)
        blocked_table().sum(x_ + first(chunk) * 8, pixels(chunk), sums_ + chunk * 8);
    }
    void find_means(int64_t unit) const {
      for_groups(unit, [&](int64_t channel, int64_t, double sum, double count) {
        std::fill_n(means_ + channel, k_.d_.group_channels(), static_cast<float>(sum / count));
      });
    }
    void add_up_squares(int64_t begin, int64_t end) const {
      for (int64_t chunk = begin; chunk < end; ++chunk)
        blocked_table().squares(x_ + first(chunk) * 8, pixels(chunk), means_ + block(chunk) * 8, sums_ + chunk * 8);
    }
    void find_factors(int64_t unit) const {
      const GroupNormDesc& d = k_.d_;
      for_groups(unit, [&](int64_t channel, int64_t group, double squares, double count) {
        const auto inverse = static_cast<float>(1.0 / std::sqrt(squares / count + static_cast<double>(d.epsilon)));
        for (int64_t c = channel; c < channel + d.group_channels(); ++c) {
          const int64_t parameter = d.scale_each_group ? group : c % d.channels;
          factors_[c] = inverse * scale_[parameter];
          offsets_[c] = bias_[parameter];
        }
      });
    }
    void standardise(int64_t begin, int64_t end) const {
      for (int64_t chunk = begin; chunk < end; ++chunk) {
        const int64_t channel = block(chunk) * 8, at = first(chunk) * 8;
        blocked_table().standardise(x_ + at, pixels(chunk), means_ + channel, factors_ + channel, offsets_ + channel,
                                    y_ + at);
      }
    }

   private:
    int64_t block(int64_t chunk) const { return chunk / k_.chunks_; }
    int64_t first(int64_t chunk) const { return block(chunk) * k_.d_.inner + chunk % k_.chunks_ * kChunk; }
    int64_t pixels(int64_t chunk) const { return std::min(kChunk, k_.d_.inner - chunk % k_.chunks_ * kChunk); }

    // body(first channel among those of all images, group of its image, sum of the group's chunks, elements)
    template <typename Body>
    void for_groups(int64_t unit, const Body& body) const {
      const int64_t members = k_.d_.group_channels(), begin = unit * k_.unit_blocks_ * 8;
      for (int64_t channel = begin; channel < begin + k_.unit_blocks_ * 8; channel += members) {
        double sum = 0;
        for (int64_t c = channel; c < channel + members; ++c)
          for (int64_t chunk = 0; chunk < k_.chunks_; ++chunk) sum += sums_[(c / 8 * k_.chunks_ + chunk) * 8 + c % 8];
        body(channel, channel % k_.d_.channels / members, sum, static_cast<double>(members * k_.d_.inner));
      }
    }

    const BlockedGroupNorm& k_;
    const float *x_, *scale_, *bias_;
    float *y_, *sums_, *means_, *factors_, *offsets_;
  };

  GroupNormDesc d_;
  int64_t blocks_, chunks_, unit_blocks_;
};

}  // namespace

Status match_blocked_group_norm(const KernelNode& node) {
  TENON_UNSUPPORTED_IF(node.inputs.size() != 3, "There are {} inputs, not 3.", node.inputs.size());
  const TensorSpec &x = node.inputs[0], &y = node.outputs[0];
  for (const TensorSpec& input : node.inputs) TENON_TRY(expect_float(input));
  TENON_TRY(expect_float(y));
  TENON_UNSUPPORTED_IF(x.shape.rank() < 3 || x.shape.element_count() == 0, "The input {} has no pixels.",
                       x.shape.to_string());
  // Those that only fill up a block would get a mean.
  TENON_UNSUPPORTED_IF(x.shape[1] % 8 != 0, "{} channels are no whole blocks of 8.", x.shape[1]);
  TENON_TRY(expect_layout(x, Layout::kBlocked8, "The input"));
  TENON_TRY(expect_layout(y, Layout::kBlocked8, "The output"));
  return read_group_norm(*node.node, x.shape).status();
}

Result<std::unique_ptr<Kernel>> create_blocked_group_norm(const KernelNode& node) {
  TENON_TRY_ASSIGN(const GroupNormDesc desc, read_group_norm(*node.node, node.inputs[0].shape));
  for (size_t i : {1, 2}) {
    TENON_INVALID_IF(node.inputs[i].shape != Shape{desc.parameters()}, "Input {} has shape {}; it needs [{}].", i,
                     node.inputs[i].shape.to_string(), desc.parameters());
  }
  return std::unique_ptr<Kernel>(std::make_unique<BlockedGroupNorm>(desc));
}

}  // namespace tenon::cpu
