#include "ep/cuda/compute/rehearsal.h"

#include <algorithm>
#include <map>
#include <optional>
#include <system_error>
#include <utility>

namespace tenon::cuda {

namespace {

// Of the symbols of a graph those that are tried alone.
constexpr size_t kMostSymbols = 4;
// Sizes of a network are often multiples of what it divides an image by.
constexpr int64_t kMostStep = 32;
// Products of so few rows have kernels of their own.
constexpr int64_t kFewRows = 7;
// Beyond it a size is nobody's.
constexpr int64_t kMostSize = int64_t{1} << 20;

// The largest power of two that divides the size.
int64_t step_of(int64_t size) { return std::min(size & -size, kMostStep); }

using Sizes = std::vector<int64_t>;  // by symbol

// Where a symbol stands in the inputs.
struct Symbols {
  Sizes sizes;
  std::vector<std::vector<size_t>> places;  // by input and dimension; kNumber: it is no symbol
  static constexpr size_t kNumber = SIZE_MAX;
};

std::optional<Symbols> find_symbols(const Graph& graph, std::span<const Shape> inputs) {
  Symbols found;
  std::map<std::string, size_t, std::less<>> by_name;
  std::map<int64_t, size_t> by_size;  // sizes without a name that are equal count as one
  for (size_t i = 0; i < inputs.size(); ++i) {
    const Value& value = graph.value(graph.inputs[i]);
    auto& places = found.places.emplace_back(inputs[i].rank(), Symbols::kNumber);
    for (int d = 0; d < inputs[i].rank(); ++d) {
      const bool named = value.has_rank && !value.dims[d].symbol.empty();
      if (value.has_rank && value.dims[d].known()) continue;
      const int64_t size = inputs[i][d];
      if (size < 1 || size > kMostSize) return std::nullopt;
      const auto next = found.sizes.size();
      places[d] =
          named ? by_name.emplace(value.dims[d].symbol, next).first->second : by_size.emplace(size, next).first->second;
      if (places[d] == next) found.sizes.push_back(size);
    }
  }
  return found;
}

}  // namespace

std::vector<std::vector<Shape>> other_sizes(const Graph& graph, std::span<const Shape> inputs) {
  const std::optional<Symbols> symbols = find_symbols(graph, inputs);
  if (!symbols || symbols->sizes.empty()) return {};
  const Sizes& now = symbols->sizes;
  std::vector<Sizes> others;
  const auto add = [&](const Sizes& sizes) {
    const bool possible =
        std::all_of(sizes.begin(), sizes.end(), [](int64_t size) { return size >= 1 && size <= kMostSize; });
    if (possible && sizes != now && std::find(others.begin(), others.end(), sizes) == others.end())
      others.push_back(sizes);
  };
  using Change = int64_t (*)(int64_t);
  constexpr Change kNext = [](int64_t size) { return size + step_of(size); };
  constexpr Change kPrevious = [](int64_t size) { return size - step_of(size); };
  constexpr Change kOdd = [](int64_t size) { return size | 1; };
  constexpr Change kOddSteps = [](int64_t size) {
    return size % kMostStep == 0 ? (size / kMostStep | 1) * kMostStep : size | 1;
  };
  constexpr Change kTwice = [](int64_t size) { return 2 * size; };
  constexpr Change kHalf = [](int64_t size) {
    const int64_t step = step_of(size), half = size / 2;
    return half > step ? half / step * step : half;
  };
  // A size of one, such as a batch, most often stays so: these change all others at once.
  const auto change = [&](Change to) {
    Sizes sizes = now;
    for (int64_t& size : sizes) size = size > 1 ? to(size) : size;
    return sizes;
  };
  // Vectors of one, two, four and eight elements.
  add(change(kNext));
  add(change(kPrevious));
  add(change(kOdd));
  add(change(kOddSteps));
  add(change([](int64_t size) { return size / 4 * 4 + 2; }));
  add(change([](int64_t size) { return size / 8 * 8 + 4; }));
  add(change([](int64_t size) { return (size + 7) / 8 * 8; }));
  add(change(kTwice));
  add(change(kHalf));
  const auto with = [&](size_t symbol, int64_t size, Sizes sizes) {
    sizes[symbol] = size;
    return sizes;
  };
  const size_t count = std::min(now.size(), kMostSymbols);
  for (size_t s = 0; s < count; ++s) {
    if (now[s] == 1) {
      for (const Change one : {kNext, kOdd, kOddSteps, kHalf}) add(with(s, 2, change(one)));
      add(with(s, 2, now));
      add(with(s, 2, change([](int64_t) { return kFewRows; })));
      add(with(s, 3, now));
    } else {
      for (const Change one : {kTwice, kHalf, kNext, kPrevious}) add(with(s, one(now[s]), now));
    }
  }
  for (size_t s = 0; s < count; ++s) {
    add(with(s, 1, now));
    if (now[s] != 1) add(with(s, kFewRows, now));
  }
  add(change([](int64_t size) { return 4 * size; }));
  add(change([](int64_t size) { return size / 4; }));
  std::vector<std::vector<Shape>> all;
  for (const Sizes& sizes : others) {
    auto& shapes = all.emplace_back();
    for (size_t i = 0; i < inputs.size(); ++i) {
      std::vector<int64_t> dims(inputs[i].begin(), inputs[i].end());
      for (size_t d = 0; d < dims.size(); ++d)
        if (symbols->places[i][d] != Symbols::kNumber) dims[d] = sizes[symbols->places[i][d]];
      shapes.emplace_back(dims);
    }
  }
  return all;
}

std::shared_ptr<Rehearsal> Rehearsal::begin(Work work, const std::vector<std::vector<Shape>>& shapes,
                                            std::span<const KernelCode> compiled, size_t threads, size_t beside) {
  std::shared_ptr<Rehearsal> made(new Rehearsal(std::move(work), shapes, compiled, std::max<size_t>(beside, 1)));
  ask_at_exit(made);
  guard_exit();
  try {
    while (made->threads_.size() < threads) made->threads_.emplace_back([rehearsal = made.get()] { rehearsal->run(); });
  } catch (const std::system_error&) {
    const std::lock_guard lock(made->mutex_);
    made->given_up_ = made->threads_.empty();
  }
  return made;
}

void Rehearsal::hurry() {
  {
    const std::lock_guard lock(mutex_);
    at_once_ = threads_.size();
  }
  changed_.notify_all();
}

Rehearsal::Rehearsal(Work work, const std::vector<std::vector<Shape>>& shapes, std::span<const KernelCode> compiled,
                     size_t at_once)
    : work_(std::move(work)), shapes_(shapes.begin(), shapes.end()), at_once_(at_once) {
  for (const KernelCode& kernel : compiled) seen_.insert(kernel.name);
}

Rehearsal::~Rehearsal() {
  {
    const std::lock_guard lock(mutex_);
    given_up_ = true;
  }
  changed_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

bool Rehearsal::done() const {
  const std::lock_guard lock(mutex_);
  return finished();
}

void Rehearsal::wait() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return finished(); });
}

