// Config entries through the C ABI: each is known and takes its value, or the call that adds it fails.
#include <gmock/gmock.h>

#include <protozero/pbf_writer.hpp>

#include "abi/objects/slots.h"
#include "abi/objects/status.h"
#include "graph/model_writer.h"

namespace tenon::abi {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

// "CODE MESSAGE", or "" for OK.
std::string text_of(OrtStatus* status) {
  if (status == nullptr) return "";
  std::string text = std::to_string(static_cast<int>(status->code)) + " " + status->message;
  release_status(status);
  return text;
}

std::string value_info(const char* name) {
  std::string tensor, type, info;
  protozero::pbf_writer(tensor).add_int32(1, 1);
  {
    std::string dim, shape;
    protozero::pbf_writer(dim).add_int64(1, 4);
    protozero::pbf_writer(shape).add_message(1, dim);
    protozero::pbf_writer(tensor).add_message(2, shape);
  }
  protozero::pbf_writer(type).add_message(1, tensor);
  protozero::pbf_writer writer(info);
  writer.add_string(1, name);
  writer.add_message(2, type);
  return info;
}

// y is x, which a run has to copy.
std::string pass_through() {
  std::string node, graph, import, model;
  protozero::pbf_writer node_writer(node);
  node_writer.add_string(1, "x");
  node_writer.add_string(2, "y");
  node_writer.add_string(4, "Identity");
  protozero::pbf_writer graph_writer(graph);
  graph_writer.add_message(1, node);
  graph_writer.add_string(2, "same");
  graph_writer.add_message(11, value_info("x"));
  graph_writer.add_message(12, value_info("y"));
  protozero::pbf_writer(import).add_int64(2, 17);
  protozero::pbf_writer writer(model);
  writer.add_int64(1, 8);
  writer.add_message(7, graph);
  writer.add_message(8, import);
  return model;
}

class ConfigEntriesTest : public ::testing::Test {
 protected:
  ConfigEntriesTest() {
    EXPECT_EQ(ort_api::CreateEnv(ORT_LOGGING_LEVEL_FATAL, "entries", &env_), nullptr);
    EXPECT_EQ(ort_api::CreateSessionOptions(&options_), nullptr);
    EXPECT_EQ(ort_api::CreateRunOptions(&run_options_), nullptr);
  }
  ~ConfigEntriesTest() override {
    ort_api::ReleaseRunOptions(run_options_);
    ort_api::ReleaseSessionOptions(options_);
    ort_api::ReleaseEnv(env_);
  }
  std::string add(const char* key, const char* value) {
    return text_of(ort_api::AddSessionConfigEntry(options_, key, value));
  }
  std::string add_to_run(const char* key, const char* value) {
    return text_of(ort_api::AddRunConfigEntry(run_options_, key, value));
  }
  // The status of a run of a new session.
  std::string run() {
    const std::string model = pass_through();
    OrtSession* session = nullptr;
    std::string said = text_of(ort_api::CreateSessionFromArray(env_, model.data(), model.size(), options_, &session));
    if (!said.empty()) return said;
    OrtMemoryInfo* cpu = nullptr;
    EXPECT_EQ(ort_api::CreateCpuMemoryInfo(OrtArenaAllocator, OrtMemTypeDefault, &cpu), nullptr);
    float data[4] = {1, 2, 3, 4};
    const int64_t dims[] = {4};
    OrtValue *x = nullptr, *y = nullptr;
    EXPECT_EQ(ort_api::CreateTensorWithDataAsOrtValue(cpu, data, sizeof(data), dims, 1,
                                                      ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT, &x),
              nullptr);
    const char *in = "x", *out = "y";
    const OrtValue* input = x;
    said = text_of(ort_api::Run(session, run_options_, &in, &input, 1, &out, 1, &y));
    ort_api::ReleaseValue(y);
    ort_api::ReleaseValue(x);
    ort_api::ReleaseMemoryInfo(cpu);
    ort_api::ReleaseSession(session);
    return said;
  }

