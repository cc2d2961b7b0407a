#include "ep/sim/sim_program.h"

#include <algorithm>
#include <bit>

#include "ep/sim/sim_bytes.h"

namespace tenon::sim {

using plugin::GraphNode;
using plugin::GraphValue;
using plugin::HostApi;

namespace {

constexpr std::string_view kMagic = "TENONSIM2";

// Attributes that are not set are left out.
Status read_attributes(const HostApi& host, const GraphNode& from, SimNode& node) {
  for (const auto& [name, kind] : node.op->attributes) TENON_TRY(plugin::copy_attribute(host, from, name, kind, node));
  return Status();
}

}  // namespace

Status can_run(const GraphNode& node, bool host_input_constant) {
  const SimOp* op = find_op(node.domain, node.op_type, node.since);
  TENON_UNSUPPORTED_IF(op == nullptr, "The simulated device has no operator {} of version {}.", node.op_type,
                       node.since);
  TENON_UNSUPPORTED_IF(node.outputs.size() != 1, "{} has {} outputs.", node.label(), node.outputs.size());
  std::vector<SimTensor> inputs;
  for (size_t i = 0; i < node.inputs.size(); ++i) {
    const GraphValue& input = node.inputs[i];
    inputs.push_back({.type = input.name.empty() ? DataType::kUndefined : input.type});
    TENON_UNSUPPORTED_IF(static_cast<int>(i) == op->host_input && host_input_constant && !input.constant,
                         "{} reads input \"{}\" on the host, and it is not constant.", node.label(), input.name);
  }
  TENON_TRY_CONTEXT(check_operands(*op, inputs), "in {}", node.label());
  if (node.op_type == "Conv") {
    const auto& shape = node.inputs[0].shape;
    TENON_UNSUPPORTED_IF(!shape || shape->rank() != 4, "{} is not known to have two dimensions.", node.label());
  }
  return Status();
}

SimProgram::~SimProgram() {
  if (runtime_->device == nullptr) return;
  for (const Value& value : values_) runtime_->device->free(value.address);
}

int32_t SimProgram::value(const std::string& name) {
  if (name.empty()) return -1;
  const auto found = std::find_if(values_.begin(), values_.end(), [&](const Value& v) { return v.name == name; });
  if (found != values_.end()) return static_cast<int32_t>(found - values_.begin());
  values_.push_back({.name = name});
  return static_cast<int32_t>(values_.size() - 1);
}

Result<std::shared_ptr<SimProgram>> SimProgram::build(const HostApi& host, std::shared_ptr<SimRuntime> runtime,
                                                      const OrtGraph* graph, const GraphNode& fused) {
  std::shared_ptr<SimProgram> program(new SimProgram(std::move(runtime)));
  for (const GraphValue& input : fused.inputs) program->inputs_.push_back(program->value(input.name));
  const auto is_input = [&](const std::string& name) {
    return std::any_of(fused.inputs.begin(), fused.inputs.end(), [&](const GraphValue& v) { return v.name == name; });
  };
  TENON_TRY_ASSIGN(const std::vector<GraphNode> nodes, graph_nodes(host, graph));
  for (const GraphNode& node : nodes) {
    TENON_TRY(can_run(node, true));
    Step step{.node = std::make_shared<SimNode>(*find_op(node.domain, node.op_type, node.since))};
    step.node->name = node.name.empty() ? node.op_type : node.name;
    TENON_TRY(read_attributes(host, node, *step.node));
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      const GraphValue& input = node.inputs[i];
      const int32_t id = program->value(input.name);
      step.inputs.push_back(id);
      if (id < 0 || program->values_[id].constant) continue;
      // A constant that the operator reads on the host is taken now, also when the host passes it as an input as well.
      const bool on_host = static_cast<int>(i) == step.node->op->host_input;
      if (!input.constant || (is_input(input.name) && !on_host)) continue;
      TENON_TRY_ASSIGN(plugin::ConstantTensor constant, constant_tensor(host, input));
      Value& value = program->values_[id];
      value.tensor = {constant.type, constant.shape};
      value.bytes = std::move(constant.bytes);
      value.constant = true;
    }
    for (const GraphValue& output : node.outputs) step.outputs.push_back(program->value(output.name));
    program->steps_.push_back(std::move(step));
  }
  for (const GraphValue& output : fused.outputs) program->outputs_.push_back(program->value(output.name));
  TENON_TRY(program->finish());
  return program;
}

