// Unique: the different elements of a tensor, or its different slices along an axis.
#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <utility>

#include "ep/cpu/ops/reference_kernel.h"
#include "ops/axes.h"
#include "ops/gather.h"

namespace tenon::cpu::ref {

namespace {

// The slices of a tensor as [outer, count, inner]; complex numbers are two elements each.
struct Slices {
  int64_t outer = 1, count = 0, inner = 1;

  int64_t offset(int64_t slice, int64_t o) const { return (o * count + slice) * inner; }
};

// Below 0 if slice a comes before slice b, 0 if they are the same. NaN is the same as NaN, and above all numbers.
using Compare = int (*)(const void* x, const Slices& slices, int64_t a, int64_t b);

template <typename T>
int compare(const void* x, const Slices& slices, int64_t a, int64_t b) {
  for (int64_t o = 0; o < slices.outer; ++o) {
    const T* const left = static_cast<const T*>(x) + slices.offset(a, o);
    const T* const right = static_cast<const T*>(x) + slices.offset(b, o);
    for (int64_t i = 0; i < slices.inner; ++i) {
      const Compute<T> p = left[i], q = right[i];
      if (p < q) return -1;
      if (p > q) return 1;
      if (p == q) continue;
      if (p == p) return -1;
      if (q == q) return 1;
    }
  }
  return 0;
}

// Numbers of 64 bits for n elements, in the same order and equal where the elements are: zeros of both signs are one,
// and so are NaNs, which come last.
using MakeKeys = void (*)(const void* x, int64_t n, uint64_t* keys);

template <typename T>
void make_keys(const void* x, int64_t n, uint64_t* keys) {
  constexpr uint64_t kSign = uint64_t{1} << 63;
  const T* const from = static_cast<const T*>(x);
  for (int64_t i = 0; i < n; ++i) {
    if constexpr (is_float<T>) {
      const double value = static_cast<double>(static_cast<Compute<T>>(from[i])) + 0.0;
      const auto bits = std::bit_cast<uint64_t>(value);
      keys[i] = value != value ? ~uint64_t{0} : (bits & kSign) != 0 ? ~bits : bits | kSign;
    } else if constexpr (std::is_signed_v<T>) {
      keys[i] = static_cast<uint64_t>(static_cast<int64_t>(from[i])) ^ kSign;
    } else {
      keys[i] = static_cast<uint64_t>(from[i]);
    }
  }
}

// Sorts keys with their numbers, equal ones by number, byte by byte from the lowest one on; bytes that are the same in
// all keys are passed over. Room of n elements each; the sorted ones are where the pointers point then.
void sort_keys(int64_t n, uint64_t*& keys, int64_t*& order, uint64_t* other_keys, int64_t* other_order) {
  constexpr int kBytes = 8, kValues = 256;
  uint64_t same = ~uint64_t{0};
  for (int64_t i = 0; i < n; ++i) same &= ~(keys[i] ^ keys[0]);
  for (int byte = 0; byte < kBytes; ++byte) {
    const int shift = byte * 8;
    if ((same >> shift & 0xff) == 0xff) continue;
    std::array<int64_t, kValues> places{};
    for (int64_t i = 0; i < n; ++i) ++places[keys[i] >> shift & 0xff];
    int64_t place = 0;
    for (int64_t& count : places) place += std::exchange(count, place);
    for (int64_t i = 0; i < n; ++i) {
      const int64_t to = places[keys[i] >> shift & 0xff]++;
      other_keys[to] = keys[i];
      other_order[to] = order[i];
    }
    std::swap(keys, other_keys);
    std::swap(order, other_order);
  }
}

// Sorts `order`, the numbers of the slices: equal ones by number.
using Sort = void (*)(const void* x, const Slices& slices, int64_t* order);

template <typename T>
void sort_slices(const void* x, const Slices& slices, int64_t* order) {
  std::sort(order, order + slices.count, [x, &slices](int64_t a, int64_t b) {
    const int found = compare<T>(x, slices, a, b);
    return found != 0 ? found < 0 : a < b;
  });
}

struct UniquePlan {
  Slices slices;
  Compare compare = nullptr;
  Sort sort = nullptr;
  MakeKeys make_keys = nullptr;  // null for slices of several elements
  Shape x;
  std::optional<int> axis;
  bool sorted = true;
  size_t bytes = 0;  // of an element of a slice
  TensorSpec outputs[4];
};

// Groups of equal slices, in the order of the output.
struct Groups {
  int64_t* order;    // [slices] sorted; those of a group stand together
  int64_t* begin;    // [groups + 1] where each group begins in `order`
  int64_t* ranking;  // [groups] the groups in the order of the output
  int64_t count = 0;

