// Mistakes of an EP in members that only sessions of the C ABI call: its profiler, options that are set while the
// session lives, the data of EPContext nodes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <tenon/onnxruntime_c_api.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#include "bad_plugin_host.h"
#include "onnx_builder.h"

namespace tenon {
namespace {

using bad_plugin::kPlugin;
using ::testing::AllOf;
using ::testing::HasSubstr;

const OrtApi& api() { return *OrtGetApiBase()->GetApi(ORT_API_VERSION); }

enum class Step { kLoad, kRun, kDynamic, kNone };
using Case = bad_plugin::LieCase<Step>;

std::string text_of(OrtStatus* status) {
  std::string text = status == nullptr ? "" : api().GetErrorMessage(status);
  api().ReleaseStatus(status);
  return text;
}

OrtStatus* ORT_API_CALL read_nothing(void*, const char*, OrtAllocator*, void**, size_t*) {
  return api().CreateStatus(ORT_NO_SUCHFILE, "there is nothing");
}

// y = Relu(x), in a session that writes a profile.
struct Outcome {
  std::string loaded, run, dynamic, ended, profile;
};

class BadSession : public ::testing::TestWithParam<Case> {
 protected:
  void SetUp() override {
    folder_ = (std::filesystem::temp_directory_path() / "tenon_bad_XXXXXX").string();
    ASSERT_NE(mkdtemp(folder_.data()), nullptr);
    ASSERT_EQ(text_of(api().CreateEnv(ORT_LOGGING_LEVEL_ERROR, "bad", &env_)), "");
    ASSERT_EQ(text_of(api().RegisterExecutionProviderLibrary(env_, "bad", kPlugin)), "");
    ASSERT_EQ(text_of(api().CreateSessionOptions(&options_)), "");
    ASSERT_EQ(text_of(api().EnableProfiling(options_, (folder_ + "/profile").c_str())), "");
    ASSERT_EQ(text_of(api().SessionOptionsSetEpContextDataReadFunc(options_, &read_nothing, nullptr)), "");
    const OrtEpDevice* const* devices = nullptr;
    size_t count = 0;
    ASSERT_EQ(text_of(api().GetEpDevices(env_, &devices, &count)), "");
    ASSERT_EQ(count, 2u);
    ASSERT_EQ(
        text_of(api().SessionOptionsAppendExecutionProvider_V2(options_, env_, &devices[1], 1, nullptr, nullptr, 0)),
        "");
  }

  void TearDown() override {
    api().ReleaseSessionOptions(options_);
    EXPECT_EQ(text_of(api().UnregisterExecutionProviderLibrary(env_, "bad")), "");
    api().ReleaseEnv(env_);
    std::filesystem::remove_all(folder_);
  }

  Outcome try_session() {
    const std::string model = api_testing::OnnxModel()
                                  .input("x", DataType::kFloat, {3})
                                  .output("y", DataType::kFloat, {3})
                                  .node({"Relu", {"x"}, {"y"}})
                                  .bytes();
    Outcome outcome;
    OrtSession* session = nullptr;
    outcome.loaded = text_of(api().CreateSessionFromArray(env_, model.data(), model.size(), options_, &session));
    if (session == nullptr) return outcome;
    outcome.run = run(session);
    const char* key = "key";
    const char* value = "value";
    outcome.dynamic = text_of(api().SetEpDynamicOptions(session, &key, &value, 1));
    end_profile(session, outcome);
    api().ReleaseSession(session);
    return outcome;
  }

 private:
  // "" when the result is right.
  static std::string run(OrtSession* session) {
    float x[] = {-1, 2, -3};
    const int64_t dims[] = {3};
    OrtMemoryInfo* memory = nullptr;
    OrtValue *input = nullptr, *output = nullptr;
    std::string bad = text_of(api().CreateCpuMemoryInfo(OrtDeviceAllocator, OrtMemTypeDefault, &memory));
    bad += text_of(api().CreateTensorWithDataAsOrtValue(memory, x, sizeof x, dims, 1,
                                                        ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT, &input));
    const char* names[] = {"x", "y"};
    bad += text_of(api().Run(session, nullptr, &names[0], &input, 1, &names[1], 1, &output));
    if (output != nullptr) {
      void* y = nullptr;
      bad += text_of(api().GetTensorMutableData(output, &y));
      const auto* values = static_cast<const float*>(y);
      if (values[0] != 0 || values[1] != 2 || values[2] != 0) bad += "wrong values";
    }
    api().ReleaseValue(input);
    api().ReleaseValue(output);
    api().ReleaseMemoryInfo(memory);
    return bad;
  }

