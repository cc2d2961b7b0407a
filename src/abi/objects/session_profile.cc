#include "abi/objects/session_profile.h"

#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <ctime>

#include "base/deadline.h"
#include "base/json.h"

namespace tenon::abi {
namespace {

constexpr size_t kMaxEvents = 1'000'000;

// "PREFIX_2026-11-21_15-38-06.json", with a number where a name was given out in the same second.
std::string file_name(const std::string& prefix) {
  static std::atomic<unsigned> files{0};
  const std::time_t now = std::chrono::system_clock::to_time_t(std::chrono::system_clock::now());
  std::tm parts{};
  localtime_r(&now, &parts);
  char text[32];
  std::strftime(text, sizeof text, "%Y-%m-%d_%H-%M-%S", &parts);
  const unsigned number = files.fetch_add(1, std::memory_order_relaxed);
  return number == 0 ? tenon::format("{}_{}.json", prefix, text) : tenon::format("{}_{}_{}.json", prefix, text, number);
}

const char* category_name(OrtProfilingEventCategory category) {
  switch (category) {
    case OrtProfilingEventCategory_SESSION:
      return "Session";
    case OrtProfilingEventCategory_NODE:
      return "Node";
    case OrtProfilingEventCategory_KERNEL:
      return "Kernel";
    case OrtProfilingEventCategory_API:
      return "Api";
  }
  return "Session";
}

// As ONNX Runtime's profiles name element types.
std::string_view type_name(DataType type) {
  if (type == DataType::kFloat) return "float";
  if (type == DataType::kDouble) return "double";
  return data_type_name(type);
}

size_t bytes_of(const NodeRun::Tensor& tensor) {
  const Result<size_t> bytes = tensor_size_bytes(tensor.type, tensor.shape);
  return bytes.ok() ? *bytes : 0;
}

// [{"float":[2,4]},...]
std::string shapes_json(std::span<const NodeRun::Tensor> tensors) {
  std::string out;
  for (const NodeRun::Tensor& tensor : tensors) {
    std::string dims;
    for (int64_t d = 0; d < tensor.shape.rank(); ++d) dims += tenon::format("{}{}", d > 0 ? "," : "", tensor.shape[d]);
    out += tenon::format("{}{{\"{}\":[{}]}}", out.empty() ? "" : ",", type_name(tensor.type), dims);
  }
  return "[" + out + "]";
}

// ["conv1","relu1"]
std::string names_json(std::span<const std::string> names) {
  std::string out;
  for (const std::string& name : names) out += (out.empty() ? "" : ",") + json_string(name);
  return "[" + out + "]";
}

int this_thread() { return static_cast<int>(::syscall(SYS_gettid)); }

}  // namespace

SessionProfile::SessionProfile(std::string prefix) : prefix_(std::move(prefix)), start_ns_(monotonic_ns()) {}

void SessionProfile::complete(OrtProfilingEvent& event) {
  if (event.process_id == 0) event.process_id = ::getpid();
  if (event.thread_id == 0) event.thread_id = this_thread();
}

void SessionProfile::add(std::string_view name, int64_t begin_ns, int64_t end_ns) {
  OrtProfilingEvent event;
  event.name = name;
  event.timestamp_us = (begin_ns - start_ns_) / 1000;
  event.duration_us = (end_ns - begin_ns) / 1000;
  add(std::move(event));
}

void SessionProfile::ran(const NodeRun& node) {
  OrtProfilingEvent event;
  event.category = OrtProfilingEventCategory_NODE;
  event.name = node.name.empty() ? tenon::format("{}_{}_kernel_time", node.op_type, node.index)
                                 : tenon::format("{}_kernel_time", node.name);
  event.timestamp_us = (node.begin_ns - start_ns_) / 1000;
  event.duration_us = (node.end_ns - node.begin_ns) / 1000;
  size_t parameters = 0, activations = 0, outputs = 0;
  for (const NodeRun::Tensor& tensor : node.inputs) (tensor.is_constant ? parameters : activations) += bytes_of(tensor);
  for (const NodeRun::Tensor& tensor : node.outputs) outputs += bytes_of(tensor);
  event.arguments = {{"op_name", std::string(node.op_type)},           {"provider", "CPUExecutionProvider"},
                     {"node_index", std::to_string(node.index)},       {"parameter_size", std::to_string(parameters)},
                     {"activation_size", std::to_string(activations)}, {"output_size", std::to_string(outputs)}};
  event.json = tenon::format(",\"input_type_shape\":{},\"output_type_shape\":{}", shapes_json(node.inputs),
                             shapes_json(node.outputs));
  if (!node.model_nodes.empty()) event.json += tenon::format(",\"model_nodes\":{}", names_json(node.model_nodes));
  add(std::move(event));
}

void SessionProfile::add(OrtProfilingEvent event) {
  complete(event);
  auto events = events_.lock();
  if (events->size() < kMaxEvents) events->push_back(std::move(event));
}

Result<std::string> SessionProfile::write() {
  std::vector<OrtProfilingEvent> events;
  events.swap(*events_.lock());
  std::string name = file_name(prefix_);
  std::FILE* file = std::fopen(name.c_str(), "we");
  if (file == nullptr)
    return invalid_argument("The profile \"{}\" cannot be written: {}.", name, errno_text("fopen", errno));
  std::fputs("[\n", file);
  for (size_t i = 0; i < events.size(); ++i) {
    const OrtProfilingEvent& event = events[i];
    std::string arguments;
    for (const auto& [key, value] : event.arguments)
      arguments += tenon::format("{}{}:{}", arguments.empty() ? "" : ",", json_string(key), json_string(value));
    std::fputs(tenon::format("{{\"cat\":\"{}\",\"pid\":{},\"tid\":{},\"dur\":{},\"ts\":{},\"ph\":\"X\",\"name\":{},"
                             "\"args\":{{{}{}}}}}{}\n",
                             category_name(event.category), event.process_id, event.thread_id, event.duration_us,
                             event.timestamp_us, json_string(event.name), arguments, event.json,
                             i + 1 < events.size() ? "," : "")
                   .c_str(),
               file);
  }
  std::fputs("]\n", file);
  const bool failed = std::ferror(file) != 0;
  if (std::fclose(file) != 0 || failed) return invalid_argument("The profile \"{}\" cannot be written.", name);
  return name;
}

ProfiledRun::ProfiledRun(SessionProfile* session, const std::string* run_prefix)
    : session_(session), begin_ns_(monotonic_ns()) {
  if (run_prefix != nullptr) own_.emplace(*run_prefix);
}

void ProfiledRun::ran(const NodeRun& node) {
  if (session_ != nullptr) session_->ran(node);
  if (own_) own_->ran(node);
}

Status ProfiledRun::end(const Status& status) {
  const int64_t end_ns = monotonic_ns();
  for (SessionProfile* profile : {session_, own_ ? &*own_ : nullptr}) {
    if (profile == nullptr) continue;
    profile->add("SequentialExecutor::Execute", begin_ns_, end_ns);
    profile->add("model_run", begin_ns_, end_ns);
  }
  return own_ && status.ok() ? own_->write().status() : status;
}

}  // namespace tenon::abi
