#include "ep/sim/sim_executor.h"

namespace tenon::sim {

namespace {

// The data of a queued operator: everything by value, so that the call may be long over when it runs.
struct Launch {
  std::shared_ptr<SimDevice> device;
  std::shared_ptr<SimRuntime> runtime;
  std::shared_ptr<const SimNode> node;
  std::vector<SimTensor> in, out;
  std::vector<const void*> in_addresses;
  std::vector<void*> out_addresses;
  std::vector<std::pair<void*, uint64_t>> scratch_uses;
  void* scratch = nullptr;
  size_t scratch_bytes = 0;

  // Calls `function` with everything where the device finds it.
  template <typename Function>
  Status resolved(Function function) const {
    for (const auto& [block, use] : scratch_uses) TENON_TRY(device->check_scratch(block, use));
    std::vector<const std::byte*> in_data;
    std::vector<std::byte*> out_data;
    for (size_t i = 0; i < in.size(); ++i) {
      std::byte* data = nullptr;
      if (in_addresses[i] != nullptr && in[i].size_bytes() != 0) {
        TENON_TRY_ASSIGN(data, device->memory().resolve(in_addresses[i], in[i].size_bytes()));
      }
      in_data.push_back(data);
    }
    for (size_t i = 0; i < out.size(); ++i) {
      std::byte* data = nullptr;
      if (out[i].size_bytes() != 0) {
        TENON_TRY_ASSIGN(data, device->memory().resolve(out_addresses[i], out[i].size_bytes()));
      }
      out_data.push_back(data);
    }
    SimRun run{.in = in, .in_data = in_data, .out = out, .out_data = out_data};
    if (scratch != nullptr) {
      TENON_TRY_ASSIGN(run.scratch, device->memory().resolve(scratch, scratch_bytes));
    }
    return function(run);
  }
};

}  // namespace

Result<std::shared_ptr<SimScratch>> SimScratch::take(SimRuntime& runtime, const std::shared_ptr<SimStream>& stream,
                                                     size_t size_bytes) {
  std::shared_ptr<SimScratch> scratch(new SimScratch());
  TENON_TRY_ASSIGN(scratch->block_, runtime.scratch->take(size_bytes, stream->progress()));
  if (scratch->block_.data() == nullptr) return scratch;
  scratch->use_ = runtime.device->next_scratch_use();
  scratch->device_ = runtime.device;
  scratch->stream_ = stream;
  stream->enqueue("scratch begin",
                  [device = runtime.device, block = scratch->address(), bytes = scratch->block_.size_bytes(),
                   use = scratch->use_, name = stream->name(), begun = scratch->begun_] {
                    *begun = true;
                    return device->begin_scratch(block, bytes, use, name);
                  });
  return scratch;
}

SimScratch::~SimScratch() {
  if (stream_ == nullptr) return;
  // A stream that has failed leaves out what follows, the begin too: then there is nothing to end.
  stream_->enqueue_cleanup(
      "scratch end", [device = device_, block = address(), bytes = block_.size_bytes(), use = use_, begun = begun_] {
        return *begun ? device->end_scratch(block, bytes, use) : Status();
      });
  block_.reset();
}

SimExecutor::SimExecutor(std::shared_ptr<SimRuntime> runtime, void* stream_handle) : runtime_(std::move(runtime)) {
  if (runtime_->device == nullptr) return;
  if (stream_handle != nullptr) {
    stream_ = static_cast<SimStream*>(stream_handle)->shared_from_this();
    runtime_->runs.use(stream_);
    return;
  }
  synchronous_ = true;
  ++counters().total_synchronous_calls;
  stream_ = runtime_->device->create_stream("synchronous call");
}

Result<void*> SimExecutor::stream_of(const plugin::KernelCall& call, const plugin::HostApi& host) {
  TENON_TRY_ASSIGN(void* handle, call.stream_handle());
  ++(host.version() >= 28 ? counters().total_sync_stream_reads : counters().total_old_stream_reads);
  return handle;
}

Result<SimArgument> SimExecutor::make(const SimTensor& tensor) {
  SimArgument argument{.tensor = tensor};
  if (runtime_->device == nullptr) {
    TENON_TRY_ASSIGN(Tensor memory, Tensor::allocate(tensor.type, tensor.shape));
    argument.address = memory.data();
    host_memory_.push_back(std::move(memory));
    return argument;
  }
  TENON_TRY_ASSIGN(argument.memory, SimScratch::take(*runtime_, stream_, tensor.size_bytes()));
  argument.address = argument.memory->address();
  return argument;
}

Status SimExecutor::launch(const std::shared_ptr<const SimNode>& node, const std::vector<SimArgument>& in,
                           const std::vector<SimArgument>& out) {
  if (runtime_->device == nullptr) {
    TENON_TRY(runtime_->hit(SimStep::kernel));
    ++counters().total_kernels;
    return launch_on_host(*node, in, out);
  }
  auto launch = std::make_shared<Launch>();
  launch->device = runtime_->device;
  launch->runtime = runtime_;
  launch->node = node;
  for (const SimArgument& argument : in) {
    launch->in.push_back(argument.tensor);
    launch->in_addresses.push_back(argument.address);
    if (argument.memory != nullptr && argument.memory->use() != 0)
      launch->scratch_uses.emplace_back(argument.memory->address(), argument.memory->use());
  }
  for (const SimArgument& argument : out) {
    launch->out.push_back(argument.tensor);
    launch->out_addresses.push_back(argument.address);
    if (argument.memory != nullptr && argument.memory->use() != 0)
      launch->scratch_uses.emplace_back(argument.memory->address(), argument.memory->use());
  }
  const SimOp& op = *node->op;
  std::shared_ptr<SimScratch> scratch;
  if (op.scratch_bytes != nullptr) launch->scratch_bytes = op.scratch_bytes(launch->in, *node);
  if (launch->scratch_bytes != 0) {
    TENON_TRY_ASSIGN(scratch, SimScratch::take(*runtime_, stream_, launch->scratch_bytes));
    launch->scratch = scratch->address();
    launch->scratch_uses.emplace_back(scratch->address(), scratch->use());
  }
  const auto recorder = runtime_->recording ? runtime_->recorder : nullptr;
  if (launch->scratch != nullptr)
    stream_->enqueue(
        node->name + " (prepare)",
        [launch] {
          return launch->resolved([&](const SimRun& run) {
            launch->node->op->prepare(run, *launch->node);
            return Status();
          });
        },
        recorder);
  stream_->enqueue(
      node->name,
      [launch]() -> Status {
        TENON_TRY(launch->runtime->hit(SimStep::kernel));
        ++counters().total_kernels;
        // An empty result needs no work, and its operands may have no memory.
        for (const SimTensor& tensor : launch->out)
          if (tensor.size_bytes() == 0) return Status();
        return launch->resolved([&](const SimRun& run) { return launch->node->op->run(run, *launch->node); });
      },
      recorder);
  return Status();
}

Status SimExecutor::launch_on_host(const SimNode& node, const std::vector<SimArgument>& in,
                                   const std::vector<SimArgument>& out) {
  std::vector<SimTensor> in_tensors, out_tensors;
  std::vector<const std::byte*> in_data;
  std::vector<std::byte*> out_data;
  for (const SimArgument& argument : in) {
    in_tensors.push_back(argument.tensor);
    in_data.push_back(static_cast<const std::byte*>(argument.address));
  }
  for (const SimArgument& argument : out) {
    out_tensors.push_back(argument.tensor);
    out_data.push_back(static_cast<std::byte*>(argument.address));
    if (argument.tensor.size_bytes() == 0) return Status();
  }
  SimRun run{.in = in_tensors, .in_data = in_data, .out = out_tensors, .out_data = out_data};
  std::vector<std::byte> scratch;
  if (node.op->scratch_bytes != nullptr) scratch.resize(node.op->scratch_bytes(in_tensors, node));
  if (!scratch.empty()) {
    run.scratch = scratch.data();
    node.op->prepare(run, node);
  }
  return node.op->run(run, node);
}

Status SimExecutor::finish() { return synchronous_ ? stream_->synchronize() : Status(); }

}  // namespace tenon::sim
