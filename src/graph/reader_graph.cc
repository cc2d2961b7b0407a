// Converts a GraphProto to a Graph: values, nodes, subgraphs; functions are inlined.
#include <algorithm>

#include "base/checked.h"
#include "graph/reader_internal.h"
#include "graph/reader_scope.h"
#include "graph/schema.h"

namespace tenon::reader {

namespace {

// Inlining multiplies: a small file can ask for any number of nodes, so that these bounds do not depend on its size.
constexpr size_t kMaxInlinedNodes = 200'000;
constexpr size_t kMaxInlinedBytes = size_t{256} << 20;  // of messages read on behalf of calls
constexpr size_t kMaxCaptures = 1'000'000;
constexpr size_t kMaxPrefix = 200;  // of the names that inlining makes

// The bytes that a further use of an attribute adds to the inlined functions.
// Operators of earlier opsets are read where they have not changed until then.
constexpr int kOldestOnnxOpset = 7;

size_t payload_bytes(const ParsedAttribute& parsed) {
  const Attribute& attribute = parsed.attribute;
  size_t bytes = parsed.graph.size() + attribute.s.size() + attribute.ints.size() * sizeof(int64_t) +
                 attribute.floats.size() * sizeof(float);
  for (const std::string& text : attribute.strings) bytes += text.size() + sizeof(std::string);
  return bytes;
}

// Until finish_inputs: inputs are a level's first values.
bool is_listed_input(const Level& level, ValueId id) { return id.index() < level.graph.inputs.size(); }

void set_constant(Value& value, const ConstantRef& constant) {
  value.type = constant->type;
  value.is_tensor = true;
  value.set_shape(constant->shape);
  value.constant = constant;
}

void add_identity(ValueId from, ValueId to, Level& level) {
  Node node;
  node.op_type = "Identity";
  const std::optional<Schema> schema = find_schema("", "Identity", newest_opset(""));
  node.since_version = schema->since_version;
  node.inputs = {from};
  node.outputs = {to};
  level.graph.nodes.push_back(std::move(node));
  level.schemas.push_back(schema);
}

class GraphReader {
 public:
  GraphReader(ReadContext& context, const std::vector<Function>& functions, const Opsets& opsets)
      : context_(context), model_opsets_(&opsets) {
    for (const Function& function : functions) functions_[function.name].push_back(&function);
  }

  Status check_functions() const;
  Result<Graph> read_level(std::string_view message, Level* parent, const Subgraph* place, const Opsets* opsets);

 private:
  Status read_inputs(const GraphFields& fields, const std::shared_ptr<Scope>& scope);
  Status read_initializers(const GraphFields& fields, const std::shared_ptr<Scope>& scope);
  Result<ValueId> define_constant(std::string_view name, const ConstantRef& constant, Scope& scope, const char* what);
  Status finish_inputs(Level& level);
  Status read_outputs(const GraphFields& fields, Scope& scope);
  static ValueId copy_of(ValueId id, std::string name, Level& level);
  Status read_value_types(const GraphFields& fields, Scope& scope);
  Status read_node(std::string_view message, const std::shared_ptr<Scope>& scope);
  Status add_node(const NodeFields& fields, std::vector<BoundAttribute> attributes,
                  const std::shared_ptr<Scope>& scope);
  Status add_constant(const NodeFields& fields, const std::vector<BoundAttribute>& attributes, Scope& scope);
  Status inline_call(const Function& function, const NodeFields& fields, std::vector<BoundAttribute> attributes,
                     const std::shared_ptr<Scope>& scope);
  Status bind_formals(const Function& function, const NodeFields& fields, Scope& caller, Scope& body,
                      std::vector<std::pair<ValueId, ValueId>>& passed_through);
  Result<std::vector<BoundAttribute>> read_attributes(const NodeFields& fields, const std::shared_ptr<Scope>& scope);
  Status bind_reference(BoundAttribute& attribute, const Scope& scope);
  const Function* find_function(const NodeFields& fields) const;
  int opset_for(std::string_view domain, const Scope& scope) const;
  Status count_inlined(const Scope& scope, size_t nodes, size_t bytes);
  Status read_subgraphs(Level& level);
  void name_generated(Level& level);

