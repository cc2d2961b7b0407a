// The values of nodes in C++: observers, passes that are left out, reference kernels, comparisons. Misuse first.
#include <tenon/model_summary.h>
#include <tenon/node_values.h>
#include <tenon/plan_report.h>

#include <array>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <limits>
#include <map>
#include <set>

#include "base/testing.h"
#include "fake_device.h"
#include "onnx_builder.h"

namespace tenon {
namespace {

using api_testing::FakeDevice;
using api_testing::OnnxModel;
using api_testing::OnnxNode;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();
constexpr float kInfinity = std::numeric_limits<float>::infinity();

std::vector<float> floats(const Tensor& tensor) {
  const float* data = tensor.data_as<float>();
  return {data, data + tensor.size_bytes() / sizeof(float)};
}

Tensor float_tensor(std::vector<float> values, const Shape& shape) {
  Tensor tensor = *Tensor::allocate(DataType::kFloat, shape);
  std::copy(values.begin(), values.end(), tensor.data_as<float>());
  return tensor;
}

class Recorder final : public ValueObserver {
 public:
  bool wants(std::string_view /*body*/, std::string_view name) override { return only.empty() || name == only; }
  Status value(const NodeValue& value) override {
    if (value.kernel != "constant") order.push_back(value.name);
    values[value.name] = floats(value.tensor);
    ops[value.name] = value.op_type;
    spaces.push_back(value.tensor.space());
    return answer;
  }
  std::string only;
  Status answer;
  std::vector<std::string> order;
  std::map<std::string, std::vector<float>> values;
  std::map<std::string, std::string> ops;
  std::vector<MemorySpace> spaces;
};

// y = Relu(x * w + b), z = -Reshape(y)
OnnxModel dense() {
  OnnxModel model;
  model.input("x", DataType::kFloat, {2, 2}).output("z", DataType::kFloat, {4});
  model.initializer<float>("w", DataType::kFloat, {2, 2}, {1, -1, 2, 1});
  model.initializer<float>("b", DataType::kFloat, {2}, {1, -2});
  model.initializer<int64_t>("shape", DataType::kInt64, {1}, {4});
  model.node(OnnxNode("MatMul", {"x", "w"}, {"m"}));
  model.node(OnnxNode("Add", {"m", "b"}, {"a"}));
  model.node(OnnxNode("Relu", {"a"}, {"y"}));
  model.node(OnnxNode("Reshape", {"y", "shape"}, {"v"}));
  model.node(OnnxNode("Neg", {"v"}, {"z"}));
  return model;
}

Status run(const OnnxModel& model, const SessionOptions& options, ValueObserver& observer) {
  Result<std::shared_ptr<Session>> session = model.load(options);
  if (!session.ok()) return std::move(session).status();
  const std::pair<std::string, Tensor> x("x", float_tensor({1, 2, 3, 4}, {2, 2}));
  return (*session)->run(std::span(&x, 1), {.values = &observer}).status();
}

TEST(DisabledPasses, ANameThatNoPassHasIsRefusedWithTheCloseOnes) {
  const OnnxModel model = dense();
  EXPECT_THAT(model.load({.disabled_passes = {"matmul_bais"}}),
              has_status(StatusCode::kInvalidArgument, HasSubstr("did you mean \"matmul_bias\"")));
  EXPECT_THAT(model.load({.config = {{"tenon.disabled_passes", "fold,nonsense"}}}),
              has_status(StatusCode::kInvalidArgument, HasSubstr("\"nonsense\"")));
  EXPECT_THAT(model.load({.reference_kernels = true, .config = {{"tenon.reference_kernels", "0"}}}),
              has_status(StatusCode::kInvalidArgument, HasSubstr("reference_kernels")));
}

TEST(DisabledPasses, TheEntryAndTheFieldLeavePassesOut) {
  const OnnxModel model = dense();
  for (const SessionOptions& options :
       {SessionOptions{.threads = 1, .disabled_passes = {"matmul_bias"}},
        SessionOptions{.threads = 1, .config = {{"tenon.disabled_passes", "global_pool,matmul_bias"}}}}) {
    Recorder recorder;
    ASSERT_THAT(run(model, options, recorder), is_ok());
    EXPECT_THAT(recorder.order, ElementsAre("m", "a", "y", "v", "z"));
  }
  const std::vector<std::string_view> names = pass_names();
  EXPECT_THAT(names, ::testing::Contains("fold"));
  EXPECT_EQ(std::set(names.begin(), names.end()).size(), names.size());
}

// Each pass alone, and all of them: the model computes the same without.
TEST(DisabledPasses, EveryPassCanBeLeftOut) {
  const std::vector<std::string_view> names = pass_names();
  std::vector<std::string> all(names.begin(), names.end());
  all.emplace_back("all");
  for (const std::string& pass : all) {
    for (const bool reference : {false, true}) {
      Recorder recorder;
      recorder.only = "z";
      ASSERT_THAT(run(dense(), {.threads = 1, .disabled_passes = {pass}, .reference_kernels = reference}, recorder),
                  is_ok())
          << pass;
      EXPECT_THAT(recorder.values["z"], ElementsAre(-6, 0, -12, 0)) << pass;
    }
  }
}

TEST(ValueObserver, GetsTheValuesOfTheOptimisedPlan) {
  Recorder recorder;
  ASSERT_THAT(run(dense(), {.threads = 1}, recorder), is_ok());
  EXPECT_THAT(recorder.order, ElementsAre("y", "v", "z"));
  EXPECT_THAT(recorder.values["v"], ElementsAre(6, 0, 12, 0));
  EXPECT_EQ(recorder.ops["y"], "tenon.MatMul");
}

TEST(ValueObserver, GetsEveryValueWithoutPasses) {
  Recorder recorder;
  ASSERT_THAT(run(dense(), {.threads = 1, .disabled_passes = {"all"}}, recorder), is_ok());
  EXPECT_EQ(recorder.values.count("m") + recorder.values.count("a"), 2u);
  EXPECT_THAT(recorder.values["m"], ElementsAre(5, 1, 11, 1));
  EXPECT_THAT(recorder.values["a"], ElementsAre(6, -1, 12, -1));
}

TEST(ValueObserver, AStatusThatIsNotOkEndsTheRun) {
  Recorder recorder;
  recorder.answer = Status(StatusCode::kResourceExhausted, "The disk is full.");
  EXPECT_THAT(run(dense(), {.threads = 1}, recorder),
              has_status(StatusCode::kResourceExhausted, HasSubstr("The disk is full.")));
  EXPECT_EQ(recorder.spaces.size(), 1u);  // no further call
}

TEST(ValueObserver, AnObservedRunLeavesLaterOnesAsTheyWere) {
  const OnnxModel model = dense();
  const auto session = *model.load({.threads = 1});
  const std::pair<std::string, Tensor> x("x", float_tensor({1, 2, 3, 4}, {2, 2}));
  std::vector<NodeTime> times;
  Recorder recorder;
  ASSERT_THAT(session->run(std::span(&x, 1), {.node_times = &times, .values = &recorder}), is_ok());
  EXPECT_EQ(times.size(), 2u);
  const size_t seen = recorder.order.size();
  const auto outputs = session->run(std::span(&x, 1));
  ASSERT_THAT(outputs, is_ok());
  EXPECT_EQ(recorder.order.size(), seen);
  EXPECT_THAT(floats((*outputs)[0]), ElementsAre(-6, 0, -12, 0));
}

// Values on a device are waited for, and come to the host; those inside a region do not.
TEST(ValueObserver, ValuesOnADeviceComeToTheHost) {
  OnnxModel model;
  model.input("x", DataType::kFloat, {2, 2}).output("z", DataType::kFloat, {2, 2});
  model.node(OnnxNode("Neg", {"x"}, {"a"})).node(OnnxNode("Neg", {"a"}, {"b"}));
  model.node(OnnxNode("Relu", {"b"}, {"c"})).node(OnnxNode("Neg", {"c"}, {"z"}));
  for (const bool fuse : {false, true}) {
    const FakeDevice device({.fuse = fuse});
    Recorder recorder;
    ASSERT_THAT(run(model, {.threads = 1, .eps = {{.ep_name = "FakeEP"}}}, recorder), is_ok());
    if (fuse) {
      EXPECT_THAT(recorder.order, ElementsAre("b", "c", "z"));
      EXPECT_EQ(recorder.ops["b"], "region");
    } else {
      EXPECT_THAT(recorder.order, ElementsAre("a", "b", "c", "z"));
      EXPECT_EQ(recorder.ops["b"], "Neg");
      EXPECT_THAT(recorder.values["a"], ElementsAre(-1, -2, -3, -4));
    }
    EXPECT_THAT(recorder.values["b"], ElementsAre(1, 2, 3, 4));
    EXPECT_THAT(recorder.values["z"], ElementsAre(-1, -2, -3, -4));
    for (const MemorySpace& space : recorder.spaces) EXPECT_EQ(space.device_type, DeviceType::kCpu);
  }
}

TEST(CompareTensors, RefusesWhatHasNoCommonForm) {
  const Tensor a = float_tensor({1, 2}, {2}), b = float_tensor({1, 2}, {1, 2});
  EXPECT_THAT(compare_tensors(a, b), has_status(StatusCode::kInvalidArgument, HasSubstr("[1,2]")));
  EXPECT_THAT(compare_tensors(a, *Tensor::allocate(DataType::kInt32, {2})),
              has_status(StatusCode::kInvalidArgument, HasSubstr("int32")));
  EXPECT_THAT(compare_tensors(Tensor(), a), has_status(StatusCode::kInvalidArgument, HasSubstr("undefined")));
  const Tensor far =
      *Tensor::view(DataType::kFloat, {2}, a.data(), 8, nullptr, MemorySpace{.device_type = DeviceType::kGpu});
  EXPECT_THAT(compare_tensors(far, a), has_status(StatusCode::kInvalidArgument, HasSubstr("cannot read")));
}

TEST(CompareTensors, FindsTheLargestErrorAndItsPlace) {
  const auto found = compare_tensors(float_tensor({1, 2.5, 3, 4.00001F}, {2, 2}), float_tensor({1, 2, 3, 4}, {2, 2}));
  ASSERT_THAT(found, is_ok());
  EXPECT_EQ(found->elements, 4);
  EXPECT_EQ(found->differing, 1);
  EXPECT_EQ(found->index, 1);
  EXPECT_EQ(found->error, 0.5);
  EXPECT_EQ(found->relative_error, 0.25);
  EXPECT_DOUBLE_EQ(found->tolerance.absolute, 4e-4);
  const Tolerance exact;
  EXPECT_EQ(compare_tensors(float_tensor({4.00001F}, {1}), float_tensor({4}, {1}), &exact)->differing, 1);
}

TEST(CompareTensors, NaNAndInfinityAgreeWithThemselvesOnly) {
  const Tensor odd = float_tensor({kNaN, kInfinity, -kInfinity, 1}, {4});
  EXPECT_EQ(compare_tensors(odd, odd)->differing, 0);
  for (const float other : {0.0F, kNaN, kInfinity, -kInfinity}) {
    const auto found = compare_tensors(odd, float_tensor({other, other, other, 1}, {4}));
    EXPECT_EQ(found->differing, other == 0 ? 3 : 2) << other;
    EXPECT_TRUE(std::isinf(found->error));
  }
  // No limit is wide enough for it.
  const Tolerance wide{.relative = 1, .absolute = 1e30};
  EXPECT_EQ(compare_tensors(float_tensor({1}, {1}), float_tensor({kInfinity}, {1}), &wide)->differing, 1);
}

TEST(CompareTensors, IntegersAndBitsAreEqualOrNot) {
  Tensor a = *Tensor::allocate(DataType::kInt64, {2}), b = *Tensor::allocate(DataType::kInt64, {2});
  a.data_as<int64_t>()[1] = (int64_t{1} << 60) + 1;
  b.data_as<int64_t>()[1] = int64_t{1} << 60;  // the same double
  EXPECT_EQ(compare_tensors(a, b)->differing, 1);
  EXPECT_EQ(compare_tensors(b, b)->differing, 0);
  Tensor c = *Tensor::allocate(DataType::kInt4, {5}), d = *Tensor::allocate(DataType::kInt4, {5});
  c.data_as<uint8_t>()[2] = 7;
  const auto found = compare_tensors(c, d);
  ASSERT_THAT(found, is_ok());
  EXPECT_EQ(found->elements, 3);  // bytes
  EXPECT_EQ(found->index, 2);
  const auto empty = compare_tensors(float_tensor({}, {0, 3}), float_tensor({}, {0, 3}));
  ASSERT_THAT(empty, is_ok());
  EXPECT_EQ(empty->index, -1);
  EXPECT_EQ(empty->differing, 0);
}

class ModelFile {
 public:
  explicit ModelFile(const std::string& bytes)
      : path_(std::filesystem::path(::testing::TempDir()) / "tenon_values_test.onnx") {
    std::ofstream(path_, std::ios::binary) << bytes;
  }
  ~ModelFile() { std::filesystem::remove(path_); }
  std::string path() const { return path_.string(); }

