// A session's plan as data: its steps, kernels, memory spaces, arenas, streams and copies. Text, JSON and pages are
// made from it; no program has to read a printed plan.
//
//   auto plan = session->plan_report({{"x", {1, 3, 224, 224}}}, {});
//   for (const tenon::PlanReport::Step& step : plan->steps) std::printf("%s\n", step.kernel.c_str());
//   std::puts(plan->to_json().c_str());
//
// Ownership: a value. CopyRecord::what, alone, is text of the session and lives as long as that.
// Threads: const access from any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "tenon/copy_ledger.h"
#include "tenon/types.h"

namespace tenon {

// How long one node's kernel took on the host's clock. Work that a kernel only enqueues on a stream is not in it.
struct NodeTime {
  std::string name;     // of the node in the plan, or in the model; may be empty
  std::string op_type;  // of the node in the plan
  int32_t node = -1;    // its index in the planned graph (Step::node); -1: unknown
  int64_t begin_ns = 0;
  int64_t duration_ns = 0;
  std::string kernel = {};
  // How many nodes it is in the bodies of (an If's branches): their times contain its own.
  int32_t depth = 0;
  // At least, by operator and shapes: operations of which a multiplication and an addition are two, and bytes that are
  // read and written.
  double flops = 0;
  double bytes = 0;
};

// The times of a run so far, in the order of their ends, with `node`, which has just ended: nodes that began within it
// are in its bodies.
TENON_API void add_node_time(std::vector<NodeTime>& run, NodeTime node);

struct PlanReport {
  // Where a value begins.
  struct Location {
    enum class Kind : uint8_t { kAbsent, kConstant, kInput, kOutput, kArena, kDynamic, kPlacedConstant, kHandle };
    Kind kind = Kind::kAbsent;
    // Which input or output of the report, placed constant, handle, or value whose size only a run knows (kDynamic);
    // the space of an arena; -1 for a constant.
    int32_t index = -1;
    int32_t space = 0;  // of PlanReport::spaces
    size_t offset_bytes = 0;
    std::string name;  // of the constant, input or output
    // "@128", "@1:0" (arena of space 1), "input x+64", "const w", "-".
    TENON_API std::string to_string() const;
  };

  struct Tensor {
    std::string name;  // as in the planned graph; may be empty
    DataType type = DataType::kUndefined;
    bool has_shape = false;          // false: only a run knows it
    std::vector<int64_t> dims;       // -1: only a run knows it
    bool blocked8 = false;           // channels in blocks of 8, the last one padded
    size_t size_bytes = 0;           // 0 while the shape is not known
    bool planned_for_value = false;  // values at a cut: the rest is planned for what they hold
    Location location;
    // "float32[1,16,8,8] blocked8"
    TENON_API std::string type_text() const;
  };

  // A point of another stream that has to be passed before the step begins.
  struct Wait {
    int32_t stream = 0;
    int32_t point = 0;
    bool on_host = false;  // the host waits, not the step's stream
  };

  // A node of the model's main graph, and where it went. Nodes of bodies (an If's branches) are their node's.
  struct ModelNode {
    enum class Fate : uint8_t {
      kStep,      // `step` computes it alone
      kFused,     // `step` computes it together with others: Step::model_nodes
      kRegion,    // EP `ep` has it in the region of `step`: Step::region
      kView,      // needs no step: `without_step` has it
      kFolded,    // its results are constants
      kBypassed,  // its readers read another value: it hands its input through, or makes what another node makes
      kUnused,    // nobody reads its results
      kLater,     // after the cut, planned in the run
    };
    std::string label;  // "Conv \"conv1\""
    std::string name;   // may be empty
    std::string op_type;
    std::string domain;  // "" is ai.onnx
    Fate fate = Fate::kStep;
    int32_t step = -1;                // of `steps`; -1: none
    int32_t ep = -1;                  // of `eps`; -1: none
    std::vector<std::string> passes;  // that put it together with others, in order, or the one that it left in
    // "step 3, fused by the pass convolution_bias", "folded into a constant by the pass fold"
    TENON_API std::string fate_text() const;
  };

  // A node of an EP's region, as the EP got it.
  struct RegionNode {
    std::string name;  // may be empty
    std::string op_type;
    std::string domain;
  };

