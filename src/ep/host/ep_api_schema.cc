// OrtEpApi: operator schemas.
#include <tenon/types.h>

#include <memory>
#include <string_view>

#include "abi/objects/slots.h"
#include "abi/objects/view_arguments.h"
#include "base/format.h"
#include "ep/host/op_schema.h"
#include "graph/schema.h"

namespace tenon::abi {

namespace {

// ONNX's spelling of element types in "tensor(...)" is numpy's but for three.
std::string type_text(DataType type) {
  if (type == DataType::kFloat) return "tensor(float)";
  if (type == DataType::kDouble) return "tensor(double)";
  return format("tensor({})", data_type_name(type));
}

void add_types(const SchemaConstraint& from, OrtOpSchemaTypeConstraint& to) {
  for (int bit = 1; bit < 64; ++bit)
    if ((from.tensor_types >> bit & 1) != 0) to.types.push_back(type_text(static_cast<DataType>(bit)));
  std::string_view others = from.other_types;
  while (!others.empty()) {
    const size_t end = std::min(others.find('|'), others.size());
    to.types.emplace_back(others.substr(0, end));
    others.remove_prefix(std::min(end + 1, others.size()));
  }
  for (const std::string& text : to.types) to.type_texts.push_back(text.c_str());
}

void add_parameters(const SchemaList<SchemaParameter>& from, OrtOpSchema& schema,
                    std::vector<OrtOpSchema::Parameter> OrtOpSchema::* list,
                    std::vector<size_t> OrtOpSchemaTypeConstraint::* users) {
  for (const SchemaParameter& parameter : from) {
    OrtOpSchema::Parameter made{std::string(parameter.name), -1};
    for (size_t c = 0; c < schema.constraints.size(); ++c) {
      if (schema.constraints[c].name != parameter.type) continue;
      made.constraint = static_cast<int>(c);
      (schema.constraints[c].*users).push_back((schema.*list).size());
    }
    (schema.*list).push_back(std::move(made));
  }
}

std::unique_ptr<OrtOpSchema> make_schema(const Schema& row) {
  auto schema = std::make_unique<OrtOpSchema>();
  schema->since_version = row.since_version;
  for (const SchemaConstraint& constraint : row.constraints) {
    if (constraint.name.find('(') != std::string_view::npos) continue;  // a parameter's fixed type
    OrtOpSchemaTypeConstraint& made = schema->constraints.emplace_back();
    made.name = constraint.name;
    add_types(constraint, made);
  }
  add_parameters(row.inputs, *schema, &OrtOpSchema::inputs, &OrtOpSchemaTypeConstraint::inputs);
  add_parameters(row.outputs, *schema, &OrtOpSchema::outputs, &OrtOpSchemaTypeConstraint::outputs);
  return schema;
}

enum class List { kInputs, kOutputs };

// Null with `bad` set if there is none.
const OrtOpSchema::Parameter* find_parameter(const OrtOpSchema* schema, size_t index, List list, const void* out,
                                             OrtStatus** bad) noexcept {
  if (schema == nullptr || out == nullptr) {
    *bad = null_argument(schema == nullptr ? "schema" : "out");
    return nullptr;
  }
  const bool is_input = list == List::kInputs;
  const auto& parameters = is_input ? schema->inputs : schema->outputs;
  if (index >= parameters.size()) {
    *bad = ort_error(ORT_INVALID_ARGUMENT, "{} index {} out of range. Schema has {} {}.", is_input ? "Input" : "Output",
                     index, parameters.size(), is_input ? "inputs" : "outputs");
    return nullptr;
  }
  return &parameters[index];
}

OrtStatus* get_name(const OrtOpSchema* schema, size_t index, List list, const char** out) noexcept {
  clear(out);
  OrtStatus* bad = nullptr;
  const OrtOpSchema::Parameter* found = find_parameter(schema, index, list, out, &bad);
  if (found == nullptr) return bad;
  *out = found->name.c_str();
  return nullptr;
}

OrtStatus* get_constraint(const OrtOpSchema* schema, size_t index, List list,
                          const OrtOpSchemaTypeConstraint** out) noexcept {
  clear(out);
  OrtStatus* bad = nullptr;
  const OrtOpSchema::Parameter* found = find_parameter(schema, index, list, out, &bad);
  if (found == nullptr) return bad;
  if (found->constraint >= 0) *out = &schema->constraints[found->constraint];
  return nullptr;
}

OrtStatus* get_indices(const OrtOpSchemaTypeConstraint* constraint,
                       std::vector<size_t> OrtOpSchemaTypeConstraint::* users, const size_t** out_indices,
                       size_t* count) noexcept {
  clear(out_indices);
  clear(count);
  if (constraint == nullptr) return null_argument("type_constraint");
  if (out_indices == nullptr) return null_argument("out_indices");
  if (count == nullptr) return null_argument("count");
  *out_indices = (constraint->*users).data();
  *count = (constraint->*users).size();
  return nullptr;
}

}  // namespace

// Null and success for an operator that the table does not have.
OrtStatus* ep_api::GetOpSchema(const char* name, int max_inclusive_version, const char* domain,
                               OrtOpSchema** out_schema) noexcept {
  clear(out_schema);
  if (out_schema == nullptr) return ort_error(ORT_INVALID_ARGUMENT, "out_schema must not be null");
  if (name == nullptr) return ort_error(ORT_INVALID_ARGUMENT, "name must not be null");
  if (domain == nullptr) return ort_error(ORT_INVALID_ARGUMENT, "domain must not be null");
  const std::optional<Schema> row = find_schema(domain, name, max_inclusive_version);
  if (!row) return nullptr;
  return guarded([&]() -> OrtStatus* {
    *out_schema = make_schema(*row).release();
    return nullptr;
  });
}

void ep_api::ReleaseOpSchema(OrtOpSchema* input) noexcept { delete input; }

OrtStatus* ep_api::OpSchema_GetSinceVersion(const OrtOpSchema* schema, int* out) noexcept {
  return get_from("schema", schema, "out", out, [](const OrtOpSchema& s) { return s.since_version; });
}

OrtStatus* ep_api::OpSchema_GetNumInputs(const OrtOpSchema* schema, size_t* out) noexcept {
  return get_from("schema", schema, "out", out, [](const OrtOpSchema& s) { return s.inputs.size(); });
}

OrtStatus* ep_api::OpSchema_GetInputName(const OrtOpSchema* schema, size_t index, const char** out) noexcept {
  return get_name(schema, index, List::kInputs, out);
}

OrtStatus* ep_api::OpSchema_GetInputTypeConstraint(const OrtOpSchema* schema, size_t index,
                                                   const OrtOpSchemaTypeConstraint** out) noexcept {
  return get_constraint(schema, index, List::kInputs, out);
}

OrtStatus* ep_api::OpSchema_GetNumOutputs(const OrtOpSchema* schema, size_t* out) noexcept {
  return get_from("schema", schema, "out", out, [](const OrtOpSchema& s) { return s.outputs.size(); });
}

OrtStatus* ep_api::OpSchema_GetOutputName(const OrtOpSchema* schema, size_t index, const char** out) noexcept {
  return get_name(schema, index, List::kOutputs, out);
}

OrtStatus* ep_api::OpSchema_GetOutputTypeConstraint(const OrtOpSchema* schema, size_t index,
                                                    const OrtOpSchemaTypeConstraint** out) noexcept {
  return get_constraint(schema, index, List::kOutputs, out);
}

OrtStatus* ep_api::OpSchema_GetTypeConstraintCount(const OrtOpSchema* schema, size_t* out) noexcept {
  return get_from("schema", schema, "out", out, [](const OrtOpSchema& s) { return s.constraints.size(); });
}

OrtStatus* ep_api::OpSchema_GetTypeConstraint(const OrtOpSchema* schema, size_t index,
                                              const OrtOpSchemaTypeConstraint** out) noexcept {
  clear(out);
  if (schema == nullptr) return null_argument("schema");
  if (out == nullptr) return null_argument("out");
  if (index >= schema->constraints.size()) {
    return ort_error(ORT_INVALID_ARGUMENT, "Type constraint index {} out of range. Schema has {} constraints.", index,
                     schema->constraints.size());
  }
  *out = &schema->constraints[index];
  return nullptr;
}

OrtStatus* ep_api::OpSchemaTypeConstraint_GetTypeParamName(const OrtOpSchemaTypeConstraint* type_constraint,
                                                           const char** out) noexcept {
  return get_from("type_constraint", type_constraint, "out", out,
                  [](const OrtOpSchemaTypeConstraint& c) { return c.name.c_str(); });
}

OrtStatus* ep_api::OpSchemaTypeConstraint_GetAllowedTypes(const OrtOpSchemaTypeConstraint* type_constraint,
                                                          const char* const** out_types, size_t* num_types) noexcept {
  clear(out_types);
  clear(num_types);
  if (type_constraint == nullptr) return null_argument("type_constraint");
  if (out_types == nullptr) return null_argument("out_types");
  if (num_types == nullptr) return null_argument("num_types");
  *out_types = type_constraint->type_texts.data();
  *num_types = type_constraint->type_texts.size();
  return nullptr;
}

OrtStatus* ep_api::OpSchemaTypeConstraint_GetInputIndices(const OrtOpSchemaTypeConstraint* type_constraint,
                                                          const size_t** out_indices, size_t* count) noexcept {
  return get_indices(type_constraint, &OrtOpSchemaTypeConstraint::inputs, out_indices, count);
}

OrtStatus* ep_api::OpSchemaTypeConstraint_GetOutputIndices(const OrtOpSchemaTypeConstraint* type_constraint,
                                                           const size_t** out_indices, size_t* count) noexcept {
  return get_indices(type_constraint, &OrtOpSchemaTypeConstraint::outputs, out_indices, count);
}

}  // namespace tenon::abi