std::string Rehearsal::who_waits() const {
  const std::lock_guard lock(mutex_);
  given_up_ = true;
  changed_.notify_all();
  return working_ == 0 ? "" : "NVRTC compiles kernels for sizes to come.";
}

void Rehearsal::run() {
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [this] {
      return finished() || (!given_up_ && working_ < at_once_ && !(kernels_.empty() && shapes_.empty()));
    });
    if (given_up_ || finished()) return;
    ++working_;
    if (!kernels_.empty()) {
      const KernelCode kernel = std::move(kernels_.front());
      kernels_.pop_front();
      lock.unlock();
      work_.compile(kernel, given_up_);
      guard_exit();  // NVRTC may have loaded a library of its own
      lock.lock();
    } else {
      const std::vector<Shape> shapes = std::move(shapes_.front());
      shapes_.pop_front();
      lock.unlock();
      const Result<Program> program = work_.lower(shapes);
      lock.lock();
      for (size_t i = 0; program.ok() && i < program->kernels.size() && found_ < kMostKernels; ++i) {
        const KernelCode& kernel = program->kernels[i];
        if (!seen_.insert(kernel.name).second) continue;
        ++found_;
        kernels_.push_back(kernel);
      }
    }
    --working_;
    changed_.notify_all();
  }
}

}  // namespace tenon::cuda
