#include "problems/windows.h"

#include <algorithm>

#include "base/status.h"
#include "graph/model_writer.h"

namespace tenon::problems {

Dims spatial_sizes(const Problem& problem) {
  Dims sizes;
  for (const char* name : {"d", "h", "w"})
    if (const Dims size = problem.size(name); !size.empty()) sizes.push_back(size[0]);
  return sizes;
}

Result<Dims> for_axes(const Problem& problem, std::string_view name, size_t axes, int64_t otherwise) {
  Dims values = problem.size(name);
  if (values.empty()) values = {otherwise};
  if (values.size() == 1) values.resize(axes, values[0]);
  TENON_INVALID_IF(values.size() != axes, "The size {} has {} numbers for {} axes.", name, values.size(), axes);
  return values;
}

Result<Window> read_window(const Problem& problem, bool ceil_mode) {
  Window window;
  window.input = spatial_sizes(problem);
  const size_t axes = window.input.size();
  TENON_INVALID_IF(axes == 0, "The line has no size w.");
  TENON_TRY_ASSIGN(window.kernel, for_axes(problem, "k", axes, 1));
  TENON_TRY_ASSIGN(const Dims strides, for_axes(problem, "s", axes, 1));
  TENON_TRY_ASSIGN(const Dims dilations, for_axes(problem, "dil", axes, 1));
  Dims pads = problem.size("p");
  if (pads.empty()) pads = {0};
  if (pads.size() == 1) pads.resize(axes, pads[0]);
  if (pads.size() == axes) pads.insert(pads.end(), pads.begin(), pads.end());
  TENON_INVALID_IF(pads.size() != 2 * axes, "The size p has {} numbers for {} axes.", pads.size(), axes);
  const std::string auto_pad = problem.word("auto_pad");
  for (size_t a = 0; a < axes; ++a) {
    WindowAxis axis{.in = window.input[a],
                    .kernel = window.kernel[a],
                    .stride = strides[a],
                    .dilation = dilations[a],
                    .before = pads[a],
                    .after = pads[axes + a]};
    const int64_t extent = (axis.kernel - 1) * axis.dilation + 1;
    if (auto_pad == "SAME_UPPER" || auto_pad == "SAME_LOWER") {
      axis.out = (axis.in + axis.stride - 1) / axis.stride;
      const int64_t total = std::max<int64_t>(0, (axis.out - 1) * axis.stride + extent - axis.in);
      axis.before = auto_pad == "SAME_UPPER" ? total / 2 : total - total / 2;
      axis.after = total - axis.before;
    } else {
      const int64_t room = axis.in + axis.before + axis.after - extent;
      TENON_INVALID_IF(room < 0, "A window of {} does not fit into an input of {}.", extent, axis.in);
      axis.out = room / axis.stride + 1;
      // A last window that begins in the padding behind the input counts for nothing.
      if (ceil_mode && room % axis.stride != 0 && axis.out * axis.stride < axis.in + axis.before) ++axis.out;
    }
    window.axes.push_back(axis);
    window.output.push_back(axis.out);
  }
  using namespace model_writer;
  if (!problem.size("s").empty()) window.attributes.push_back(ints_attribute("strides", strides));
  if (!problem.size("dil").empty()) window.attributes.push_back(ints_attribute("dilations", dilations));
  if (!problem.size("p").empty()) window.attributes.push_back(ints_attribute("pads", pads));
  if (!auto_pad.empty()) window.attributes.push_back(string_attribute("auto_pad", auto_pad));
  return window;
}

}  // namespace tenon::problems
