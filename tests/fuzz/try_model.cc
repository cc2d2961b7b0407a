#include "try_model.h"

#include <sys/resource.h>

#include <atomic>
#include <chrono>
#include <cstring>
#include <ctime>
#include <thread>

#include "base/checked.h"

namespace tenon::fuzz {

namespace {

// Open dimensions get small numbers. Images are larger: convolutions need room.
int64_t open_dim(const ValueInfo& info, size_t axis, int64_t image_size) {
  const bool is_spatial = info.dims.size() == 4 && axis >= 2;
  return is_spatial ? image_size : axis == 0 ? 1 : 4;
}

// The shape to run with; false when it has more elements than are left, or no rank.
bool choose_shape(const ValueInfo& info, int64_t image_size, Shape& shape, int64_t& elements_left) {
  if (!info.has_shape || info.dims.size() > static_cast<size_t>(Shape::kMaxRank)) return false;
  int64_t elements = 1;
  for (size_t axis = 0; axis < info.dims.size(); ++axis) {
    const int64_t dim = info.dims[axis] >= 0 ? info.dims[axis] : open_dim(info, axis, image_size);
    const auto product = checked_mul(elements, dim);
    if (!product || *product > elements_left) return false;
    elements = *product;
    shape.push_back(dim);
  }
  elements_left -= elements;
  return true;
}

// Shapes for all inputs: the largest images that the limit allows. Empty when none are small enough.
std::vector<Shape> choose_shapes(std::span<const ValueInfo> inputs, int64_t most_elements) {
  for (int64_t image_size : {32, 8, 4}) {
    std::vector<Shape> shapes;
    int64_t elements_left = most_elements;
    for (const ValueInfo& info : inputs) {
      Shape shape;
      if (!choose_shape(info, image_size, shape, elements_left)) break;
      shapes.push_back(shape);
    }
    if (shapes.size() == inputs.size()) return shapes;
  }
  return {};
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

// A mutated Loop need not end: what a user would do about it is done here. Time is that of the CPU, which does not pass
// while other programs have it.
class Terminator {
 public:
  Terminator() {
    static const bool started = [] {
      std::thread(&Terminator::watch).detach();
      return true;
    }();
    (void)started;
    cancel_ = false;
    deadline_ms_ = now_ms() + kRunMs;
  }
  ~Terminator() { deadline_ms_ = 0; }
  Terminator(const Terminator&) = delete;
  Terminator& operator=(const Terminator&) = delete;
  const std::atomic<bool>* cancel() const { return &cancel_; }

 private:
  static constexpr int64_t kRunMs = 1000;

  static int64_t now_ms() { return int64_t{1000} * std::clock() / CLOCKS_PER_SEC; }
  [[noreturn]] static void watch() {
    while (true) {
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
      const int64_t deadline = deadline_ms_;
      if (deadline != 0 && now_ms() > deadline) cancel_ = true;
    }
  }

  static inline std::atomic<bool> cancel_ = false;
  static inline std::atomic<int64_t> deadline_ms_ = 0;
};

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
  const std::span<const ValueInfo> infos = (*session)->inputs();
  const std::vector<Shape> shapes = choose_shapes(infos, options.max_input_elements);
  if (shapes.size() != infos.size()) return outcome;
  for (size_t i = 0; i < infos.size(); ++i) {
    Result<Tensor> tensor = Tensor::allocate(infos[i].type, shapes[i]);
    if (!tensor.ok()) return outcome;
    fill(*tensor);
    inputs.emplace_back(infos[i].name, *std::move(tensor));
  }
  outcome.ran = true;
  const Terminator terminator;
  const Result<std::vector<Tensor>> outputs = (*session)->run(inputs, {.cancel = terminator.cancel()});
  outcome.run = outputs.ok() ? Status() : outputs.status();
  return outcome;
}

void limit_memory() {
#ifndef TENON_ADDRESS_SANITIZER
  constexpr rlim_t kLimit = rlim_t{1} << 30;
  const rlimit limit{kLimit, kLimit};
  (void)::setrlimit(RLIMIT_AS, &limit);
#endif
}

}  // namespace tenon::fuzz
