// DFT and STFT: rows are transformed several at a time, and two rows of real numbers as one of complex ones.
#include <algorithm>

#include "base/system.h"
#include "ep/cpu/ops/reference_access.h"
#include "ep/cpu/ops/signal/fft.h"
#include "ops/signal.h"

namespace tenon::cpu::ref {

namespace {

// The type that a T is transformed in.
template <typename T>
using Real = std::conditional_t<std::is_same_v<T, double>, double, float>;

// Transforms that run at once: a cache line of each number.
template <typename R>
inline constexpr int64_t kRows = 64 / static_cast<int64_t>(sizeof(R));

// What is transformed. Row `r` of the input begins at element in_begin(r) and of the output at out_begin(r).
struct Transform {
  bool inverse = false, onesided = false;
  int64_t rows = 0, length = 0;
  int64_t in = 0, in_components = 1, in_step = 1;     // numbers that are there; elements from one to the next
  int64_t out = 0, out_components = 2, out_step = 2;  // numbers that are kept
  // A row is [group, member]: rows of a group are `*_group` elements apart from those of the next.
  int64_t members = 1;
  int64_t in_group = 0, in_member = 0, out_group = 0, out_member = 0;
  bool windowed = false;  // input 2 has a factor for each number

  bool real_input() const { return in_components == 1 && !inverse; }
  bool real_output() const { return inverse && onesided; }
  // Two rows as the two parts of one.
  bool paired() const { return real_input() || real_output(); }
  int64_t in_begin(int64_t row) const { return row / members * in_group + row % members * in_member; }
  int64_t out_begin(int64_t row) const { return row / members * out_group + row % members * out_member; }
};

template <typename T>
class Transformer {
 public:
  using R = Real<T>;

  Transformer(const Transform& transform, Fft<R> fft) : t_(transform), fft_(std::move(fft)) {}

  int64_t tasks() const { return (lanes_in_all() + kRows<R> - 1) / kRows<R>; }
  size_t task_bytes() const { return fft_.memory(kRows<R>) * sizeof(R); }

  void run(int64_t task, const T* x, const T* window, T* y, R* memory) const {
    const int64_t first = task * kRows<R>, lanes = std::min(kRows<R>, lanes_in_all() - first);
    typename Fft<R>::Parts parts = fft_.operand(memory, lanes);
    if (t_.real_output()) {
      load_spectra(first, lanes, x, parts);
    } else {
      load(first, lanes, x, window, parts);
    }
    if (t_.inverse) std::swap(parts.re, parts.im);
    parts = fft_.run(parts, memory, lanes);
    if (t_.inverse) std::swap(parts.re, parts.im);
    if (t_.real_input()) {
      store_pairs(first, lanes, parts, y);
    } else {
      store(first, lanes, parts, y);
    }
  }

 private:
  int64_t lanes_in_all() const { return t_.paired() ? (t_.rows + 1) / 2 : t_.rows; }

  // Numbers of rows that are missing are 0.
  void load(int64_t first, int64_t lanes, const T* x, const T* window, typename Fft<R>::Parts to) const {
    const int64_t there = std::min(t_.in, t_.length);
    for (int64_t lane = 0; lane < lanes; ++lane) {
      const int64_t row = t_.paired() ? 2 * (first + lane) : first + lane;
      const T* const from = x + t_.in_begin(row);
      const T* const second = t_.paired() && row + 1 < t_.rows ? x + t_.in_begin(row + 1) : nullptr;
      for (int64_t i = 0; i < t_.length; ++i) {
        R re = 0, im = 0;
        if (i < there) {
          re = static_cast<R>(from[i * t_.in_step]);
          if (t_.in_components == 2) im = static_cast<R>(from[i * t_.in_step + 1]);
          if (second != nullptr) im = static_cast<R>(second[i * t_.in_step]);
          if (t_.windowed) re *= static_cast<R>(window[i]), im *= static_cast<R>(window[i]);
        }
        to.re[i * lanes + lane] = re;
        to.im[i * lanes + lane] = im;
      }
    }
  }

