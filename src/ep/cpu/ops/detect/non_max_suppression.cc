// NonMaxSuppression: of boxes that overlap, those with the best scores.
#include <algorithm>
#include <cmath>

#include "ep/cpu/ops/reference_kernel.h"
#include "ep/cpu/simd/boxes.h"
#include "ops/order.h"

namespace tenon::cpu::ref {

namespace {

// Corners and areas, one array each.
struct Boxes {
  float *left, *top, *right, *bottom, *area;

  static constexpr int64_t kArrays = 5;
  Boxes(float* memory, int64_t length)
      : left(memory),
        top(memory + length),
        right(memory + 2 * length),
        bottom(memory + 3 * length),
        area(memory + 4 * length) {}
  BoxLists lists() const { return {left, top, right, bottom, area}; }
  Box box(int64_t i) const { return {left[i], top[i], right[i], bottom[i], area[i]}; }
  void copy(int64_t to, const Boxes& from, int64_t i) const {
    left[to] = from.left[i], top[to] = from.top[i], right[to] = from.right[i], bottom[to] = from.bottom[i];
    area[to] = from.area[i];
  }
};

void read_boxes(const float* from, int64_t count, bool center_point, const Boxes& to) {
  for (int64_t i = 0; i < count; ++i) {
    const float* const box = from + 4 * i;
    if (center_point) {
      to.left[i] = box[0] - box[2] / 2, to.right[i] = box[0] + box[2] / 2;
      to.top[i] = box[1] - box[3] / 2, to.bottom[i] = box[1] + box[3] / 2;
    } else {
      to.left[i] = std::min(box[1], box[3]), to.right[i] = std::max(box[1], box[3]);
      to.top[i] = std::min(box[0], box[2]), to.bottom[i] = std::max(box[0], box[2]);
    }
    to.area[i] = (to.right[i] - to.left[i]) * (to.bottom[i] - to.top[i]);
  }
}

struct Settings {
  NonMaxSuppressionDesc desc;
  int64_t most = 0;  // boxes a class
  float overlap = 0;
  const float* least_score = nullptr;
};

// Fills `order` with the boxes that are chosen for one class, the best first at its end, and returns their number. The
// front of `order` is a heap of the candidates: each that leaves it frees a place at the end.
int64_t choose(const Settings& settings, const float* scores, const Boxes& boxes, const Boxes& kept, int32_t* order) {
  const int64_t count = settings.desc.boxes;
  if (count == 0 || scores == nullptr) return 0;
  int64_t candidates = 0;
  for (int64_t i = 0; i < count; ++i) {
    if (settings.least_score == nullptr || scores[i] > *settings.least_score)
      order[candidates++] = static_cast<int32_t>(i);
  }
  // The lowest score first, NaN below all; of equal scores the higher index.
  const auto worse = [scores](int32_t a, int32_t b) {
    const float x = scores[a], y = scores[b];
    if (std::isnan(x) || std::isnan(y)) return std::isnan(x) == std::isnan(y) ? a > b : std::isnan(x);
    return x < y || (x == y && a > b);
  };
  std::make_heap(order, order + candidates, worse);
  int64_t chosen = 0;
  while (candidates > 0 && chosen < settings.most) {
    std::pop_heap(order, order + candidates, worse);
    const int32_t box = order[--candidates];
    if (boxes_table().overlaps(kept.lists(), chosen, boxes.box(box), settings.overlap)) continue;
    kept.copy(chosen, boxes, box);
    order[count - 1 - chosen++] = box;
  }
  return chosen;
}

Result<Settings> read_settings(const NonMaxSuppressionDesc& desc, const KernelContext& context, bool has_overlap,
                               bool has_least) {
  Settings settings{.desc = desc};
  const auto* const most = context.input<int64_t>(2);
  settings.most = most == nullptr ? 0 : std::clamp<int64_t>(*most, 0, desc.boxes);
  if (has_overlap) settings.overlap = *context.input<float>(3);
  TENON_INVALID_IF(!(settings.overlap >= 0 && settings.overlap <= 1),
                   "NonMaxSuppression has iou_threshold {}; it has to be in 0 to 1.", settings.overlap);
  if (has_least) settings.least_score = context.input<float>(4);
  return settings;
}

Result<RefImpl> make_non_max_suppression(RefNode& node) {
  TENON_TRY(require_inputs(node, 2));
  TENON_TRY_ASSIGN(const NonMaxSuppressionDesc desc,
                   read_non_max_suppression(*node.node, node.inputs[0].shape, node.inputs[1].shape));
  for (size_t i = 2; i < node.inputs.size(); ++i) {
    const TensorSpec& spec = node.inputs[i];
    TENON_INVALID_IF(spec.present() && spec.shape.element_count() > 1, "NonMaxSuppression has {} numbers as input {}.",
                     spec.shape.element_count(), i);
  }
  // An empty tensor stands for an input that is left out.
  const auto given = [&](size_t i) {
    return input_spec(node, i).present() && input_spec(node, i).shape.element_count() == 1;
  };
  const int64_t tasks = desc.batch * desc.classes, boxes_floats = desc.boxes * Boxes::kArrays;
  RefImpl impl;
  // The corners of every image, and for each class those of the boxes that are kept, and the order of all.
  impl.scratch_bytes =
      (desc.batch + tasks) * boxes_floats * sizeof(float) + tasks * (desc.boxes * sizeof(int32_t) + sizeof(int64_t));
  impl.run = [desc, tasks, boxes_floats, has_most = given(2), has_overlap = given(3), has_least = given(4),
              out = output_spec(node, 0)](KernelContext& context) -> Status {
    TENON_TRY_ASSIGN(Settings settings, read_settings(desc, context, has_overlap, has_least));
    if (!has_most) settings.most = 0;
    auto* const counts = reinterpret_cast<int64_t*>(context.scratch);
    auto* const corners = reinterpret_cast<float*>(counts + tasks);
    float* const kept = corners + desc.batch * boxes_floats;
    auto* const orders = reinterpret_cast<int32_t*>(kept + tasks * boxes_floats);
    for (int64_t b = 0; b < desc.batch; ++b) {
      read_boxes(context.input<float>(0) + b * desc.boxes * 4, desc.boxes, desc.center_point,
                 Boxes(corners + b * boxes_floats, desc.boxes));
    }
    context.pool->parallel_for(tasks, 1, [&](int64_t begin, int64_t end) {
      for (int64_t t = begin; t < end; ++t) {
        counts[t] = choose(settings, context.input<float>(1) + t * desc.boxes,
                           Boxes(corners + t / desc.classes * boxes_floats, desc.boxes),
                           Boxes(kept + t * boxes_floats, desc.boxes), orders + t * desc.boxes);
      }
    });
    int64_t total = 0;
    for (int64_t t = 0; t < tasks; ++t) total += counts[t];
    TENON_TRY_ASSIGN(void* const y, open_output(context, out, 0, Shape{total, 3}));
    auto* to = static_cast<int64_t*>(y);
    for (int64_t t = 0; t < tasks; ++t) {
      const int32_t* const last = orders + (t + 1) * desc.boxes - 1;
      for (int64_t i = 0; i < counts[t]; ++i, to += 3) {
        to[0] = t / desc.classes, to[1] = t % desc.classes, to[2] = last[-i];
      }
    }
    return {};
  };
  return impl;
}

constexpr KernelEntry kRows[] = {
    ref_row<kFloat32Set, &make_non_max_suppression>("NonMaxSuppression", 10),
};

}  // namespace

std::span<const KernelEntry> ref_detect_rows() { return kRows; }

}  // namespace tenon::cpu::ref
