#include "plan/storage.h"

#include <algorithm>
#include <limits>

#include "base/checked.h"
#include "device/memory_space.h"
#include "plan/regions.h"
#include "plan/views.h"

namespace tenon {

StorageAssignment::StorageAssignment(const Graph& graph, std::span<const OutputSlot> output_slots,
                                     PerValue<SpaceId> spaces, PerSpace<MemorySpace> table, PerSpace<bool> handles)
    : graph_(graph),
      output_slots_(output_slots.begin(), output_slots.end()),
      positions_(graph.values.size()),
      elided_(graph.nodes.size(), Elided::kNo),
      feeds_output_(graph.values.size(), false),
      in_place_(graph.nodes.size(), {-1, -1}),
      scratch_(graph.nodes.size()),
      memory_(std::move(spaces)),
      table_(std::move(table)),
      handles_(std::move(handles)) {
  if (table_.empty()) table_.push_back({});
}

bool StorageAssignment::host_addressable(SpaceId memory) const { return host_can_address(table_[memory]); }

bool StorageAssignment::serves(SpaceId memory, SpaceId wanted) const {
  return memory == wanted || (wanted == kHostSpace && host_addressable(memory));
}

bool StorageAssignment::part_is_aligned(const Buffer& buffer, size_t offset_bytes) const {
  const uint32_t needed = table_[buffer.memory].alignment;
  if (needed != 0 && offset_bytes % needed != 0) return false;
  // Kernels may rely on 64-byte alignment of everything that is not a caller's.
  if (buffer.kind != StorageKind::kInput) return offset_bytes % kArenaAlignment == 0;
  const size_t index = buffer.index;
  return needed == 0 || (index < input_alignments_.size() && input_alignments_[index] >= needed);
}

StorageAssignment::Position StorageAssignment::root(Position position) const {
  while (position.buffer.valid() && buffers_[position.buffer].parent.valid()) {
    const Buffer& buffer = buffers_[position.buffer];
    position = {buffer.parent, position.offset_bytes + buffer.parent_offset};
  }
  return position;
}

StorageAssignment::BufferId StorageAssignment::add_buffer(StorageKind kind, int32_t index, size_t size_bytes,
                                                          NodeId first, SpaceId memory) {
  Buffer buffer;
  buffer.memory = memory;
  buffer.kind = kind;
  buffer.index = index;
  buffer.size_bytes = size_bytes;
  buffer.first = first;
  buffer.last = first;
  return buffers_.push_back(buffer);
}

Status StorageAssignment::elide() {
  mark_output_feeders();
  place_values();
  place_outputs();
  elide_concats();
  find_last_uses();
  return {};
}

// Values that become a caller's output as they are, or through views of the whole. A part of a buffer cannot be the
// caller's memory, so nodes that would make such a part have to compute.
void StorageAssignment::mark_output_feeders() {
  for (size_t i = 0; i < graph_.outputs.size(); ++i) {
    if (output_slots_[i].valid()) feeds_output_[graph_.outputs[i]] = true;
  }
  for (size_t left = graph_.nodes.size(); left-- > 0;) {
    const Node& node = graph_.nodes[NodeId(left)];
    const std::vector<size_t> offsets = view_offsets(graph_, node);
    if (offsets.size() != 1 || !feeds_output(node.outputs[0])) continue;
    if (spec_of(graph_.value(node.inputs[0])).size_bytes() == spec_of(graph_.value(node.outputs[0])).size_bytes()) {
      feeds_output_[node.inputs[0]] = true;
    }
  }
}

void StorageAssignment::place_values() {
  for (ValueId id : graph_.values.ids()) {
    const Value& value = graph_.value(id);
    if (!value.constant) continue;
    positions_[id].buffer =
        add_buffer(StorageKind::kConstant, id.value(), value.constant->size_bytes, kNever<NodeId>, kHostSpace);
  }
  for (size_t i = 0; i < graph_.inputs.size(); ++i) {
    const ValueId id = graph_.inputs[i];
    positions_[id].buffer =
        add_buffer(StorageKind::kInput, static_cast<int32_t>(i), 0, kNever<NodeId>, wanted_memory(id));
  }
  int32_t dynamic_values = 0;
  for (NodeId n : graph_.nodes.ids()) {
    const Node& node = graph_.nodes[n];
    std::vector<size_t> offsets = view_offsets(graph_, node);
    if (!offsets.empty()) {
      const Position source = position_of(node.inputs[0]);
      const bool whole = offsets.size() == 1 && spec_of(graph_.value(node.inputs[0])).size_bytes() ==
                                                    spec_of(graph_.value(node.outputs[0])).size_bytes();
      for (size_t i = 0; i < offsets.size(); ++i) {
        const bool aligned = whole || part_is_aligned(buffers_[source.buffer], source.offset_bytes + offsets[i]);
        const bool here = serves(buffers_[source.buffer].memory, wanted_memory(node.outputs[i]));
        const bool part = source.offset_bytes + offsets[i] != 0 || !whole;
        const bool named = gives_handles(buffers_[source.buffer].memory) && part;
        if (!aligned || !here || named || (!whole && feeds_output(node.outputs[i]))) {
          offsets.clear();
          break;
        }
      }
      for (size_t i = 0; i < offsets.size(); ++i) {
        positions_[node.outputs[i]] = {source.buffer, source.offset_bytes + offsets[i]};
      }
      if (!offsets.empty()) elided_[n] = Elided::kView;
    }
    if (elided_[n] != Elided::kNo) continue;
    for (ValueId id : node.outputs) {
      if (id == kNoValue) continue;
      const TensorSpec spec = spec_of(graph_.value(id));
      positions_[id].buffer =
          spec.dynamic
              ? add_buffer(StorageKind::kDynamic, dynamic_values++, 0, n, wanted_memory(id))
              : add_buffer(StorageKind::kArena, wanted_memory(id).value(), spec.size_bytes(), n, wanted_memory(id));
    }
  }
}

// An output's buffer becomes the caller's memory, so that its producer writes straight into it.
void StorageAssignment::place_outputs() {
  OutputSlot end(0);
  for (OutputSlot slot : output_slots_) end = std::max(end, OutputSlot(slot.value() + 1));
  first_write_.assign(end.index(), kAtEnd<NodeId>);
  for (size_t i = 0; i < graph_.outputs.size(); ++i) {
    if (!output_slots_[i].valid()) continue;
    const ValueId id = graph_.outputs[i];
    const Position position = position_of(id);
    Buffer& buffer = buffers_[position.buffer];
    if (buffer.kind == StorageKind::kArena && position.offset_bytes == 0 &&
        buffer.size_bytes == spec_of(graph_.value(id)).size_bytes()) {
      buffer.kind = StorageKind::kOutput;
      buffer.index = output_slots_[i].value();
      continue;
    }
    PlanCopy copy;
    copy.output = output_slots_[i];
    copy.reason = buffer.kind == StorageKind::kOutput    ? CopyReason::kOutputShared
                  : buffer.kind == StorageKind::kDynamic ? CopyReason::kOutputUnknownSize
                                                         : CopyReason::kOutputIsInput;
    copy.space = buffer.memory;
    copy.source.index = id.value();  // until finish() knows the location
    copies_.push_back(copy);
  }
}

bool StorageAssignment::may_embed(ValueId id, const Position& position) const {
  const Buffer& buffer = buffers_[position.buffer];
  return buffer.kind == StorageKind::kArena && position.offset_bytes == 0 &&
         buffer.size_bytes == spec_of(graph_.value(id)).size_bytes();
}

void StorageAssignment::embed(BufferId index, const Position& into) {
  Buffer& buffer = buffers_[index];
  Buffer& target = buffers_[into.buffer];
  buffer.parent = into.buffer;
  buffer.parent_offset = into.offset_bytes;
  target.first = std::min(target.first, buffer.first);
  target.last = std::max(target.last, buffer.last);
}

// Inputs may be the parts of one buffer, as long as they are all of it, in order: the buffer then moves as a whole.
bool StorageAssignment::may_elide_concat(const Node& node, std::span<const size_t> offsets,
                                         const Position& whole) const {
  for (size_t i = 0; i < offsets.size(); ++i) {
    const Position part = position_of(node.inputs[i]);
    const Buffer& buffer = buffers_[part.buffer];
    if (buffer.kind != StorageKind::kArena || part.buffer == whole.buffer || offsets[i] < part.offset_bytes)
      return false;
    if (buffer.memory != buffers_[whole.buffer].memory) return false;
    if (!part_is_aligned(buffers_[whole.buffer], whole.offset_bytes + offsets[i] - part.offset_bytes)) return false;
    size_t covered_bytes = 0;
    for (size_t j = 0; j < offsets.size(); ++j) {
      const Position other = position_of(node.inputs[j]);
      if (other.buffer != part.buffer) continue;
      if (offsets[j] - other.offset_bytes != offsets[i] - part.offset_bytes) return false;
      covered_bytes += spec_of(graph_.value(node.inputs[j])).size_bytes();
    }
    if (covered_bytes != buffer.size_bytes) return false;
  }
  return true;
}

void StorageAssignment::elide_concats() {
  for (NodeId n : graph_.nodes.ids()) {
    const Node& node = graph_.nodes[n];
    const std::vector<size_t> offsets = concat_offsets(graph_, node);
    if (offsets.empty()) continue;
    const Position whole = position_of(node.outputs[0]);
    if (gives_handles(buffers_[whole.buffer].memory)) continue;
    if (!may_elide_concat(node, offsets, whole)) continue;
    for (size_t i = 0; i < offsets.size(); ++i) {
      const Position part = position_of(node.inputs[i]);
      if (part.buffer == whole.buffer) continue;  // moved with an earlier part of the same buffer
      embed(part.buffer, {whole.buffer, whole.offset_bytes + offsets[i] - part.offset_bytes});
    }
    elided_[n] = Elided::kConcat;
  }
}

void StorageAssignment::find_last_uses() {
  const auto use = [&](ValueId id, NodeId when) {
    Buffer& buffer = buffers_[position_of(id).buffer];
    buffer.last = std::max(buffer.last, when);
  };
  for (NodeId n : graph_.nodes.ids()) {
    if (elided_[n] != Elided::kNo) continue;
    for (ValueId id : graph_.nodes[n].inputs) {
      if (id != kNoValue) use(id, n);
    }
  }
  for (ValueId id : graph_.outputs) use(id, kAtEnd<NodeId>);
}

bool StorageAssignment::try_in_place(NodeId n, size_t input, size_t output) {
  const Node& node = graph_.nodes[n];
  const ValueId x = node.inputs[input];
  const ValueId y = node.outputs[output];
  if (x == kNoValue || y == kNoValue) return false;
  const Position from = position_of(x);
  const Position to = position_of(y);
  const Buffer& source = buffers_[from.buffer];
  Buffer& target = buffers_[to.buffer];
  if (from.buffer == to.buffer || !may_embed(x, from) || source.last != n) return false;
  // Not into a caller's output: its memory may be slow to read, and only the kernel that makes the output touches it.
  if (target.kind != StorageKind::kArena) return false;
  if (source.size_bytes != spec_of(graph_.value(y)).size_bytes()) return false;
  // S3.4: the question is whether the memory serves, not which device it belongs to.
  if (!serves(source.memory, target.memory)) return false;
  for (size_t i = 0; i < node.inputs.size(); ++i) {
    if (i != input && node.inputs[i] != kNoValue && position_of(node.inputs[i]).buffer == from.buffer) return false;
  }
  target.memory = source.memory;
  target.index = source.memory.value();
  embed(from.buffer, to);
  in_place_[n] = {static_cast<int32_t>(input), static_cast<int32_t>(output)};
  return true;
}

void StorageAssignment::reuse_in_place(const PerNode<const Kernel*>& kernels) {
  for (NodeId n : graph_.nodes.ids()) {
    // A region is asked when it matters (SharedMemory): it says for the shapes of a run whether it runs in place.
    if (kernels[n] == nullptr || is_region(graph_.nodes[n])) continue;
    const Node& node = graph_.nodes[n];
    bool found = false;
    for (size_t output = 0; !found && output < node.outputs.size(); ++output) {
      for (size_t input = 0; !found && input < node.inputs.size(); ++input) {
        found = kernels[n]->may_run_in_place(input, output) && try_in_place(n, input, output);
      }
    }
  }
}

// Buffers of the same size whose times do not meet share one.
void StorageAssignment::assign_handles() {
  std::vector<BufferId> order;
  std::vector<NodeId> last;  // by handle buffer
  for (BufferId id : buffers_.ids()) {
    const Buffer& buffer = buffers_[id];
    if (buffer.kind == StorageKind::kArena && !buffer.parent.valid() && gives_handles(buffer.memory))
      order.push_back(id);
  }
  std::stable_sort(order.begin(), order.end(),
                   [&](BufferId a, BufferId b) { return buffers_[a].first < buffers_[b].first; });
  for (BufferId id : order) {
    Buffer& buffer = buffers_[id];
    size_t chosen = 0;
    while (chosen < handle_buffers_.size() &&
           (handle_buffers_[chosen].space != buffer.memory || handle_buffers_[chosen].size_bytes != buffer.size_bytes ||
            last[chosen] >= buffer.first))
      ++chosen;
    if (chosen == handle_buffers_.size()) {
      handle_buffers_.push_back({buffer.memory, buffer.size_bytes});
      last.push_back(buffer.last);
    }
    last[chosen] = buffer.last;
    buffer.kind = StorageKind::kHandle;
    buffer.index = static_cast<int32_t>(chosen);
  }
}

Status StorageAssignment::finish(const PerNode<const Kernel*>& kernels) {
  PerSpace<std::vector<ArenaBuffer>> arenas(table_.size());
  PerSpace<std::vector<size_t*>> offsets(table_.size());  // where the offset of each arena buffer goes
  const auto add = [&](SpaceId space, size_t* offset, size_t size_bytes, NodeId first, NodeId last) {
    arenas[space].push_back({.size_bytes = size_bytes, .first = first.value(), .last = last.value()});
    offsets[space].push_back(offset);
    const auto sum = checked_add(unshared_bytes_, size_bytes);
    unshared_bytes_ = sum ? *sum : std::numeric_limits<size_t>::max();
  };
  if (!handles_.empty()) assign_handles();
  for (Buffer& buffer : buffers_) {
    if (buffer.kind != StorageKind::kArena || buffer.parent.valid()) continue;
    add(buffer.memory, &buffer.offset_bytes, buffer.size_bytes, buffer.first, buffer.last);
  }
  for (NodeId n : graph_.nodes.ids()) {
    if (kernels[n] == nullptr || kernels[n]->scratch_bytes() == 0) continue;
    scratch_[n] = {StorageKind::kArena, kHostSpace.value(), 0};
    add(kHostSpace, &scratch_[n].offset_bytes, kernels[n]->scratch_bytes(), n, n);
  }
  arena_bytes_.assign(table_.size(), 0);
  for (SpaceId space : arenas.ids()) {
    TENON_TRY_ASSIGN(arena_bytes_[space], pack_arena(arenas[space], table_[space].alignment));
    for (size_t i = 0; i < arenas[space].size(); ++i) *offsets[space][i] = arenas[space][i].offset_bytes;
  }
  for (PlanCopy& copy : copies_) copy.source = location(ValueId(copy.source.index));
  last_read_.assign(graph_.inputs.size(), kNever<NodeId>);
  for (const Buffer& buffer : buffers_) {
    if (buffer.parent.valid()) continue;
    const size_t index = buffer.index;
    if (buffer.kind == StorageKind::kInput) last_read_[index] = buffer.last;
    if (buffer.kind == StorageKind::kOutput) first_write_[OutputSlot(buffer.index)] = buffer.first;
  }
  return {};
}

Location StorageAssignment::location(ValueId id) const {
  if (id == kNoValue) return {};
  const Position position = position_of(id);
  if (!position.buffer.valid()) return {};
  const Buffer& buffer = buffers_[position.buffer];
  return {buffer.kind, buffer.index,
          position.offset_bytes + (buffer.kind == StorageKind::kArena ? buffer.offset_bytes : 0)};
}

SpaceId StorageAssignment::memory_space(ValueId id) const {
  const Position position = id == kNoValue ? Position{} : position_of(id);
  return !position.buffer.valid() ? kHostSpace : buffers_[position.buffer].memory;
}

}  // namespace tenon
