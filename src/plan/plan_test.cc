// Plans of small graphs, as text: steps, views, offsets.
#include "plan/plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/system.h"
#include "base/testing.h"
#include "plan/bind_shapes.h"
#include "plan/planner.h"
#include "plan/testing.h"

namespace tenon {
namespace {

using plan_testing::FakeOperator;
using plan_testing::FakeProvider;
using plan_testing::GraphBuilder;
using ::testing::HasSubstr;
using ::testing::Not;

class PlanTest : public ::testing::Test {
 protected:
  Result<std::shared_ptr<Plan>> plan(const GraphBuilder& builder, std::vector<Shape> shapes,
                                     std::vector<FakeOperator> operators = {}) {
    provider_ = std::make_unique<FakeProvider>(std::move(operators));
    PlannerOptions options;
    options.provider = provider_.get();
    options.pool = options.fold_pool = &pool_;
    std::vector<OutputSlot> slots;
    for (size_t i = 0; i < builder.graph.outputs.size(); ++i) slots.emplace_back(i);
    return build_plan(builder.graph, shapes, slots, options);
  }
  std::string text(const GraphBuilder& builder, std::vector<Shape> shapes, std::vector<FakeOperator> operators = {}) {
    const Result<std::shared_ptr<Plan>> made = plan(builder, std::move(shapes), std::move(operators));
    return made.ok() ? (*made)->to_text() : made.status().to_string();
  }

