#include "cli/run_profile.h"

#include <algorithm>
#include <map>
#include <tuple>
#include <utility>

#include "cli/status.h"
#include "programs/output.h"

namespace tenon::cli {
namespace {

using nlohmann::ordered_json;

constexpr size_t kShownNodes = 20;

// An amount in so many nanoseconds as a rate a second.
double rate(double amount, int64_t time_ns) { return time_ns > 0 ? amount / static_cast<double>(time_ns) * 1e9 : 0; }

double percent(double part, double whole) { return whole > 0 ? 100 * part / whole : 0; }

double ms(int64_t ns) { return static_cast<double>(ns) / 1e6; }

}  // namespace

void RunProfile::add_run(const std::vector<NodeTime>& nodes) {
  ++runs_;
  last_run_ = calls_.size();
  // By depth: the time of nodes in the bodies of one that has not ended yet.
  std::vector<int64_t> inside_ns(1, 0);
  for (const NodeTime& node : nodes) {
    const auto depth = static_cast<size_t>(std::max(node.depth, 0));
    if (inside_ns.size() < depth + 2) inside_ns.resize(depth + 2, 0);
    const int64_t own_ns = node.duration_ns - std::exchange(inside_ns[depth + 1], 0);
    inside_ns[depth] += node.duration_ns;
    calls_.push_back({node, std::max<int64_t>(own_ns, 0)});
  }
}

std::vector<RunProfile::Row> RunProfile::rows(By by) const {
  std::map<std::tuple<std::string, std::string, std::string, int32_t, int32_t>, Row> known;
  for (const Call& call : calls_) {
    const NodeTime& node = call.node;
    Row key;
    int32_t index = -1, depth = -1;
    if (by == By::kNode) {
      key = {.node = node.name, .op_type = node.op_type, .kernel = node.kernel};
      // Nodes without names are told apart by their places.
      if (node.name.empty()) index = node.node;
      depth = node.depth;
    } else {
      (by == By::kOperator ? key.op_type : key.kernel) = by == By::kOperator ? node.op_type : node.kernel;
    }
    Row& row = known.try_emplace({key.node, key.op_type, key.kernel, index, depth}, key).first->second;
    ++row.calls;
    row.time_ns += call.own_ns;
    // A node with bodies has no work but theirs.
    if (call.own_ns == node.duration_ns) {
      row.flops += node.flops;
      row.bytes += node.bytes;
    }
  }
  std::vector<Row> sorted;
  for (auto& [key, row] : known) sorted.push_back(std::move(row));
  std::stable_sort(sorted.begin(), sorted.end(), [](const Row& a, const Row& b) { return a.time_ns > b.time_ns; });
  return sorted;
}

std::string RunProfile::table(By by, size_t most) const {
  const std::vector<Row> all = rows(by);
  int64_t total_ns = 0;
  for (const Row& row : all) total_ns += row.time_ns;
  std::string text = format("{:>12} {:>7} {:>7} {:>9} {:>7} {:>9} {:>7}  {}\n", "time", "share", "calls", "GFLOP/s",
                            "peak", "GB/s", "peak",
                            by == By::kNode       ? "operator, kernel, node"
                            : by == By::kOperator ? "operator"
                                                  : "kernel");
  for (size_t i = 0; i < all.size() && i < most; ++i) {
    const Row& row = all[i];
    const double flops = rate(row.flops, row.time_ns), bytes = rate(row.bytes, row.time_ns);
    std::string name = row.op_type;
    if (!row.kernel.empty()) name += (name.empty() ? "" : ", ") + row.kernel;
    if (!row.node.empty()) name += ", \"" + row.node + "\"";
    text += format("{:>12} {:>6.1f}% {:>7.1f} {:>9.1f} {:>6.1f}% {:>9.1f} {:>6.1f}%  {}\n",
                   programs::time_text(ms(row.time_ns) / static_cast<double>(runs_)),
                   percent(static_cast<double>(row.time_ns), static_cast<double>(total_ns)),
                   static_cast<double>(row.calls) / static_cast<double>(runs_), flops / 1e9,
                   percent(flops, peaks_.flops), bytes / 1e9, percent(bytes, peaks_.bytes), name);
  }
  if (all.size() > most) text += format("{:>12} {} more\n", "", all.size() - most);
  return text;
}

std::string RunProfile::text() const {
  std::string text = format("peaks   {:.1f} GFLOP/s in registers, {:.1f} GB/s from memory\n\n", peaks_.flops / 1e9,
                            peaks_.bytes / 1e9);
  text += table(By::kNode, kShownNodes) + "\n";
  text += table(By::kOperator, SIZE_MAX) + "\n";
  text += table(By::kKernel, SIZE_MAX);
  return text;
}

ordered_json RunProfile::rates(const Row& row) const {
  const double runs = static_cast<double>(std::max<int64_t>(runs_, 1));
  return {{"calls", static_cast<double>(row.calls) / runs},
          {"time_ns", static_cast<double>(row.time_ns) / runs},
          {"flops", row.flops / runs},
          {"bytes", row.bytes / runs},
          {"part_of_peak_flops", percent(rate(row.flops, row.time_ns), peaks_.flops) / 100},
          {"part_of_peak_bytes", percent(rate(row.bytes, row.time_ns), peaks_.bytes) / 100}};
}

ordered_json RunProfile::json() const {
  const auto list = [&](By by) {
    ordered_json all = ordered_json::array();
    for (const Row& row : rows(by)) {
      ordered_json object;
      if (by == By::kNode) object["node"] = row.node;
      if (by != By::kKernel) object["op_type"] = row.op_type;
      if (by != By::kOperator) object["kernel"] = row.kernel;
      object.update(rates(row));
      all.push_back(std::move(object));
    }
    return all;
  };
  return {{"runs", runs_},
          {"peak_flops", peaks_.flops},
          {"peak_bytes", peaks_.bytes},
          {"nodes", list(By::kNode)},
          {"operators", list(By::kOperator)},
          {"kernels", list(By::kKernel)}};
}

std::string RunProfile::trace() const {
  ordered_json events = ordered_json::array();
  int64_t start_ns = INT64_MAX;
  for (size_t i = last_run_; i < calls_.size(); ++i) start_ns = std::min(start_ns, calls_[i].node.begin_ns);
  for (size_t i = last_run_; i < calls_.size(); ++i) {
    const NodeTime& node = calls_[i].node;
    const double flops = rate(node.flops, node.duration_ns), bytes = rate(node.bytes, node.duration_ns);
    events.push_back({{"name", node.name.empty() ? node.op_type : node.name},
                      {"cat", "kernel"},
                      {"ph", "X"},
                      {"pid", 1},
                      {"tid", 1},
                      {"ts", static_cast<double>(node.begin_ns - start_ns) / 1e3},
                      {"dur", static_cast<double>(node.duration_ns) / 1e3},
                      {"args",
                       {{"op_name", node.op_type},
                        {"kernel", node.kernel},
                        {"flops", node.flops},
                        {"bytes", node.bytes},
                        {"GFLOP/s", flops / 1e9},
                        {"GB/s", bytes / 1e9},
                        {"part_of_peak_flops", percent(flops, peaks_.flops) / 100},
                        {"part_of_peak_bytes", percent(bytes, peaks_.bytes) / 100}}}});
  }
  return events.dump(1, ' ', false, ordered_json::error_handler_t::replace) + "\n";
}

}  // namespace tenon::cli