  // Number k of the whole spectrum of a row of real numbers, whose second half mirrors the first.
  void spectrum(const T* from, int64_t k, R& re, R& im) const {
    const bool mirrored = k > t_.length / 2;
    const int64_t at = mirrored ? t_.length - k : k;
    re = im = 0;
    if (at >= t_.in) return;
    re = static_cast<R>(from[at * t_.in_step]);
    // The spectrum of real numbers is real at its two ends.
    if (t_.in_components == 2 && k != 0 && 2 * k != t_.length) im = static_cast<R>(from[at * t_.in_step + 1]);
    if (mirrored) im = -im;
  }

  // Two spectra a and b as a + i b: the numbers that they belong to become the real and the imaginary part.
  void load_spectra(int64_t first, int64_t lanes, const T* x, typename Fft<R>::Parts to) const {
    for (int64_t lane = 0; lane < lanes; ++lane) {
      const int64_t row = 2 * (first + lane);
      for (int64_t k = 0; k < t_.length; ++k) {
        R re, im, second_re = 0, second_im = 0;
        spectrum(x + t_.in_begin(row), k, re, im);
        if (row + 1 < t_.rows) spectrum(x + t_.in_begin(row + 1), k, second_re, second_im);
        to.re[k * lanes + lane] = re - second_im;
        to.im[k * lanes + lane] = im + second_re;
      }
    }
  }

  void store(int64_t first, int64_t lanes, typename Fft<R>::Parts from, T* y) const {
    const R scale = t_.inverse ? R(1) / static_cast<R>(t_.length) : R(1);
    for (int64_t lane = 0; lane < lanes; ++lane) {
      const int64_t row = t_.paired() ? 2 * (first + lane) : first + lane;
      T* const to = y + t_.out_begin(row);
      T* const second = t_.paired() && row + 1 < t_.rows ? y + t_.out_begin(row + 1) : nullptr;
      for (int64_t k = 0; k < t_.out; ++k) {
        to[k * t_.out_step] = T(from.re[k * lanes + lane] * scale);
        if (t_.out_components == 2) to[k * t_.out_step + 1] = T(from.im[k * lanes + lane] * scale);
        if (second != nullptr) second[k * t_.out_step] = T(from.im[k * lanes + lane] * scale);
      }
    }
  }

  // The spectra of two rows of real numbers from that of a + i b: its even part is a's, its odd part b's.
  void store_pairs(int64_t first, int64_t lanes, typename Fft<R>::Parts from, T* y) const {
    for (int64_t lane = 0; lane < lanes; ++lane) {
      const int64_t row = 2 * (first + lane);
      T* const to = y + t_.out_begin(row);
      T* const second = row + 1 < t_.rows ? y + t_.out_begin(row + 1) : nullptr;
      for (int64_t k = 0; k < t_.out; ++k) {
        const int64_t here = k * lanes + lane, mirror = (k == 0 ? 0 : t_.length - k) * lanes + lane;
        to[k * t_.out_step] = T((from.re[here] + from.re[mirror]) * R(0.5));
        to[k * t_.out_step + 1] = T((from.im[here] - from.im[mirror]) * R(0.5));
        if (second == nullptr) continue;
        second[k * t_.out_step] = T((from.im[here] + from.im[mirror]) * R(0.5));
        second[k * t_.out_step + 1] = T((from.re[mirror] - from.re[here]) * R(0.5));
      }
    }
  }

