// The records of copies through the C ABI: each way of running has them, and bad arguments are errors.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <tenon/copy_ledger_api.h>
#include <tenon/onnxruntime_c_api.h>

#include <condition_variable>
#include <mutex>
#include <string>
#include <vector>

#include "onnx_builder.h"

namespace tenon {
namespace {

using api_testing::OnnxModel;
using api_testing::OnnxNode;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

const OrtApi& api() { return *OrtGetApiBase()->GetApi(ORT_API_VERSION); }

const TenonCopyLedgerApi* table(uint32_t version) {
  return reinterpret_cast<TenonGetCopyLedgerApiFn>(api().GetExperimentalFunction(TENON_GET_COPY_LEDGER_API))(version);
}

// "CODE MESSAGE", or "" for OK.
std::string text_of(OrtStatus* status) {
  if (status == nullptr) return "";
  std::string text = std::to_string(api().GetErrorCode(status)) + " " + api().GetErrorMessage(status);
  api().ReleaseStatus(status);
  return text;
}

void need(OrtStatus* status) { ASSERT_EQ(text_of(status), ""); }

// y is x: a copy into the program's output.
OnnxModel pass_through(const api_testing::OnnxDim& dim) {
  OnnxModel model;
  model.input("x", DataType::kFloat, {dim}).output("y", DataType::kFloat, {dim});
  model.node(OnnxNode("Identity", {"x"}, {"y"}));
  return model;
}

class Ledger : public ::testing::Test {
 protected:
  Ledger() {
    need(api().CreateEnv(ORT_LOGGING_LEVEL_FATAL, "ledger", &env_));
    need(api().CreateSessionOptions(&session_options_));
    need(api().CreateRunOptions(&run_options_));
    need(api().CreateCpuMemoryInfo(OrtArenaAllocator, OrtMemTypeDefault, &cpu_));
    need(api().GetAllocatorWithDefaultOptions(&allocator_));
    need(copies_.CreateLedger(&ledger_));
    need(copies_.SetRunLedger(run_options_, ledger_));
  }
  ~Ledger() override {
    for (OrtValue* value : values_) api().ReleaseValue(value);
    api().ReleaseSession(session_);
    copies_.ReleaseLedger(ledger_);
    api().ReleaseMemoryInfo(cpu_);
    api().ReleaseRunOptions(run_options_);
    api().ReleaseSessionOptions(session_options_);
    api().ReleaseEnv(env_);
  }
  Ledger(const Ledger&) = delete;
  Ledger& operator=(const Ledger&) = delete;

  void load(const OnnxModel& model) {
    const std::string bytes = model.bytes();
    need(api().CreateSessionFromArray(env_, bytes.data(), bytes.size(), session_options_, &session_));
  }
  OrtValue* view(std::vector<float>& data) {
    const int64_t dims[] = {static_cast<int64_t>(data.size())};
    OrtValue* value = nullptr;
    need(api().CreateTensorWithDataAsOrtValue(cpu_, data.data(), data.size() * sizeof(float), dims, 1,
                                              ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT, &value));
    values_.push_back(value);
    return value;
  }
  // "NAME BYTES REASON", one a record.
  std::vector<std::string> records() {
    const TenonCopyRecord* records = nullptr;
    size_t count = 0;
    need(copies_.GetRecords(ledger_, &records, &count));
    std::vector<std::string> texts;
    for (size_t i = 0; i < count; ++i)
      texts.push_back(std::string(records[i].name) + " " + std::to_string(records[i].bytes) + " " + records[i].reason);
    return texts;
  }
  // On a stream of the CPU device. Another run there, which does not return early, waits for it and has its failure.
  void run_on_stream(OrtValue* x, OrtValue* y) {
    const OrtEpDevice* const* devices = nullptr;
    size_t count = 0;
    need(api().GetEpDevices(env_, &devices, &count));
    OrtSyncStream* stream = nullptr;
    need(api().CreateSyncStreamForEpDevice(devices[0], nullptr, &stream));
    need(api().AddRunConfigEntry(run_options_, "disable_synchronize_execution_providers", "1"));
    api().RunOptionsSetSyncStream(run_options_, stream);
    const OrtValue* input = x;
    need(api().Run(session_, run_options_, &kInput, &input, 1, &kOutput, 1, &y));
    need(api().AddRunConfigEntry(run_options_, "disable_synchronize_execution_providers", "0"));
    need(copies_.SetRunLedger(run_options_, nullptr));
    OrtValue* other = nullptr;
    (void)text_of(api().Run(session_, run_options_, &kInput, &input, 1, &kOutput, 1, &other));
    api().ReleaseValue(other);
    api().RunOptionsSetSyncStream(run_options_, nullptr);
    api().ReleaseSyncStream(stream);
  }