Status SimProgram::check() const {
  const auto known = [&](int32_t id) { return id >= -1 && id < static_cast<int32_t>(values_.size()); };
  std::vector<bool> ready(values_.size());
  for (size_t i = 0; i < values_.size(); ++i) ready[i] = values_[i].constant;
  for (int32_t id : inputs_) {
    TENON_INVALID_IF(!known(id) || id < 0, "Input value {} does not exist.", id);
    ready[id] = true;
  }
  for (const Step& step : steps_) {
    TENON_INVALID_IF(step.inputs.empty() || step.outputs.size() != 1, "{} has {} inputs and {} outputs.",
                     step.node->name, step.inputs.size(), step.outputs.size());
    for (size_t i = 0; i < step.inputs.size(); ++i) {
      const int32_t id = step.inputs[i];
      TENON_INVALID_IF(!known(id) || (id >= 0 && !ready[id]), "{} reads value {}, which nothing has made before.",
                       step.node->name, id);
      TENON_INVALID_IF(static_cast<int>(i) == step.node->op->host_input && (id < 0 || !values_[id].constant),
                       "{} reads value {} on the host, and it is not constant.", step.node->name, id);
    }
    for (int32_t id : step.outputs) {
      TENON_INVALID_IF(!known(id) || id < 0 || ready[id], "{} makes value {} again.", step.node->name, id);
      ready[id] = true;
    }
  }
  for (int32_t id : outputs_)
    TENON_INVALID_IF(!known(id) || id < 0 || !ready[id], "Output value {} is never made.", id);
  return Status();
}

Status SimProgram::finish() {
  TENON_TRY(check());
  last_use_.assign(values_.size(), 0);
  for (size_t s = 0; s < steps_.size(); ++s)
    for (int32_t id : steps_[s].inputs)
      if (id >= 0) last_use_[id] = s;
  for (Value& value : values_) {
    if (!value.constant) continue;
    if (runtime_->device == nullptr) {
      value.address = value.bytes.data();
      continue;
    }
    if (value.bytes.empty()) continue;
    SimDevice& device = *runtime_->device;
    TENON_TRY_ASSIGN(value.address, device.allocate(value.bytes.size(), SimMemory::Kind::kDefault));
    TENON_TRY(device.copy(
        {.src = value.bytes.data(), .dst = value.address, .dst_on_device = true, .size_bytes = value.bytes.size()},
        nullptr));
  }
  return Status();
}

Status SimProgram::run(const HostApi& host, const plugin::KernelCall& call) const {
  TENON_TRY_ASSIGN(void* stream, SimExecutor::stream_of(call, host));
  SimExecutor executor(runtime_, stream);
  std::vector<SimArgument> arguments(values_.size());
  for (size_t i = 0; i < values_.size(); ++i)
    if (values_[i].constant) arguments[i] = {.tensor = values_[i].tensor, .address = values_[i].address};
  for (size_t i = 0; i < inputs_.size(); ++i) {
    const size_t id = inputs_[i];
    if (values_[id].constant) continue;  // the host passes it, but it was read when the graph was compiled
    TENON_TRY_ASSIGN(const plugin::TensorArgument tensor, call.input(i));
    arguments[id] = {.tensor = {tensor.type, tensor.shape}, .address = tensor.data};
  }
  const auto output_index = [&](int32_t id) {
    const auto found = std::find(outputs_.begin(), outputs_.end(), id);
    return found != outputs_.end() ? static_cast<int64_t>(found - outputs_.begin()) : -1;
  };
  for (size_t s = 0; s < steps_.size(); ++s) {
    const Step& step = steps_[s];
    std::vector<SimTensor> tensors;
    std::vector<const std::byte*> on_host;
    std::vector<SimArgument> in, out;
    for (int32_t id : step.inputs) {
      in.push_back(id >= 0 ? arguments[id] : SimArgument());
      tensors.push_back(in.back().tensor);
      on_host.push_back(id >= 0 && values_[id].constant ? values_[id].bytes.data() : nullptr);
    }
    TENON_TRY_CONTEXT(check_operands(*step.node->op, tensors), "while running {}", step.node->name);
    Result<std::vector<SimTensor>> made = step.node->op->infer({.tensors = tensors, .host = on_host}, *step.node);
    if (!made.ok()) return std::move(made).status().with_context(tenon::format("while running {}", step.node->name));
    for (size_t i = 0; i < step.outputs.size(); ++i) {
      const SimTensor& tensor = (*made)[i];
      const int64_t index = output_index(step.outputs[i]);
      if (index >= 0) {
        TENON_TRY_ASSIGN(const plugin::TensorArgument output, call.output(index, tensor.shape));
        TENON_INVALID_IF(output.type != tensor.type, "Output {} has elements of type {} instead of {}.", index,
                         data_type_name(output.type), data_type_name(tensor.type));
        out.push_back({.tensor = tensor, .address = output.data});
      } else {
        TENON_TRY_ASSIGN(SimArgument argument, executor.make(tensor));
        out.push_back(std::move(argument));
      }
      arguments[step.outputs[i]] = out.back();
    }
    TENON_TRY(executor.launch(step.node, in, out));
    for (int32_t id : step.inputs)
      if (id >= 0 && last_use_[id] == s) arguments[id].memory = nullptr;
  }
  return executor.finish();
}