  static void end_profile(OrtSession* session, Outcome& outcome) {
    OrtAllocator* allocator = nullptr;
    char* file = nullptr;
    outcome.ended = text_of(api().GetAllocatorWithDefaultOptions(&allocator));
    outcome.ended += text_of(api().SessionEndProfiling(session, allocator, &file));
    if (file == nullptr) return;
    std::ifstream stream(file);
    outcome.profile.assign(std::istreambuf_iterator<char>(stream), {});
    allocator->Free(allocator, file);
  }

  const bad_plugin::Lie lie_{GetParam().lie};
  std::string folder_;
  OrtEnv* env_ = nullptr;
  OrtSessionOptions* options_ = nullptr;
};

TEST_P(BadSession, HarmsNobody) {
  const Case& one = GetParam();
  const Outcome outcome = try_session();
  if (one.fails_at == Step::kLoad) {
    EXPECT_THAT(outcome.loaded, AllOf(HasSubstr("EP library \"bad\""), HasSubstr(one.says)));
    return;
  }
  EXPECT_EQ(outcome.loaded, "");
  if (one.fails_at == Step::kRun) {
    EXPECT_THAT(outcome.run, AllOf(HasSubstr("EP library \"bad\""), HasSubstr(one.says)));
    return;
  }
  EXPECT_EQ(outcome.run, "");
  EXPECT_EQ(outcome.ended, "");
  EXPECT_THAT(outcome.profile, AllOf(HasSubstr("model_run"), HasSubstr("_kernel_time"), HasSubstr("\n]\n")));
  if (one.fails_at == Step::kDynamic) {
    EXPECT_THAT(outcome.dynamic, AllOf(HasSubstr("EP library \"bad\""), HasSubstr(one.says)));
  } else {
    EXPECT_EQ(outcome.dynamic, "");
  }
}

// The profile lacks the EP's events, and that is all.
INSTANTIATE_TEST_SUITE_P(
    Profiler, BadSession,
    ::testing::Values(Case{"nothing", Step::kNone}, Case{"null CreateProfiler", Step::kNone},
                      Case{"data CreateProfiler", Step::kNone}, Case{"throw CreateProfiler", Step::kNone},
                      Case{"fail CreateProfiler", Step::kNone}, Case{"null profiler", Step::kNone},
                      Case{"bad profiler", Step::kNone}, Case{"profiler of version 0", Step::kNone},
                      Case{"null StartProfiling", Step::kNone}, Case{"throw StartProfiling", Step::kNone},
                      Case{"fail StartProfiling", Step::kNone}, Case{"null StartEvent", Step::kNone},
                      Case{"throw StartEvent", Step::kNone}, Case{"fail StartEvent", Step::kNone},
                      Case{"null StopEvent", Step::kNone}, Case{"throw int StopEvent", Step::kNone},
                      Case{"null EndProfiling", Step::kNone}, Case{"throw EndProfiling", Step::kNone},
                      Case{"fail EndProfiling", Step::kNone}, Case{"null Profiler.Release", Step::kNone},
                      Case{"throw Profiler.Release", Step::kNone}));

INSTANTIATE_TEST_SUITE_P(Options, BadSession,
                         ::testing::Values(Case{"null SetDynamicOptions", Step::kNone},
                                           Case{"throw SetDynamicOptions", Step::kDynamic, "SetDynamicOptions throws"},
                                           Case{"fail SetDynamicOptions", Step::kDynamic, "the plugin cannot"},
                                           Case{"data SetDynamicOptions", Step::kDynamic,
                                                "SetDynamicOptions does not point to a function"}));

// An EP whose graphs cannot be replayed runs its nodes each time.
INSTANTIATE_TEST_SUITE_P(Graphs, BadSession,
                         ::testing::Values(Case{"throw IsGraphCaptureEnabled", Step::kNone},
                                           Case{"data IsGraphCaptureEnabled", Step::kNone},
                                           Case{"null IsGraphCaptured", Step::kNone},
                                           Case{"null ReplayGraph", Step::kNone},
                                           Case{"claims graphs that it never captured", Step::kNone},
                                           Case{"never captures its graphs", Step::kNone},
                                           Case{"throw IsGraphCaptured", Step::kRun, "IsGraphCaptured throws"}));

INSTANTIATE_TEST_SUITE_P(ContextData, BadSession,
                         ::testing::Values(Case{"null GetEpContextDataCallbackSupport", Step::kNone},
                                           Case{"throw GetEpContextDataCallbackSupport", Step::kLoad,
                                                "GetEpContextDataCallbackSupport throws"},
                                           Case{"fail GetEpContextDataCallbackSupport", Step::kLoad,
                                                "the plugin cannot"},
                                           Case{"unknown context flags", Step::kLoad, "gives the flags 0x4"}));

}  // namespace
}  // namespace tenon