  ReadContext& context_;
  const Opsets* const model_opsets_;
  std::unordered_map<std::string_view, std::vector<const Function*>> functions_;
  std::unordered_map<std::string, int> name_counts_;  // only kept for models with functions
  size_t nodes_ = 0, inlined_nodes_ = 0, inlined_bytes_ = 0;
  size_t captures_left_ = kMaxCaptures;
};

Status GraphReader::check_functions() const {
  for (const auto& [name, overloads] : functions_) {
    std::unordered_set<std::string> labels;
    for (const Function* function : overloads) {
      TENON_INVALID_IF(!labels.insert(function->label()).second, "The model has two functions \"{}\".",
                       function->label());
    }
  }
  return Status();
}

const Function* GraphReader::find_function(const NodeFields& fields) const {
  const auto found = functions_.find(fields.op_type);
  if (found == functions_.end()) return nullptr;
  for (const Function* function : found->second)
    if (function->domain == fields.domain && function->overload == fields.overload) return function;
  return nullptr;
}

Status GraphReader::count_inlined(const Scope& scope, size_t nodes, size_t bytes) {
  if (!scope.call && !scope.level->inlined) return Status();
  inlined_nodes_ += nodes;
  inlined_bytes_ += bytes;
  if (inlined_nodes_ > kMaxInlinedNodes || inlined_bytes_ > kMaxInlinedBytes) {
    return resource_exhausted("The model's functions, inlined, have more than {} nodes or {} bytes.", kMaxInlinedNodes,
                              kMaxInlinedBytes);
  }
  return Status();
}

Status GraphReader::read_inputs(const GraphFields& fields, const std::shared_ptr<Scope>& scope) {
  Level& level = *scope->level;
  for (std::string_view message : fields.inputs) {
    TENON_TRY_ASSIGN(Value value, read_value_info(context_, message));
    TENON_INVALID_IF(value.name.empty(), "An input of graph \"{}\" has no name.", level.graph.name);
    const ValueId id = level.add(std::move(value), 0);
    // The key of the map must be the model's own bytes, which stay where they are.
    const auto view = value_info_name(message);
    TENON_INVALID_IF(!scope->names.emplace(view, id).second, "Graph \"{}\" has two inputs \"{}\".", level.graph.name,
                     view);
    level.graph.inputs.push_back(id);
    if (level.parent == nullptr) read_denotations(message, id, context_.notes.denotations);
  }
  return Status();
}

Status GraphReader::read_initializers(const GraphFields& fields, const std::shared_ptr<Scope>& scope) {
  Level& level = *scope->level;
  const bool is_model = level.parent == nullptr;
  const size_t dense = fields.initializers.size();
  for (size_t i = 0; i < dense + fields.sparse_initializers.size(); ++i) {
    TENON_TRY_ASSIGN(const NamedConstant tensor,
                     i >= dense ? read_sparse_tensor(context_, fields.sparse_initializers[i - dense])
                     : is_model ? read_initializer(context_, fields.initializers[i])
                                : read_tensor(context_, fields.initializers[i]));
    TENON_INVALID_IF(tensor.name.empty(), "An initializer of graph \"{}\" has no name.", level.graph.name);
    TENON_TRY_ASSIGN(const ValueId id, define_constant(tensor.name, tensor.constant, *scope, "initializer"));
    // A subgraph's inputs are given by position on every call: there an initializer never counts.
    if (!is_model && is_listed_input(level, id)) continue;
    set_constant(level.graph.value(id), tensor.constant);
  }
  return Status();
}

// The value of a constant: a new one, or that of an earlier constant or of an input of the same name. Of two constants
// the later counts, as in ONNX Runtime.
Result<ValueId> GraphReader::define_constant(std::string_view name, const ConstantRef& constant, Scope& scope,
                                             const char* what) {
  Level& level = *scope.level;
  const auto known = scope.names.find(name);
  if (known == scope.names.end()) return scope.define(name, what);
  const Value& value = level.graph.value(known->second);
  if (value.constant != nullptr) {
    const Constant& before = *value.constant;
    TENON_INVALID_IF(before.type != constant->type || before.shape != constant->shape,
                     "Graph \"{}\" has two {}s \"{}\" that differ: {}{} and {}{}.", level.graph.name, what, name,
                     data_type_name(before.type), before.shape.to_string(), data_type_name(constant->type),
                     constant->shape.to_string());
    return known->second;
  }
  if (!is_listed_input(level, known->second)) return scope.define(name, what);
  TENON_INVALID_IF(value.type != DataType::kUndefined && value.type != constant->type,
                   "Input \"{}\" is declared as {}, and its {} is {}.", name, data_type_name(value.type), what,
                   data_type_name(constant->type));
  if (level.parent == nullptr) context_.notes.overridable.push_back(known->second);
  return known->second;
}

// Inputs of the model that have a constant are none, unless the program asked for them.
Status GraphReader::finish_inputs(Level& level) {
  if (context_.replacements.initializers_as_inputs) {
    for (ValueId id : context_.notes.overridable) level.graph.value(id).constant = nullptr;
  }
  std::erase_if(level.graph.inputs, [&](ValueId id) { return level.graph.value(id).constant != nullptr; });
  for (ValueId id : level.graph.inputs) {
    const Value& value = level.graph.value(id);
    TENON_INVALID_IF(value.is_tensor && value.type == DataType::kUndefined,
                     "Input \"{}\" of the model has no element type.", value.name);
  }
  return Status();
}

Status GraphReader::read_value_types(const GraphFields& fields, Scope& scope) {
  for (std::string_view message : fields.value_infos) {
    const auto found = scope.names.find(value_info_name(message));
    if (found == scope.names.end() || found->second == kNoValue) continue;
    Value& value = scope.level->graph.value(found->second);
    if (value.type != DataType::kUndefined || !value.is_tensor) continue;
    TENON_TRY_ASSIGN(Value declared, read_value_info(context_, message));
    declared.name = std::move(value.name);
    value = std::move(declared);
  }
  return Status();
}

// A value of the same type that an Identity makes.
ValueId GraphReader::copy_of(ValueId id, std::string name, Level& level) {
  Value copy = level.graph.value(id);
  copy.name = std::move(name);
  copy.constant = nullptr;
  const ValueId to = level.add(std::move(copy), level.position);
  add_identity(id, to, level);
  return to;
}

Status GraphReader::read_outputs(const GraphFields& fields, Scope& scope) {
  Level& level = *scope.level;
  std::unordered_map<ValueId, int> listed;
  std::unordered_set<std::string> taken;  // every value's name, once a copy needs one
  // Programs and other EPs find values by their names, so a copy has a new one.
  const auto new_name = [&](const std::string& name, int& number) {
    if (taken.empty())
      for (const Value& value : level.graph.values) taken.insert(value.name);
    std::string next;
    do next = format("{}_{}", name, number++);
    while (!taken.insert(next).second);
    return next;
  };
  for (std::string_view message : fields.outputs) {
    TENON_TRY_ASSIGN(Value declared, read_value_info(context_, message));
    const auto found = scope.names.find(declared.name);
    TENON_INVALID_IF(found == scope.names.end(), "Output \"{}\" of graph \"{}\" is made by none of its nodes.",
                     declared.name, level.graph.name);
    const ValueId id = found->second;
    TENON_INVALID_IF(level.defined_at[id] == Level::kCaptured,
                     "Output \"{}\" of graph \"{}\" is a value of an enclosing graph.", declared.name,
                     level.graph.name);
    Value& value = level.graph.value(id);
    if (value.type == DataType::kUndefined && value.is_tensor) {
      declared.name = std::move(value.name);
      value = std::move(declared);
    }
    // Each output is a value of its own, so that each has memory of its own: a second listing is a copy.
    const auto [times, first] = listed.try_emplace(id, 1);
    level.graph.outputs.push_back(first ? id : copy_of(id, new_name(value.name, times->second), level));
  }
  return Status();
}

Status GraphReader::bind_reference(BoundAttribute& attribute, const Scope& scope) {
  Attribute& local = attribute.parsed.attribute;
  const std::string_view reference = attribute.parsed.reference;
  TENON_INVALID_IF(!scope.call, "Attribute \"{}\" refers to the attribute \"{}\" of a function, and is in none.",
                   local.name, reference);
  for (const BoundAttribute& bound : scope.call->attributes) {
    if (bound.parsed.attribute.name != reference) continue;
    TENON_INVALID_IF(local.kind != bound.parsed.attribute.kind && local.kind != AttributeKind::kOther,
                     "Attribute \"{}\" refers to \"{}\" of function \"{}\", which is of another kind.", local.name,
                     reference, scope.call->function->label());
    TENON_TRY(count_inlined(scope, 0, payload_bytes(bound.parsed)));
    std::string name = std::move(local.name);
    attribute = bound;
    attribute.parsed.attribute.name = std::move(name);
    return Status();
  }
  const auto& declared = scope.call->function->attributes;
  TENON_INVALID_IF(std::find(declared.begin(), declared.end(), reference) == declared.end(),
                   "Attribute \"{}\" refers to \"{}\", which function \"{}\" does not have.", local.name, reference,
                   scope.call->function->label());
  return Status();  // still a reference: declared, and the call leaves it out
}

Result<std::vector<BoundAttribute>> GraphReader::read_attributes(const NodeFields& fields,
                                                                 const std::shared_ptr<Scope>& scope) {
  std::vector<BoundAttribute> attributes;
  attributes.reserve(fields.attributes.size());
  for (std::string_view message : fields.attributes) {
    BoundAttribute attribute;
    TENON_TRY_ASSIGN(attribute.parsed, read_attribute(context_, message));
    attribute.graph_scope = scope;
    if (!attribute.parsed.reference.empty()) {
      TENON_TRY(bind_reference(attribute, *scope));
      if (!attribute.parsed.reference.empty()) continue;
    }
    attributes.push_back(std::move(attribute));
  }
  std::vector<std::string_view> names;
  names.reserve(attributes.size());
  for (const BoundAttribute& attribute : attributes) names.push_back(attribute.parsed.attribute.name);
  std::sort(names.begin(), names.end());
  const auto twice = std::adjacent_find(names.begin(), names.end());
  TENON_INVALID_IF(twice != names.end(), "It has two attributes \"{}\".", *twice);
  return attributes;
}

Status GraphReader::read_node(std::string_view message, const std::shared_ptr<Scope>& scope) {
  if (++nodes_ > context_.limits.max_nodes)
    return resource_exhausted("The model has more than {} nodes.", context_.limits.max_nodes);
  TENON_TRY(count_inlined(*scope, 1, message.size()));
  const NodeFields fields = split_node(message);
  ++scope->level->position;
  TENON_TRY(check_name(context_, fields.name, "node"));
  TENON_TRY(check_name(context_, fields.op_type, "operator"));
  TENON_TRY(check_name(context_, fields.domain, "domain"));
  for (std::string_view name : fields.inputs) TENON_TRY(check_name(context_, name, "value"));
  for (std::string_view name : fields.outputs) TENON_TRY(check_name(context_, name, "value"));
  TENON_INVALID_IF(fields.op_type.empty(), "Node \"{}\" names no operator.", fields.name);
  TENON_INVALID_IF(fields.domain == "tenon",
                   "Node \"{}\" names the operator \"{}\" of domain \"tenon\", which is for Tenon's own.", fields.name,
                   fields.op_type);
  Result<std::vector<BoundAttribute>> attributes = read_attributes(fields, scope);
  if (!attributes.ok()) {
    return std::move(attributes)
        .status()
        .with_context(format("while reading node {} \"{}\" (output \"{}\").", fields.op_type, fields.name,
                             fields.outputs.empty() ? "" : fields.outputs[0]));
  }
  if (const Function* function = find_function(fields)) {
    TENON_TRY_CONTEXT(inline_call(*function, fields, *std::move(attributes), scope),
                      "while inlining function \"{}\" for node \"{}\".", function->label(), fields.name);
    return Status();
  }
  if (fields.op_type == "Constant" && fields.domain.empty()) {
    TENON_TRY_CONTEXT(add_constant(fields, *attributes, *scope), "while reading node Constant \"{}\".", fields.name);
    return Status();
  }
  return add_node(fields, *std::move(attributes), scope);
}

Status GraphReader::add_constant(const NodeFields& fields, const std::vector<BoundAttribute>& attributes,
                                 Scope& scope) {
  TENON_INVALID_IF(fields.outputs.size() != 1 || fields.outputs[0].empty() || !fields.inputs.empty(),
                   "A Constant has no input and one output; this one has {} and {}.", fields.inputs.size(),
                   fields.outputs.size());
  TENON_INVALID_IF(attributes.size() != 1, "A Constant has one attribute, which gives its value; this one has {}.",
                   attributes.size());
  TENON_TRY_ASSIGN(const ConstantRef constant, read_constant_node(attributes[0].parsed));
  // In the model's own graph a Constant node is an initializer that comes after the listed ones, as in ONNX Runtime.
  const bool is_model = scope.level->parent == nullptr && !scope.call;
  TENON_TRY_ASSIGN(const ValueId id, is_model ? define_constant(fields.outputs[0], constant, scope, "constant")
                                              : scope.define(fields.outputs[0], "output"));
  set_constant(scope.level->graph.value(id), constant);
  keep_constant_node_notes(context_, fields.message, constant);
  return Status();
}

// 0 when the domain is not imported. As in ONNX Runtime, a model (but not a function) that imports anything at all may
// leave out the domains that ONNX Runtime itself has operators of: they are at their newest version.
int GraphReader::opset_for(std::string_view domain, const Scope& scope) const {
  if (const int imported = opset_of(*scope.opsets, domain); imported > 0) return imported;
  if (scope.opsets != model_opsets_ || scope.opsets->empty()) return 0;
  const int assumed = newest_opset(domain);
  for (Level* level = scope.level; assumed > 0 && level != nullptr; level = level->parent)
    if (level->graph.opset(domain) == 0) level->graph.opsets.emplace_back(domain, assumed);
  return assumed;
}

Status GraphReader::add_node(const NodeFields& fields, std::vector<BoundAttribute> attributes,
                             const std::shared_ptr<Scope>& scope) {
  Level& level = *scope->level;
  Node node;
  node.name = fields.name;
  if (scope->call && !node.name.empty()) node.name = scope->call->prefix + "/" + node.name;
  node.op_type = fields.op_type;
  node.domain = fields.domain;
  if (context_.replacements.for_writing) node.notes = read_node_notes(fields.message);
  node.inputs.reserve(fields.inputs.size());
  for (std::string_view name : fields.inputs) node.inputs.push_back(scope->read(name));
  node.outputs.reserve(fields.outputs.size());
  for (std::string_view name : fields.outputs) {
    ValueId id = kNoValue;
    if (!name.empty()) {
      TENON_TRY_ASSIGN(id, scope->define(name, "output"));
    }
    node.outputs.push_back(id);
  }
  const int opset = opset_for(fields.domain, *scope);
  TENON_INVALID_IF(opset == 0 && newest_opset(fields.domain) > 0,
                   "Node {} is of domain {}, of which no opset is imported.", node.label(level.graph),
                   fields.domain.empty() ? "ai.onnx" : fields.domain);
  const std::optional<Schema> schema = find_schema(fields.domain, fields.op_type, opset);
  node.since_version = schema ? schema->since_version : 0;
  if (schema && fields.domain.empty() && opset < kOldestOnnxOpset) {
    const std::optional<Schema> read = find_schema(fields.domain, fields.op_type, kOldestOnnxOpset);
    TENON_UNSUPPORTED_IF(!read || read->since_version != schema->since_version,
                         "Node {} is of opset {} of ai.onnx; {} has changed since, and the oldest that is read is {}.",
                         node.label(level.graph), opset, node.op_type, kOldestOnnxOpset);
  }
  // An output without a name that is not optional: nobody reads it, but kernels may count on it.
  for (size_t i = 0; schema && i < node.outputs.size(); ++i) {
    const std::optional<SchemaParameter> parameter = schema->output(i);
    if (node.outputs[i] == kNoValue && parameter && parameter->option != 1)
      node.outputs[i] = level.add(Value{}, level.position);
  }
  std::vector<Attribute> read;
  read.reserve(attributes.size());
  for (BoundAttribute& attribute : attributes) {
    if (attribute.parsed.attribute.kind == AttributeKind::kGraph) {
      level.subgraphs.push_back(Subgraph{.node = level.graph.nodes.end_id(),
                                         .attribute = read.size(),
                                         .message = attribute.parsed.graph,
                                         .lexical_parent = std::move(attribute.graph_scope),
                                         .depth = scope->depth + 1,
                                         .position = level.position});
    }
    read.push_back(std::move(attribute.parsed.attribute));
  }
  node.attributes = std::move(read);
  level.graph.nodes.push_back(std::move(node));
  level.schemas.push_back(schema);
  return Status();
}

Status GraphReader::bind_formals(const Function& function, const NodeFields& fields, Scope& caller, Scope& body,
                                 std::vector<std::pair<ValueId, ValueId>>& passed_through) {
  TENON_INVALID_IF(fields.inputs.size() > function.inputs.size() || fields.outputs.size() > function.outputs.size(),
                   "The call has {} inputs and {} outputs, and the function {} and {}.", fields.inputs.size(),
                   fields.outputs.size(), function.inputs.size(), function.outputs.size());
  for (size_t i = 0; i < function.inputs.size(); ++i) {
    TENON_TRY(check_name(context_, function.inputs[i], "value"));
    const ValueId actual = i < fields.inputs.size() ? caller.read(fields.inputs[i]) : kNoValue;
    TENON_INVALID_IF(!body.names.emplace(function.inputs[i], actual).second, "The function has two inputs \"{}\".",
                     function.inputs[i]);
  }
  for (size_t i = 0; i < fields.outputs.size(); ++i) {
    if (fields.outputs[i].empty()) continue;
    TENON_TRY_ASSIGN(const ValueId actual, caller.define(fields.outputs[i], "output"));
    const auto [place, is_new] = body.names.try_emplace(function.outputs[i], actual);
    if (is_new) {
      body.awaited.insert(function.outputs[i]);
      continue;
    }
    TENON_INVALID_IF(body.awaited.contains(function.outputs[i]) || place->second == kNoValue,
                     "The function's output \"{}\" is listed twice, or is an input that the call leaves out.",
                     function.outputs[i]);
    passed_through.emplace_back(place->second, actual);
  }
  return Status();
}

Status GraphReader::inline_call(const Function& function, const NodeFields& fields,
                                std::vector<BoundAttribute> attributes, const std::shared_ptr<Scope>& scope) {
  if (scope->depth + 1 > context_.limits.max_nesting) {
    return resource_exhausted("Functions and subgraphs are nested deeper than the limit of {}.",
                              context_.limits.max_nesting);
  }
  for (const Call* call = scope->call.get(); call != nullptr; call = call->outer.get())
    TENON_INVALID_IF(call->function == &function, "Function \"{}\" calls itself.", function.label());
  auto call = std::make_shared<Call>();
  call->function = &function;
  call->outer = scope->call;
  call->prefix = fields.name.empty() ? fields.op_type : fields.name;
  if (scope->call) call->prefix = scope->call->prefix + "/" + call->prefix;
  if (call->prefix.size() > kMaxPrefix) call->prefix = "call";
  auto body = std::make_shared<Scope>();
  body->level = scope->level;
  body->call = call;
  body->opsets = &function.opsets;
  body->depth = scope->depth + 1;
  call->attributes = std::move(attributes);
  for (std::string_view message : function.defaults) {
    TENON_TRY(count_inlined(*body, 0, message.size()));
    BoundAttribute fallback;
    TENON_TRY_ASSIGN(fallback.parsed, read_attribute(context_, message));
    const bool given = std::any_of(call->attributes.begin(), call->attributes.end(), [&](const BoundAttribute& bound) {
      return bound.parsed.attribute.name == fallback.parsed.attribute.name;
    });
    // A graph as default reads nothing but its own values.
    fallback.graph_scope = std::make_shared<Scope>();
    fallback.graph_scope->level = scope->level;
    fallback.graph_scope->opsets = &function.opsets;
    if (!given) call->attributes.push_back(std::move(fallback));
  }
  for (const auto& [domain, version] : function.opsets)
    if (scope->level->graph.opset(domain) == 0) scope->level->graph.opsets.emplace_back(domain, version);

  std::vector<std::pair<ValueId, ValueId>> passed_through;
  TENON_TRY(bind_formals(function, fields, *scope, *body, passed_through));
  for (std::string_view message : function.nodes) TENON_TRY(read_node(message, body));
  TENON_INVALID_IF(!body->awaited.empty(), "No node of the function makes its output \"{}\".", *body->awaited.begin());
  for (const auto& [from, to] : passed_through) add_identity(from, to, *scope->level);
  return body->resolve_pending(captures_left_);
}

// `prefix/name`, with a number where another value of the model has that name.
void GraphReader::name_generated(Level& level) {
  if (functions_.empty()) return;
  for (const Value& value : level.graph.values) ++name_counts_[value.name];
  for (ValueId id : level.generated) {
    std::string& name = level.graph.value(id).name;
    const int users = name_counts_[name];
    if (users == 1) continue;
    int number = users - 1;
    std::string next;
    do {
      next = format("{}_{}", name, ++number);
    } while (!name_counts_.try_emplace(next, 1).second);
    name_counts_[name] = number + 1;
    name = std::move(next);
  }
}

Status GraphReader::read_subgraphs(Level& level) {
  for (size_t i = 0; i < level.subgraphs.size(); ++i) {
    const Subgraph place = level.subgraphs[i];
    const Node& node = level.graph.nodes[place.node];
    Result<Graph> graph = read_level(place.message, &level, &place, nullptr);
    if (!graph.ok()) {
      return std::move(graph).status().with_context(
          format("while reading \"{}\" of node {}.", node.attributes[place.attribute].name, node.label(level.graph)));
    }
    level.graph.nodes[place.node].attributes.edit()[place.attribute].graph = std::make_shared<Graph>(*std::move(graph));
  }
  return Status();
}

Result<Graph> GraphReader::read_level(std::string_view message, Level* parent, const Subgraph* place,
                                      const Opsets* opsets) {
  const size_t depth = place != nullptr ? place->depth : 0;
  if (depth > context_.limits.max_nesting) {
    return resource_exhausted("Functions and subgraphs are nested deeper than the limit of {}.",
                              context_.limits.max_nesting);
  }
  TENON_TRY_ASSIGN(const GraphFields fields, split_graph(message));
  TENON_TRY(check_name(context_, fields.name, "graph"));
  Level level;
  level.may_hide = context_.may_hide;
  level.parent = parent;
  auto scope = std::make_shared<Scope>();
  scope->level = &level;
  scope->depth = depth;
  scope->opsets = opsets;
  if (place != nullptr) {
    scope->lexical_parent = place->lexical_parent;
    scope->position = place->position;
    scope->call = place->lexical_parent->call;
    scope->opsets = place->lexical_parent->opsets;
    level.inlined = parent->inlined || scope->call != nullptr;
  }
  level.graph.name = fields.name;
  if (parent == nullptr) context_.notes.doc_string = fields.doc_string;
  level.graph.opsets = *scope->opsets;
  const size_t names = fields.inputs.size() + fields.initializers.size() + fields.nodes.size();
  level.graph.values.reserve(names);
  level.defined_at.reserve(names);
  level.graph.nodes.reserve(fields.nodes.size());
  level.schemas.reserve(fields.nodes.size());
  scope->names.reserve(names);

  TENON_TRY(read_inputs(fields, scope));
  TENON_TRY(read_initializers(fields, scope));
  for (std::string_view node : fields.nodes) TENON_TRY(read_node(node, scope));
  if (parent == nullptr) TENON_TRY(finish_inputs(level));
  TENON_TRY(scope->resolve_pending(captures_left_));
  TENON_TRY(read_outputs(fields, *scope));
  TENON_TRY(read_value_types(fields, *scope));
  name_generated(level);
  TENON_TRY(read_subgraphs(level));
  for (NodeId n : level.graph.nodes.ids())
    if (level.schemas[n]) TENON_TRY(check_node(level.graph, level.graph.nodes[n], *level.schemas[n]));
  TENON_TRY(level.graph.sort_topologically());
  return std::move(level.graph);
}

}  // namespace

Result<Graph> read_graph(ReadContext& context, std::string_view message, const Opsets& opsets,
                         const std::vector<Function>& functions) {
  context.keep_tensors = !functions.empty();
  GraphReader reader(context, functions, opsets);
  TENON_TRY(reader.check_functions());
  return reader.read_level(message, nullptr, nullptr, &opsets);
}

}  // namespace tenon::reader
