// Loads a model, binds its inputs, runs it and prints the largest values of each output.
#include <tenon/session.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <numeric>
#include <string>
#include <vector>

namespace {

[[noreturn]] void fail(const tenon::Status& status) {
  std::fprintf(stderr, "run_model: %s\n", status.to_string().c_str());
  std::exit(1);
}

void check(const tenon::Status& status) {
  if (!status.ok()) fail(status);
}

template <typename T>
T check(tenon::Result<T> result) {
  if (!result.ok()) fail(result.status());
  return *std::move(result);
}

// The declared shape, with open dimensions taken as 1.
tenon::Shape shape_of(const tenon::ValueInfo& value) {
  std::vector<int64_t> dims = value.dims;
  std::replace_if(dims.begin(), dims.end(), [](int64_t dim) { return dim < 0; }, 1);
  return tenon::Shape(dims);
}

void print_largest(const std::string& name, const tenon::Tensor& tensor) {
  std::printf("%s: %s%s\n", name.c_str(), std::string(tenon::data_type_name(tensor.type())).c_str(),
              tensor.shape().to_string().c_str());
  if (tensor.type() != tenon::DataType::kFloat) return;
  const auto* values = tensor.data_as<float>();
  std::vector<size_t> order(static_cast<size_t>(tensor.shape().element_count()));
  std::iota(order.begin(), order.end(), size_t{0});
  const size_t count = std::min<size_t>(5, order.size());
  std::partial_sort(order.begin(), order.begin() + static_cast<std::ptrdiff_t>(count), order.end(),
                    [&](size_t a, size_t b) { return values[a] > values[b]; });
  for (size_t i = 0; i < count; ++i) std::printf("  [%zu] %g\n", order[i], values[order[i]]);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) {
    std::fprintf(stderr, "usage: run_model MODEL [DIM=N]...\n");
    return 2;
  }
  tenon::SessionOptions options;
  for (int i = 2; i < argc; ++i) {
    const std::string text = argv[i];
    const size_t equals = text.find('=');
    if (equals == std::string::npos) fail({tenon::StatusCode::kInvalidArgument, "\"" + text + "\" is no DIM=N."});
    const char *first = text.data() + equals + 1, *last = text.data() + text.size();
    int64_t size = 0;
    const auto [stop, error] = std::from_chars(first, last, size);
    if (error != std::errc{} || stop != last || size < 0)
      fail({tenon::StatusCode::kInvalidArgument, "\"" + text + "\" gives no whole number from 0 on."});
    options.dims[text.substr(0, equals)] = size;
  }
  auto session = check(tenon::Session::load(argv[1], options));
  tenon::Binding binding = check(session->make_binding());
  for (const tenon::ValueInfo& input : session->inputs()) {
    std::printf("input %s\n", input.to_string().c_str());
    tenon::Tensor tensor = check(tenon::Tensor::allocate(input.type, shape_of(input)));
    if (input.type == tenon::DataType::kFloat)
      std::fill_n(tensor.data_as<float>(), tensor.shape().element_count(), 0.5f);
    check(binding.bind_input(input.name, tensor));
  }
  check(session->run(binding));  // plans for these shapes

  tenon::RunReport report;
  const auto start = std::chrono::steady_clock::now();
  check(session->run(binding, {.report = &report}));
  const std::chrono::duration<double, std::milli> elapsed = std::chrono::steady_clock::now() - start;

  for (size_t i = 0; i < session->outputs().size(); ++i) print_largest(session->outputs()[i].name, binding.output(i));
  std::printf("second run: %.3f ms, %zu bytes copied\n", elapsed.count(), report.copies.bytes_copied());
  return 0;
}
