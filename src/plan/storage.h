// Assigns storage to each value of a graph: caller's memory, a constant or the arena, shared where values may share it.
//
// The order of calls is elide(), then reuse_in_place() with the kernels of the nodes that remain, then finish().
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include <tenon/copy_ledger.h>

#include "ep/api/ids.h"
#include "ep/api/kernel.h"
#include "graph/graph.h"
#include "plan/arena.h"
#include "plan/ids.h"

namespace tenon {

enum class StorageKind : uint8_t { kAbsent, kConstant, kInput, kOutput, kArena, kDynamic, kPlacedConstant, kHandle };

// Where a value begins. `index`: the value's id for constants; which space's arena; which graph input, output slot,
// dynamic value, placed constant or handle otherwise.
struct Location {
  StorageKind kind = StorageKind::kAbsent;
  int32_t index = -1;
  size_t offset_bytes = 0;
  // `index` in an array.
  size_t place() const { return static_cast<size_t>(index); }
  friend bool operator==(const Location&, const Location&) = default;
};

// Memory of a space that gives handles: what would be a part of the arena elsewhere.
struct HandleBuffer {
  SpaceId space = kHostSpace;
  size_t size_bytes = 0;
};

// A copy at the end of a run: from where the value is into a caller's output.
struct PlanCopy {
  Location source;
  SpaceId space = kHostSpace;  // of the source
  OutputSlot output;
  CopyReason reason = CopyReason::kOutputIsInput;
};

enum class Elided : uint8_t { kNo, kView, kConcat };

class StorageAssignment {
 public:
  // `output_slots[i]` is where the caller wants graph.outputs[i].
  // `spaces` has one entry a value; empty: all in plain host memory. `handles` has one a space; empty: none.
  StorageAssignment(const Graph& graph, std::span<const OutputSlot> output_slots, PerValue<SpaceId> spaces = {},
                    PerSpace<MemorySpace> table = {}, PerSpace<bool> handles = {});

  // The known alignments of the graph's inputs; unknown without this call. Call it before elide().
  void set_input_alignments(std::vector<uint32_t> alignments) { input_alignments_ = std::move(alignments); }
  // Finds the nodes that need no step. elided(n) answers from then on.
  Status elide();
  Elided elided(NodeId node) const { return elided_[node]; }

  // Lets outputs take over the memory of inputs that die there. kernels[n] is null for elided nodes.
  void reuse_in_place(const PerNode<const Kernel*>& kernels);
  // {input, output} of a node that runs in place, {-1, -1} otherwise.
  std::pair<int32_t, int32_t> in_place(NodeId node) const { return in_place_[node]; }

  // Packs the arena with each node's scratch.
  Status finish(const PerNode<const Kernel*>& kernels);

  Location location(ValueId id) const;
  // Of the memory that the value lies in.
  SpaceId memory_space(ValueId id) const;
  Location scratch(NodeId node) const { return scratch_[node]; }
  const PerSpace<size_t>& arena_bytes() const { return arena_bytes_; }
  // In spaces that give handles; kHandle counts them.
  const std::vector<HandleBuffer>& handle_buffers() const { return handle_buffers_; }
  // Bytes that all arena values and scratch would take without sharing.
  size_t unshared_bytes() const { return unshared_bytes_; }
  const std::vector<PlanCopy>& copies() const { return copies_; }
  // The last node that reads graph input i (kNever, kAtEnd for one that is copied or kept).
  NodeId last_read(size_t input) const { return last_read_[input]; }
  // The first node that writes into an output (kAtEnd for one that is only copied to).
  NodeId first_write(OutputSlot slot) const { return first_write_[slot]; }

 private:
  using BufferId = StrongId<struct BufferTag>;
  struct Buffer {
    StorageKind kind = StorageKind::kAbsent;
    int32_t index = -1;
    size_t size_bytes = 0;
    NodeId first = kAtEnd<NodeId>;
    NodeId last = kNever<NodeId>;
    BufferId parent;  // this buffer lies inside another
    size_t parent_offset = 0;
    size_t offset_bytes = 0;  // in the arena
    SpaceId memory = kHostSpace;
  };
  struct Position {
    BufferId buffer;
    size_t offset_bytes = 0;
  };

  Position root(Position position) const;
  Position position_of(ValueId id) const { return root(positions_[id]); }
  BufferId add_buffer(StorageKind kind, int32_t index, size_t size_bytes, NodeId first, SpaceId memory);
  SpaceId wanted_memory(ValueId id) const { return memory_.empty() ? kHostSpace : memory_[id]; }
  bool host_addressable(SpaceId memory) const;
  // Memory that nothing can be a part of.
  bool gives_handles(SpaceId memory) const { return !handles_.empty() && handles_[memory]; }
  void assign_handles();
  // A value may lie in memory other than the one that was chosen for it if that one is the host's and so is this.
  bool serves(SpaceId memory, SpaceId wanted) const;
  // A part that begins `offset_bytes` into a buffer is as aligned as values in the buffer's memory are taken to be.
  bool part_is_aligned(const Buffer& buffer, size_t offset_bytes) const;
  // The value fills an arena buffer of its own, which may therefore be moved into another.
  bool may_embed(ValueId id, const Position& position) const;
  void embed(BufferId buffer, const Position& into);
  bool feeds_output(ValueId id) const { return feeds_output_[id]; }
  void mark_output_feeders();
  void place_values();
  void place_outputs();
  bool may_elide_concat(const Node& node, std::span<const size_t> offsets, const Position& whole) const;
  void elide_concats();
  void find_last_uses();
  bool try_in_place(NodeId node, size_t input, size_t output);

  const Graph& graph_;
  std::vector<OutputSlot> output_slots_;
  IdVector<BufferId, Buffer> buffers_;
  PerValue<Position> positions_;
  PerNode<Elided> elided_;
  PerValue<bool> feeds_output_;
  PerNode<std::pair<int32_t, int32_t>> in_place_;
  PerNode<Location> scratch_;
  std::vector<PlanCopy> copies_;
  std::vector<NodeId> last_read_;
  IdVector<OutputSlot, NodeId> first_write_;
  std::vector<uint32_t> input_alignments_;  // by graph input; empty: 0
  PerValue<SpaceId> memory_;                // the space that was chosen
  PerSpace<MemorySpace> table_;
  PerSpace<bool> handles_;
  std::vector<HandleBuffer> handle_buffers_;
  PerSpace<size_t> arena_bytes_;
  size_t unshared_bytes_ = 0;
};

}  // namespace tenon