  static constexpr const char *kInput = "x", *kOutput = "y";
  const TenonCopyLedgerApi& copies_ = *table(TENON_COPY_LEDGER_API_VERSION);
  OrtEnv* env_ = nullptr;
  OrtSessionOptions* session_options_ = nullptr;
  OrtRunOptions* run_options_ = nullptr;
  OrtMemoryInfo* cpu_ = nullptr;
  OrtAllocator* allocator_ = nullptr;
  OrtSession* session_ = nullptr;
  TenonCopyLedger* ledger_ = nullptr;
  std::vector<OrtValue*> values_;
};

TEST_F(Ledger, VersionsOfTheTable) {
  EXPECT_EQ(table(0), nullptr);
  EXPECT_EQ(table(TENON_COPY_LEDGER_API_VERSION + 1)->version, TENON_COPY_LEDGER_API_VERSION);
  EXPECT_EQ(api().GetExperimentalFunction("TenonGetCopyLedgerApi2"), nullptr);
}

TEST_F(Ledger, AnAsynchronousRunHasItsRecordsWhenItsCallbackComes) {
  load(pass_through(4));
  std::vector<float> in = {1, 2, 3, 4}, out(4);
  const OrtValue* x = view(in);
  OrtValue* y = view(out);
  struct Done {
    std::mutex mutex;
    std::condition_variable changed;
    bool done = false;
  } done;
  need(api().RunAsync(
      session_, run_options_, &kInput, &x, 1, &kOutput, 1, &y,
      [](void* user, OrtValue**, size_t, OrtStatus* status) {
        EXPECT_EQ(text_of(status), "");
        auto& waiter = *static_cast<Done*>(user);
        const std::lock_guard lock(waiter.mutex);
        waiter.done = true;
        waiter.changed.notify_one();
      },
      &done));
  std::unique_lock lock(done.mutex);
  done.changed.wait(lock, [&] { return done.done; });
  EXPECT_THAT(out, ElementsAre(1, 2, 3, 4));
  EXPECT_THAT(records(), ElementsAre("y 16 output_is_input"));
}

TEST_F(Ledger, AQueuedRunAddsItsRecordsWhenItIsDone) {
  load(pass_through(4));
  std::vector<float> in = {1, 2, 3, 4}, out(4);
  run_on_stream(view(in), view(out));
  EXPECT_THAT(out, ElementsAre(1, 2, 3, 4));
  EXPECT_THAT(records(), ElementsAre("y 16 output_is_input"));
}

TEST_F(Ledger, AQueuedRunIsAsStrictAsItsOptions) {
  load(pass_through(4));
  std::vector<float> in = {1, 2, 3, 4}, out(4);
  need(api().AddRunConfigEntry(run_options_, "tenon.disallow_copies", "1"));
  run_on_stream(view(in), view(out));
  EXPECT_THAT(out, ElementsAre(0, 0, 0, 0));
  EXPECT_THAT(records(), IsEmpty());
}

// The branch copies, and Gather then finds that the index is out of range.
TEST_F(Ledger, AFailedRunAddsWhatItHasCopied) {
  OnnxModel then_branch, else_branch, model;
  then_branch.output("a", DataType::kFloat, {4}).node(OnnxNode("Identity", {"h"}, {"a"}));
  else_branch.output("b", DataType::kFloat, {4}).node(OnnxNode("Neg", {"h"}, {"b"}));
  model.input("x", DataType::kFloat, {4}).output("y", DataType::kFloat, {1});
  model.initializer<float>("zero", DataType::kFloat, {}, {0}).node(OnnxNode("Add", {"x", "x"}, {"h"}));
  model.node(OnnxNode("ReduceMax", {"h"}, {"m"}).attribute("keepdims", 0));
  model.node(OnnxNode("Greater", {"m", "zero"}, {"c"}));
  model.node(OnnxNode("If", {"c"}, {"i"})
                 .attribute("then_branch", then_branch.graph_bytes())
                 .attribute("else_branch", else_branch.graph_bytes()));
  model.node(OnnxNode("ReduceMax", {"i"}, {"k"})).node(OnnxNode("Cast", {"k"}, {"at"}).attribute("to", 7));
  model.node(OnnxNode("Gather", {"h", "at"}, {"y"}));
  load(model);
  std::vector<float> in = {1, 2, 3, 40};
  const OrtValue* x = view(in);
  OrtValue* y = nullptr;
  EXPECT_THAT(text_of(api().Run(session_, run_options_, &kInput, &x, 1, &kOutput, 1, &y)), HasSubstr("80"));
  EXPECT_THAT(records(), ElementsAre(HasSubstr(" 16 output_is_input")));
}

TEST_F(Ledger, ElementsThatAProgramGetsAreTheCallersCopies) {
  std::vector<float> data = {1, 2, 3, 4};
  const OrtValue* element = view(data);
  OrtValue *sequence = nullptr, *copy = nullptr;
  need(api().CreateValue(&element, 1, ONNX_TYPE_SEQUENCE, &sequence));
  values_.push_back(sequence);
  need(copies_.SetCallerLedger(env_, ledger_));
  need(api().GetValue(sequence, 0, allocator_, &copy));
  values_.push_back(copy);
  EXPECT_THAT(records(), ElementsAre("element of GetValue 16 caller_asked"));
  need(copies_.SetCallerLedger(env_, nullptr));
  need(api().GetValue(sequence, 0, allocator_, &copy));
  values_.push_back(copy);
  EXPECT_EQ(records().size(), 1U);
}

TEST_F(Ledger, AnEnvThatWasReleasedIsAnError) {
  OrtEnv* gone = std::exchange(env_, nullptr);
  api().ReleaseEnv(gone);
  EXPECT_THAT(text_of(copies_.SetCallerLedger(gone, ledger_)), AllOf(HasSubstr("2 "), HasSubstr("released")));
  need(api().CreateEnv(ORT_LOGGING_LEVEL_FATAL, "ledger", &env_));
}

TEST_F(Ledger, ExplainCopiesTakesShapesAndRefusesWhatIsNone) {
  load(pass_through("n"));
  const int64_t three[] = {3}, many[64] = {};
  OrtMemoryInfo* gpu = nullptr;
  need(api().CreateMemoryInfo_V2("Gpu", OrtMemoryInfoDeviceType_GPU, 0x1234, 0, OrtDeviceMemoryType_DEFAULT, 0,
                                 OrtDeviceAllocator, &gpu));
  const auto explain = [&](const TenonPlacement& one) {
    return text_of(copies_.ExplainCopies(session_, &one, 1, ledger_, nullptr));
  };
  EXPECT_THAT(explain({.name = "y", .dims = nullptr, .rank = 0, .memory = nullptr, .alignment = 0}),
              HasSubstr("The shape of input \"x\" is not given"));
  EXPECT_THAT(explain({.name = "x", .dims = many, .rank = 64, .memory = nullptr, .alignment = 0}),
              AllOf(HasSubstr("The shape of \"x\""), HasSubstr("more than")));
  EXPECT_THAT(explain({.name = "x", .dims = nullptr, .rank = 1, .memory = nullptr, .alignment = 0}),
              HasSubstr("The shape of \"x\" has no dimensions"));
  EXPECT_THAT(explain({.name = "x", .dims = three, .rank = 1, .memory = gpu, .alignment = 0}),
              HasSubstr("\"x\" cannot live in gpu"));
  EXPECT_THAT(explain({.name = "x", .dims = three, .rank = 1, .memory = nullptr, .alignment = 3}),
              HasSubstr("The alignment of \"x\" is 3"));
  EXPECT_THAT(explain({.name = "x", .dims = three, .rank = 1, .memory = nullptr, .alignment = size_t{1} << 40}),
              HasSubstr("is too large"));
  EXPECT_THAT(explain({.name = nullptr, .dims = three, .rank = 1, .memory = nullptr, .alignment = 0}),
              HasSubstr("has no name"));
  EXPECT_THAT(text_of(copies_.ExplainCopies(session_, nullptr, 1, ledger_, nullptr)), HasSubstr("no placements"));
  EXPECT_THAT(records(), IsEmpty());
  const int64_t negative[] = {-3};
  EXPECT_THAT(explain({.name = "x", .dims = negative, .rank = 1, .memory = nullptr, .alignment = 0}), HasSubstr("-3"));
  EXPECT_EQ(explain({.name = "x", .dims = three, .rank = 1, .memory = nullptr, .alignment = 4}), "");
  EXPECT_THAT(records(), ElementsAre("y 12 output_is_input"));
  api().ReleaseMemoryInfo(gpu);
}

}  // namespace
}  // namespace tenon
