// An EP's captured graphs (OrtEp::IsGraphCaptureEnabled and its companions).
#include <charconv>

#include "abi/objects/run_options.h"
#include "base/log.h"
#include "ep/host/plugin_provider.h"
#include "ep/host/plugin_session.h"

namespace tenon::abi {

GraphCapture* PluginProvider::graph_capture() {
  OrtEp* ep = ep_->get();
  const auto enabled = TENON_MEMBER(ep, OrtEp, IsGraphCaptureEnabled);
  if (enabled.absent()) return nullptr;
  const Result<bool> captures = call_value(ep_->who(), enabled, static_cast<const OrtEp*>(ep));
  Status usable = captures.status();
  if (usable.ok() && !*captures) return nullptr;
  if (usable.ok()) usable = TENON_MEMBER(ep, OrtEp, IsGraphCaptured).check(ep_->who());
  if (usable.ok()) usable = TENON_MEMBER(ep, OrtEp, ReplayGraph).check(ep_->who());
  const auto get_policy = TENON_MEMBER(ep, OrtEp, GetGraphCaptureNodeAssignmentPolicy);
  if (usable.ok() && !get_policy.absent()) {
    const auto policy = call_value(ep_->who(), get_policy, static_cast<const OrtEp*>(ep));
    usable = policy.status();
    captures_whole_model_ = !usable.ok() || *policy == OrtGraphCaptureNodeAssignmentPolicy_ALL_NODES_ON_EP;
  }
  if (usable.ok()) return this;
  // The nodes run all the same, each time.
  log_warning("plugin", "The graphs of an EP are not replayed: {}", usable.message());
  return nullptr;
}

// The key is ONNX Runtime's, whatever the EP; -1 there means that this run captures nothing.
int32_t PluginProvider::graph_of(const RunInfo& info) const {
  const auto* options = static_cast<const OrtRunOptions*>(info.native_options);
  const char* text = options != nullptr ? options->config_entries.find("gpu_graph_id") : nullptr;
  if (text == nullptr) return 0;
  const std::string_view number(text);
  int32_t graph = -1;
  const auto [end, error] = std::from_chars(number.data(), number.data() + number.size(), graph);
  if (error != std::errc() || end != number.data() + number.size()) {
    log_warning("plugin", "The run's \"gpu_graph_id\" is \"{}\", which is no number; no graph is used.", number);
    return -1;
  }
  return graph;
}

Result<bool> PluginProvider::is_captured(int32_t graph) const {
  return call_value(ep_->who(), TENON_MEMBER(ep_->get(), OrtEp, IsGraphCaptured), static_cast<const OrtEp*>(ep_->get()),
                    static_cast<int>(graph));
}

Status PluginProvider::replay(int32_t graph) {
  return call(ep_->who(), TENON_MEMBER(ep_->get(), OrtEp, ReplayGraph), ep_->get(), static_cast<int>(graph));
}

Status PluginProvider::release(int32_t graph) {
  const auto release = TENON_MEMBER(ep_->get(), OrtEp, ReleaseCapturedGraph);
  TENON_TRY(release.check(ep_->who()));
  return call(ep_->who(), release, ep_->get(), static_cast<int>(graph));
}

Status PluginSession::release_graph(int graph) const {
  for (const std::shared_ptr<PluginEp>& ep : eps) {
    const auto enabled = TENON_MEMBER(ep->get(), OrtEp, IsGraphCaptureEnabled);
    const auto release = TENON_MEMBER(ep->get(), OrtEp, ReleaseCapturedGraph);
    if (enabled.absent() || release.absent()) continue;
    TENON_TRY_ASSIGN(const bool captures, call_value(ep->who(), enabled, static_cast<const OrtEp*>(ep->get())));
    if (captures) TENON_TRY(call(ep->who(), release, ep->get(), graph));
  }
  return {};
}

}  // namespace tenon::abi
