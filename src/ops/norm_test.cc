#include "ops/norm.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/testing.h"
#include "ops/softmax.h"

namespace tenon {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

Node make(std::string op_type, int version, std::string domain = "") {
  Node node;
  node.op_type = std::move(op_type);
  node.domain = std::move(domain);
  node.since_version = version;
  return node;
}

TEST(Norm, BatchNormalizationHasTheSchemasEpsilonAndDoesNotTrain) {
  const BatchNormDesc desc = read_batch_norm(make("BatchNormalization", 9));
  EXPECT_EQ(desc.epsilon, 1e-5f);
  EXPECT_FALSE(desc.training);  // version 9 has no training_mode
  Node training = make("BatchNormalization", 15);
  training.set_int("training_mode", 1);
  EXPECT_TRUE(read_batch_norm(training).training);
}

TEST(Norm, GroupsDivideTheChannels) {
  Node node = make("GroupNormalization", 21);
  node.set_int("num_groups", 3);
  const Result<GroupNormDesc> desc = read_group_norm(node, {2, 6, 5, 7});
  ASSERT_TRUE(desc.ok());
  EXPECT_EQ(desc->group_channels(), 2);
  EXPECT_EQ(desc->inner, 35);
  EXPECT_EQ(desc->parameters(), 6);
  node.since_version = 18;  // one scale and bias for each group
  EXPECT_EQ(read_group_norm(node, {2, 6, 5, 7})->parameters(), 3);
  EXPECT_THAT(read_group_norm(node, {2, 7}).status(),
              has_status(StatusCode::kInvalidArgument, HasSubstr("3 groups for 7 channels")));
  EXPECT_THAT(read_group_norm(node, {2}).status(), has_status(StatusCode::kInvalidArgument, HasSubstr("[2]")));
  EXPECT_EQ(read_group_norm(node, {2, 0, 4})->groups, 1);
}

TEST(Norm, AnInstanceIsAGroupOfOneChannel) {
  const Result<GroupNormDesc> desc = read_group_norm(make("InstanceNormalization", 6), {2, 6, 5});
  ASSERT_TRUE(desc.ok());
  EXPECT_EQ(desc->groups, 6);
  EXPECT_FALSE(desc->scale_each_group);
}

TEST(Norm, LayerNormalizationSplitsTheShapeAtItsAxis) {
  const Result<LayerNormDesc> last = read_layer_norm(make("LayerNormalization", 17), {2, 3, 4});
  ASSERT_TRUE(last.ok());
  EXPECT_EQ(last->axis, 2);
  EXPECT_EQ(last->rows, 6);
  EXPECT_EQ(last->columns, 4);
  EXPECT_EQ(last->epsilon, 1e-5f);
  EXPECT_EQ(last->skip, LayerNormDesc::kNone);
  Node rms = make("RMSNormalization", 23);
  rms.set_int("axis", 1);
  EXPECT_EQ(read_layer_norm(rms, {2, 3, 4})->columns, 12);
  EXPECT_FALSE(read_layer_norm(rms, {2, 3, 4})->subtract_mean);
  rms.set_int("axis", 3);
  EXPECT_FALSE(read_layer_norm(rms, {2, 3, 4}).ok());
}

TEST(Norm, TheInternalLayerNormIsReadAsItWasWritten) {
  Node node = make("LayerNorm", 1, "tenon");
  write_layer_norm(node, 1, 0.25f);
  const Result<LayerNormDesc> desc = read_layer_norm(node, {2, 3, 4});
  ASSERT_TRUE(desc.ok());
  EXPECT_EQ(desc->columns, 12);
  EXPECT_EQ(desc->epsilon, 0.25f);
  EXPECT_EQ(desc->skip, 1u);
  EXPECT_EQ(desc->scale, 2u);
  EXPECT_EQ(desc->sum, 1u);
  EXPECT_EQ(desc->mean, LayerNormDesc::kNone);
}

TEST(Norm, LpNormalizationTakesOneAndTwo) {
  Node node = make("LpNormalization", 1);
  EXPECT_EQ(read_lp_norm(node, {2, 3})->p, 2);
  EXPECT_EQ(read_lp_norm(node, {2, 3})->axis, 1);
  node.set_int("p", 3);
  EXPECT_THAT(read_lp_norm(node, {2, 3}).status(), has_status(StatusCode::kInvalidArgument, HasSubstr("p 3")));
}

TEST(Norm, LrnHasItsOperatorsDefaults) {
  Node node = make("LRN", 13);
  EXPECT_THAT(read_lrn(node, 4).status(), has_status(StatusCode::kInvalidArgument, HasSubstr("size 0")));
  node.set_int("size", 5);
  EXPECT_EQ(read_lrn(node, 4)->alpha, 1e-4f);
  EXPECT_EQ(read_lrn(node, 4)->beta, 0.75f);
  EXPECT_EQ(read_lrn(node, 4)->bias, 1);
  EXPECT_FALSE(read_lrn(node, 1).ok());
}

TEST(Norm, MeanVarianceNormalizationTakesTheSchemasAxes) {
  Node node = make("MeanVarianceNormalization", 13);
  EXPECT_THAT(*read_mean_variance_axes(node, 4), ElementsAre(0, 2, 3));
  EXPECT_FALSE(read_mean_variance_axes(node, 3).ok());
  node.set_ints("axes", {-1});
  EXPECT_THAT(*read_mean_variance_axes(node, 3), ElementsAre(2));
}

TEST(Softmax, GroupsLieAlongAnAxisFromVersion13On) {
  const Result<SoftmaxDesc> now = read_softmax(make("Softmax", 13), {2, 3, 4});
  ASSERT_TRUE(now.ok());
  EXPECT_EQ(now->outer, 6);
  EXPECT_EQ(now->length, 4);
  EXPECT_EQ(now->inner, 1);
  Node old = make("LogSoftmax", 11);
  EXPECT_EQ(read_softmax(old, {2, 3, 4})->length, 12);
  EXPECT_EQ(read_softmax(old, {2, 3, 4})->kind, SoftmaxDesc::Kind::kLogSoftmax);
  old.since_version = 13;
  old.set_int("axis", 0);
  EXPECT_EQ(read_softmax(old, {2, 3, 4})->inner, 12);
}

TEST(Softmax, AnAxisOutOfRangeIsRefusedAndAScalarIsOneGroup) {
  EXPECT_THAT(read_softmax(make("Softmax", 11), {5}).status(),
              has_status(StatusCode::kInvalidArgument, HasSubstr("Axis 1")));
  EXPECT_EQ(read_softmax(make("Softmax", 13), {})->length, 1);
}

}  // namespace
}  // namespace tenon
