// A few C functions over the public C++ API, so that bench/compare.py can time Tenon beside other engines inside one
// process, run by run. Not installed, not a product interface.
#include <tenon/session.h>

#include <chrono>
#include <cstring>
#include <string>
#include <vector>

namespace {

struct Bench {
  std::shared_ptr<tenon::Session> session;
  std::unique_ptr<tenon::Binding> binding;
  std::vector<tenon::Tensor> outputs;
};

std::string last_error;

bool failed(const tenon::Status& status) {
  if (status.ok()) return false;
  last_error = status.to_string();
  return true;
}

}  // namespace

extern "C" {

TENON_API const char* tenon_bench_error() { return last_error.c_str(); }

TENON_API void* tenon_bench_load(const char* path, int threads) {
  tenon::SessionOptions options;
  options.threads = threads;
  auto session = tenon::Session::load(path, options);
  if (failed(session.status())) return nullptr;
  auto binding = (*session)->make_binding();
  if (failed(binding.status())) return nullptr;
  return new Bench{*session, std::make_unique<tenon::Binding>(*std::move(binding)), {}};
}

TENON_API void tenon_bench_free(void* handle) { delete static_cast<Bench*>(handle); }

// `data` stays the caller's and must outlive the handle.
TENON_API int tenon_bench_input(void* handle, const char* name, int type, const int64_t* dims, int rank, void* data,
                                size_t size_bytes) {
  auto* bench = static_cast<Bench*>(handle);
  const tenon::Shape shape(std::span<const int64_t>(dims, static_cast<size_t>(rank)));
  auto tensor = tenon::Tensor::view(static_cast<tenon::DataType>(type), shape, data, size_bytes);
  if (failed(tensor.status())) return -1;
  return failed(bench->binding->bind_input(name, *tensor)) ? -1 : 0;
}

// Seconds of wall time for each of `runs` runs on average, or -1.
TENON_API double tenon_bench_run(void* handle, int runs) {
  auto* bench = static_cast<Bench*>(handle);
  const auto begin = std::chrono::steady_clock::now();
  for (int i = 0; i < runs; ++i)
    if (failed(bench->session->run(*bench->binding))) return -1;
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count() / runs;
}

TENON_API int tenon_bench_output_count(void* handle) {
  return static_cast<int>(static_cast<Bench*>(handle)->session->outputs().size());
}

// Fills dims (room for 12) and returns the rank; *data points at the output until the next run.
TENON_API int tenon_bench_output(void* handle, int index, int* type, int64_t* dims, void** data) {
  const tenon::Tensor tensor = static_cast<Bench*>(handle)->binding->output(static_cast<size_t>(index));
  *type = static_cast<int>(tensor.type());
  *data = tensor.data();
  for (int i = 0; i < tensor.shape().rank(); ++i) dims[i] = tensor.shape()[i];
  return tensor.shape().rank();
}

}  // extern "C"
