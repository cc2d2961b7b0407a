// CreateOp, InvokeOp, ReleaseOp: kernels that call ONNX operators.
#include "abi/objects/slots.h"
#include "abi/objects/status.h"
#include "abi/objects/value_tensor.h"
#include "ep/host/graph_view.h"
#include "ep/host/kernel_context.h"
#include "ep/host/kernel_info.h"
#include "runtime/operator_call.h"

struct OrtOp {
  std::unique_ptr<tenon::OperatorCall> call;
};

namespace tenon::abi {

namespace {

OrtStatus* check_counts(int types, int attributes, int inputs, int outputs) {
  if (types >= 0 && attributes >= 0 && inputs >= 0 && outputs >= 0) return nullptr;
  return ort_error(ORT_INVALID_ARGUMENT,
                   "A count of CreateOp is negative: {} types, {} attributes, {} inputs, {} outputs.", types,
                   attributes, inputs, outputs);
}

Result<Tensor> to_input(const OrtValue* value) {
  if (value == nullptr) return Tensor();
  return to_tensor(*value, /*as_object=*/false);
}

// The tensor that the operator writes in place. Of strings and objects there is none: they are put into the value.
Result<OperatorCall::Output> to_output(const OrtValue* value) {
  OperatorCall::Output output{.wanted = value != nullptr};
  if (value == nullptr || !value->is_tensor() || value->strings != nullptr) return output;
  TENON_TRY(check_writable(*value, "be an output of an operator"));
  output.tensor = value->tensor;
  return output;
}

Status put_result(const Tensor& result, OrtValue& value) {
  if (!holds_addresses(result.type())) {
    TENON_INVALID_IF(!value.is_tensor() || value.strings != nullptr,
                     "An output of the operator is a {} tensor, and the value that is given for it is not.",
                     data_type_name(result.type()));
    return Status();
  }
  OrtValue made = make_value(result);
  TENON_INVALID_IF(value.kind != ONNX_TYPE_UNKNOWN && made.kind != value.kind,
                   "An output of the operator is of kind {}, and the value that is given for it of kind {}.",
                   static_cast<int>(made.kind), static_cast<int>(value.kind));
  if (!value.is_string_tensor()) {
    value = std::move(made);
    return Status();
  }
  TENON_INVALID_IF(!(value.shape == made.shape), "An output of the operator has the shape {}, and its value {}.",
                   made.shape.to_string(), value.shape.to_string());
  *value.strings = std::move(*made.strings);
  return Status();
}

Status invoke(const OrtKernelContext& context, const OperatorCall& call, std::span<const OrtValue* const> inputs,
              std::span<OrtValue* const> outputs) {
  std::vector<Tensor> from;
  std::vector<OperatorCall::Output> to;
  for (const OrtValue* value : inputs) {
    TENON_TRY_ASSIGN(Tensor tensor, to_input(value));
    from.push_back(std::move(tensor));
  }
  for (const OrtValue* value : outputs) {
    TENON_TRY_ASSIGN(OperatorCall::Output output, to_output(value));
    to.push_back(std::move(output));
  }
  TENON_TRY(call.invoke(from, to, {.pool = context.run->pool, .run = context.run->run}));
  for (size_t i = 0; i < outputs.size(); ++i)
    if (outputs[i] != nullptr) TENON_TRY(put_result(to[i].tensor, *outputs[i]));
  return Status();
}

}  // namespace

OrtStatus* ort_api::CreateOp(const OrtKernelInfo* info, const char* op_name, const char* domain, int version,
                             const char** type_constraint_names,
                             const ONNXTensorElementDataType* type_constraint_values, int type_constraint_count,
                             const OrtOpAttr* const* attr_values, int attr_count, int input_count, int output_count,
                             OrtOp** ort_op) noexcept {
  clear(ort_op);
  if (OrtStatus* bad =
          check_pointers("CreateOp", {{"info", info}, {"op_name", op_name}, {"domain", domain}, {"ort_op", ort_op}}))
    return bad;
  if (OrtStatus* bad = check_counts(type_constraint_count, attr_count, input_count, output_count)) return bad;
  if (type_constraint_count > 0) {
    if (OrtStatus* bad = check_pointers("CreateOp", {{"type_constraint_names", type_constraint_names},
                                                     {"type_constraint_values", type_constraint_values}}))
      return bad;
  }
  if (attr_count > 0) {
    if (OrtStatus* bad = check_pointers("CreateOp", {{"attr_values", attr_values}})) return bad;
  }
  if (!info->host->is_cpu_ep())
    return make_ort_status(ORT_NOT_IMPLEMENTED,
                           "CreateOp makes operators of the CPU EP for kernels of the CPU EP alone.");
  return guarded([&]() -> OrtStatus* {
    OperatorRequest request{.op_type = op_name,
                            .domain = domain,
                            .version = version,
                            .input_count = static_cast<size_t>(input_count),
                            .output_count = static_cast<size_t>(output_count)};
    for (int i = 0; i < type_constraint_count; ++i) {
      if (type_constraint_names[i] == nullptr)
        return ort_error(ORT_INVALID_ARGUMENT, "The name of type constraint {} is null.", i);
      const DataType type = from_element_type(type_constraint_values[i]);
      if (type == DataType::kUndefined)
        return ort_error(ORT_INVALID_ARGUMENT, "Type constraint \"{}\" has the element type {}.",
                         type_constraint_names[i], static_cast<int>(type_constraint_values[i]));
      request.types.emplace_back(type_constraint_names[i], type);
    }
    for (int i = 0; i < attr_count; ++i) {
      if (attr_values[i] == nullptr) return ort_error(ORT_INVALID_ARGUMENT, "Attribute {} of CreateOp is null.", i);
      request.attributes.push_back(*attr_values[i]->attribute);
    }
    Result<std::unique_ptr<OperatorCall>> call = OperatorCall::create(std::move(request));
    // The reference's code for whatever it cannot make.
    if (!call.ok()) return to_ort(call.status(), ORT_FAIL);
    *ort_op = new OrtOp{*std::move(call)};
    return nullptr;
  });
}

OrtStatus* ort_api::InvokeOp(const OrtKernelContext* context, const OrtOp* ort_op, const OrtValue* const* input_values,
                             int input_count, OrtValue* const* output_values, int output_count) noexcept {
  if (OrtStatus* bad = check_pointers("InvokeOp", {{"context", context}, {"ort_op", ort_op}})) return bad;
  if (input_count < 0 || output_count < 0)
    return ort_error(ORT_INVALID_ARGUMENT, "A count of InvokeOp is negative: {} inputs, {} outputs.", input_count,
                     output_count);
  if (input_count > 0) {
    if (OrtStatus* bad = check_pointers("InvokeOp", {{"input_values", input_values}})) return bad;
  }
  if (output_count > 0) {
    if (OrtStatus* bad = check_pointers("InvokeOp", {{"output_values", output_values}})) return bad;
  }
  if (context->run == nullptr)
    return make_ort_status(ORT_INVALID_ARGUMENT, "The kernel context is used outside of the kernel's computation.");
  return guarded([&] {
    return to_ort(invoke(*context, *ort_op->call, {input_values, static_cast<size_t>(input_count)},
                         {output_values, static_cast<size_t>(output_count)}));
  });
}

void ort_api::ReleaseOp(OrtOp* input) noexcept { delete input; }

}  // namespace tenon::abi