 private:
  std::filesystem::path path_;
};

TEST(ListNodes, BodiesComeBeforeTheNodeThatRunsThem) {
  EXPECT_THAT(list_nodes("no/such/model.onnx"), has_status(StatusCode::kNotFound, HasSubstr("no/such")));
  OnnxModel branch;
  branch.node(OnnxNode("Neg", {"x"}, {"n"})).output("n", DataType::kFloat, {2});
  OnnxModel model;
  model.input("c", DataType::kBool, {}).input("x", DataType::kFloat, {2}).output("y", DataType::kFloat, {2});
  model.node(OnnxNode("If", {"c"}, {"i"})
                 .attribute("then_branch", branch.graph_bytes())
                 .attribute("else_branch", branch.graph_bytes()));
  model.node(OnnxNode("Relu", {"i"}, {"y"}));
  const ModelFile file(model.bytes());
  const auto nodes = list_nodes(file.path());
  ASSERT_THAT(nodes, is_ok());
  ASSERT_EQ(nodes->size(), 4u);
  EXPECT_EQ((*nodes)[0].body, "If_of_i");
  EXPECT_FALSE((*nodes)[0].in_file);
  EXPECT_EQ((*nodes)[3].op_type, "Relu");
  EXPECT_THAT((*nodes)[3].inputs, ElementsAre("i"));
  EXPECT_TRUE((*nodes)[3].in_file);
}

TEST(ModelWithOutputs, TheValuesAreOutputsAfterTheModels) {
  const ModelFile file(dense().bytes());
  const std::vector<std::string> values = {"a", "m"};
  const auto bytes = model_with_outputs(file.path(), values);
  ASSERT_THAT(bytes, is_ok());
  const auto session = Session::load_from_bytes(std::as_bytes(std::span(*bytes)), {.threads = 1});
  ASSERT_THAT(session, is_ok());
  std::vector<std::string> names;
  for (const ValueInfo& info : (*session)->outputs()) names.push_back(info.name);
  EXPECT_THAT(names, ElementsAre("z", "a", "m"));
  const std::pair<std::string, Tensor> x("x", float_tensor({1, 2, 3, 4}, {2, 2}));
  const auto outputs = (*session)->run(std::span(&x, 1));
  ASSERT_THAT(outputs, is_ok());
  EXPECT_THAT(floats((*outputs)[1]), ElementsAre(6, -1, 12, -1));
}

}  // namespace
}  // namespace tenon
