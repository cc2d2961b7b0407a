#include "try_model.h"

#include <sys/resource.h>

#include <cstring>

#include "base/checked.h"

namespace tenon::fuzz {

namespace {

// Open dimensions get small numbers, the same for the same name. Images are larger: convolutions need room.
int64_t open_dim(const ValueInfo& info, size_t axis) {
  const bool is_spatial = info.dims.size() == 4 && axis >= 2;
  return is_spatial ? 32 : axis == 0 ? 1 : 4;
}

// The shape to run with; false when it has more elements than are left, or no rank.
bool choose_shape(const ValueInfo& info, Shape& shape, int64_t& elements_left) {
  if (!info.has_shape || info.dims.size() > static_cast<size_t>(Shape::kMaxRank)) return false;
  int64_t elements = 1;
  for (size_t axis = 0; axis < info.dims.size(); ++axis) {
    const int64_t dim = info.dims[axis] >= 0 ? info.dims[axis] : open_dim(info, axis);
    const auto product = checked_mul(elements, dim);
    if (!product || *product > elements_left) return false;
    elements = *product;
    shape.push_back(dim);
  }
  elements_left -= elements;
  return true;
}

// 1 in every element: an index that exists, a length that is not empty, a number that survives a division.
void fill(Tensor& tensor) {
  auto* data = static_cast<std::byte*>(tensor.data());
  const size_t bytes = tensor.size_bytes();
  const float one = 1;
  const size_t size = data_type_size(tensor.type());
  std::memset(data, 0, bytes);
  for (size_t i = 0; size > 0 && i + size <= bytes; i += size) {
    if (tensor.type() == DataType::kFloat) {
      std::memcpy(data + i, &one, sizeof(one));
    } else {
      data[i] = std::byte{1};
    }
  }
}

}  // namespace

Outcome try_model(std::span<const std::byte> model, const TryOptions& options) {
  Outcome outcome;
  SessionOptions session_options;
  session_options.threads = 1;
  session_options.allow_spinning = false;
  Result<std::shared_ptr<Session>> session = Session::load_from_bytes(model, session_options, options.base_directory);
  if (!session.ok()) {
    outcome.loaded = session.status();
    return outcome;
  }
  if (!options.run) return outcome;
  std::vector<std::pair<std::string, Tensor>> inputs;
  int64_t elements_left = options.max_input_elements;
  for (const ValueInfo& info : (*session)->inputs()) {
    Shape shape;
    if (!choose_shape(info, shape, elements_left)) return outcome;
    Result<Tensor> tensor = Tensor::allocate(info.type, shape);
    if (!tensor.ok()) return outcome;
    fill(*tensor);
    inputs.emplace_back(info.name, *std::move(tensor));
  }
  outcome.ran = true;
  const Result<std::vector<Tensor>> outputs = (*session)->run(inputs);
  outcome.run = outputs.ok() ? Status() : outputs.status();
  return outcome;
}

void limit_memory() {
#ifndef __SANITIZE_ADDRESS__
  constexpr rlim_t kLimit = rlim_t{1} << 30;
  const rlimit limit{kLimit, kLimit};
  (void)::setrlimit(RLIMIT_AS, &limit);
#endif
}

}  // namespace tenon::fuzz