  std::unique_ptr<FakeProvider> provider_;
  plan_testing::InlinePool pool_;
};

Dim symbol(const char* name) { return {.value = -1, .symbol = name}; }
Dim number(int64_t value) { return {.value = value, .symbol = {}}; }

// One channel is not eight: blocked layouts would pad it, and this node has none.
TEST_F(PlanTest, AnOutputThatFitsIntoMemoryIsPlanned) {
  GraphBuilder b;
  const auto count = static_cast<int64_t>(memory_bytes() / sizeof(float));
  const ValueId x = b.input("x", {number(1), number(1), {}});
  b.output(b.node("Sin", {x}, "z"));
  EXPECT_THAT(plan(b, {{1, 1, count / 2}}).status(), is_ok());
  EXPECT_THAT(plan(b, {{1, 1, count * 2}}).status(),
              has_status(StatusCode::kResourceExhausted, HasSubstr("for output \"z\"")));
}

TEST_F(PlanTest, RanksAndFixedDimensionsMustBeTheModels) {
  GraphBuilder b;
  const ValueId x = b.input("x", {symbol("batch"), number(4)});
  const ValueId y = b.input("y", {symbol("batch")});
  b.output(b.node("Sin", {x}, "z"));
  b.output(y);
  EXPECT_THAT(check_input_shapes(b.graph, std::vector<Shape>{{2, 4}, {3}}), is_ok());  // one name, two sizes
  EXPECT_THAT(
      check_input_shapes(b.graph, std::vector<Shape>{{2, 5}, {2}}),
      has_status(StatusCode::kInvalidArgument, HasSubstr("Dimension 1 of input \"x\" is 5 (shape [2,5]), but")));
  EXPECT_THAT(
      check_input_shapes(b.graph, std::vector<Shape>{{2}, {2}}),
      has_status(StatusCode::kInvalidArgument, HasSubstr("has rank 1 (shape [2]), but the model declares rank 2")));
  EXPECT_THAT(check_input_shapes(b.graph, std::vector<Shape>{{2, 4}, {2}}), is_ok());
}

TEST_F(PlanTest, AChainUsesTwoBuffersAndTheCallersMemory) {
  GraphBuilder b;
  ValueId v = b.input("x", {symbol("n"), number(16)});
  for (const char* name : {"a", "b", "c"}) v = b.node("Sin", {v}, name);
  b.output(v);
  EXPECT_EQ(text(b, {{2, 16}}),
            "plan for x float32[2,16] on fake: 3 steps, 0 nodes without a step, arena 256 bytes (256 without sharing)\n"
            "input x: float32[2,16]\n"
            "output c: float32[2,16]\n"
            "step 0: Sin \"Sin_a\" [fake] (input x) -> @0 float32[2,16]\n"
            "step 1: Sin \"Sin_b\" [fake] (@0) -> @128 float32[2,16]\n"
            "step 2: Sin \"Sin_c\" [fake] (@128) -> output c float32[2,16]\n");
}

// The caller's memory may be slow to read: only the kernel that makes the output touches it.
TEST_F(PlanTest, KernelsRunInPlaceInTheArenaAndNotInTheCallersMemory) {
  GraphBuilder b;
  ValueId v = b.input("x", {number(2), number(16)});
  for (const char* name : {"a", "b", "c"}) v = b.node("Sin", {v}, name);
  b.output(v);
  EXPECT_EQ(text(b, {{2, 16}}, {{.op_type = "Sin", .in_place = true}}),
            "plan for x float32[2,16] on fake: 3 steps, 0 nodes without a step, arena 128 bytes (128 without sharing)\n"
            "input x: float32[2,16]\n"
            "output c: float32[2,16]\n"
            "step 0: Sin \"Sin_a\" [fake] (input x) -> @0 float32[2,16]\n"
            "step 1: Sin \"Sin_b\" [fake] (@0) -> @0 float32[2,16]; in place of input 0\n"
            "step 2: Sin \"Sin_c\" [fake] (@0) -> output c float32[2,16]\n");
}

TEST_F(PlanTest, AValueThatIsReadLaterIsNotOverwritten) {
  GraphBuilder b;
  const ValueId x = b.input("x", {number(16)});
  const ValueId a = b.node("Sin", {x}, "a");
  const ValueId c = b.node("Sin", {a}, "c");
  b.output(b.node("Add", {c, a}, "d"));
  const std::string plan = text(b, {{16}}, {{.op_type = "Sin", .in_place = true}});
  EXPECT_THAT(plan, HasSubstr("step 1: Sin \"Sin_c\" [fake] (@0) -> @64 float32[16]\n"));
}

TEST_F(PlanTest, AnInputIsNeverOverwritten) {
  GraphBuilder b;
  const ValueId x = b.input("x", {number(16)});
  b.output(b.node("Sin", {b.node("Sin", {x}, "a")}, "c"));
  EXPECT_THAT(text(b, {{16}}, {{.op_type = "Sin", .in_place = true}}),
              HasSubstr("step 0: Sin \"Sin_a\" [fake] (input x) -> @0"));
}

TEST_F(PlanTest, ConcatAlongTheOutermostDimensionIsWrittenInPlace) {
  GraphBuilder b;
  const ValueId x = b.input("x", {number(1), number(4), number(8)});
  const ValueId a = b.node("Sin", {x}, "a");
  const ValueId c = b.node("Cos", {x}, "c");
  const ValueId joined = b.node("Concat", {a, c}, "joined");
  b.last().set_int("axis", 1);
  b.output(b.node("Sin", {joined}, "y"));
  EXPECT_EQ(
      text(b, {{1, 4, 8}}),
      "plan for x float32[1,4,8] on fake: 3 steps, 1 nodes without a step, arena 256 bytes (256 without sharing)\n"
      "input x: float32[1,4,8]\n"
      "output y: float32[1,8,8]\n"
      "step 0: Sin \"Sin_a\" [fake] (input x) -> @0 float32[1,4,8]\n"
      "step 1: Cos \"Cos_c\" [fake] (input x) -> @128 float32[1,4,8]\n"
      "step 2: Sin \"Sin_y\" [fake] (@0) -> output y float32[1,8,8]\n"
      "no step: Concat \"Concat_joined\": its inputs are written straight into \"joined\"\n");
}

TEST_F(PlanTest, ConcatOfAnInputOrTwiceTheSameValueIsComputed) {
  GraphBuilder b;
  const ValueId x = b.input("x", {number(1), number(16)});
  const ValueId a = b.node("Sin", {x}, "a");
  const ValueId twice = b.node("Concat", {a, a}, "twice");
  b.last().set_int("axis", 1);
  const ValueId with_input = b.node("Concat", {a, x}, "with_input");
  b.last().set_int("axis", 1);
  b.output(twice);
  b.output(with_input);
  const std::string plan = text(b, {{1, 16}});
  EXPECT_THAT(plan, HasSubstr("step 1: Concat \"Concat_twice\" [fake] (@0, @0) -> output twice"));
  EXPECT_THAT(plan, HasSubstr("step 2: Concat \"Concat_with_input\" [fake] (@0, input x) -> output with_input"));
}

TEST_F(PlanTest, SplitAlongTheOutermostDimensionIsAView) {
  GraphBuilder b;
  const ValueId x = b.input("x", {number(1), number(32), number(2)});
  const ValueId a = b.node("Sin", {x}, "a");
  const ValueId first = b.node("Split", {a}, "first");
  b.last().set_int("axis", 1);
  b.last().set_int("num_outputs", 2);
  b.last().since_version = 18;
  const ValueId second = b.value("second");
  b.last().outputs.push_back(second);
  b.output(b.node("Sub", {first, second}, "y"));
  EXPECT_THAT(text(b, {{1, 32, 2}}), HasSubstr("(@0, @128) -> output y float32[1,16,2]\n"
                                               "no step: Split \"Split_first\": a view of \"a\" +128\n"));
}

// Split, work on one part, join all: the parts move into the join together.
TEST_F(PlanTest, ConcatOfAllPartsOfAValueAndMoreIsWrittenInPlace) {
  GraphBuilder b;
  const ValueId x = b.input("x", {number(1), number(32), number(2)});
  const ValueId first = b.node("Split", {b.node("Sin", {x}, "a")}, "first");
  b.last().set_int("axis", 1);
  b.last().set_int("num_outputs", 2);
  b.last().since_version = 18;
  const ValueId second = b.value("second");
  b.last().outputs.push_back(second);
  const ValueId more = b.node("Cos", {second}, "more");
  const ValueId joined = b.node("Concat", {first, second, more}, "joined");
  b.last().set_int("axis", 1);
  const ValueId swapped = b.node("Concat", {second, first}, "swapped");
  b.last().set_int("axis", 1);
  b.output(b.node("Sin", {joined}, "y"));
  b.output(b.node("Sin", {swapped}, "z"));
  const std::string plan = text(b, {{1, 32, 2}});
  EXPECT_THAT(plan, HasSubstr("Cos \"Cos_more\" [fake] (@128) -> @256 float32[1,16,2]\n"));
  EXPECT_THAT(plan, HasSubstr("no step: Concat \"Concat_joined\": its inputs are written straight into"));
  EXPECT_THAT(plan, HasSubstr("Concat \"Concat_swapped\" [fake] (@128, @0) ->"));
}

TEST_F(PlanTest, APartThatIsAnOutputIsComputedIntoIt) {
  GraphBuilder b;
  const ValueId x = b.input("x", {number(1), number(32), number(2)});
  const ValueId first = b.node("Split", {b.node("Sin", {x}, "a")}, "first");
  b.last().set_int("axis", 1);
  b.last().set_int("num_outputs", 2);
  b.last().since_version = 18;
  b.last().outputs.push_back(b.value("second"));
  b.output(first);
  EXPECT_THAT(text(b, {{1, 32, 2}}), HasSubstr("step 1: Split \"Split_first\" [fake] (@0) -> output first"));
}

TEST_F(PlanTest, AnOutputThatIsAnInputIsCopiedAndSaysWhy) {
  GraphBuilder b;
  const ValueId x = b.input("x", {number(4)});
  const ValueId y = b.node("Sin", {x}, "y");
  b.output(x);
  b.output(y);
  b.output(y);
  const std::string plan = text(b, {{4}});
  EXPECT_THAT(plan, HasSubstr("copy: input x -> output x, 16 bytes, because the output is an input or a constant"));
  EXPECT_THAT(plan,
              HasSubstr("copy: output y -> output y, 16 bytes, because the value is bound as another output too"));
}

TEST_F(PlanTest, ReordersStandAtTheEdgesOfABlockedRegionAndOnceAValue) {
  GraphBuilder b;
  const ValueId x = b.input("x", {number(1), number(12), number(4), number(4)});
  const ValueId a = b.node("Elu", {x}, "a");
  const ValueId c = b.node("Elu", {x}, "c");
  b.output(b.node("Add", {a, c}, "y"));
  EXPECT_EQ(
      text(b, {{1, 12, 4, 4}}, {{.op_type = "Elu", .layout = Layout::kBlocked8}}),
      "plan for x float32[1,12,4,4] on fake: 6 steps, 0 nodes without a step, arena 3072 bytes (4608 without sharing)\n"
      "input x: float32[1,12,4,4]\n"
      "output y: float32[1,12,4,4]\n"
      "step 0: tenon.Reorder (output \"x.blocked8\") [fake] (input x) -> @0 float32[1,12,4,4] blocked8\n"
      "step 1: Elu \"Elu_a\" [fake] (@0) -> @1024 float32[1,12,4,4] blocked8\n"
      "step 2: Elu \"Elu_c\" [fake] (@0) -> @2048 float32[1,12,4,4] blocked8\n"
      "step 3: tenon.Reorder (output \"a.plain\") [fake] (@1024) -> @0 float32[1,12,4,4]\n"
      "step 4: tenon.Reorder (output \"c.plain\") [fake] (@2048) -> @768 float32[1,12,4,4]\n"
      "step 5: Add \"Add_y\" [fake] (@0, @768) -> output y float32[1,12,4,4]\n");
}

TEST_F(PlanTest, ANodeIsAskedAgainWhereAReorderIsItsOnlyReader) {
  GraphBuilder b;
  const ValueId x = b.input("x", {number(1), number(8), number(4), number(4)});
  b.output(b.node("Neg", {b.node("Softplus", {x}, "a")}, "y"));
  // One blocked reader is enough.
  const ValueId c = b.node("Softplus", {x}, "c");
  b.output(b.node("Elu", {c}, "z"));
  b.output(b.node("Neg", {c}, "w"));
  EXPECT_EQ(
      text(b, {{1, 8, 4, 4}},
           {{.op_type = "Softplus", .layout = Layout::kBlocked8, .stem = true},
            {.op_type = "Elu", .layout = Layout::kBlocked8}}),
      "plan for x float32[1,8,4,4] on fake: 7 steps, 0 nodes without a step, arena 1536 bytes (2048 without sharing)\n"
      "input x: float32[1,8,4,4]\n"
      "output y: float32[1,8,4,4]\n"
      "output z: float32[1,8,4,4]\n"
      "output w: float32[1,8,4,4]\n"
      "step 0: Softplus \"Softplus_a\" [fake] (input x) -> @0 float32[1,8,4,4]\n"
      "step 1: Neg \"Neg_y\" [fake] (@0) -> output y float32[1,8,4,4]\n"
      "step 2: Softplus \"Softplus_c\" [fake] (input x) -> @0 float32[1,8,4,4] blocked8\n"
      "step 3: Elu \"Elu_z\" [fake] (@0) -> @512 float32[1,8,4,4] blocked8\n"
      "step 4: tenon.Reorder (output \"c.plain\") [fake] (@0) -> @1024 float32[1,8,4,4]\n"
      "step 5: Neg \"Neg_w\" [fake] (@1024) -> output w float32[1,8,4,4]\n"
      "step 6: tenon.Reorder (output \"z.plain\") [fake] (@512) -> output z float32[1,8,4,4]\n");
}

// Of the bytes and the numbers that a DequantizeLinear makes of them, the fewer ones are reordered.
TEST_F(PlanTest, BytesAreReorderedInPlaceOfTheirNumbers) {
  GraphBuilder b;
  const ValueId x = b.input("x", {number(1), number(8), number(4), number(4)});
  const ValueId scale = b.input("scale", {});
  const ValueId a = b.node("QuantizeLinear", {x, scale}, "a", DataType::kUint8);
  b.output(b.node("DequantizeLinear", {a, scale}, "y"));
  EXPECT_EQ(
      text(b, {{1, 8, 4, 4}, {}},
           {{.op_type = "QuantizeLinear", .layout = Layout::kBlocked8},
            {.op_type = "DequantizeLinear", .layout = Layout::kBlocked8}}),
      "plan for x float32[1,8,4,4], scale float32[] on fake: 4 steps, 0 nodes without a step, arena 640 bytes (768 "
      "without sharing)\n"
      "input x: float32[1,8,4,4]\n"
      "input scale: float32[]\n"
      "output y: float32[1,8,4,4]\n"
      "step 0: tenon.Reorder (output \"x.blocked8\") [fake] (input x) -> @0 float32[1,8,4,4] blocked8\n"
      "step 1: QuantizeLinear \"QuantizeLinear_a\" [fake] (@0, input scale) -> @512 uint8[1,8,4,4] blocked8\n"
      "step 2: tenon.Reorder (output \"a.plain\") [fake] (@512) -> @0 uint8[1,8,4,4]\n"
      "step 3: DequantizeLinear \"DequantizeLinear_y\" [fake] (@0, input scale) -> output y float32[1,8,4,4]\n");
}

// One reorder does what it and a transpose between channels first and last would do; other transposes stay.
TEST_F(PlanTest, AReorderTakesTheTransposeBesideIt) {
  GraphBuilder b;
  const auto transpose = [&](ValueId x, const std::string& name, std::vector<int64_t> perm) {
    const ValueId y = b.node("Transpose", {x}, name);
    b.last().set_ints("perm", std::move(perm));
    return y;
  };
  const ValueId x = b.input("x", {number(1), number(4), number(4), number(12)});
  const ValueId a = b.node("LpNormalization", {transpose(x, "first", {0, 3, 1, 2})}, "a");
  b.output(transpose(a, "last", {0, 2, 3, 1}));
  b.output(transpose(a, "turned", {0, 3, 2, 1}));
  EXPECT_EQ(
      text(b, {{1, 4, 4, 12}}, {{.op_type = "LpNormalization", .layout = Layout::kBlocked8}}),
      "plan for x float32[1,4,4,12] on fake: 5 steps, 0 nodes without a step, arena 2048 bytes (2816 without sharing)\n"
      "input x: float32[1,4,4,12]\n"
      "output last: float32[1,4,4,12]\n"
      "output turned: float32[1,4,4,12]\n"
      "step 0: tenon.Reorder (output \"first.blocked8\") [fake] (input x) -> @0 float32[1,12,4,4] blocked8\n"
      "step 1: LpNormalization \"LpNormalization_a\" [fake] (@0) -> @1024 float32[1,12,4,4] blocked8\n"
      "step 2: tenon.Reorder (output \"a.plain\") [fake] (@1024) -> @0 float32[1,12,4,4]\n"
      "step 3: tenon.Reorder \"Transpose_last\" [fake] (@1024) -> output last float32[1,4,4,12]\n"
      "step 4: Transpose \"Transpose_turned\" [fake] (@0) -> output turned float32[1,4,4,12]\n");
}

TEST_F(PlanTest, ScratchLivesForOneStep) {
  GraphBuilder b;
  ValueId v = b.input("x", {number(16)});
  for (const char* name : {"a", "b"}) v = b.node("Softplus", {v}, name);
  b.output(v);
  EXPECT_EQ(text(b, {{16}}, {{.op_type = "Softplus", .scratch_bytes = 1000}}),
            "plan for x float32[16] on fake: 2 steps, 0 nodes without a step, arena 1088 bytes (2064 without sharing)\n"
            "input x: float32[16]\n"
            "output b: float32[16]\n"
            "step 0: Softplus \"Softplus_a\" [fake] (input x) -> @1024 float32[16]; scratch @0 1000 bytes\n"
            "step 1: Softplus \"Softplus_b\" [fake] (@1024) -> output b float32[16]; scratch @0 1000 bytes\n");
}

TEST_F(PlanTest, AShapeThatDependsOnAValueCutsThePlan) {
  GraphBuilder b;
  const ValueId x = b.input("x", {number(4), number(4)});
  const ValueId shape = b.input("shape", {number(2)}, DataType::kInt64);
  const ValueId a = b.node("Sin", {x}, "a");
  const ValueId r = b.node("Reshape", {a, shape}, "r");
  b.output(b.node("Sin", {r}, "y"));
  const std::string plan = text(b, {{4, 4}, {2}});
  EXPECT_THAT(plan, HasSubstr("cut: the output shapes of Reshape \"Reshape_r\" depend on the value of \"shape\"\n"));
  EXPECT_THAT(plan, HasSubstr("after the cut: shape at input shape, int64[2], planned for its value\n"));
  EXPECT_THAT(plan, HasSubstr("after the cut: a at @0, float32[4,4]\n"));
  EXPECT_THAT(plan, Not(HasSubstr("output y")));
}

TEST_F(PlanTest, AnOperatorWithDataDependentSizesCutsThePlanBehindItself) {
  GraphBuilder b;
  const ValueId x = b.input("x", {number(4)});
  const ValueId indices = b.node("NonZero", {x}, "indices", DataType::kInt64);
  b.output(indices);
  const std::string plan = text(b, {{4}});
  EXPECT_THAT(plan, HasSubstr("step 0: NonZero \"NonZero_indices\" [fake] (input x) -> dynamic 0"));
  EXPECT_THAT(plan, HasSubstr("copy: dynamic 0 -> output indices, ? bytes, because its size is only known after"));
}

}  // namespace
}  // namespace tenon
