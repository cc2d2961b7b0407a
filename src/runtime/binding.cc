#include <algorithm>
#include <utility>

#include <tenon/object.h>

#include "device/memory_space.h"
#include "ep/api/run_objects.h"
#include "runtime/binding_checks.h"
#include "runtime/binding_impl.h"
#include "runtime/run_state.h"
#include "runtime/session_impl.h"

namespace tenon {

namespace {

// The index of `name`, or an error that lists what there is.
Result<size_t> find_name(std::span<const ValueInfo> infos, std::string_view name, std::string_view kind) {
  for (size_t i = 0; i < infos.size(); ++i) {
    if (infos[i].name == name) return i;
  }
  return not_found("The model has no {} \"{}\"; it has {}.", kind, name, listed_names(infos));
}

// Binding the same again changes nothing, and programs do it before every run.
bool same_tensor(const Tensor& a, const Tensor& b) {
  return a.data() == b.data() && a.type() == b.type() && a.shape() == b.shape() && a.owner() == b.owner() &&
         a.capacity_bytes() == b.capacity_bytes() && a.space() == b.space() && a.read_only() == b.read_only();
}

// A tensor of the strings at `addresses`, which `owner` keeps.
Result<Tensor> text_tensor(std::span<const TextAddress> addresses, std::shared_ptr<const void> owner,
                           const Shape& shape) {
  struct Kept {
    std::shared_ptr<const void> owner;
    std::vector<TextAddress> addresses;
  };
  auto kept = std::make_shared<Kept>(std::move(owner), std::vector<TextAddress>(addresses.begin(), addresses.end()));
  void* const data = kept->addresses.data();
  return Tensor::view(DataType::kString, shape, data, addresses.size_bytes(), std::move(kept));
}

}  // namespace

BindingImpl::BindingImpl(std::shared_ptr<SessionImpl> owner) : session(std::move(owner)) {
  inputs.resize(session->inputs().size());
  outputs.resize(session->outputs().size());
  shapes.resize(inputs.size());
  if (session->spaces().has_devices()) {
    spaces.inputs.resize(inputs.size());
    spaces.outputs.resize(outputs.size());
    space_words.assign(inputs.size() + outputs.size(), -1);
  }
  input_addresses.resize(inputs.size());
  output_addresses.resize(outputs.size());
}

Status BindingImpl::begin_run() {
  key.clear();
  for (size_t i = 0; i < inputs.size(); ++i) {
    TENON_INVALID_IF(!inputs[i].defined(), "Input \"{}\" {} is not bound: give it a tensor (bind_input, BindInput).",
                     session->inputs()[i].name, session->inputs()[i].to_string());
    shapes[i] = inputs[i].shape();
    append_shape(key, shapes[i]);
    input_addresses[i] = inputs[i].data();
  }
  key.insert(key.end(), space_words.begin(), space_words.end());
  for (size_t i = 0; i < outputs.size(); ++i) {
    outputs[i].ready = false;
    if (holds_addresses(outputs[i].result.type())) outputs[i].result = Tensor();  // gives its strings back to `objects`
    output_addresses[i] = nullptr;
  }
  return {};
}

void BindingImpl::set_output_space(size_t slot) {
  if (!session->spaces().has_devices()) return;
  const BoundOutput& output = outputs[slot];
  int64_t& word = space_words[inputs.size() + slot];
  std::optional<MemorySpace>& space = spaces.outputs[slot];
  if (!output.is_auto) {
    space = session->spaces().space_of(output.bound, word);
  } else if (output.auto_space.valid()) {
    space = session->spaces().table().at(output.auto_space);
    word = SessionSpaces::word(output.auto_space, space->alignment);
  } else {
    space.reset();
    word = -1;
  }
}

Status BindingImpl::adopt_output(size_t slot, DataType type, const Shape& shape, std::shared_ptr<std::byte> memory,
                                 size_t size_bytes, SpaceId space) {
  BoundOutput& output = outputs[slot];
  std::byte* data = memory.get();
  output.memory = Tensor();
  TENON_TRY_ASSIGN(output.result, Tensor::view(type, shape, data, size_bytes, std::move(memory),
                                               session->spaces().table().shown(space)));
  output.ready = true;
  output_addresses[slot] = output.result.data();
  return {};
}

void BindingImpl::lend_memory(size_t slot, DynamicValue& value) {
  BoundOutput& output = outputs[slot];
  const Tensor& memory = output.memory;
  if (!memory.defined() || !same_memory(memory.space(), MemorySpace()) ||
      memory.capacity_bytes() < value.capacity_bytes)
    return;
  const bool is_read = std::any_of(inputs.begin(), inputs.end(), [&](const Tensor& input) {
    return ranges_overlap(input.data(), input.capacity_bytes(), memory.data(), memory.capacity_bytes());
  });
  output.result = Tensor();
  if (is_read || memory.owner().use_count() != 1) return;
  value.memory = std::shared_ptr<std::byte>(memory.owner(), memory.data_as<std::byte>());
  value.capacity_bytes = memory.capacity_bytes();
  output.memory = Tensor();
}

Status BindingImpl::exchange_output(size_t slot, DynamicValue& value) {
  BoundOutput& output = outputs[slot];
  TENON_TRY_ASSIGN(Tensor made,
                   Tensor::view(value.type, value.shape, value.memory.get(), value.capacity_bytes, value.memory));
  output.result = Tensor();
  const Tensor before = std::exchange(output.memory, std::move(made));
  output.result = output.memory;
  output.ready = true;
  output_addresses[slot] = output.result.data();
  value.memory = nullptr;
  value.capacity_bytes = 0;
  // Any other handle is the application's, which still looks at the last result.
  if (before.owner().use_count() == 1 && same_memory(before.space(), MemorySpace())) {
    value.memory = std::shared_ptr<std::byte>(before.owner(), before.data_as<std::byte>());
    value.capacity_bytes = before.capacity_bytes();
  }
  return {};
}

Status BindingImpl::prepare_output(size_t slot, DataType type, const Shape& shape, SpaceId space) {
  BoundOutput& output = outputs[slot];
  const std::string& name = session->outputs()[slot].name;
  TENON_TRY_ASSIGN(const size_t bytes, tensor_size_bytes(type, shape));
  const Tensor* target = &output.bound;
  if (output.is_auto) {
    // Two handles here, `memory` and `result`: any other is the application's, which still looks at the last result.
    const bool shared = output.memory.defined() && output.memory.owner().use_count() > 2;
    const bool elsewhere =
        output.memory.defined() && !same_memory(output.memory.space(), session->spaces().table().at(space));
    if (!output.memory.defined() || shared || elsewhere || output.memory.capacity_bytes() < bytes ||
        output.memory.type() != type) {
      output.result = Tensor();
      output.memory = Tensor();
      TENON_TRY_ASSIGN(output.memory, session->spaces().allocate(space, type, shape));
    }
    target = &output.memory;
  } else {
    TENON_INVALID_IF(output.bound.type() != type, "Output \"{}\" is {}, but the tensor bound to it is {}.", name,
                     data_type_name(type), data_type_name(output.bound.type()));
    TENON_INVALID_IF(output.bound.capacity_bytes() < bytes,
                     "Output \"{}\" is {}{} and needs {} bytes, but the tensor bound to it has room for {} bytes.",
                     name, data_type_name(type), shape.to_string(), bytes, output.bound.capacity_bytes());
  }
  if (!output.result.defined() || output.result.data() != target->data() || !(output.result.shape() == shape)) {
    TENON_TRY_ASSIGN(output.result, target->reinterpret(type, shape));
  }
  output.ready = true;
  output_addresses[slot] = output.result.data();
  return {};
}

Status BindingImpl::keep_outputs() {
  for (BoundOutput& output : outputs) {
    if (!output.ready || !holds_addresses(output.result.type())) continue;
    if (output.result.type() == DataType::kString) {
      // The addresses are copied, since the next run writes its own where these lie.
      const auto* const data = output.result.data_as<TextAddress>();
      const std::span<const TextAddress> addresses(data, static_cast<size_t>(output.result.shape().element_count()));
      if (std::shared_ptr<const void> owner = objects.owner_of(addresses)) {
        TENON_TRY_ASSIGN(output.result, text_tensor(addresses, std::move(owner), output.result.shape()));
        continue;
      }
    }
    TENON_TRY_ASSIGN(output.result, deep_copy(output.result));
  }
  return {};
}

Binding::Binding(std::unique_ptr<BindingImpl> impl) : impl_(std::move(impl)) {}
Binding::~Binding() = default;
Binding::Binding(Binding&&) noexcept = default;
Binding& Binding::operator=(Binding&&) noexcept = default;

Status Binding::bind_input(std::string_view name, Tensor tensor) {
  TENON_INVALID_IF(impl_ == nullptr, "The binding was moved from; the one that it was moved to is to be used.");
  TENON_TRY_ASSIGN(const size_t index, find_name(impl_->session->inputs(), name, "input"));
  return bind_input(index, std::move(tensor));
}

Status Binding::bind_output(std::string_view name, Tensor tensor) {
  TENON_INVALID_IF(impl_ == nullptr, "The binding was moved from; the one that it was moved to is to be used.");
  TENON_TRY_ASSIGN(const size_t index, find_name(impl_->session->outputs(), name, "output"));
  return bind_output(index, std::move(tensor));
}

Status Binding::bind_output_auto(std::string_view name) {
  TENON_INVALID_IF(impl_ == nullptr, "The binding was moved from; the one that it was moved to is to be used.");
  TENON_TRY_ASSIGN(const size_t index, find_name(impl_->session->outputs(), name, "output"));
  return bind_output_auto(index);
}

Status Binding::bind_input(size_t index, Tensor tensor) {
  TENON_INVALID_IF(impl_ == nullptr, "The binding was moved from; the one that it was moved to is to be used.");
  const BindingTurn turn(*impl_);
  TENON_TRY(turn.check());
  TENON_INVALID_IF(index >= impl_->inputs.size(), "Input {} of {} does not exist.", index, impl_->inputs.size());
  if (tensor.defined() && same_tensor(tensor, impl_->inputs[index])) return {};
  if (tensor.defined() && stands_for_scalar(impl_->session->inputs()[index], tensor.shape())) {
    TENON_TRY_ASSIGN(tensor, tensor.reinterpret(tensor.type(), Shape()));
    if (same_tensor(tensor, impl_->inputs[index])) return {};
  }
  TENON_TRY(check_tensor(impl_->session->spaces(), impl_->session->inputs()[index], tensor, "input"));
  if (impl_->session->spaces().has_devices()) {
    impl_->spaces.inputs[index] = impl_->session->spaces().space_of(tensor, impl_->space_words[index]);
  }
  impl_->inputs[index] = std::move(tensor);
  return {};
}

Status Binding::bind_output(size_t index, Tensor tensor) {
  TENON_INVALID_IF(impl_ == nullptr, "The binding was moved from; the one that it was moved to is to be used.");
  const BindingTurn turn(*impl_);
  TENON_TRY(turn.check());
  TENON_INVALID_IF(index >= impl_->outputs.size(), "Output {} of {} does not exist.", index, impl_->outputs.size());
  if (tensor.defined() && same_tensor(tensor, impl_->outputs[index].bound)) return {};
  TENON_TRY(check_tensor(impl_->session->spaces(), impl_->session->outputs()[index], tensor, "output"));
  TENON_UNSUPPORTED_IF(holds_addresses(tensor.type()),
                       "Output \"{}\" is {}, which each run makes anew: it cannot be bound to a tensor.",
                       impl_->session->outputs()[index].name, impl_->session->outputs()[index].to_string());
  TENON_INVALID_IF(tensor.read_only(),
                   "Output \"{}\" cannot be bound to read-only memory: the {} tensor of shape {} in {} is marked so.",
                   impl_->session->outputs()[index].name, data_type_name(tensor.type()), tensor.shape().to_string(),
                   tensor.space().to_string());
  BoundOutput& output = impl_->outputs[index];
  output = {};
  output.bound = std::move(tensor);
  output.is_auto = false;
  impl_->set_output_space(index);
  return {};
}

Status Binding::bind_output_auto(size_t index) {
  TENON_INVALID_IF(impl_ == nullptr, "The binding was moved from; the one that it was moved to is to be used.");
  const BindingTurn turn(*impl_);
  TENON_TRY(turn.check());
  TENON_INVALID_IF(index >= impl_->outputs.size(), "Output {} of {} does not exist.", index, impl_->outputs.size());
  BoundOutput& output = impl_->outputs[index];
  if (!output.is_auto || output.auto_space.valid()) output = {};
  impl_->set_output_space(index);
  return {};
}

Status Binding::bind_output_auto(std::string_view name, const MemorySpace& space) {
  TENON_INVALID_IF(impl_ == nullptr, "The binding was moved from; the one that it was moved to is to be used.");
  TENON_TRY_ASSIGN(const size_t index, find_name(impl_->session->outputs(), name, "output"));
  return bind_output_auto(index, space);
}

Status Binding::bind_output_auto(size_t index, const MemorySpace& space) {
  TENON_INVALID_IF(impl_ == nullptr, "The binding was moved from; the one that it was moved to is to be used.");
  const BindingTurn turn(*impl_);
  TENON_TRY(turn.check());
  TENON_INVALID_IF(index >= impl_->outputs.size(), "Output {} of {} does not exist.", index, impl_->outputs.size());
  const SpaceId known = impl_->session->spaces().table().find(space);
  TENON_UNSUPPORTED_IF(!known.valid(), "Output \"{}\" cannot be made in {}: the session has no allocator for it.",
                       impl_->session->outputs()[index].name, space.to_string());
  BoundOutput& output = impl_->outputs[index];
  if (!output.is_auto || output.auto_space != known) output = {};
  output.auto_space = known;
  impl_->set_output_space(index);
  return {};
}

Status Binding::unbind_input(size_t index) {
  TENON_INVALID_IF(impl_ == nullptr, "The binding was moved from; the one that it was moved to is to be used.");
  const BindingTurn turn(*impl_);
  TENON_TRY(turn.check());
  TENON_INVALID_IF(index >= impl_->inputs.size(), "Input {} of {} does not exist.", index, impl_->inputs.size());
  impl_->inputs[index] = Tensor();
  return {};
}

Status Binding::clear() {
  TENON_INVALID_IF(impl_ == nullptr, "The binding was moved from; the one that it was moved to is to be used.");
  const BindingTurn turn(*impl_);
  TENON_TRY(turn.check());
  for (Tensor& tensor : impl_->inputs) tensor = Tensor();
  for (size_t i = 0; i < impl_->outputs.size(); ++i) {
    impl_->outputs[i] = {};
    impl_->set_output_space(i);
  }
  return {};
}

Tensor Binding::output(std::string_view name) const {
  if (impl_ == nullptr) return {};
  const Result<size_t> index = find_name(impl_->session->outputs(), name, "output");
  return index.ok() ? output(*index) : Tensor();
}

Tensor Binding::output(size_t index) const {
  if (impl_ == nullptr || index >= impl_->outputs.size()) return {};
  const BindingTurn turn(*impl_);
  return turn.taken() && impl_->outputs[index].ready ? impl_->outputs[index].result : Tensor();
}

}  // namespace tenon
