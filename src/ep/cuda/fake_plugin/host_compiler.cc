#include "ep/cuda/fake_plugin/host_compiler.h"

#include <algorithm>
#include <map>

#include "base/guarded.h"
#include "ep/cuda/compute/region.h"
#include "ep/cuda/compute/region_compiler.h"
#include "ep/cuda/fake_plugin/host_program.h"

namespace tenon::cuda::fake {

namespace {

struct Work {
  std::shared_ptr<HostProgram> program;
  std::vector<std::byte*> inputs, outputs;
};

void CUDA_CB run_program(void* argument) {
  const std::unique_ptr<Work> work(static_cast<Work*>(argument));
  work->program->run(work->inputs, work->outputs);
}

class HostNode final : public plugin::CompiledNode {
 public:
  HostNode(std::shared_ptr<CudaSession> session, Region region, std::vector<size_t> arguments)
      : CompiledNode(session->host()),
        session_(std::move(session)),
        region_(std::move(region)),
        arguments_(std::move(arguments)),
        note_(precision_note(region_, session_->options().tf32)) {}

 private:
  Result<std::unique_ptr<plugin::ComputeState>> create_state() override {
    return std::make_unique<plugin::ComputeState>();
  }

  Result<std::shared_ptr<HostProgram>> program(const std::vector<Shape>& shapes) {
    auto programs = programs_.lock();
    std::string key;
    for (const Shape& shape : shapes) key += shape.to_string();
    auto& known = (*programs)[key];
    if (known != nullptr) return known;
    TENON_TRY_ASSIGN(Program lowered,
                     region_.lower_at(shapes, session_->options().tf32, Program::kWorkspaceBytes, false, true));
    TENON_TRY_ASSIGN(known, HostProgram::create(std::move(lowered), session_->device(), session_->communicator()));
    return known;
  }

  const char* description() const override { return note_.empty() ? nullptr : note_.c_str(); }

  bool may_run_in_place(size_t input, size_t output, std::span<const Shape> inputs) override {
    std::vector<Shape> shapes;
    shapes.reserve(arguments_.size());
    for (size_t index : arguments_) shapes.push_back(inputs[index]);
    const auto argument = std::find(arguments_.begin(), arguments_.end(), input) - arguments_.begin();
    const auto made = program(shapes);
    return made.ok() && (*made)->may_run_in_place(argument, output);
  }

  Status compute(plugin::ComputeState&, OrtKernelContext* context) override {
    const plugin::KernelCall call(host(), context);
    TENON_TRY_ASSIGN(void* const handle, call.stream_handle());
    TENON_TRY_ASSIGN(const CallStream stream, session_->stream_of(handle));
    return session_->end_work(stream, queue(call, stream));
  }

  Status queue(const plugin::KernelCall& call, const CallStream& stream) {
    TENON_TRY_ASSIGN(const ContextScope scope, ContextScope::enter(*session_->device()));
    auto work = std::make_unique<Work>();
    std::vector<Shape> shapes;
    for (size_t index : arguments_) {
      TENON_TRY_ASSIGN(const plugin::TensorArgument input, call.input(index));
      shapes.push_back(input.shape);
      work->inputs.push_back(static_cast<std::byte*>(input.data));
    }
    TENON_TRY_ASSIGN(work->program, program(shapes));
    TENON_TRY(work->program->ready());
    for (size_t i = 0; i < work->program->outputs(); ++i) {
      TENON_TRY_ASSIGN(const plugin::TensorArgument output, call.output(i, work->program->output_shape(i)));
      work->outputs.push_back(static_cast<std::byte*>(output.data));
    }
    TENON_TRY(session_->begin_work(stream));
    TENON_CUDA_TRY(session_->device()->driver(), LaunchHostFunc, stream.stream->native(), &run_program, work.get());
    (void)work.release();  // run_program's
    return Status();
  }

  const std::shared_ptr<CudaSession> session_;
  const Region region_;
  const std::vector<size_t> arguments_;
  const std::string note_;
  Guarded<std::map<std::string, std::shared_ptr<HostProgram>>> programs_;
};

class HostCompiler final : public RegionCompiler {
 public:
  explicit HostCompiler(std::shared_ptr<CudaSession> session) : session_(std::move(session)) {}
  Status claim(const OrtGraph* graph, OrtEpGraphSupportInfo* support) override {
    return claim_regions(*session_, graph, support);
  }
  Result<std::unique_ptr<plugin::CompiledNode>> compile(const OrtGraph* graph, const OrtNode* fused_node) override {
    TENON_TRY_ASSIGN(FusedRegion fused, import_region(*session_, graph, fused_node));
    TENON_TRY_ASSIGN(Region region, Region::prepare(std::move(fused.graph)));
    TENON_TRY(region.own_constants());
    std::vector<Shape> shapes;
    for (ValueId id : region.graph().inputs)
      if (region.graph().value(id).fully_known()) shapes.push_back(region.graph().value(id).shape());
    if (shapes.size() == fused.arguments.size()) TENON_TRY(region.lower_at(shapes, session_->options().tf32).status());
    return std::unique_ptr<plugin::CompiledNode>(
        std::make_unique<HostNode>(session_, std::move(region), std::move(fused.arguments)));
  }

 private:
  const std::shared_ptr<CudaSession> session_;
};

}  // namespace

Result<std::unique_ptr<RegionCompiler>> make_host_compiler(std::shared_ptr<CudaSession> session) {
  return std::unique_ptr<RegionCompiler>(std::make_unique<HostCompiler>(std::move(session)));
}

}  // namespace tenon::cuda::fake
