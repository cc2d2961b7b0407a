// summarize_model, and other facts that programs ask before they load a model. Misuse first.
#include <tenon/close_names.h>
#include <tenon/ep.h>
#include <tenon/model_summary.h>
#include <tenon/try.h>

#include <array>
#include <filesystem>
#include <fstream>

#include "base/testing.h"
#include "onnx_builder.h"

namespace tenon {
namespace {

using api_testing::OnnxModel;
using api_testing::OnnxNode;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Pair;

class ModelFile {
 public:
  explicit ModelFile(const std::string& bytes)
      : path_(std::filesystem::path(::testing::TempDir()) / "tenon_model_summary.onnx") {
    std::ofstream(path_, std::ios::binary) << bytes;
  }
  ~ModelFile() { std::filesystem::remove(path_); }
  std::string path() const { return path_.string(); }

 private:
  std::filesystem::path path_;
};

TEST(ModelSummary, AFileThatIsNotThereIsNotFound) {
  EXPECT_THAT(summarize_model("no/such/model.onnx"),
              has_status(StatusCode::kNotFound, HasSubstr("no/such/model.onnx")));
}

TEST(ModelSummary, AFileThatIsNoModelIsRefused) {
  const ModelFile file("this is not a model");
  EXPECT_FALSE(summarize_model(file.path()).ok());
}

// Bodies count; the operator of another domain, which no kernel runs, has a summary too.
TEST(ModelSummary, CountsNodesConstantsAndBytesAndKeepsDeclaredShapes) {
  OnnxModel branch;
  branch.node(OnnxNode("Neg", {"x"}, {"z"})).output("z", DataType::kFloat, {"n", 4});
  OnnxModel model;
  model.input("c", DataType::kBool, {}).input("x", DataType::kFloat, {"n", 4}).output("y", DataType::kFloat, {"n", 4});
  model.initializer<float>("w", DataType::kFloat, {4}, {1, 2, 3, 4});
  model.node(OnnxNode("Add", {"x", "w"}, {"a"}));
  model.node(OnnxNode("If", {"c"}, {"y"})
                 .attribute("then_branch", branch.graph_bytes())
                 .attribute("else_branch", branch.graph_bytes()));
  const ModelFile file(model.bytes());
  const Result<ModelSummary> summary = summarize_model(file.path());
  ASSERT_THAT(summary, is_ok());
  EXPECT_THAT(summary->operators, ElementsAre(Pair("Add", 1), Pair("If", 1), Pair("Neg", 2)));
  EXPECT_EQ(summary->nodes, 4u);
  EXPECT_EQ(summary->constants, 1u);
  EXPECT_EQ(summary->constant_bytes, 16u);
  EXPECT_EQ(summary->file_bytes, model.bytes().size());
  EXPECT_THAT(summary->opsets, ElementsAre(Pair("ai.onnx", 17)));
  ASSERT_EQ(summary->inputs.size(), 2u);
  EXPECT_EQ(summary->inputs[1].to_string(), "float32[n,4]");
  EXPECT_EQ(summary->outputs[0].to_string(), "float32[n,4]");
}

TEST(EpDevices, TheBuiltInEpShowsTheCpuOfThisMachine) {
  const EpDevice cpu = ep_devices().at(0);
  EXPECT_EQ(cpu.ep_name, "CPUExecutionProvider");
  EXPECT_EQ(cpu.hardware.type, DeviceType::kCpu);
  EXPECT_FALSE(cpu.hardware.vendor.empty());
}

TEST(CloseNames, SuggestAtMostThreeNearestFirst) {
  constexpr std::array<std::string_view, 5> kNames = {"run", "bench", "runs", "ruin", "rune"};
  EXPECT_EQ(did_you_mean("rum", kNames), "; did you mean \"run\"?");
  EXPECT_EQ(did_you_mean("runt", kNames), "; did you mean \"run\", \"runs\" or \"rune\"?");
  EXPECT_EQ(did_you_mean("RUN", kNames), "; did you mean \"run\"?");
  EXPECT_EQ(did_you_mean("dance", kNames), "");
}

Result<int> doubled(const Result<int>& value) {
  TENON_TRY_ASSIGN(const int number, value);
  TENON_TRY_WITH_CONTEXT(number < 0 ? Status(StatusCode::kOutOfRange, "The number is negative.") : Status(),
                         "while doubling " + std::to_string(number));
  return 2 * number;
}

TEST(Try, ReturnsTheFailureWithItsContext) {
  EXPECT_EQ(*doubled(21), 42);
  EXPECT_THAT(doubled(Status(StatusCode::kCancelled, "Enough.")), has_status(StatusCode::kCancelled, "Enough."));
  EXPECT_THAT(doubled(-1), has_status(StatusCode::kOutOfRange, "The number is negative. - while doubling -1"));
}

}  // namespace
}  // namespace tenon
