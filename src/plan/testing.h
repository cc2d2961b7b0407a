// A small EP and small graphs for tests. Only tests include this.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "ep/api/kernel.h"
#include "graph/graph.h"

namespace tenon::plan_testing {

// The properties of the fake kernels of one operator.
struct FakeOperator {
  std::string op_type;
  bool in_place = false;  // input 0 with output 0
  size_t scratch_bytes = 0;
  Layout layout = Layout::kPlain;  // wanted for inputs and outputs
  bool stem = false;               // reads the plain layout, and writes it where its readers do
  std::function<Status(KernelContext&)> run;
};

class FakeKernel final : public Kernel {
 public:
  explicit FakeKernel(const FakeOperator& what) : what_(what) {}
  Status run(KernelContext& context) const override { return what_.run ? what_.run(context) : Status(); }
  size_t scratch_bytes() const override { return what_.scratch_bytes; }
  bool may_run_in_place(size_t input, size_t output) const override {
    return what_.in_place && input == 0 && output == 0;
  }
  std::string_view name() const override { return "fake"; }

 private:
  FakeOperator what_;
};

// Runs what it is told, everything else as a kernel that does nothing.
class FakeProvider final : public ExecutionProvider {
 public:
  explicit FakeProvider(std::vector<FakeOperator> operators) : operators_(std::move(operators)) {}

  std::string_view name() const override { return "fake"; }
  Status can_run(const Graph&, const Node&) const override { return {}; }
  LayoutChoice choose_layouts(const KernelNode& node) const override {
    const FakeOperator what = find(node.node->op_type);
    if (what.stem) {
      const Layout to = node.outputs_read_plain ? Layout::kPlain : what.layout;
      return {std::vector<Layout>(node.inputs.size(), Layout::kPlain), std::vector<Layout>(node.outputs.size(), to)};
    }
    const Layout layout = what.layout;
    return {std::vector<Layout>(node.inputs.size(), layout), std::vector<Layout>(node.outputs.size(), layout)};
  }
  Result<std::unique_ptr<Kernel>> create_kernel(const KernelNode& node) const override {
    return std::unique_ptr<Kernel>(std::make_unique<FakeKernel>(find(node.node->op_type)));
  }

 private:
  FakeOperator find(const std::string& op_type) const {
    for (const FakeOperator& one : operators_) {
      if (one.op_type == op_type) return one;
    }
    return {.op_type = op_type};
  }
  std::vector<FakeOperator> operators_;
};

// A pool that is its caller.
class InlinePool final : public ThreadPool {
 public:
  int threads() const override { return 1; }
  void enter_run() override {}
  void leave_run() override {}

 protected:
  void for_chunks(int64_t count, int64_t, Chunk chunk, const void* context) override {
    if (count > 0) chunk(context, 0, count);
  }
};

// Adds values and nodes by name; nodes need not know shapes when `infer` does.
class GraphBuilder {
 public:
  GraphBuilder() { graph.opsets = {{"", 17}, {"tenon", 1}}; }

  ValueId input(const std::string& name, std::vector<Dim> dims, DataType type = DataType::kFloat) {
    const ValueId id = value(name, type);
    graph.value(id).has_rank = true;
    graph.value(id).dims = std::move(dims);
    graph.inputs.push_back(id);
    return id;
  }
  ValueId constant(const std::string& name, std::vector<int64_t> values) {
    return graph.add_constant(name, make_int64_constant(values));
  }
  // A node with one output; `dims` may be empty, for shape inference to fill in.
  ValueId node(const std::string& op_type, std::vector<ValueId> inputs, const std::string& output,
               DataType type = DataType::kFloat) {
    const ValueId id = value(output, type);
    Node made;
    made.name = op_type + "_" + output;
    made.op_type = op_type;
    made.since_version = 13;
    made.inputs = std::move(inputs);
    made.outputs = {id};
    graph.nodes.push_back(std::move(made));
    return id;
  }
  Node& last() { return graph.nodes.back(); }
  ValueId value(const std::string& name, DataType type = DataType::kFloat) {
    Value made;
    made.name = name;
    made.type = type;
    return graph.add_value(std::move(made));
  }
  GraphBuilder& shape(ValueId id, const Shape& dims) {
    graph.value(id).set_shape(dims);
    return *this;
  }
  void output(ValueId id) { graph.outputs.push_back(id); }

  Graph graph;
};

}  // namespace tenon::plan_testing