std::string SimProgram::serialize() const {
  ByteWriter writer;
  writer.text(kMagic);
  writer.number(values_.size());
  for (const Value& value : values_) {
    writer.text(value.name);
    writer.number(value.constant ? 1 : 0);
    if (!value.constant) continue;
    writer.number(static_cast<uint64_t>(value.tensor.type));
    writer.list(value.tensor.shape.dims());
    writer.text({reinterpret_cast<const char*>(value.bytes.data()), value.bytes.size()});
  }
  writer.list(inputs_);
  writer.list(outputs_);
  writer.number(steps_.size());
  for (const Step& step : steps_) {
    writer.text(step.node->name);
    writer.text(step.node->op->op_type);
    writer.number(static_cast<uint64_t>(step.node->op->since));
    writer.list(step.inputs);
    writer.list(step.outputs);
    writer.number(step.node->attributes.size());
    for (const Attribute& attribute : step.node->attributes) {
      writer.text(attribute.name);
      writer.number(static_cast<uint64_t>(attribute.kind));
      writer.number(static_cast<uint64_t>(attribute.i));
      writer.number(std::bit_cast<uint32_t>(attribute.f));
      writer.list(attribute.ints);
      writer.text(attribute.s);
    }
  }
  return writer.take();
}

Result<std::shared_ptr<SimProgram>> SimProgram::parse(std::shared_ptr<SimRuntime> runtime, std::string_view bytes) {
  std::shared_ptr<SimProgram> program(new SimProgram(std::move(runtime)));
  ByteReader reader(bytes);
  TENON_INVALID_IF(reader.text() != kMagic, "The {} bytes are no compiled program of this simulated device.",
                   bytes.size());
  const uint64_t values = reader.number();
  for (uint64_t i = 0; i < values && reader.ok(); ++i) {
    Value value{.name = std::string(reader.text())};
    value.constant = reader.number() != 0;
    if (value.constant) {
      value.tensor.type = static_cast<DataType>(reader.number());
      const std::vector<int64_t> dims = reader.list<int64_t>();
      const std::string_view data = reader.text();
      TENON_INVALID_IF(dims.size() > Shape::kMaxRank, "Constant \"{}\" has {} dimensions.", value.name, dims.size());
      value.tensor.shape = Shape(dims);
      TENON_TRY_ASSIGN(const size_t size_bytes, tensor_size_bytes(value.tensor.type, value.tensor.shape));
      TENON_INVALID_IF(size_bytes != data.size(), "Constant \"{}\" has {} bytes instead of {}.", value.name,
                       data.size(), size_bytes);
      const auto* begin = reinterpret_cast<const std::byte*>(data.data());
      value.bytes.assign(begin, begin + data.size());
    }
    program->values_.push_back(std::move(value));
  }
  program->inputs_ = reader.list<int32_t>();
  program->outputs_ = reader.list<int32_t>();
  const uint64_t steps = reader.number();
  for (uint64_t s = 0; s < steps && reader.ok(); ++s) {
    const std::string_view name = reader.text(), op_type = reader.text();
    const auto since = static_cast<int>(reader.number());
    const SimOp* op = find_op("", op_type, since);
    TENON_INVALID_IF(op == nullptr, "Step {} is operator \"{}\" of version {}, which does not exist.", s, op_type,
                     since);
    Step step{.node = std::make_shared<SimNode>(*op)};
    step.node->name = std::string(name);
    step.inputs = reader.list<int32_t>();
    step.outputs = reader.list<int32_t>();
    for (uint64_t n = reader.number(); n > 0 && reader.ok(); --n) {
      Attribute attribute{.name = std::string(reader.text())};
      attribute.kind = static_cast<AttributeKind>(reader.number());
      attribute.i = static_cast<int64_t>(reader.number());
      attribute.f = std::bit_cast<float>(static_cast<uint32_t>(reader.number()));
      attribute.ints = reader.list<int64_t>();
      attribute.s = std::string(reader.text());
      step.node->attributes.edit().push_back(std::move(attribute));
    }
    program->steps_.push_back(std::move(step));
  }
  TENON_INVALID_IF(!reader.ok() || !reader.at_end(), "The compiled program of {} bytes is cut short or damaged.",
                   bytes.size());
  TENON_TRY(program->finish());
  return program;
}

}  // namespace tenon::sim
