#include "runtime/operator_call.h"

#include <algorithm>

#include <tenon/object.h>

#include "base/format.h"
#include "graph/reader.h"
#include "graph/schema.h"
#include "runtime/idle_pool.h"
#include "runtime/node_observer.h"
#include "runtime/session_impl.h"

namespace tenon {

namespace {

constexpr int64_t kIrVersion = 10;
constexpr size_t kMostVariants = 32;
// The inner session's names end with the operator; a ledger's have to stay.
constexpr const char* kCopyName = "output of an operator that a kernel calls";

std::string plain_domain(const std::string& domain) { return domain == "ai.onnx" ? std::string() : domain; }

// The type of an object that a kernel hands over. Errors: one without elements, whose type nothing tells.
Result<ObjectTypeRef> type_of(const Object& object) {
  if (object.kind() == ObjectKind::kTensor) return ObjectType::tensor(object.as_tensor().type());
  const std::span<const ObjectRef> elements = object.elements();
  TENON_UNSUPPORTED_IF(elements.empty(), "An operator cannot be called with a sequence without elements.");
  if (object.kind() == ObjectKind::kSequence) {
    TENON_TRY_ASSIGN(ObjectTypeRef element, type_of(*elements[0]));
    return ObjectType::sequence(std::move(element));
  }
  TENON_TRY_ASSIGN(ObjectTypeRef value, type_of(*elements[1]));
  return ObjectType::map(elements[0]->as_tensor().type(), std::move(value));
}

bool has_parameter(const Schema& schema, std::string_view name) {
  const auto named = [&](const SchemaParameter& parameter) { return parameter.name == name; };
  return std::any_of(schema.inputs.begin(), schema.inputs.end(), named) ||
         std::any_of(schema.outputs.begin(), schema.outputs.end(), named);
}

}  // namespace

// What a session depends on: the types of inputs, which parameters are there, and the number of threads.
struct OperatorCall::Signature {
  struct Input {
    DataType type = DataType::kUndefined;  // absent
    ObjectTypeRef object;
    friend bool operator==(const Input& a, const Input& b) { return a.type == b.type && same_type(a.object, b.object); }
  };
  std::vector<Input> inputs;
  std::vector<bool> outputs;
  int threads = 1;
  friend bool operator==(const Signature&, const Signature&) = default;
};

// The pool of the run that calls, which another thread's call of the same operator does not share: so it is this
// thread's. The run has entered the pool already. Work that a worker splits again runs on that worker.
class OperatorCall::Pool final : public ThreadPool {
 public:
  explicit Pool(int threads) : threads_(threads) {}
  int threads() const override { return threads_; }
  void enter_run() override {}
  void leave_run() override {}

  class Scope {
   public:
    explicit Scope(ThreadPool* pool) : before_(std::exchange(current_, pool)) {}
    ~Scope() { current_ = before_; }
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;

   private:
    ThreadPool* const before_;
  };

 protected:
  void for_chunks(int64_t count, int64_t grain, Chunk chunk, const void* context) override {
    if (count <= 0) return;
    if (current_ == nullptr) return chunk(context, 0, count);
    current_->parallel_for(count, grain, [&](int64_t begin, int64_t end) { chunk(context, begin, end); });
  }