  Transform t_;
  Fft<R> fft_;
};

// Tables and memory of a transform are several times its length, which may be beyond its output's.
Status check_length(const KernelNode& node, int64_t length) {
  if (static_cast<size_t>(length) <= memory_bytes() / 64 / kRows<float>) return {};
  return resource_exhausted("{} of {} numbers takes more memory than the {} bytes that there are.", node.node->op_type,
                            length, memory_bytes());
}

template <typename T>
RefImpl transform_of(const Transform& transform, int threads) {
  using R = Real<T>;
  auto transformer = std::make_shared<Transformer<T>>(transform, Fft<R>(transform.length));
  // Each part of the work has memory of its own.
  const int64_t parts = std::clamp<int64_t>(threads, 1, std::max<int64_t>(1, transformer->tasks()));
  RefImpl impl;
  impl.scratch_bytes = parts * transformer->task_bytes();
  impl.run = [transformer, parts](KernelContext& context) -> Status {
    const int64_t tasks = transformer->tasks();
    context.pool->parallel_for(parts, 1, [&](int64_t begin, int64_t end) {
      for (int64_t part = begin; part < end; ++part) {
        auto* const memory = reinterpret_cast<R*>(context.scratch + part * transformer->task_bytes());
        for (int64_t task = tasks * part / parts; task < tasks * (part + 1) / parts; ++task) {
          transformer->run(task, context.input<T>(0), context.input<T>(2), context.output<T>(0), memory);
        }
      }
    });
    return {};
  };
  return impl;
}

Result<RefImpl> make_transform(const RefNode& node, const Transform& transform) {
  TENON_TRY(check_length(node, transform.length));
  const int threads = node.pool != nullptr ? node.pool->threads() : 1;
  // Several parts for each thread: one that is late leaves little behind.
  return select(FloatTypes(), node.inputs[0].type,
                [&]<typename T>() -> RefImpl { return transform_of<T>(transform, threads == 1 ? 1 : 4 * threads); });
}

Result<RefImpl> make_dft(RefNode& node) {
  TENON_TRY(require_inputs(node, 1));
  const Shape& x = node.inputs[0].shape;
  TENON_TRY_ASSIGN(const std::optional<int64_t> length, constant_number(node, 1));
  TENON_TRY_ASSIGN(const std::optional<int64_t> axis, constant_number(node, 2));
  TENON_TRY_ASSIGN(const DftDesc desc, read_dft(*node.node, x, length, axis));
  TENON_TRY(require_output(node, 0, desc.output(x)));
  Transform transform{.inverse = desc.inverse, .onesided = desc.onesided, .length = desc.length};
  transform.rows = desc.outer * desc.inner;
  transform.in = desc.in, transform.in_components = desc.in_components;
  transform.out = desc.out, transform.out_components = desc.out_components;
  transform.members = std::max<int64_t>(1, desc.inner);
  transform.in_member = desc.in_components, transform.in_step = desc.inner * desc.in_components;
  transform.in_group = desc.in * transform.in_step;
  transform.out_member = desc.out_components, transform.out_step = desc.inner * desc.out_components;
  transform.out_group = desc.out * transform.out_step;
  return make_transform(node, transform);
}

Result<RefImpl> make_stft(RefNode& node) {
  TENON_TRY(require_inputs(node, 2));
  const TensorSpec &window = input_spec(node, 2), &signal = node.inputs[0];
  TENON_INVALID_IF(window.present() && (window.shape.rank() != 1 || window.type != signal.type),
                   "STFT has a window of {}{} for a signal of {}.", data_type_name(window.type),
                   window.shape.to_string(), data_type_name(signal.type));
  TENON_TRY_ASSIGN(const std::optional<int64_t> step, constant_number(node, 1));
  TENON_TRY_ASSIGN(const std::optional<int64_t> frame, constant_number(node, 3));
  TENON_TRY_ASSIGN(const StftDesc desc,
                   read_stft(*node.node, signal.shape, *step,
                             window.present() ? std::optional(window.shape[0]) : std::nullopt, frame));
  TENON_TRY(require_output(node, 0, desc.output()));
  Transform transform{.onesided = desc.onesided, .rows = desc.batch * desc.frames, .length = desc.length};
  transform.in = desc.length, transform.in_components = transform.in_step = desc.components;
  transform.out = desc.bins;
  transform.members = std::max<int64_t>(1, desc.frames);
  transform.in_group = desc.samples * desc.components, transform.in_member = desc.step * desc.components;
  transform.out_group = desc.frames * desc.bins * 2, transform.out_member = desc.bins * 2;
  transform.windowed = window.present();
  return make_transform(node, transform);
}

constexpr KernelEntry kEntries[] = {
    ref_row<kFloatSet, &make_dft>("DFT", 17),
    ref_row<kFloatSet, &make_stft>("STFT", 17),
};

}  // namespace

std::span<const KernelEntry> ref_dft_rows() { return kEntries; }

}  // namespace tenon::cpu::ref