  OrtEnv* env_ = nullptr;
  OrtSessionOptions* options_ = nullptr;
  OrtRunOptions* run_options_ = nullptr;
};

// S3.2.
TEST_F(ConfigEntriesTest, EachSpellingOfStrictModeRefusesACopy) {
  EXPECT_EQ(run(), "");
  for (const char* yes : {"1", "true", "True", "yes", "on"}) {
    EXPECT_EQ(add("tenon.disallow_copies", yes), "");
    EXPECT_THAT(run(), HasSubstr("tenon.disallow_copies is set")) << yes;
  }
  EXPECT_EQ(add("tenon.disallow_copies", "off"), "");
  EXPECT_EQ(run(), "");
}

TEST_F(ConfigEntriesTest, OneRunCanBeStrict) {
  EXPECT_EQ(add_to_run("tenon.disallow_copies", "yes"), "");
  EXPECT_THAT(run(), HasSubstr("tenon.disallow_copies is set"));
  EXPECT_EQ(add_to_run("tenon.disallow_copies", "no"), "");
  EXPECT_EQ(run(), "");
  // A run is never laxer than its session.
  EXPECT_EQ(add("tenon.disallow_copies", "1"), "");
  EXPECT_THAT(run(), HasSubstr("tenon.disallow_copies is set"));
}

TEST_F(ConfigEntriesTest, TheCallThatAddsAnUnknownEntryOrABadValueFails) {
  EXPECT_THAT(add("tenon.disalow_copies", "1"),
              AllOf(HasSubstr("2 There is no session config entry"), HasSubstr("\"tenon.disallow_copies\"?")));
  EXPECT_THAT(add("tenon.disallow_copies", "please"), HasSubstr("it takes 0, 1, false, true, no, yes, off or on"));
  EXPECT_THAT(add_to_run("tenon.winograd", "1"), HasSubstr("is a session config entry"));
  EXPECT_THAT(add_to_run("tenon.timeout_ms", "-5"), HasSubstr("\"tenon.timeout_ms\" is \"-5\""));
  // A refused entry is not there.
  int has = 1;
  EXPECT_EQ(ort_api::HasSessionConfigEntry(options_, "tenon.disalow_copies", &has), nullptr);
  EXPECT_EQ(has, 0);
  EXPECT_EQ(ort_api::GetRunConfigEntry(run_options_, "tenon.timeout_ms"), nullptr);
  EXPECT_EQ(run(), "");
}

// The names of passes are known to the planner, so the session is refused, and not the entry.
TEST_F(ConfigEntriesTest, PassesAreLeftOutAndUnknownOnesRefuseTheSession) {
  EXPECT_EQ(add("tenon.disabled_passes", "fold,matmul_bais"), "");
  EXPECT_THAT(run(), AllOf(HasSubstr("2 There is no pass \"matmul_bais\""), HasSubstr("\"matmul_bias\"")));
  EXPECT_EQ(add("tenon.disabled_passes", "all"), "");
  EXPECT_EQ(add("tenon.reference_kernels", "1"), "");
  EXPECT_EQ(run(), "");
}

TEST_F(ConfigEntriesTest, EntriesOfTheReferenceAreTakenAsItTakesThem) {
  EXPECT_EQ(add("session.intra_op.allow_spinning", "perhaps"), "");
  EXPECT_EQ(add("session.some_key_of_tomorrow", "1"), "");
  EXPECT_EQ(add_to_run("some.run.key", "1"), "");
  EXPECT_EQ(run(), "");
}

TEST(EnvEntries, AnEntryOfTenonsThatAnEnvDoesNotHaveIsAnError) {
  OrtKeyValuePairs* entries = nullptr;
  ort_api::CreateKeyValuePairs(&entries);
  ort_api::AddKeyValuePair(entries, "tenon.winograd", "1");
  OrtEnvCreationOptions options{};
  options.version = ORT_API_VERSION;
  options.logging_severity_level = ORT_LOGGING_LEVEL_FATAL;
  options.log_id = "entries";
  options.config_entries = entries;
  OrtEnv* env = nullptr;
  EXPECT_THAT(text_of(ort_api::CreateEnvWithOptions(&options, &env)), HasSubstr("not one of an env"));
  EXPECT_EQ(env, nullptr);
  ort_api::ReleaseKeyValuePairs(entries);
}

// The first creator of the process's env decides, so a later one cannot have strict mode. It learns that.
TEST(EnvEntries, StrictModeThatAnEarlierEnvDoesNotHaveIsAnError) {
  OrtEnv *first = nullptr, *second = nullptr;
  ASSERT_EQ(ort_api::CreateEnv(ORT_LOGGING_LEVEL_FATAL, "entries", &first), nullptr);
  OrtKeyValuePairs* entries = nullptr;
  ort_api::CreateKeyValuePairs(&entries);
  ort_api::AddKeyValuePair(entries, "tenon.disallow_copies", "yes");
  OrtEnvCreationOptions options{};
  options.version = ORT_API_VERSION;
  options.logging_severity_level = ORT_LOGGING_LEVEL_FATAL;
  options.log_id = "entries";
  options.config_entries = entries;
  EXPECT_THAT(text_of(ort_api::CreateEnvWithOptions(&options, &second)),
              AllOf(HasSubstr("2 "), HasSubstr("\"tenon.disallow_copies\" is \"yes\""), HasSubstr("env exists")));
  EXPECT_EQ(second, nullptr);
  ort_api::AddKeyValuePair(entries, "tenon.disallow_copies", "0");  // as it is
  EXPECT_EQ(text_of(ort_api::CreateEnvWithOptions(&options, &second)), "");
  ort_api::ReleaseEnv(second);
  ort_api::ReleaseEnv(first);
  // Alone, and again beside itself.
  ort_api::AddKeyValuePair(entries, "tenon.disallow_copies", "1");
  EXPECT_EQ(text_of(ort_api::CreateEnvWithOptions(&options, &first)), "");
  ort_api::AddKeyValuePair(entries, "tenon.disallow_copies", "true");
  EXPECT_EQ(text_of(ort_api::CreateEnvWithOptions(&options, &second)), "");
  EXPECT_EQ(second, first);
  ort_api::ReleaseEnv(second);
  ort_api::ReleaseEnv(first);
  ort_api::ReleaseKeyValuePairs(entries);
}

// A Loop without a trip count, which computes for ever.
std::string endless_model() {
  using namespace model_writer;  // NOLINT(google-build-using-namespace)
  const std::string body =
      graph({.nodes = {node({.op_type = "Identity", .inputs = {"c"}, .outputs = {"d"}}),
                       node({.op_type = "Neg", .inputs = {"v"}, .outputs = {"r"}})},
             .inputs = {model_writer::value_info("i", tensor_type(7, {})),
                        model_writer::value_info("c", tensor_type(9, {})), float_info("v", {int64_t{2}})},
             .outputs = {model_writer::value_info("d", tensor_type(9, {})), float_info("r", {int64_t{2}})}},
            "body");
  return model_writer::model(
      model_writer::graph({.nodes = {model_writer::node({.op_type = "Loop",
                                                         .inputs = {"", "", "x"},
                                                         .outputs = {"y"},
                                                         .attributes = {graph_attribute("body", body)}})},
                           .inputs = {float_info("x", {int64_t{2}})},
                           .outputs = {float_info("y", {int64_t{2}})}}));
}

// The status says what ended the run, which is not the terminate flag.
TEST_F(ConfigEntriesTest, ATimeoutEndsARunOnTheCpu) {
  const std::string bytes = endless_model();
  OrtSession* session = nullptr;
  OrtMemoryInfo* memory = nullptr;
  OrtValue *x = nullptr, *y = nullptr;
  float data[2] = {1, 2};
  const int64_t shape[] = {2};
  const char *in = "x", *out = "y";
  const auto text_of = [](OrtStatus* status) {
    const std::string text = status == nullptr ? "" : ort_api::GetErrorMessage(status);
    ort_api::ReleaseStatus(status);
    return text;
  };
  ASSERT_EQ(text_of(ort_api::CreateSessionFromArray(env_, bytes.data(), bytes.size(), options_, &session)), "");
  ASSERT_EQ(text_of(ort_api::CreateCpuMemoryInfo(OrtDeviceAllocator, OrtMemTypeDefault, &memory)), "");
  ASSERT_EQ(text_of(ort_api::CreateTensorWithDataAsOrtValue(memory, data, sizeof(data), shape, 1,
                                                            ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT, &x)),
            "");
  ASSERT_EQ(text_of(ort_api::AddRunConfigEntry(run_options_, "tenon.timeout_ms", "20")), "");
  const OrtValue* inputs[] = {x};
  const auto run = [&] { return text_of(ort_api::Run(session, run_options_, &in, inputs, 1, &out, 1, &y)); };
  EXPECT_THAT(run(), AllOf(HasSubstr("tenon.timeout_ms"), HasSubstr("was over")));
  EXPECT_EQ(y, nullptr);
  ASSERT_EQ(text_of(ort_api::RunOptionsSetTerminate(run_options_)), "");
  EXPECT_THAT(run(), HasSubstr("terminate flag"));
  ort_api::ReleaseValue(x);
  ort_api::ReleaseMemoryInfo(memory);
  ort_api::ReleaseSession(session);
}

}  // namespace
}  // namespace tenon::abi