 private:
  static thread_local ThreadPool* current_;
  const int threads_;
};
thread_local ThreadPool* OperatorCall::Pool::current_ = nullptr;

struct OperatorCall::Variant {
  Signature signature;
  std::shared_ptr<Session> session;
  IdleObjects<Binding> idle;
};

OperatorCall::OperatorCall(OperatorRequest request) : request_(std::move(request)) {}
OperatorCall::~OperatorCall() = default;

Result<std::unique_ptr<OperatorCall>> OperatorCall::create(OperatorRequest request) {
  request.domain = plain_domain(request.domain);
  std::unique_ptr<OperatorCall> call(new OperatorCall(std::move(request)));
  TENON_TRY(call->prepare());
  return call;
}

// Checks what can be checked without the inputs.
Status OperatorCall::prepare() {
  const int newest = newest_readable_opset(request_.domain);
  TENON_UNSUPPORTED_IF(newest == 0, "Kernel not found: no operator of domain \"{}\" is known.", request_.domain);
  TENON_INVALID_IF(request_.version < 1 || request_.version > newest, "Version {} of {} is no opset of {} (1 to {}).",
                   request_.version, request_.op_type, request_.domain.empty() ? "ai.onnx" : request_.domain, newest);
  const std::optional<Schema> schema = find_schema(request_.domain, request_.op_type, request_.version);
  if (!schema) {
    Graph graph;
    graph.opsets = {{request_.domain, request_.version}};
    return unknown_operator(graph, {.op_type = request_.op_type, .domain = request_.domain});
  }
  for (const auto& [name, type] : request_.types) {
    const std::optional<SchemaConstraint> constraint = schema->find_constraint(name);
    // Kernels of the reference also name an input whose type has no constraint ("shape").
    TENON_INVALID_IF(!constraint && !has_parameter(*schema, name), "{}@{} has no type constraint \"{}\".",
                     request_.op_type, schema->since_version, name);
    TENON_INVALID_IF(constraint && (constraint->tensor_types >> static_cast<int>(type) & 1) == 0,
                     "{}@{} does not allow the type {} for its constraint \"{}\".", request_.op_type,
                     schema->since_version, data_type_name(type), name);
  }
  // The types of all inputs, where the constraints tell them: then a missing kernel is found now.
  Signature signature{.inputs = {}, .outputs = std::vector<bool>(request_.output_count, true)};
  for (size_t i = 0; i < request_.input_count; ++i) {
    const std::optional<SchemaParameter> parameter = schema->input(i);
    TENON_INVALID_IF(!parameter, "{}@{} has {} inputs at most, and {} are to be given.", request_.op_type,
                     schema->since_version, schema->max_inputs, request_.input_count);
    const auto given = std::find_if(request_.types.begin(), request_.types.end(),
                                    [&](const auto& type) { return type.first == parameter->type; });
    DataType type = given != request_.types.end() ? given->second : DataType::kUndefined;
    if (type == DataType::kUndefined && parameter->type == "tensor(int64)") type = DataType::kInt64;
    if (type == DataType::kUndefined) return Status();
    signature.inputs.push_back({type, nullptr});
  }
  TENON_TRY_ASSIGN(std::shared_ptr<Variant> made, make_variant(signature));
  variants_.lock()->push_back(std::move(made));
  return Status();
}

Result<std::shared_ptr<OperatorCall::Variant>> OperatorCall::make_variant(const Signature& signature) const {
  Model model;
  model.info.ir_version = kIrVersion;
  Graph& graph = model.graph;
  graph.name = request_.op_type;
  graph.opsets = {{request_.domain, request_.version}};
  // What an operator of another domain expands to.
  if (!request_.domain.empty()) graph.opsets.emplace_back("", newest_opset(""));
  Node node;
  node.op_type = request_.op_type;
  node.domain = request_.domain;
  node.attributes = request_.attributes;
  for (size_t i = 0; i < signature.inputs.size(); ++i) {
    const Signature::Input& input = signature.inputs[i];
    ValueId id = kNoValue;
    if (input.type != DataType::kUndefined) {
      Value value;
      value.name = format("input {}", i);
      value.type = input.type;
      if (input.object != nullptr) value.set_object(input.object);
      id = graph.add_value(std::move(value));
      graph.inputs.push_back(id);
    }
    node.inputs.push_back(id);
  }
  for (size_t i = 0; i < signature.outputs.size(); ++i) {
    ValueId id = kNoValue;
    if (signature.outputs[i]) {
      id = graph.add_value({.name = format("output {}", i)});
      graph.outputs.push_back(id);
    }
    node.outputs.push_back(id);
  }
  TENON_INVALID_IF(graph.outputs.empty(), "No output of {} is wanted.", request_.op_type);
  const std::optional<Schema> schema = find_schema(request_.domain, request_.op_type, request_.version);
  node.since_version = schema->since_version;
  graph.nodes.push_back(std::move(node));
  TENON_TRY(check_node(graph, graph.nodes[NodeId(0)], *schema));
  auto variant = std::make_shared<Variant>();
  variant->signature = signature;
  SessionOptions options;
  options.pool = std::make_shared<Pool>(signature.threads);
  TENON_TRY_ASSIGN(variant->session, SessionImpl::create(std::move(model), options));
  return variant;
}

Result<std::shared_ptr<OperatorCall::Variant>> OperatorCall::find_variant(const Signature& signature) const {
  {
    auto variants = variants_.lock();
    for (const std::shared_ptr<Variant>& variant : *variants)
      if (variant->signature == signature) return variant;
  }
  // Made without the lock: two threads may make the same, and one is dropped.
  TENON_TRY_ASSIGN(std::shared_ptr<Variant> made, make_variant(signature));
  auto variants = variants_.lock();
  if (variants->size() >= kMostVariants) variants->erase(variants->begin());
  variants->push_back(made);
  return made;
}

Status OperatorCall::invoke(std::span<const Tensor> inputs, std::span<Output> outputs, const Caller& caller) const {
  TENON_INVALID_IF(inputs.size() != request_.input_count, "invalid node input count: {}, expect: {}", inputs.size(),
                   request_.input_count);
  TENON_INVALID_IF(outputs.size() != request_.output_count, "invalid node output count{}, expect: {}", outputs.size(),
                   request_.output_count);
  Signature signature;
  signature.threads = caller.pool->threads();
  for (const Tensor& tensor : inputs) {
    Signature::Input input{tensor.type(), nullptr};
    if (tensor.type() == DataType::kObject) {
      const ObjectRef object = object_of(tensor);
      TENON_UNSUPPORTED_IF(object == nullptr, "{} cannot be called with an empty optional.", request_.op_type);
      TENON_TRY_ASSIGN(input.object, type_of(*object));
    }
    signature.inputs.push_back(std::move(input));
  }
  for (const Output& output : outputs) signature.outputs.push_back(output.wanted);
  TENON_TRY_ASSIGN(const std::shared_ptr<Variant> variant, find_variant(signature));
  std::unique_ptr<Binding> binding = variant->idle.take();
  if (binding == nullptr) {
    TENON_TRY_ASSIGN(Binding made, static_cast<SessionImpl&>(*variant->session).make_unguarded_binding());
    binding = std::make_unique<Binding>(std::move(made));
  }
  size_t index = 0;
  for (const Tensor& tensor : inputs)
    if (tensor.defined()) TENON_TRY(binding->bind_input(index++, tensor));
  index = 0;
  for (const Output& output : outputs) {
    if (!output.wanted) continue;
    TENON_TRY(output.tensor.defined() ? binding->bind_output(index, output.tensor)
                                      : binding->bind_output_auto(index, MemorySpace()));
    ++index;
  }
  RunReport report;
  RunOptions options{.report = &report};
  if (caller.run != nullptr) {
    options.cancel = caller.run->cancel;
    options.disallow_copies = caller.run->disallow_copies;
    if (!caller.run->deadline.never()) options.run_timeout_ns = caller.run->deadline.remaining_ns();
  }
  {
    // Observers know the nodes of the model, of which this is none.
    const NodeObserver::Scope unobserved(nullptr);
    const Pool::Scope pool(caller.pool);
    TENON_TRY(variant->session->run(*binding, options));
  }
  if (caller.run != nullptr && caller.run->ledger != nullptr) {
    for (CopyRecord record : report.copies.records) {
      record.what = kCopyName;
      caller.run->ledger->records.push_back(record);
    }
  }
  index = 0;
  for (size_t i = 0; i < outputs.size(); ++i) {
    if (!outputs[i].wanted) continue;
    Tensor result = binding->output(index++);
    TENON_INVALID_IF(outputs[i].tensor.defined() && !(outputs[i].tensor.shape() == result.shape()),
                     "Output {} of {} has the shape {}, and the tensor that is given for it {}.", i, request_.op_type,
                     result.shape().to_string(), outputs[i].tensor.shape().to_string());
    outputs[i].tensor = std::move(result);
  }
  // The binding keeps no memory of the caller, and an output that it has made is the caller's.
  TENON_TRY(binding->clear());
  variant->idle.give(std::move(binding));
  return Status();
}

}  // namespace tenon