  // A node that needs no step: its outputs are parts of the memory of `value`, or its inputs are (joins_inputs).
  struct View {
    std::string label;
    std::vector<std::string> model_nodes;  // as Step::model_nodes
    bool joins_inputs = false;
    std::string value;
    std::vector<size_t> offsets_bytes;  // of each part
    // "Reshape \"r\": a view of \"x\" +64"
    TENON_API std::string to_string() const;
  };

  // Part of the model whose copies only a run knows; ExplainedCopies::open has a sentence for each.
  struct UnknownCopies {
    enum class Kind : uint8_t { kBody, kOutput, kRest };
    Kind kind = Kind::kBody;
    std::string name;  // of the step (its label) or the output; empty for the rest after a cut
  };

  struct Step {
    std::string label;  // "Conv \"conv1\""
    std::string name;   // of the node; may be empty
    std::string op_type;
    std::string domain;                    // "" is ai.onnx
    int32_t node = -1;                     // in the planned graph
    std::vector<std::string> model_nodes;  // the nodes of the model that a fused node or a region computes
    std::vector<RegionNode> region;        // the nodes of an EP's region, in order
    std::string kernel;                    // "copy" for a copy
    int32_t ep = 0;                        // of PlanReport::eps
    int32_t stream = 0;                    // 0: the host does it; else the EP whose stream has it
    std::vector<Wait> waits;
    int32_t point = -1;  // of its stream, that is passed after the step; -1: none
    std::vector<Tensor> inputs;
    std::vector<Tensor> outputs;
    Location scratch;
    size_t scratch_bytes = 0;
    int32_t in_place_input = -1;  // whose memory an output takes over
    int32_t copy = -1;            // of copies.ledger.records, for a step that copies; -1 also for a copy of no bytes
    int32_t runs = 0;             // that were measured (add_times); 0: no time is known
    int64_t time_ns = 0;          // the median of the runs
  };

  struct Space {
    MemorySpace memory;
    size_t arena_bytes = 0;
  };

  // After the last step: a value into a caller's output.
  struct OutputCopy {
    Location source;
    int32_t output = 0;
    CopyReason reason = CopyReason::kOutputIsInput;
    bool known_bytes = false;  // false: only a run knows how many
    size_t bytes = 0;
    int32_t copy = -1;  // of copies.ledger.records; -1: no bytes, or not known
  };

  // A constant that an EP keeps in its memory, copied there once for the session.
  struct PlacedConstant {
    int32_t space = 0;
    size_t bytes = 0;
  };

  // Where shapes depend on data: the rest is planned in the run.
  struct Cut {
    struct Reason {
      std::string node;   // "NonZero \"n\""
      std::string value;  // on whose contents its output shapes depend; empty: on its own data
      TENON_API std::string to_string() const;
    };
    std::vector<Reason> reasons;
    std::vector<Tensor> values;  // that the rest reads
    size_t nodes = 0;            // of the rest; 0: there is no cut
  };

  std::vector<std::string> eps;  // 0 is the CPU EP; streams count alike
  std::vector<Space> spaces;     // 0 is plain host memory
  std::vector<Tensor> inputs;
  std::vector<Tensor> outputs;
  std::vector<Step> steps;
  std::vector<ModelNode> nodes;  // of the model's main graph, in its order
  std::vector<View> without_step;
  std::vector<PlacedConstant> constants;
  // The copies that Session::explain_copies() gives for the same call; the ledger is that of a first run.
  ExplainedCopies copies;
  std::vector<UnknownCopies> unknown_copies;  // one for each of copies.open
  std::vector<OutputCopy> output_copies;
  size_t unshared_bytes = 0;  // of all arena values and scratch, if nothing shared memory
  Cut cut;

  // The shapes and EPs that the plan is for, one line a step, then views, copies with their reasons, parts that only a
  // run knows, and where each node of the model went.
  TENON_API std::string to_text() const;
  // One object, UTF-8; docs/reference/plan-json.md has its keys.
  TENON_API std::string to_json() const;
  // Sets runs and time_ns of the steps that `times` has. A node belongs to a step by its name, or by one of the model's
  // nodes that the step computes; without a name by index and operator. Returns how many steps have a time.
  TENON_API size_t add_times(std::span<const NodeTime> times);
};

// "fused", "folded", ...: as in JSON.
TENON_API std::string_view fate_name(PlanReport::ModelNode::Fate fate);

// "the output is an input or a constant handed through": a part of a sentence after "because".
TENON_API std::string_view copy_reason_text(CopyReason reason);

}  // namespace tenon
