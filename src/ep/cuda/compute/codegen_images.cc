#include "ep/cuda/compute/codegen_images.h"

#include <algorithm>
#include <numeric>

#include "base/format.h"
#include "ep/cuda/compute/codegen_text.h"

namespace tenon::cuda {

namespace {

Result<GeneratedKernel> finished(const char* prefix, const std::string& parameters, const std::string& body,
                                 int64_t count, bool wide) {
  const std::string text = format("({}) {{\n{}{}{}}}\n", parameters, index_types(wide), flat_index(count), body);
  GeneratedKernel kernel{.name = hash_name(prefix, text), .threads = kGeneratedThreads};
  kernel.source =
      format("extern \"C\" __global__ void __launch_bounds__({}) {}{}", kGeneratedThreads, kernel.name, text);
  TENON_TRY_ASSIGN(kernel.blocks, blocks_of(count, kGeneratedThreads));
  return kernel;
}

// Dimensions in the order of memory, outermost first, so that threads beside each other write beside each other.
std::vector<size_t> memory_order(const std::vector<int64_t>& strides) {
  std::vector<size_t> order(strides.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return strides[a] > strides[b]; });
  return order;
}

}  // namespace

Result<GeneratedKernel> generate_resize(const GeneratedResize& kernel) {
  const std::string compute = compute_type(kernel.type);
  TENON_UNSUPPORTED_IF(compute.empty() || (!kernel.copies && compute != "float"), "Kernels cannot resize {}.",
                       data_type_name(kernel.type));
  const std::string type = storage_type(kernel.type);
  const std::vector<size_t> order = memory_order(kernel.out_strides);
  std::vector<int64_t> dims;
  std::string parameters = format("const {}* a", type), place, out, taps, outside, weights;
  std::string indent = "  ";
  size_t loops = 0;
  for (size_t i = 0; i < order.size(); ++i) {
    const size_t d = order[i];
    const int64_t width = kernel.widths[d];
    dims.push_back(kernel.dims[d]);
    out += format("{}i{} * {}", out.empty() ? "" : " + ", i, kernel.out_strides[d]);
    if (width == 0) {
      if (kernel.strides[d] != 0) place += format(" + (place_t)i{} * {}", i, kernel.strides[d]);
      continue;
    }
    outside += format("{}x{}[i{} * {}] < 0", outside.empty() ? "" : " || ", i, i, width);
    place += format(" + (place_t)x{0}[i{0} * {1}{2}] * {3}", i, width, width > 1 ? format(" + k{}", i) : "",
                    kernel.strides[d]);
    if (width == 1) continue;
    taps += format("{0}for (int k{1} = 0; k{1} < {2}; ++k{1}) {{\n", indent, i, width);
    weights += format("{}w{}[i{} * {} + k{}]", weights.empty() ? "" : " * ", i, i, width, i);
    indent += "  ";
    ++loops;
  }
  for (size_t i = 0; i < order.size(); ++i)
    if (kernel.widths[order[i]] > 0) parameters += format(", const int* x{0}, const float* w{0}", i);
  parameters += format(", {}* y", type);
  std::string body = split_index(dims, "i", "flat");
  if (kernel.outside && !outside.empty())
    body += format("  if ({}) {{\n    y[{}] = {};\n    return;\n  }}\n", outside, out.empty() ? "0" : out,
                   stored(kernel.type, kernel.fill));
  const std::string element = loaded(kernel.type, format("a[0{}]", place));
  if (kernel.copies) {
    body += format("  y[{}] = {};\n", out.empty() ? "0" : out, stored(kernel.type, element));
  } else {
    body += "  float sum = 0.0f;\n" + taps;
    // Elements of no weight may be no numbers.
    body += format("{0}const float weight = {1};\n{0}if (weight != 0.0f) sum += weight * {2};\n", indent,
                   weights.empty() ? "1.0f" : weights, element);
    for (; loops > 0; --loops) body += std::string(2 * loops, ' ') + "}\n";
    body += format("  y[{}] = {};\n", out.empty() ? "0" : out, stored(kernel.type, "sum"));
  }
  // What is read lies within the input, whose sizes are the greatest of indices.
  return finished("resize", parameters, body, count_of(kernel.dims),
                  kernel.wide || needs_wide_index(kernel.dims, kernel.out_strides, 0));
}