  int64_t first(int64_t group) const { return order[begin[group]]; }
};

// `room`: for three numbers a slice, if the plan has make_keys.
void find_groups(const UniquePlan& plan, const void* x, Groups& groups, int64_t* room) {
  const int64_t n = plan.slices.count;
  for (int64_t i = 0; i < n; ++i) groups.order[i] = i;
  uint64_t* keys = nullptr;
  if (plan.make_keys != nullptr) {
    keys = reinterpret_cast<uint64_t*>(room);
    plan.make_keys(x, n, keys);
    sort_keys(n, keys, groups.order, keys + n, room + 2 * n);
  } else {
    plan.sort(x, plan.slices, groups.order);
  }
  for (int64_t i = 0; i < n; ++i) {
    const bool same =
        i > 0 && (keys != nullptr ? keys[i - 1] == keys[i]
                                  : plan.compare(x, plan.slices, groups.order[i - 1], groups.order[i]) == 0);
    if (!same) groups.begin[groups.count++] = i;
  }
  groups.begin[groups.count] = n;
  for (int64_t g = 0; g < groups.count; ++g) groups.ranking[g] = g;
  if (plan.sorted) return;
  // In the order in which the slices appear.
  std::sort(groups.ranking, groups.ranking + groups.count,
            [&groups](int64_t a, int64_t b) { return groups.first(a) < groups.first(b); });
}

Status run_unique(const UniquePlan& plan, KernelContext& context) {
  const int64_t n = plan.slices.count;
  auto* const memory = reinterpret_cast<int64_t*>(context.scratch);
  Groups groups{memory, memory + n, memory + 2 * n + 1};
  find_groups(plan, context.inputs[0], groups, memory + 3 * n + 1);
  Shape shape{groups.count};
  if (plan.axis) {
    shape = plan.x;
    shape[*plan.axis] = groups.count;
  }
  TENON_TRY_ASSIGN(void* const y, open_output(context, plan.outputs[0], 0, shape));
  int64_t* numbers[3] = {};  // first index, inverse, count
  for (size_t i = 1; i < 4; ++i) {
    TENON_TRY_ASSIGN(void* const memory_of, open_output(context, plan.outputs[i], i, Shape{i == 2 ? n : groups.count}));
    numbers[i - 1] = static_cast<int64_t*>(memory_of);
  }
  const auto bytes = static_cast<int64_t>(plan.bytes), line = plan.slices.inner * bytes;
  for (int64_t r = 0; r < groups.count; ++r) {
    const int64_t group = groups.ranking[r];
    for (int64_t o = 0; y != nullptr && o < plan.slices.outer; ++o) {
      std::memcpy(static_cast<std::byte*>(y) + (o * groups.count + r) * line,
                  context.input<std::byte>(0) + plan.slices.offset(groups.first(group), o) * bytes, line);
    }
    if (numbers[0] != nullptr) numbers[0][r] = groups.first(group);
    if (numbers[2] != nullptr) numbers[2][r] = groups.begin[group + 1] - groups.begin[group];
    for (int64_t i = groups.begin[group]; numbers[1] != nullptr && i < groups.begin[group + 1]; ++i) {
      numbers[1][groups.order[i]] = r;
    }
  }
  return {};
}

Result<RefImpl> make_unique(RefNode& node) {
  TENON_TRY(require_inputs(node, 1));
  UniquePlan plan{.x = node.inputs[0].shape};
  TENON_TRY_ASSIGN(const UniqueDesc desc, read_unique(*node.node, plan.x.rank()));
  plan.axis = desc.axis;
  plan.sorted = desc.sorted;
  DataType type = node.inputs[0].type;
  int64_t components = 1;
  if (type == DataType::kComplex64 || type == DataType::kComplex128) {
    components = 2;
    type = type == DataType::kComplex64 ? DataType::kFloat : DataType::kDouble;
  }
  plan.bytes = data_type_size(type);
  plan.compare = select(AllTypes(), type, []<typename T>() -> Compare { return &compare<T>; });
  plan.sort = select(AllTypes(), type, []<typename T>() -> Sort { return &sort_slices<T>; });
  TENON_UNSUPPORTED_IF(plan.sort == nullptr, "Unique is not computed on {}.", data_type_name(type));
  if (plan.axis) {
    const AxisSpan span = axis_span(plan.x, *plan.axis);
    plan.slices = {span.outer, span.length, span.inner * components};
  } else {
    plan.slices = {1, plan.x.element_count(), components};
  }
  if (plan.slices.outer == 1 && plan.slices.inner == 1)
    plan.make_keys = select(AllTypes(), type, []<typename T>() -> MakeKeys { return &make_keys<T>; });
  for (size_t i = 0; i < 4; ++i) plan.outputs[i] = output_spec(node, i);
  RefImpl impl;
  impl.scratch_bytes = ((plan.make_keys != nullptr ? 6 : 3) * plan.slices.count + 1) * sizeof(int64_t);
  impl.run = [plan](KernelContext& context) -> Status { return run_unique(plan, context); };
  return impl;
}

constexpr KernelEntry kRows[] = {
    ref_row < kAllSet | kComplexSet,
    &make_unique > ("Unique", 11),
};

}  // namespace

std::span<const KernelEntry> ref_unique_rows() { return kRows; }

}  // namespace tenon::cpu::ref
