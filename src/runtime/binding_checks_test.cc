#include "runtime/binding_checks.h"

#include <array>
#include <optional>
#include <vector>

#include "base/testing.h"
#include "runtime/plan_testing.h"

namespace tenon {
namespace {

using ::testing::HasSubstr;

Tensor view(float* data, int64_t count) {
  return Tensor::view(DataType::kFloat, Shape{count}, data, count * sizeof(float)).value();
}

ValueInfo info(const char* name, std::vector<int64_t> dims) {
  return {.name = name, .type = DataType::kFloat, .has_shape = true, .dims = std::move(dims), .dim_names = {}};
}

// The input "x" and the output "y" of a plan_of() in one block of memory.
class RunMemoryTest : public ::testing::Test {
 protected:
  // `y` begins `offset` floats after `x`.
  void bind(std::shared_ptr<Plan> plan, int64_t offset) {
    plan_ = std::move(plan);
    inputs_ = {block_.data() + 8};
    outputs_.resize(1);
    outputs_[0].result = view(block_.data() + 8 + offset, 4);
    outputs_[0].ready = true;
    addresses_ = {outputs_[0].result.data()};
  }
  RunMemory memory() const {
    return {.plan = *plan_,
            .inputs = inputs_,
            .outputs = outputs_,
            .output_addresses = addresses_,
            .output_infos = infos_,
            .spaces = spaces_};
  }
  // A plan in which `kind` says how the memory of "y" may overlap that of "x".
  static std::shared_ptr<Plan> plan_sharing(SharedMemory::Kind kind, bool in_place = false) {
    std::shared_ptr<Plan> plan = plan_of([](KernelContext& /*context*/) { return Status(); }, 4, in_place);
    plan->outputs[0].shared[0] = {kind, {{0, 0}}};
    return plan;
  }

