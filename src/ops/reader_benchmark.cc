// CPU time of read_model_file, one JSON line a model: reader_benchmark MODEL...
#include <time.h>

#include <algorithm>
#include <cstdio>
#include <cstring>

#include "graph/reader.h"
#include "ops/shape_inference.h"

namespace {

double cpu_ms() {
  timespec now;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) * 1e3 + static_cast<double>(now.tv_nsec) / 1e6;
}

double median(std::vector<double> times) {
  std::sort(times.begin(), times.end());
  return times[times.size() / 2];
}

}  // namespace

int main(int count, char** arguments) {
  constexpr int kRuns = 21;
  const bool print = count > 1 && std::strcmp(arguments[1], "--text") == 0;
  for (int i = print ? 2 : 1; i < count; ++i) {
    std::vector<double> read, infer;
    size_t nodes = 0, copied = 0, viewed = 0;
    for (int run = 0; run < kRuns; ++run) {
      const double start = cpu_ms();
      tenon::Result<tenon::Model> model = tenon::read_model_file(arguments[i]);
      const double middle = cpu_ms();
      if (!model.ok()) {
        std::fprintf(stderr, "%s\n", model.status().to_string().c_str());
        return 1;
      }
      const tenon::Status inferred = tenon::infer_shapes(model->graph);
      infer.push_back(cpu_ms() - middle);
      read.push_back(middle - start);
      if (!inferred.ok()) std::fprintf(stderr, "%s\n", inferred.to_string().c_str());
      if (print && run == 0) std::fputs(model->graph.to_text().c_str(), stdout);
      nodes = model->graph.nodes.size();
      copied = viewed = 0;
      for (const tenon::Value& value : model->graph.values)
        if (value.constant) (value.constant->in_file ? viewed : copied) += value.constant->size_bytes;
    }
    std::printf(
        "{\"model\": \"%s\", \"nodes\": %zu, \"read_ms\": %.3f, \"read_min_ms\": %.3f, \"infer_ms\": %.3f, "
        "\"copied_bytes\": %zu, \"viewed_bytes\": %zu}\n",
        arguments[i], nodes, median(read), *std::min_element(read.begin(), read.end()), median(infer), copied, viewed);
  }
  return 0;
}