Result<GeneratedKernel> generate_window_sum(const GeneratedWindowSum& kernel) {
  TENON_UNSUPPORTED_IF(compute_type(kernel.type) != "float", "Kernels cannot sum windows of {}.",
                       data_type_name(kernel.type));
  const std::string type = storage_type(kernel.type);
  // Image, group, channel, then the axes; threads beside each other write beside each other.
  std::vector<int64_t> sizes = {kernel.images, kernel.groups, kernel.channels};
  std::vector<int64_t> out_strides = {kernel.out_image_stride, kernel.out_channel_stride * kernel.channels,
                                      kernel.out_channel_stride};
  for (const auto& axis : kernel.axes) {
    sizes.push_back(axis.out);
    out_strides.push_back(axis.out_stride);
  }
  const std::vector<size_t> order = memory_order(out_strides);
  std::vector<int64_t> dims;
  std::vector<std::string> names(sizes.size());
  for (size_t i = 0; i < order.size(); ++i) {
    dims.push_back(sizes[order[i]]);
    names[order[i]] = format("i{}", i);
  }
  const std::string channel = format("({} * {} + {})", names[1], kernel.channels, names[2]);
  std::string body = split_index(dims, "i", "flat");
  body += format("  float sum = {};\n", kernel.bias ? format("b[{}]", channel) : "0.0f");
  std::string place = format("{} * {} + {} * {} + {} * {}", names[0], kernel.image_stride, names[1],
                             kernel.group_stride, names[2], kernel.channel_stride);
  std::string out = format("{} * {} + {} * {}", names[0], kernel.out_image_stride, channel, kernel.out_channel_stride);
  std::string other =
      format("{} * {} + {} * {}", names[0], kernel.residual_image_stride, channel, kernel.residual_channel_stride);
  std::string indent = "  ";
  for (size_t a = 0; a < kernel.axes.size(); ++a) {
    const auto& axis = kernel.axes[a];
    const std::string& name = names[3 + a];
    body += format("{0}for (int k{1} = 0; k{1} < {2}; ++k{1}) {{\n", indent, a, axis.kernel);
    indent += "  ";
    body +=
        format("{0}const place_t p{1} = (place_t){2} + {3} - k{1} * {4};\n", indent, a, name, axis.pad, axis.dilation);
    body +=
        format("{0}if (p{1} < 0 || p{1} % {2} != 0 || p{1} / {2} >= {3}) continue;\n", indent, a, axis.stride, axis.in);
    place += format(" + p{0} / {1} * {2} + k{0} * {3}", a, axis.stride, axis.in_stride, axis.tap_stride);
    out += format(" + {} * {}", name, axis.out_stride);
    other += format(" + {} * {}", name, axis.residual_stride);
  }
  body += format("{}sum += {};\n", indent, loaded(kernel.type, format("a[{}]", place)));
  for (size_t a = kernel.axes.size(); a > 0; --a) body += std::string(2 * a, ' ') + "}\n";
  const std::string residual = loaded(kernel.type, format("r[{}]", other));
  if (kernel.residual && !kernel.residual_after) body += format("  sum += {};\n", residual);
  std::string activated = kernel.activation;
  for (size_t at = 0; (at = activated.find("$0", at)) != std::string::npos; at += 3) activated.replace(at, 2, "sum");
  body += format("  sum = {};\n", activated);
  if (kernel.residual && kernel.residual_after) body += format("  sum += {};\n", residual);
  body += format("  y[{}] = {};\n", out, stored(kernel.type, "sum"));
  const std::string parameters = format("const {0}* a{1}{2}, {0}* y", type, kernel.bias ? ", const float* b" : "",
                                        kernel.residual ? format(", const {}* r", type) : "");
  bool wide = needs_wide_index(sizes, out_strides, 0) ||
              needs_wide_index(sizes, {kernel.image_stride, kernel.group_stride, kernel.channel_stride}, 0);
  for (const auto& axis : kernel.axes)
    wide = wide || needs_wide_index({axis.in, axis.kernel}, {axis.in_stride, axis.tap_stride}, 0);
  return finished("window", parameters, body, count_of(sizes), wide);
}

}  // namespace tenon::cuda