  std::array<float, 32> block_{};
  std::shared_ptr<Plan> plan_;
  std::vector<void*> inputs_, addresses_;
  std::vector<BoundOutput> outputs_;
  std::vector<ValueInfo> infos_{info("y", {4}), info("z", {4})};
  SessionSpaces spaces_;
};

TEST_F(RunMemoryTest, AnOutputBesideAnInputIsFine) {
  for (const int64_t offset : {-4, 4}) {
    bind(plan_sharing(SharedMemory::Kind::kNothing), offset);
    EXPECT_EQ(memory().overlapped_input(plan_->outputs[0]), nullptr) << offset;
    EXPECT_THAT(memory().check_copies(/*disallow_copies=*/true), is_ok());
  }
}

TEST_F(RunMemoryTest, AnOutputMustNotLieOverAnInputThatIsReadLater) {
  for (const int64_t offset : {-3, 0, 3}) {
    bind(plan_sharing(SharedMemory::Kind::kNothing), offset);
    EXPECT_EQ(memory().overlapped_input(plan_->outputs[0]), &plan_->inputs[0]) << offset;
    EXPECT_THAT(memory().check_copies(/*disallow_copies=*/false), is_ok());
    EXPECT_THAT(memory().check_copies(/*disallow_copies=*/true),
                has_status(StatusCode::kInvalidArgument, HasSubstr("\"y\" overlaps input \"x\"")));
  }
}

TEST_F(RunMemoryTest, AnOutputMayLieOverAnInputThatIsReadBefore) {
  bind(plan_sharing(SharedMemory::Kind::kAnything), 1);
  EXPECT_EQ(memory().overlapped_input(plan_->outputs[0]), nullptr);
}

TEST_F(RunMemoryTest, AKernelRunsInPlaceOnExactlyTheSameBytes) {
  bind(plan_sharing(SharedMemory::Kind::kExactly, /*in_place=*/true), 0);
  EXPECT_EQ(memory().overlapped_input(plan_->outputs[0]), nullptr);
  bind(plan_sharing(SharedMemory::Kind::kExactly, /*in_place=*/true), 1);
  EXPECT_NE(memory().overlapped_input(plan_->outputs[0]), nullptr);
  bind(plan_sharing(SharedMemory::Kind::kExactly, /*in_place=*/false), 0);
  EXPECT_NE(memory().overlapped_input(plan_->outputs[0]), nullptr);
}

TEST_F(RunMemoryTest, OutputsThatOverlapAreRefusedByName) {
  bind(plan_sharing(SharedMemory::Kind::kNothing), 4);
  outputs_.push_back(outputs_[0]);
  outputs_[1].result = view(block_.data() + 15, 4);
  EXPECT_THAT(memory().check_outputs_apart(),
              has_status(StatusCode::kInvalidArgument, HasSubstr("outputs \"y\" and \"z\" overlap")));
  outputs_[1].result = view(block_.data() + 16, 4);
  EXPECT_THAT(memory().check_outputs_apart(), is_ok());
}

TEST_F(RunMemoryTest, AnOutputThatIsCopiedAtTheEndMustNotLieOverAnInputThatIsReadThen) {
  std::shared_ptr<Plan> plan = plan_sharing(SharedMemory::Kind::kAnything);
  plan->inputs[0].last_read = kAtEnd<StepId>;
  plan->outputs[0].first_write = kAtEnd<StepId>;
  plan->copies.push_back({.source = {StorageKind::kInput, 0, 0}, .output = OutputSlot(0)});
  bind(plan, 1);
  EXPECT_THAT(memory().check_copies(/*disallow_copies=*/false),
              has_status(StatusCode::kInvalidArgument, HasSubstr("still needed when the output is copied")));
  bind(plan, 0);  // the input itself: no byte moves
  EXPECT_THAT(memory().check_copies(/*disallow_copies=*/true), is_ok());
  bind(plan, 4);
  EXPECT_THAT(memory().check_copies(/*disallow_copies=*/false), is_ok());
  EXPECT_THAT(memory().check_copies(/*disallow_copies=*/true),
              has_status(StatusCode::kInvalidArgument, HasSubstr("Output \"y\" would have to be copied")));
}

TEST_F(RunMemoryTest, AStepThatCopiesIsRefusedUnlessItMovesNothing) {
  std::shared_ptr<Plan> plan = plan_sharing(SharedMemory::Kind::kAnything);
  PlanStep& step = plan->steps.emplace_back();
  step.copy = std::make_unique<StepCopy>();
  step.copy->what = "between";
  step.copy->spec = floats(2);
  bind(plan, 4);
  EXPECT_THAT(memory().check_copies(/*disallow_copies=*/true),
              has_status(StatusCode::kInvalidArgument, HasSubstr("between")));
  EXPECT_THAT(refuse_copies(*plan, infos_), has_status(StatusCode::kInvalidArgument, HasSubstr("between")));
  step.copy->spec = floats(0);
  EXPECT_THAT(memory().check_copies(/*disallow_copies=*/true), is_ok());
  EXPECT_THAT(refuse_copies(*plan, infos_), is_ok());
}

TEST_F(RunMemoryTest, AnUnalignedInputIsNamedWithItsAddress) {
  std::shared_ptr<Plan> plan = plan_sharing(SharedMemory::Kind::kAnything);
  plan->spaces[kHostSpace].alignment = 256;
  PlanStep& step = plan->steps.emplace_back();
  step.copy = std::make_unique<StepCopy>();
  step.copy->reason = CopyReason::kAlignment;
  step.copy->what = "x";
  step.copy->spec = floats(4);
  step.inputs = {{StorageKind::kInput, 0, 0}};
  step.outputs = {{StorageKind::kArena, 0, 0}};
  bind(plan, 4);
  EXPECT_THAT(memory().check_copies(/*disallow_copies=*/true),
              has_status(StatusCode::kInvalidArgument,
                         HasSubstr("which is no multiple of the 256 bytes that its reader takes")));
}

TEST(CheckTensor, TypeAndRankHaveToBeTheModels) {
  const SessionSpaces spaces;
  std::array<float, 4> data{};
  EXPECT_THAT(check_tensor(spaces, info("x", {-1}), view(data.data(), 4), "input"), is_ok());
  EXPECT_THAT(check_tensor(spaces, info("x", {2, 2}), view(data.data(), 4), "input"),
              has_status(StatusCode::kInvalidArgument, HasSubstr("rank 1")));
  ValueInfo other = info("x", {4});
  other.type = DataType::kInt64;
  EXPECT_THAT(check_tensor(spaces, other, view(data.data(), 4), "input"),
              has_status(StatusCode::kInvalidArgument, HasSubstr("int64")));
  EXPECT_THAT(check_tensor(spaces, info("x", {4}), Tensor(), "input"),
              has_status(StatusCode::kInvalidArgument, HasSubstr("undefined")));
}

TEST(CheckTensor, MemoryThatNoEpCanAddressIsUnsupported) {
  const SessionSpaces spaces;
  std::array<float, 4> data{};
  const MemorySpace gpu{.device_type = DeviceType::kGpu, .vendor_id = 0x10de};
  const Tensor tensor = Tensor::view(DataType::kFloat, Shape{4}, data.data(), sizeof data, nullptr, gpu).value();
  EXPECT_THAT(check_tensor(spaces, info("x", {4}), tensor, "input"),
              has_status(StatusCode::kUnsupported, HasSubstr("gpu")));
}

TEST(CheckTensor, OneElementStandsForAScalar) {
  EXPECT_TRUE(stands_for_scalar(info("x", {}), Shape{1, 1}));
  EXPECT_FALSE(stands_for_scalar(info("x", {}), Shape{2}));
  EXPECT_FALSE(stands_for_scalar(info("x", {1}), Shape{1, 1}));
  EXPECT_FALSE(stands_for_scalar(info("x", {}), Shape()));
}

}  // namespace
}  // namespace tenon
