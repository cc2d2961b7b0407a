// An EP library whose device promises to take the fences of runs ("tenon.run_fences") and does not ask for them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <tenon/ep.h>
#include <tenon/importer.h>
#include <tenon/session.h>

#include <string>

#include "bad_plugin_host.h"
#include "base/testing.h"
#include "onnx_builder.h"

namespace tenon {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

// y = Relu(x) on the library's device, in its memory, with one fence to wait for.
Status run_with_a_fence() {
  api_testing::OnnxModel model;
  model.input("x", DataType::kFloat, {3}).output("y", DataType::kFloat, {3}).node({"Relu", {"x"}, {"y"}});
  TENON_TRY_ASSIGN(const auto session, model.load({.threads = 1, .eps = {{.ep_name = "BadEp", .devices = {1}}}}));
  TENON_TRY_ASSIGN(const auto importer, Importer::create("BadEp", 1));
  TenonTimelineCallbacks callbacks{};
  callbacks.version = TENON_TIMELINE_CALLBACKS_VERSION;
  callbacks.value = [](void*, uint64_t* value) { return *value = 1, TENON_TIMELINE_OK; };
  callbacks.wait = [](void*, uint64_t, int64_t) { return TENON_TIMELINE_OK; };
  callbacks.signal = [](void*, uint64_t) { return TENON_TIMELINE_OK; };
  OwnedHandle handle = OwnedHandle::borrow_pointer(&callbacks);
  TENON_TRY_ASSIGN(const auto timeline, importer->import_timeline(handle, TimelineKind::kHostCallbacks, "frames"));
  TENON_TRY_ASSIGN(Binding binding, session->make_binding());
  const MemorySpace space = session->input_spaces()[0].space;
  alignas(64) float x[4] = {-1, 2, -3};
  alignas(64) float y[4] = {};
  TENON_TRY_ASSIGN(const Tensor input, Tensor::view(DataType::kFloat, Shape{3}, x, 12, nullptr, space));
  TENON_TRY_ASSIGN(const Tensor output, Tensor::view(DataType::kFloat, Shape{3}, y, 12, nullptr, space));
  TENON_TRY(binding.bind_input("x", input));
  TENON_TRY(binding.bind_output("y", output));
  const Fence ready{timeline, 1};
  return session->run(binding, {.waits = {&ready, 1}});
}

Status run_promising(const char* promise) {
  const bad_plugin::WithDevice device;
  const bad_plugin::Variable promised("TENON_BAD_PLUGIN_RUN_FENCES", promise);
  TENON_TRY(register_ep_library("bad", BAD_PLUGIN));
  Status ran = run_with_a_fence();
  TENON_TRY(unregister_ep_library("bad"));
  EXPECT_FALSE(bad_plugin::plugin_is_loaded());
  return ran;
}

TEST(RunFencesOfEps, AnEpThatPromisesToTakeThemAndDoesNotIsAnError) {
  EXPECT_THAT(run_promising("1"),
              has_status(StatusCode::kDeviceError, AllOf(HasSubstr("BadEp"), HasSubstr("tenon.run_fences"),
                                                         HasSubstr("OnRunStart succeeds without asking"))));
}

TEST(RunFencesOfEps, WithoutThePromiseTheHostOrdersTheRun) { EXPECT_THAT(run_promising("0"), is_ok()); }

}  // namespace
}  // namespace tenon
