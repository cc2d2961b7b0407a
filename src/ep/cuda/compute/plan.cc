#include "ep/cuda/compute/plan.h"

#include <algorithm>
#include <map>
#include <thread>
#include <utility>

#include "base/deadline.h"
#include "base/format.h"
#include "base/log.h"
#include "ep/cuda/lap.h"
#include "ep/cuda/run_settings.h"

namespace tenon::cuda {

namespace {

constexpr size_t kGraphsAnInstance = 8;
constexpr size_t kSeenBindings = 16;
constexpr size_t kMaxInstances = 8;

std::vector<CUdeviceptr> joined(std::span<const CUdeviceptr> inputs, std::span<const CUdeviceptr> outputs) {
  std::vector<CUdeviceptr> all(inputs.begin(), inputs.end());
  all.insert(all.end(), outputs.begin(), outputs.end());
  return all;
}

bool equals(const std::vector<CUdeviceptr>& bindings, std::span<const CUdeviceptr> inputs,
            std::span<const CUdeviceptr> outputs) {
  return bindings.size() == inputs.size() + outputs.size() &&
         std::equal(inputs.begin(), inputs.end(), bindings.begin()) &&
         std::equal(outputs.begin(), outputs.end(), bindings.begin() + static_cast<std::ptrdiff_t>(inputs.size()));
}

}  // namespace

Result<std::shared_ptr<ComputePlan>> ComputePlan::create(std::shared_ptr<ComputeContext> context, Program program,
                                                         bool varies) {
  std::shared_ptr<ComputePlan> plan(new ComputePlan(std::move(context), std::move(program)), &ComputePlan::retire);
  TENON_TRY(plan->prepare(varies));
  return plan;
}

ComputePlan::ComputePlan(std::shared_ptr<ComputeContext> context, Program program)
    : context_(std::move(context)),
      program_(std::move(program)),
      needs_ranks_(
          std::any_of(program_.ops.begin(), program_.ops.end(), [](const auto& op) { return op->needs_ranks(); })) {}

Status ComputePlan::prepare(bool varies) {
  TENON_TRY_ASSIGN(const ContextScope scope, ContextScope::enter(*context_->device()));
  const CudaDriver& driver = context_->device()->driver();
  Lap lap;
  // By threads, while weights go to the device and convolutions and products are measured, which need none of them.
  KernelCache::Pending kernels = context_->kernel_cache().begin(program_.kernels);
  const std::lock_guard lock(context_->preparing);
  TENON_TRY_ASSIGN(ComputeContext::Uploading upload, context_->begin_upload(program_.constants));
  for (const DeviceBlockRef& block : upload.blocks) constants_.push_back(block->address());
  (void)context_->blas();  // waits for the libraries
  const double libraries_ms = lap.ms();
  TENON_TRY_ASSIGN(std::unique_ptr<Instance> instance, make_instance());
  // Inputs and outputs of its own, for measuring: their contents do not matter, but they are numbers.
  std::vector<DeviceBlockRef> blocks;
  const auto stand_in = [&](size_t bytes) -> Result<CUdeviceptr> {
    TENON_TRY_ASSIGN(DeviceBlockRef block, context_->allocate(bytes));
    TENON_CUDA_TRY(driver, MemsetD8Async, block->address(), 0, std::max<size_t>(bytes, 1), context_->stream());
    return blocks.emplace_back(std::move(block))->address();
  };
  const auto stand_ins = [&](const std::vector<TensorId>& ids) -> Result<std::vector<CUdeviceptr>> {
    std::vector<CUdeviceptr> made;
    for (TensorId id : ids) {
      TENON_TRY_ASSIGN(const CUdeviceptr address, stand_in(program_.tensor(id).size_bytes()));
      made.push_back(address);
    }
    return made;
  };
  TENON_TRY_ASSIGN(const std::vector<CUdeviceptr> inputs, stand_ins(program_.inputs));
  TENON_TRY_ASSIGN(const std::vector<CUdeviceptr> outputs, stand_ins(program_.outputs));
  if (program_.arena_bytes != 0)
    TENON_CUDA_TRY(driver, MemsetD8Async, instance->arena->address(), 0, program_.arena_bytes, context_->stream());
  PrepareContext prepare{.device = context_->device().get(),
                         .stream = context_->stream(),
                         .kernels = &context_->kernels(),
                         .compiled = nullptr,
                         .blas = context_->blas(),
                         .cudnn = context_->cudnn(),
                         .algorithms = &context_->algorithms(),
                         .tf32 = context_->options().tf32,
                         .measure = context_->options().measure,
                         .varies = varies,
                         .budget = &context_->tuning(),
                         .addresses = addresses(*instance, inputs, outputs)};
  constexpr double kLongMs = 2;
  // First the problems that take most of a run, however often they come.
  std::map<std::string, double> work;
  std::vector<std::pair<double*, DeviceOp*>> ops;
  for (const auto& op : program_.ops) {
    double& of_problem = work[op->description(program_)];
    of_problem += op->work();
    ops.emplace_back(&of_problem, op.get());
  }
  std::stable_sort(ops.begin(), ops.end(), [](const auto& a, const auto& b) { return *a.first > *b.first; });
  context_->tuning().begin_plan(varies);
  // Threads that pack weights would disturb what is measured.
  double constants_ms = 0;
  const bool measures = prepare.measure && std::any_of(ops.begin(), ops.end(), [&](const auto& op) {
                          return op.second->work() > 0 && !prepare.known(*op.second).choice;
                        });
  // For trials; zeros where a weight may be on its way still.
  std::vector<CUdeviceptr> weights = constants_;
  if (measures) {
    TENON_TRY(finish_constants(upload));
    constants_ms = lap.ms();
  } else if (!upload.wanted.empty()) {
    size_t bytes = 0;
    for (size_t i : upload.wanted) bytes = std::max(bytes, program_.constants[i].size_bytes);
    TENON_TRY_ASSIGN(const CUdeviceptr zeros, stand_in(bytes));
    for (size_t i : upload.wanted) weights[i] = zeros;
  }
  prepare.addresses.constants = weights;
  double choices_ms = 0;
  for (const auto& [of_problem, op] : ops) {
    if (prepare.compiled == nullptr && op->work() == 0) {
      choices_ms = lap.ms();
      TENON_TRY_ASSIGN(compiled_, context_->kernel_cache().finish(std::exchange(kernels, {})));
      prepare.compiled = &compiled_;
    }
    Lap one;
    const double spent_ms = context_->tuning().total_ms();
    TENON_TRY_CONTEXT(op->prepare(prepare), "while preparing {} ({})", op->label(), op->description(program_));
    const double ms = one.ms();
    // Looking choices up is part of the time that the session has for them.
    if (op->work() > 0) context_->tuning().add(ms - (context_->tuning().total_ms() - spent_ms));
    if (ms > kLongMs) TENON_TRACE(kPlan, "CUDA region: {:.1f} ms to choose for {}.", ms, op->description(program_));
  }
  context_->algorithms().save();
  const double kernels_ms = lap.ms();
  // Once for real: what is loaded at a kernel's first use is loaded now, and not while something is captured. Other
  // ranks may have their plan already, and so take no part.
  TENON_TRY(queue_all(prepare.addresses, context_->stream(), nullptr, false));
  TENON_CUDA_TRY(driver, StreamSynchronize, context_->stream());
  const double run_ms = lap.ms();
  if (!measures) {
    TENON_TRY(finish_constants(upload));
    constants_ms = lap.ms();
  }
  TENON_TRACE(kPlan,
              "CUDA region: libraries {:.1f} ms, choices {:.1f} ms, then kernels {:.1f} ms, first run {:.1f} ms, {} "
              "constants {:.1f} ms.",
              libraries_ms, choices_ms, kernels_ms, run_ms, measures ? "before all" : "then", constants_ms);
  state_.lock()->idle.push_back(std::move(instance));
  return Status();
}

Status ComputePlan::finish_constants(ComputeContext::Uploading& upload) {
  TENON_TRY(context_->finish(upload));
  constant_blocks_ = std::move(upload.blocks);
  // They are on the device now, and the host keeps no copy.
  for (DeviceConstant& constant : program_.constants) {
    constant.fill = nullptr;
    constant.source = nullptr;
  }
  return Status();
}

void ComputePlan::retire(ComputePlan* plan) {
  // Those whose work did not end in time. Later plans' ends look after them; else they stay to the process's end.
  static auto* const unfinished = new Guarded<std::vector<std::unique_ptr<ComputePlan>>>;
  constexpr int64_t kLongestWaitNs = 1'000'000'000;
  std::unique_ptr<ComputePlan> retired(plan);
  const Deadline deadline = Deadline::after(kLongestWaitNs);
  while (!retired->finished() && !deadline.passed()) std::this_thread::sleep_for(std::chrono::microseconds(50));
  // A rank that does not take part would keep the work on the device.
  const auto& ranks = retired->context_->options().communicator;
  if (retired->needs_ranks_ && ranks != nullptr && !retired->finished()) {
    ranks->give_up("a plan is released whose work is not done.");
    const Deadline end = Deadline::after(kLongestWaitNs);
    while (!retired->finished() && !end.passed()) std::this_thread::sleep_for(std::chrono::microseconds(50));
  }
  std::vector<std::shared_ptr<ComputePlan>> done;
  {
    auto plans = unfinished->lock();
    plans->push_back(std::move(retired));
    for (auto& one : *plans)
      if (one->finished()) done.push_back(std::move(one));
    std::erase(*plans, nullptr);
  }
  for (auto& one : done) {
    const auto later = one->context_->options().release_later;
    if (later) later(std::move(one));
  }
}

bool ComputePlan::finished() const {
  const Result<ContextScope> scope = ContextScope::enter(*context_->device());
  const auto state = state_.lock();
  return std::none_of(state->idle.begin(), state->idle.end(), [&](const auto& instance) {
    return instance->used_before &&
           context_->device()->driver().EventQuery(instance->done->native()) == CUDA_ERROR_NOT_READY;
  });
}

ComputePlan::~ComputePlan() = default;

Result<std::unique_ptr<ComputePlan::Instance>> ComputePlan::make_instance() {
  auto instance = std::make_unique<Instance>();
  TENON_TRY_ASSIGN(instance->arena, context_->allocate(program_.arena_bytes));
  TENON_TRY_ASSIGN(instance->done, CudaEvent::create(context_->device()));
  auto state = state_.lock();
  state->stats.instances = ++state->instances;
  return instance;
}

// One that this stream used last needs no wait; one that is done neither; else a new one, or the oldest with a wait.
Result<std::unique_ptr<ComputePlan::Instance>> ComputePlan::take_instance(CUstream stream) {
  const CudaDriver& driver = context_->device()->driver();
  std::unique_ptr<Instance> taken;
  bool wait = false;
  {
    auto state = state_.lock();
    auto& idle = state->idle;
    const auto take = [&](auto found) {
      taken = std::move(*found);
      idle.erase(found);
    };
    auto found =
        std::find_if(idle.begin(), idle.end(), [&](const auto& i) { return !i->used_before || i->last == stream; });
    if (found == idle.end())
      found = std::find_if(idle.begin(), idle.end(),
                           [&](const auto& i) { return driver.EventQuery(i->done->native()) == CUDA_SUCCESS; });
    if (found == idle.end() && state->instances >= kMaxInstances && !idle.empty()) {
      found = idle.begin();
      wait = true;
    }
    if (found != idle.end()) take(found);
  }
  if (taken == nullptr) return make_instance();
  if (!wait) return taken;
  Status waited = cuda_status(driver, driver.StreamWaitEvent(stream, taken->done->native(), 0), "cuStreamWaitEvent");
  if (waited.ok()) return taken;
  state_.lock()->idle.push_back(std::move(taken));
  return waited;
}

Addresses ComputePlan::addresses(const Instance& instance, std::span<const CUdeviceptr> inputs,
                                 std::span<const CUdeviceptr> outputs) const {
  return {.program = &program_,
          .arena = instance.arena->address(),
          .constants = constants_,
          .inputs = inputs,
          .outputs = outputs};
}

Status ComputePlan::queue_all(const Addresses& addresses, CUstream stream, Communicator* communicator,
                              bool alone) const {
  const QueueContext context{.device = context_->device().get(),
                             .stream = stream,
                             .addresses = addresses,
                             .alone = alone,
                             .communicator = communicator};
  for (const auto& op : program_.ops)
    TENON_TRY_CONTEXT(op->queue(context), "while queueing {} ({})", op->label(), op->description(program_));
  return Status();
}

Status ComputePlan::give_stand_ins(Instance& instance, std::span<const CUdeviceptr> inputs,
                                   std::span<const CUdeviceptr> outputs) {
  const auto give = [&](std::span<const CUdeviceptr> bound, const std::vector<TensorId>& ids, size_t first) -> Status {
    for (size_t i = 0; i < bound.size(); ++i) {
      if (bound[i] % kBindingAlignment == 0) continue;
      instance.stand_ins.resize(program_.inputs.size() + program_.outputs.size());
      DeviceBlockRef& block = instance.stand_ins[first + i];
      if (block != nullptr) continue;
      TENON_TRY_ASSIGN(block, context_->allocate(program_.tensor(ids[i]).size_bytes()));
    }
    return Status();
  };
  TENON_TRY(give(inputs, program_.inputs, 0));
  return give(outputs, program_.outputs, inputs.size());
}

Status ComputePlan::queue_bound(const Instance& instance, std::span<const CUdeviceptr> inputs,
                                std::span<const CUdeviceptr> outputs, CUstream stream, bool alone) const {
  const CudaDriver& driver = context_->device()->driver();
  std::vector<CUdeviceptr> bound = joined(inputs, outputs);
  for (size_t i = 0; i < bound.size(); ++i)
    if (bound[i] % kBindingAlignment != 0) bound[i] = instance.stand_ins[i]->address();
  const std::span<const CUdeviceptr> all(bound), from = all.first(inputs.size()), to = all.subspan(inputs.size());
  const auto copy = [&](CUdeviceptr target, CUdeviceptr source, TensorId id) -> Status {
    const size_t bytes = program_.tensor(id).size_bytes();
    if (target == source || bytes == 0) return Status();
    TENON_CUDA_TRY(driver, MemcpyAsync, target, source, bytes, stream);
    return Status();
  };
  for (size_t i = 0; i < inputs.size(); ++i) TENON_TRY(copy(from[i], inputs[i], program_.inputs[i]));
  TENON_TRY(queue_all(addresses(instance, from, to), stream, context_->options().communicator.get(), alone));
  for (size_t i = 0; i < outputs.size(); ++i) TENON_TRY(copy(outputs[i], to[i], program_.outputs[i]));
  return Status();
}

Result<CapturedWork> ComputePlan::capture(const Instance& instance, std::span<const CUdeviceptr> inputs,
                                          std::span<const CUdeviceptr> outputs) {
  const std::lock_guard lock(context_->preparing);
  return CapturedWork::capture(context_->device(), context_->stream(),
                               [&](CUstream stream) { return queue_bound(instance, inputs, outputs, stream, true); });
}

Status ComputePlan::run_instance(Instance& instance, std::span<const CUdeviceptr> inputs,
                                 std::span<const CUdeviceptr> outputs, CUstream stream, WorkFences* fences) {
  const CudaDriver& driver = context_->device()->driver();
  const bool graphs = context_->options().graphs && this_run().graphs;
  const auto launch = [&](Captured& graph) {
    graph.used = ++instance.clock;
    return fences != nullptr ? graph.work.launch(*fences) : graph.work.launch(stream);
  };
  const auto found = std::find_if(instance.graphs.begin(), instance.graphs.end(),
                                  [&](const Captured& graph) { return equals(graph.bindings, inputs, outputs); });
  if (graphs && found != instance.graphs.end()) {
    TENON_TRY(launch(*found));
    ++state_.lock()->stats.launched;
    return Status();
  }
  // Capturing pays from the second run on: a binding that never comes back is only queued.
  const bool again = std::any_of(instance.seen.begin(), instance.seen.end(),
                                 [&](const auto& bindings) { return equals(bindings, inputs, outputs); });
  CUstreamCaptureStatus capturing = CU_STREAM_CAPTURE_STATUS_NONE;
  const bool foreign =
      driver.StreamIsCapturing(stream, &capturing) != CUDA_SUCCESS || capturing != CU_STREAM_CAPTURE_STATUS_NONE;
  if (!(again || context_->options().capture_at_once) || foreign || !graphs) {
    if (instance.seen.size() < kSeenBindings) {
      instance.seen.push_back(joined(inputs, outputs));
    } else {
      instance.seen[instance.next_seen++ % kSeenBindings] = joined(inputs, outputs);
    }
    ++state_.lock()->stats.direct;
    if (fences != nullptr) TENON_TRY(fences->queue_waits());
    TENON_TRY(queue_bound(instance, inputs, outputs, stream, false));
    return fences != nullptr ? fences->queue_signals() : Status();
  }
  TENON_TRY_ASSIGN(CapturedWork work, capture(instance, inputs, outputs));
  if (instance.graphs.size() == kGraphsAnInstance) {
    instance.graphs.erase(std::min_element(instance.graphs.begin(), instance.graphs.end(),
                                           [](const Captured& a, const Captured& b) { return a.used < b.used; }));
  }
  instance.graphs.push_back({.bindings = joined(inputs, outputs), .work = std::move(work)});
  TENON_TRY(launch(instance.graphs.back()));
  auto state = state_.lock();
  ++state->stats.captured;
  ++state->stats.launched;
  return Status();
}

Status ComputePlan::run(std::span<const CUdeviceptr> inputs, std::span<const CUdeviceptr> outputs, CUstream stream) {
  return run_on(inputs, outputs, stream, nullptr);
}

Status ComputePlan::run(std::span<const CUdeviceptr> inputs, std::span<const CUdeviceptr> outputs, WorkFences& fences) {
  return run_on(inputs, outputs, fences.stream->native(), fences.empty() ? nullptr : &fences);
}

Status ComputePlan::run_on(std::span<const CUdeviceptr> inputs, std::span<const CUdeviceptr> outputs, CUstream stream,
                           WorkFences* fences) {
  TENON_INVALID_IF(inputs.size() != program_.inputs.size() || outputs.size() != program_.outputs.size(),
                   "The plan has {} inputs and {} outputs; {} and {} are given.", program_.inputs.size(),
                   program_.outputs.size(), inputs.size(), outputs.size());
  if (needs_ranks_) {
    if (context_->options().communicator == nullptr) return internal_error("The plan's ranks have no communicator.");
    TENON_TRY(context_->options().communicator->ready());
  }
  TENON_TRY_ASSIGN(std::unique_ptr<Instance> instance, take_instance(stream));
  Status status = give_stand_ins(*instance, inputs, outputs);
  if (status.ok()) status = run_instance(*instance, inputs, outputs, stream, fences);
  const CudaDriver& driver = context_->device()->driver();
  // Also after a failure: some of the work may have been queued.
  Status marked = cuda_status(driver, driver.EventRecord(instance->done->native(), stream), "cuEventRecord");
  instance->last = stream;
  instance->used_before = true;
  state_.lock()->idle.push_back(std::move(instance));
  TENON_TRY(std::move(status));
  return marked;
}

ComputePlan::Stats ComputePlan::stats() const { return state_.lock()->stats; }

Result<std::string> ComputePlan::report(bool measure) {
  TENON_TRY_ASSIGN(const ContextScope scope, ContextScope::enter(*context_->device()));
  TENON_TRY_ASSIGN(std::unique_ptr<Instance> instance, make_instance());
  std::vector<DeviceBlockRef> blocks;
  std::vector<CUdeviceptr> inputs, outputs;
  for (const auto& [ids, to] : {std::pair(&program_.inputs, &inputs), std::pair(&program_.outputs, &outputs)})
    for (TensorId id : *ids) {
      TENON_TRY_ASSIGN(DeviceBlockRef block, context_->allocate(program_.tensor(id).size_bytes()));
      TENON_CUDA_TRY(context_->device()->driver(), MemsetD8Async, block->address(), 0,
                     std::max<size_t>(program_.tensor(id).size_bytes(), 1), context_->stream());
      to->push_back(block->address());
      blocks.push_back(std::move(block));
    }
  QueueContext queue{
      .device = context_->device().get(), .addresses = addresses(*instance, inputs, outputs), .alone = true};
  std::string text;
  const std::lock_guard lock(context_->preparing);
  for (const auto& op : program_.ops) {
    std::string time;
    if (measure) {
      TENON_TRY_ASSIGN(const double ns, measure_ns(*context_->device(), context_->stream(), [&](CUstream stream) {
                         queue.stream = stream;
                         return op->queue(queue);
                       }));
      time = format("{:8.2f} us  ", ns / 1000);
    }
    const std::string choice = op->choice();
    text += format("{}{}{}\n", time, op->description(program_), choice.empty() ? "" : " -> " + choice.substr(0, 24));
  }
  return text;
}

Result<std::shared_ptr<ComputeRegion>> ComputeRegion::create(std::shared_ptr<ComputeContext> context, Graph graph) {
  Lap lap;
  TENON_TRY_ASSIGN(Region region, Region::prepare(std::move(graph)));
  TENON_TRACE(kPlan, "CUDA region: prepared in {:.1f} ms.", lap.ms());
  return std::shared_ptr<ComputeRegion>(new ComputeRegion(std::move(context), std::move(region)));
}

void ComputeRegion::drop_constants() {
  state_.lock()->dropped = true;
  region_.drop_constants();
}

Result<Program> ComputeRegion::lower(std::span<const Shape> inputs, size_t workspace_bytes) const {
  // Split products take cuBLASLt, and its workspace.
  return region_.lower_at(inputs, context_->options().tf32, workspace_bytes,
                          workspace_bytes != 0 && context_->has_blas(), context_->has_clusters());
}

std::vector<std::vector<Shape>> ComputeRegion::sizes_to_rehearse(const State& state, std::span<const Shape> inputs,
                                                                 std::span<const KernelCode> kernels) const {
  // Sizes that no rehearsal has foreseen are worth another one, but not without end.
  constexpr int kMostRehearsals = 4;
  if (state.rehearsals >= kMostRehearsals || (state.rehearsal != nullptr && !state.rehearsal->done())) return {};
  std::vector<std::vector<Shape>> sizes = other_sizes(region_.graph(), inputs);
  if (sizes.empty() || !context_->kernel_cache().lacks(kernels) || !context_->compiler().ok()) return {};
  return sizes;
}

void ComputeRegion::rehearse(State& state, const std::vector<std::vector<Shape>>& sizes,
                             std::span<const KernelCode> compiled) const {
  ++state.rehearsals;
  // The plan's own kernels are compiled at the same time.
  state.rehearsal = Rehearsal::begin(
      {.lower = [this](std::span<const Shape> other) { return lower(other, Program::kWorkspaceBytes); },
       .compile = [this](const KernelCode& kernel,
                         const auto& cancelled) { context_->kernel_cache().compile_ahead(kernel, cancelled); }},
      sizes, compiled, compiling_threads(), compiling_threads() / 2);
}

void ComputeRegion::finish_rehearsal() {
  const std::shared_ptr<Rehearsal> rehearsal = state_.lock()->rehearsal;
  if (rehearsal != nullptr) rehearsal->wait();
}

Result<std::shared_ptr<ComputePlan>> ComputeRegion::plan(std::span<const Shape> inputs) {
  std::shared_ptr<ComputePlan> evicted;  // its end may wait for its work: after the lock
  const auto find = [&](State& state) -> std::shared_ptr<ComputePlan> {
    const auto found = std::find_if(state.plans.begin(), state.plans.end(), [&](const Entry& entry) {
      return std::equal(entry.shapes.begin(), entry.shapes.end(), inputs.begin(), inputs.end());
    });
    if (found == state.plans.end()) return nullptr;
    found->used = ++state.clock;
    return found->plan;
  };
  {
    auto state = state_.lock();
    if (auto known = find(*state)) return known;
    TENON_INVALID_IF(state->dropped, "The region has fixed shapes, and its inputs now have others.");
  }
  // Without the lock: what is waited for may be a run of a plan that is there.
  if (context_->options().before_loading)
    TENON_TRY_CONTEXT(context_->options().before_loading(), "while making a plan for new shapes");
  // Held while a plan is made: whoever wants the same one then finds it.
  auto state = state_.lock();
  if (auto known = find(*state)) return known;
  Lap lap;
  TENON_TRY_ASSIGN(Program program, lower(inputs, Program::kWorkspaceBytes));
  TENON_TRACE(kPlan, "CUDA region: lowered in {:.1f} ms.", lap.ms());
  TENON_TRACE(kPlan, "CUDA region of {} operators:\n{}", program.ops.size(), program.to_text());
  // A plan keeps few threads busy, so that others can go ahead; where there are few, they come after it.
  constexpr size_t kManyThreads = 4;
  const bool at_once = compiling_threads() >= kManyThreads;
  const std::vector<std::vector<Shape>> sizes = sizes_to_rehearse(*state, inputs, program.kernels);
  const std::vector<KernelCode> kernels = sizes.empty() ? std::vector<KernelCode>() : program.kernels;
  if (!sizes.empty() && at_once) rehearse(*state, sizes, kernels);
  Result<std::shared_ptr<ComputePlan>> created = ComputePlan::create(context_, std::move(program), state->varies);
  if (created.status().code() == StatusCode::kResourceExhausted) {
    // Without a workspace the libraries have slower algorithms, and our own kernels need none.
    TENON_TRACE(kPlan, "CUDA region: once more without a workspace: {}", created.status().message());
    TENON_TRY_ASSIGN(Program small, lower(inputs, 0));
    created = ComputePlan::create(context_, std::move(small), state->varies);
  }
  TENON_TRY_ASSIGN(std::shared_ptr<ComputePlan> plan, std::move(created));
  if (!sizes.empty() && !at_once) rehearse(*state, sizes, kernels);
  if (state->rehearsal != nullptr) state->rehearsal->hurry();
  if (state->plans.size() >= std::max<size_t>(context_->options().plans, 1)) {
    const auto oldest = std::min_element(state->plans.begin(), state->plans.end(),
                                         [](const Entry& a, const Entry& b) { return a.used < b.used; });
    evicted = std::move(oldest->plan);
    state->plans.erase(oldest);
  }
  state->varies = true;
  state->plans.push_back({.shapes = {inputs.begin(), inputs.end()}, .plan = plan, .used = ++state->clock});
  return plan;
}

}  // namespace tenon::cuda
