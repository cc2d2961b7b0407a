#include "abi/io_binding.h"

#include <algorithm>
#include <cstring>
#include <mutex>

#include "abi/objects/allocator.h"
#include "abi/objects/slots.h"
#include "abi/objects/status.h"
#include "abi/objects/value_tensor.h"
#include "abi/run.h"

namespace tenon::abi {
namespace {

OrtIoBinding::Output& output_named(OrtIoBinding& io, const char* name) {
  const auto found =
      std::find_if(io.outputs.begin(), io.outputs.end(), [&](const auto& one) { return one.name == name; });
  io.applied = false;
  if (found != io.outputs.end()) return *found;
  OrtIoBinding::Output output;
  output.name = name;
  io.outputs.push_back(std::move(output));
  return io.outputs.back();
}

// Another core of the session serves inputs that are declared as scalars and have dimensions, unless they are to be
// `as_scalars`.
OrtStatus* choose_core(OrtIoBinding& io, bool as_scalars) {
  io.scalars = ScalarFeed::kScalars;
  if (may_load_for_scalars(io.session) && !as_scalars)
    for (const OrtIoBinding::Input& input : io.inputs)
      add_scalar_feed(io.session.core().inputs()[input.index], input.value, io.scalars);
  std::shared_ptr<CoreSession> core = io.session.main;
  if (io.scalars != ScalarFeed::kScalars)
    if (OrtStatus* bad = other_core(io.session, kScalarsOfAnyShape, &core)) return bad;
  if (core == io.core) return nullptr;
  Result<Binding> binding = make_unguarded_binding(*core);
  if (!binding.ok()) return to_ort(binding.status());
  io.binding = *std::move(binding);
  io.core = std::move(core);
  return nullptr;
}

// Puts what is bound into the core's binding; done again only after a change.
OrtStatus* apply(OrtIoBinding& io, bool as_scalars = false) {
  if (OrtStatus* bad = choose_core(io, as_scalars)) return bad;
  const Session& core = *io.core->core;
  if (const Status cleared = io.binding.clear(); !cleared.ok()) return to_ort(cleared);
  for (const OrtIoBinding::Input& input : io.inputs) {
    if (OrtStatus* bad = check_feed(core.inputs()[input.index], input.value)) return bad;
    if (OrtStatus* bad = bind_value(io.binding, core.inputs()[input.index], input.index, input.value)) return bad;
  }
  for (size_t i = 0; i < core.inputs().size(); ++i) {
    const bool is_bound =
        std::any_of(io.inputs.begin(), io.inputs.end(), [&](const auto& one) { return one.index == i; });
    if (!is_bound) return ort_error(ORT_FAIL, "Missing Input: {}", core.inputs()[i].name);
  }
  for (const OrtIoBinding::Output& output : io.outputs) {
    const size_t index = find_value(core.outputs(), output.name, 0);
    if (index == kNotFound) return ort_error(ORT_INVALID_ARGUMENT, "Invalid output name: {}", output.name);
    if (!output.value) {
      const Status bound = io.binding.bind_output_auto(index, to_memory_space(output.space));
      if (!bound.ok()) return to_ort(bound);
      continue;
    }
    if (OrtStatus* bad = check_fetch(core.outputs()[index], *output.value)) return bad;
    if (holds_addresses(core.outputs()[index].type)) {
      const Status made = io.binding.bind_output_auto(index);
      if (!made.ok()) return to_ort(made);
      continue;
    }
    const Status bound = io.binding.bind_output(index, output.value->tensor);
    if (!bound.ok()) return to_ort(bound);
  }
  // The program may give a tensor of strings other ones before the next run, at other addresses.
  io.applied = std::none_of(io.inputs.begin(), io.inputs.end(), [&](const OrtIoBinding::Input& input) {
    return needs_conversion(input.value, core.inputs()[input.index].type);
  });
  return nullptr;
}

OrtStatus* fill_results(OrtIoBinding& io) {
  const std::span<const ValueInfo> infos = io.session.core().outputs();
  for (OrtIoBinding::Output& output : io.outputs) {
    if (!output.value) continue;
    const size_t index = find_value(infos, output.name, 0);
    if (OrtStatus* bad = fill_given(infos[index], io.binding.output(index), *output.value)) return bad;
  }
  return nullptr;
}

// The value of a bound output: the program's, what the last run made, or one without anything in it.
OrtValue value_of(const OrtIoBinding& io, const OrtIoBinding::Output& output) {
  if (output.value) return *output.value;
  const size_t index = find_value(io.session.core().outputs(), output.name, 0);
  const Tensor result = index == kNotFound ? Tensor() : io.binding.output(index);
  return result.defined() ? make_value(result) : OrtValue();
}

}  // namespace

OrtStatus* ort_api::CreateIoBinding(OrtSession* session, OrtIoBinding** out) noexcept {
  clear(out);
  if (OrtStatus* bad = check_pointers("CreateIoBinding", {{"session", session}, {"out", out}})) return bad;
  return guarded([&]() -> OrtStatus* {
    Result<Binding> binding = make_unguarded_binding(*session->main);
    if (!binding.ok()) return to_ort(binding.status());
    *out = new OrtIoBinding(*session, *std::move(binding));
    return nullptr;
  });
}

void ort_api::ReleaseIoBinding(OrtIoBinding* input) noexcept { delete input; }

OrtStatus* ort_api::BindInput(OrtIoBinding* binding_ptr, const char* name, const OrtValue* val_ptr) noexcept {
  if (OrtStatus* bad =
          check_pointers("BindInput", {{"binding_ptr", binding_ptr}, {"name", name}, {"val_ptr", val_ptr}}))
    return bad;
  const size_t index = find_value(binding_ptr->session.core().inputs(), name, 0);
  if (index == kNotFound) return ort_error(ORT_FAIL, "Failed to find input name in the mapping: {}", name);
  return guarded([&]() -> OrtStatus* {
    const std::lock_guard lock(binding_ptr->turns);
    auto& inputs = binding_ptr->inputs;
    binding_ptr->applied = false;
    const auto found = std::find_if(inputs.begin(), inputs.end(), [&](const auto& one) { return one.index == index; });
    if (found != inputs.end()) {
      found->value = *val_ptr;
    } else {
      inputs.push_back({index, *val_ptr});
    }
    return nullptr;
  });
}

OrtStatus* ort_api::BindOutput(OrtIoBinding* binding_ptr, const char* name, const OrtValue* val_ptr) noexcept {
  if (OrtStatus* bad =
          check_pointers("BindOutput", {{"binding_ptr", binding_ptr}, {"name", name}, {"val_ptr", val_ptr}}))
    return bad;
  return guarded([&]() -> OrtStatus* {
    const std::lock_guard lock(binding_ptr->turns);
    if (Status refused = check_writable(*val_ptr, "be bound as an output"); !refused.ok())
      return to_ort(std::move(refused).with_context(format("while binding output \"{}\"", name)));
    output_named(*binding_ptr, name).value = *val_ptr;
    return nullptr;
  });
}

OrtStatus* ort_api::BindOutputToDevice(OrtIoBinding* binding_ptr, const char* name,
                                       const OrtMemoryInfo* mem_info_ptr) noexcept {
  if (OrtStatus* bad = check_pointers("BindOutputToDevice",
                                      {{"binding_ptr", binding_ptr}, {"name", name}, {"mem_info_ptr", mem_info_ptr}}))
    return bad;
  return guarded([&]() -> OrtStatus* {
    const std::lock_guard lock(binding_ptr->turns);
    OrtIoBinding::Output& output = output_named(*binding_ptr, name);
    output.value.reset();
    output.space = *mem_info_ptr;
    return nullptr;
  });
}

OrtStatus* ort_api::GetBoundOutputNames(const OrtIoBinding* binding_ptr, OrtAllocator* allocator, char** buffer,
                                        size_t** lengths, size_t* count) noexcept {
  clear(buffer);
  clear(lengths);
  clear(count);
  if (OrtStatus* bad = check_pointers("GetBoundOutputNames", {{"binding_ptr", binding_ptr},
                                                              {"allocator", allocator},
                                                              {"buffer", buffer},
                                                              {"lengths", lengths},
                                                              {"count", count}}))
    return bad;
  const std::lock_guard lock(binding_ptr->turns);
  const auto& outputs = binding_ptr->outputs;
  if (outputs.empty()) return nullptr;
  size_t bytes = 1;  // names may be of no bytes at all
  for (const OrtIoBinding::Output& output : outputs) bytes += output.name.size();
  const Result<void*> names = allocate(allocator, bytes);
  if (!names.ok()) return to_ort(names.status());
  const Result<void*> sizes = allocate(allocator, outputs.size() * sizeof(size_t));
  if (!sizes.ok()) {
    free_block(allocator, *names);
    return to_ort(sizes.status());
  }
  *buffer = static_cast<char*>(*names);
  *lengths = static_cast<size_t*>(*sizes);
  *count = outputs.size();
  char* at = *buffer;
  for (size_t i = 0; i < outputs.size(); ++i) {
    at = std::copy(outputs[i].name.begin(), outputs[i].name.end(), at);
    (*lengths)[i] = outputs[i].name.size();
  }
  *at = '\0';
  return nullptr;
}

OrtStatus* ort_api::GetBoundOutputValues(const OrtIoBinding* binding_ptr, OrtAllocator* allocator, OrtValue*** output,
                                         size_t* output_count) noexcept {
  clear(output);
  clear(output_count);
  if (OrtStatus* bad = check_pointers(
          "GetBoundOutputValues",
          {{"binding_ptr", binding_ptr}, {"allocator", allocator}, {"output", output}, {"output_count", output_count}}))
    return bad;
  return guarded([&]() -> OrtStatus* {
    const std::lock_guard lock(binding_ptr->turns);
    std::vector<std::unique_ptr<OrtValue>> values;
    values.reserve(binding_ptr->outputs.size());
    for (const OrtIoBinding::Output& one : binding_ptr->outputs)
      values.push_back(std::make_unique<OrtValue>(value_of(*binding_ptr, one)));
    if (values.empty()) return nullptr;
    const Result<void*> memory = allocate(allocator, values.size() * sizeof(OrtValue*));
    if (!memory.ok()) return to_ort(memory.status());
    *output = static_cast<OrtValue**>(*memory);
    *output_count = values.size();
    for (size_t i = 0; i < values.size(); ++i) (*output)[i] = values[i].release();
    return nullptr;
  });
}

void ort_api::ClearBoundInputs(OrtIoBinding* binding_ptr) noexcept {
  if (binding_ptr == nullptr) return;
  const std::lock_guard lock(binding_ptr->turns);
  binding_ptr->inputs.clear();
  binding_ptr->applied = false;
}

void ort_api::ClearBoundOutputs(OrtIoBinding* binding_ptr) noexcept {
  if (binding_ptr == nullptr) return;
  const std::lock_guard lock(binding_ptr->turns);
  binding_ptr->outputs.clear();
  binding_ptr->applied = false;
}

// A run waits for what its inputs need, and has written its outputs when it returns.
OrtStatus* ort_api::SynchronizeBoundInputs(OrtIoBinding* binding_ptr) noexcept {
  if (OrtStatus* bad = check_pointers("SynchronizeBoundInputs", {{"binding_ptr", binding_ptr}})) return bad;
  return guarded([&] { return to_ort(binding_ptr->core->core->synchronize()); });
}

OrtStatus* ort_api::SynchronizeBoundOutputs(OrtIoBinding* binding_ptr) noexcept {
  if (OrtStatus* bad = check_pointers("SynchronizeBoundOutputs", {{"binding_ptr", binding_ptr}})) return bad;
  return guarded([&] { return to_ort(binding_ptr->core->core->synchronize()); });
}

OrtStatus* ort_api::RunWithBinding(OrtSession* session, const OrtRunOptions* run_options,
                                   const OrtIoBinding* binding_ptr) noexcept {
  if (session == nullptr || binding_ptr == nullptr)
    return check_pointers("RunWithBinding", {{"session", session}, {"binding_ptr", binding_ptr}});
  if (&binding_ptr->session != session)
    return make_ort_status(ORT_INVALID_ARGUMENT, "The binding belongs to another session.");
  // The ABI says const, and keeps results in it all the same.
  auto& io = *const_cast<OrtIoBinding*>(binding_ptr);
  return guarded([&]() -> OrtStatus* {
    const std::lock_guard lock(io.turns);
    if (io.outputs.empty()) return make_ort_status(ORT_INVALID_ARGUMENT, "At least one output should be requested.");
    if (!io.applied) {
      if (OrtStatus* bad = apply(io)) return bad;
    }
    OrtStatus* bad = run_binding(*session, *io.core, io.binding, run_options);
    if (bad != nullptr && io.scalars == ScalarFeed::kOneElement) {
      // As in run_checked: an operator may take a scalar alone.
      release_status(bad);
      bad = apply(io, /*as_scalars=*/true);
      if (bad == nullptr) bad = run_binding(*session, *io.core, io.binding, run_options);
    }
    return bad != nullptr ? bad : fill_results(io);
  });
}

}  // namespace tenon::abi
