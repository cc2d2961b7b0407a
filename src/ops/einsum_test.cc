#include "ops/einsum.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/status.h"

namespace tenon {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

Result<EinsumDesc> read(std::string equation, std::initializer_list<Shape> all) {
  Node node;
  node.op_type = "Einsum";
  node.since_version = 12;
  node.set_string("equation", std::move(equation));
  InputShapes shapes;
  for (const Shape& shape : all) {
    node.inputs.push_back(ValueId(node.inputs.size()));
    shapes.push_back(shape);
  }
  return read_einsum(node, shapes);
}

std::string message(std::string equation, std::initializer_list<Shape> all) {
  return read(std::move(equation), all).status().message();
}

TEST(Einsum, EachDimensionHasALetter) {
  const Result<EinsumDesc> desc = read("... i j, jk -> ...ik", {Shape{2, 7, 3, 4}, Shape{4, 5}});
  ASSERT_TRUE(desc.ok());
  EXPECT_THAT(desc->inputs, ElementsAre("10ij", "jk"));
  EXPECT_EQ(desc->output, "10ik");
  EXPECT_EQ(desc->sizes.at('1'), 2);
  EXPECT_EQ(desc->sizes.at('j'), 4);
}

TEST(Einsum, WithoutAnArrowLettersThatOccurOnceStay) {
  EXPECT_EQ(read("bij,bjA", {Shape{2, 3, 4}, Shape{2, 4, 5}})->output, "Ai");
  EXPECT_EQ(read("ii", {Shape{3, 3}})->output, "");
  EXPECT_EQ(read("...i,i", {Shape{2, 3}, Shape{3}})->output, "0");
}

TEST(Einsum, ADimensionOfOneRepeats) {
  EXPECT_EQ(read("ij,ij->ij", {Shape{1, 3}, Shape{2, 1}})->sizes.at('i'), 2);
  EXPECT_EQ(read("...i,...i->...", {Shape{1, 3}, Shape{4, 3}})->sizes.at('0'), 4);
}

TEST(Einsum, RefusesEquationsThatDoNotFit) {
  EXPECT_THAT(message("ij,jk->ik", {Shape{2, 3}, Shape{4, 5}}), HasSubstr("sizes 3 and 4"));
  EXPECT_THAT(message("ij,jk->ik", {Shape{2, 3}}), HasSubstr("2 terms for 1 inputs"));
  EXPECT_THAT(message("ij", {Shape{2, 3}, Shape{4}}), HasSubstr("1 terms for 2 inputs"));
  EXPECT_THAT(message("ijk->i", {Shape{2, 3}}), HasSubstr("does not fit rank 2"));
  EXPECT_THAT(message("i..j->i", {Shape{2, 3}}), HasSubstr("misplaced dot"));
  EXPECT_THAT(message("i1->i", {Shape{2, 3}}), HasSubstr("other than letters"));
  EXPECT_THAT(message("ij->ik", {Shape{2, 3}}), HasSubstr("in no input"));
  EXPECT_THAT(message("ij->ii", {Shape{2, 3}}), HasSubstr("twice"));
}

}  // namespace
}  // namespace tenon
