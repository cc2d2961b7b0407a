#include "ops/control_flow.h"

#include <span>

#include "ops/attributes.h"

namespace tenon {
namespace {

// Axes and directions of `count` tensors; lists that are too short, or left out, mean axis 0 and forwards.
std::vector<ScanAxis> scan_axes(std::span<const int64_t> axes, std::span<const int64_t> directions, size_t count) {
  std::vector<ScanAxis> scans(count);
  for (size_t i = 0; i < count && i < axes.size(); ++i) scans[i].axis = axes[i];
  for (size_t i = 0; i < count && i < directions.size(); ++i) scans[i].reverse = directions[i] == 1;
  return scans;
}

}  // namespace

Result<ScanDesc> read_scan(const Node& node, size_t inputs) {
  const Attributes attributes(node);
  ScanDesc desc{.batched = node.since_version < 9, .inputs = {}, .outputs = {}};
  desc.first_state = desc.batched ? 1 : 0;
  const int64_t scans = attributes.integer("num_scan_inputs");
  TENON_INVALID_IF(scans < 1 || inputs < desc.first_state || static_cast<size_t>(scans) > inputs - desc.first_state,
                   "Attribute \"num_scan_inputs\" is {} for {} inputs.", scans, inputs);
  const size_t count = scans;
  desc.states = inputs - desc.first_state - count;
  const size_t outputs = node.outputs.size() > desc.states ? node.outputs.size() - desc.states : 0;
  if (desc.batched) {
    desc.inputs = scan_axes({}, attributes.integers("directions"), count);
    desc.outputs = scan_axes({}, {}, outputs);
  } else {
    desc.inputs =
        scan_axes(attributes.integers("scan_input_axes"), attributes.integers("scan_input_directions"), count);
    desc.outputs =
        scan_axes(attributes.integers("scan_output_axes"), attributes.integers("scan_output_directions"), outputs);
  }
  return desc;
}

}  // namespace tenon
