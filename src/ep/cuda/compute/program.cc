#include "ep/cuda/compute/program.h"

#include <algorithm>

#include "base/format.h"
#include "ep/cuda/compute/algorithm_cache.h"
#include "ep/cuda/compute/device_op.h"
#include "plan/arena.h"

namespace tenon::cuda {

namespace {

// Rows of tensors are read 16 bytes at a time, and memory is fastest from whole lines on.
constexpr size_t kAlignment = 256;

std::string_view kind_name(StorageKind kind) {
  switch (kind) {
    case StorageKind::kArena:
      return "arena";
    case StorageKind::kConstant:
      return "constant";
    case StorageKind::kInput:
      return "input";
    case StorageKind::kOutput:
      return "output";
  }
  return "?";
}

}  // namespace

size_t DeviceTensor::size_bytes() const { return shape.element_count() * data_type_size(type); }

std::vector<int64_t> DeviceTensor::strides() const {
  const int rank = shape.rank();
  std::vector<int64_t> strides(rank);
  std::vector<int> order(rank);  // of memory, outermost first
  for (int i = 0; i < rank; ++i) order[i] = i;
  if (layout == DeviceLayout::kChannelsLast && rank > 2) std::rotate(order.begin() + 1, order.begin() + 2, order.end());
  int64_t stride = 1;
  for (size_t i = order.size(); i-- > 0;) {
    strides[order[i]] = stride;
    stride *= shape[order[i]];
  }
  return strides;
}

Program::Program() = default;
Program::~Program() = default;
Program::Program(Program&&) noexcept = default;
Program& Program::operator=(Program&&) noexcept = default;

Result<TensorId> Program::add_tensor(DataType type, const Shape& shape, DeviceLayout layout, StorageKind kind,
                                     int32_t index) {
  DeviceTensor tensor{.type = type, .shape = shape, .layout = layout};
  TENON_TRY_ASSIGN(const size_t bytes, tensor_size_bytes(type, shape));
  tensor.storage = static_cast<int32_t>(storages.size());
  storages.push_back({.kind = kind, .index = index, .size_bytes = bytes});
  tensors.push_back(tensor);
  return static_cast<TensorId>(tensors.size() - 1);
}

TensorId Program::add_view(TensorId of, DataType type, const Shape& shape, DeviceLayout layout, size_t offset_bytes) {
  DeviceTensor tensor = this->tensor(of);
  tensor.type = type;
  tensor.shape = shape;
  tensor.layout = layout;
  tensor.offset_bytes += offset_bytes;
  tensors.push_back(tensor);
  return static_cast<TensorId>(tensors.size() - 1);
}

Result<TensorId> Program::add_constant(DataType type, const Shape& shape, std::string key,
                                       std::function<void(std::byte*)> fill, DeviceLayout layout) {
  const auto found =
      std::find_if(constants.begin(), constants.end(), [&](const DeviceConstant& c) { return c.key == key; });
  const auto index = static_cast<int32_t>(found - constants.begin());
  TENON_TRY_ASSIGN(const TensorId id, add_tensor(type, shape, layout, StorageKind::kConstant, index));
  if (found == constants.end())
    constants.push_back({.key = std::move(key), .size_bytes = tensor(id).size_bytes(), .fill = std::move(fill)});
  return id;
}

void Program::add_op(std::unique_ptr<DeviceOp> op) { ops.push_back(std::move(op)); }

void Program::add_kernel(KernelCode kernel) {
  const auto same = [&](const KernelCode& known) { return known.name == kernel.name; };
  if (std::none_of(kernels.begin(), kernels.end(), same)) kernels.push_back(std::move(kernel));
}

Status Program::finish() {
  for (size_t i = 0; i < ops.size(); ++i) {
    const size_t scratch = ops[i]->scratch_bytes(*this);
    if (scratch != 0) {
      TENON_TRY_ASSIGN(const TensorId id, add_tensor(DataType::kUint8, Shape{static_cast<int64_t>(scratch)}));
      ops[i]->set_scratch(id);
    }
    const auto use = [&](TensorId id) {
      if (id == kNoTensor) return;
      DeviceStorage& storage = storages[tensor(id).storage];
      if (storage.first < 0) storage.first = static_cast<int32_t>(i);
      storage.last = static_cast<int32_t>(i);
    };
    for (TensorId id : ops[i]->reads()) use(id);
    for (TensorId id : ops[i]->writes()) use(id);
    use(ops[i]->scratch());
  }
  std::vector<ArenaBuffer> blocks;
  std::vector<size_t> owners;
  for (size_t s = 0; s < storages.size(); ++s) {
    if (storages[s].kind != StorageKind::kArena || storages[s].first < 0) continue;
    blocks.push_back({.size_bytes = std::max<size_t>(storages[s].size_bytes, 1),
                      .first = storages[s].first,
                      .last = storages[s].last});
    owners.push_back(s);
  }
  TENON_TRY_ASSIGN(arena_bytes, pack_arena(blocks, kAlignment));
  for (size_t b = 0; b < blocks.size(); ++b) storages[owners[b]].offset_bytes = blocks[b].offset_bytes;
  return Status();
}

std::string Program::to_text() const {
  const auto name = [&](TensorId id) {
    if (id == kNoTensor) return std::string("-");
    const DeviceTensor& t = tensor(id);
    const DeviceStorage& s = storage_of(id);
    std::string where(kind_name(s.kind));
    if (s.kind != StorageKind::kArena) where += format(" {}", s.index);
    return format("%{}:{}{}{} ({})", id, data_type_name(t.type), t.shape.to_string(),
                  t.layout == DeviceLayout::kChannelsLast ? " channels last" : "", where);
  };
  std::string text;
  for (const auto& op : ops) {
    std::string line;
    for (TensorId id : op->writes()) line += (line.empty() ? "" : ", ") + name(id);
    line += " = " + op->description(*this) + " <-";
    for (TensorId id : op->reads()) line += " " + name(id);
    text += line + "\n";
  }
  return text;
}

std::string PrepareContext::conditions() const {
  return std::string(tf32 ? "" : "exact ") + (addresses.program->workspace_bytes == 0 ? "small " : "");
}

std::string PrepareContext::problem(const DeviceOp& op) const {
  return conditions() + op.description(*addresses.program);
}

ProblemFamily PrepareContext::family(const DeviceOp& op) const {
  ProblemFamily family = op.family();
  if (!family.text.empty()) family.text = conditions() + family.text;
  return family;
}

PrepareContext::Known PrepareContext::known(const DeviceOp& op) const {
  const std::string key = problem(op);
  // With all the time there is, what was chosen in haste is chosen again.
  Known known{.choice = algorithms->find(key, budget != nullptr && budget->limited()), .near = {}};
  if (known.choice) {
    algorithms->add_member(family(op), *known.choice);
  } else if (varies) {
    known.choice = algorithms->find_borrowed(key);
    known.near = algorithms->near(family(op));
    known.far = known.near.empty();
    if (known.far) known.near = algorithms->near(family(op), AlgorithmCache::kAnyDistance);
  }
  return known;
}

void PrepareContext::keep(const DeviceOp& op, const std::string& choice, bool hasty) const {
  // A choice made in haste for a new shape stays in that session: one that begins with the shape has more time.
  if (hasty && varies) return algorithms->borrow(problem(op), choice);
  algorithms->add(problem(op), choice, hasty);
  algorithms->add_member(family(op), choice);
}

void PrepareContext::borrow(const DeviceOp& op, const std::string& choice, bool compared) const {
  algorithms->borrow(problem(op), choice);
  if (compared) algorithms->add_member(family(op), choice);
}

ProblemFamily DeviceOp::family() const { return {}; }

CUdeviceptr Addresses::of(TensorId id) const {
  const DeviceTensor& tensor = program->tensor(id);
  const DeviceStorage& storage = program->storage_of(id);
  const size_t index = storage.index;
  switch (storage.kind) {
    case StorageKind::kArena:
      return arena + storage.offset_bytes + tensor.offset_bytes;
    case StorageKind::kConstant:
      return constants[index] + tensor.offset_bytes;
    case StorageKind::kInput:
      return inputs[index] + tensor.offset_bytes;
    case StorageKind::kOutput:
      return outputs[index] + tensor.offset_bytes;
  }
  return 0;
}

}  // namespace tenon::cuda
