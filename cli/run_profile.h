// A profile of runs on this machine: the time of each node, operator and kernel, and how much of the machine's peaks
// they reach.
#pragma once

#include <tenon/machine_peaks.h>
#include <tenon/plan_report.h>

#include <cstddef>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace tenon::cli {

class RunProfile {
 public:
  explicit RunProfile(const MachinePeaks& peaks) : peaks_(peaks) {}

  // The nodes of one run (RunOptions::node_times).
  void add_run(const std::vector<NodeTime>& nodes);

  // Tables of the nodes that take most time, and of all operators and kernels.
  std::string text() const;
  nlohmann::ordered_json json() const;
  // The last run for a trace viewer (Perfetto, chrome://tracing): one span a node, also in bodies.
  std::string trace() const;

 private:
  // Calls that are shown as one.
  struct Row {
    std::string node, op_type, kernel;  // empty where the calls differ, or the node has no name
    int64_t calls = 0;
    int64_t time_ns = 0;  // without that of the nodes in a node's bodies
    double flops = 0, bytes = 0;
  };
  enum class By : uint8_t { kNode, kOperator, kKernel };
  // By time, the largest first.
  std::vector<Row> rows(By by) const;
  std::string table(By by, size_t most) const;
  nlohmann::ordered_json rates(const Row& row) const;

  struct Call {
    NodeTime node;
    int64_t own_ns = 0;
  };
  MachinePeaks peaks_;
  std::vector<Call> calls_;  // of all runs
  size_t last_run_ = 0;      // its first call
  int64_t runs_ = 0;
};

}  // namespace tenon::cli
