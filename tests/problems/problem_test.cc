// The grammar of problem lines, and the rules by which results are compared.
#include "problems/problem.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <limits>
#include <sstream>

#include "problems/family.h"
#include "problems/runner.h"

namespace tenon::problems {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

std::string error_of(const std::string& line) {
  const Result<std::vector<Problem>> parsed = parse_line(line, {"conv.txt", 7});
  return parsed.ok() ? "" : std::string(parsed.status().message());
}
Problem only(const std::string& line) { return parse_line(line, {"line", 1}).value().at(0); }

TEST(ProblemLine, HasItsSizesShapesAndOptions) {
  const Problem conv = only("conv f16 n1c24h7w9 o48 k3x5 s2 act=clip:-1:2 dynamic");
  EXPECT_EQ(conv.type, DataType::kFloat16);
  EXPECT_EQ(conv.size("c", 0), 24);
  EXPECT_THAT(conv.size("k"), ElementsAre(3, 5));
  EXPECT_EQ(conv.size("p", 4), 4);
  EXPECT_EQ(conv.word("act"), "clip:-1:2");
  EXPECT_TRUE(conv.has("dynamic"));
  const Problem slice = only("slice i64 4x10 starts=1,-2 ends=9,5");
  EXPECT_THAT(slice.shapes, ElementsAre(Dims{4, 10}));
  EXPECT_THAT(slice.integers("starts"), ElementsAre(1, -2));
  EXPECT_EQ(only("binary f32 Add scalar 3").shapes[0], Dims{});
}

TEST(ProblemLine, BracesAndStarsMakeSeveral) {
  const auto lines = expand_braces("a{1,2}b{x,{y,z}}", {"line", 1}).value();
  EXPECT_THAT(lines, ElementsAre("a1bx", "a1by", "a1bz", "a2bx", "a2by", "a2bz"));
  std::vector<std::string> names;
  const auto softmaxes = parse_line("softmax f32 * 3", {"line", 1}).value();
  for (const Problem& problem : softmaxes) names.push_back(problem.op);
  EXPECT_THAT(names, ElementsAre("Softmax", "LogSoftmax", "Hardmax"));
  EXPECT_EQ(parse_line("conv f32 w3 act=*", {"line", 1}).value().size(), activation_words().size());
  // The operators that do not take the type are left out: the schema of Celu has float32 alone.
  const auto doubles = parse_line("unary f64 * 3", {"line", 1}).value();
  for (const Problem& problem : doubles) EXPECT_NE(problem.op, "Celu");
}

TEST(ProblemLine, CommentsAndBlankLinesAreNoProblems) {
  EXPECT_TRUE(parse_lines("\n  \n# a comment\n", "lines").value().empty());
  EXPECT_EQ(parse_lines("conv f32 w3 # one\nconv f32 w4\n", "lines").value().size(), 2U);
}

// Every line of the files prints as itself, once braces and stars are written out, and the printed line is the problem.
TEST(ProblemLine, AnyLineOfTheFilesPrintsAsItself) {
  size_t lines = 0;
  for (const auto& entry : std::filesystem::directory_iterator(TENON_PROBLEM_FILES)) {
    if (entry.path().extension() != ".txt" || entry.path().filename() == "CMakeLists.txt") continue;
    std::ifstream file(entry.path());
    std::string line;
    for (int number = 1; std::getline(file, line); ++number) {
      const Source source{entry.path().filename().string(), number};
      const std::vector<std::string> expanded = expand_braces(line, source).value();
      for (const std::string& one : expanded) {
        const auto parsed = parse_line(one, source);
        ASSERT_TRUE(parsed.ok()) << parsed.status().message();
        if (parsed->size() != 1 || one.find('*') != std::string::npos) continue;
        std::string words, word;
        for (std::istringstream stream(one); stream >> word;) words += (words.empty() ? "" : " ") + word;
        const std::string printed = to_line((*parsed)[0]);
        EXPECT_EQ(printed, words) << source.file << ":" << source.line;
        EXPECT_EQ(to_line(only(printed)), printed);
        ++lines;
      }
    }
  }
  EXPECT_GT(lines, 1000U);
}

TEST(ProblemLine, ErrorsNameFileLineColumnAndWord) {
  EXPECT_EQ(error_of("conv f32 n1 kk3").substr(0, 19), "conv.txt:7:13: \"kk3");
  EXPECT_THAT(error_of("konv f32"), HasSubstr("conv.txt:7:1: There is no family \"konv\""));
  EXPECT_THAT(error_of("conv"), HasSubstr("The type is missing"));
  EXPECT_THAT(error_of("conv  f3"), HasSubstr("7:7: \"f3\" is no type of conv; it takes f32, f16, bf16, f64."));
  EXPECT_THAT(error_of("unary f32"), HasSubstr("The operator is missing"));
  EXPECT_THAT(error_of("unary f32 Relo 3"), HasSubstr("7:11: unary has no operator \"Relo\""));
  EXPECT_THAT(error_of("conv f32 n1c3hw5"), HasSubstr("7:14: \"hw5\" (in \"n1c3hw5\") is no size of conv"));
  EXPECT_THAT(error_of("conv f32 n1 akt=relu"), HasSubstr("7:13: conv has no option \"akt\"; did you mean act?"));
  EXPECT_THAT(error_of("conv f32 n1 act=rely"), HasSubstr("act is \"rely\"; it takes none, relu"));
  EXPECT_THAT(error_of("conv f32 n1 dynamic=1"), HasSubstr("dynamic is a flag and takes no value"));
  EXPECT_THAT(error_of("conv f32 n1 dynamic dynamic"), HasSubstr("\"dynamic\" comes twice"));
  EXPECT_THAT(error_of("conv f32 n1 opset=11 opset=13"), HasSubstr("opset comes twice"));
  EXPECT_THAT(error_of("conv f32 n1n2"), HasSubstr("The size n comes twice"));
  EXPECT_THAT(error_of("conv f32 n1 opset=x"), HasSubstr("opset is \"x\"; it takes a whole number."));
  EXPECT_THAT(error_of("transpose f32 2x3 perm=1,"), HasSubstr("whole numbers with commas between them"));
  EXPECT_THAT(error_of("matmul f32 2x3"), HasSubstr("The line has 1 shapes; matmul takes 2."));
  EXPECT_THAT(error_of("softmax f32 Softmax 3xx4"), HasSubstr("7:21: \"3xx4\" is no shape"));
  EXPECT_THAT(error_of("conv f32 {n1,n2"), HasSubstr("7:10: This \"{\" is not closed."));
  EXPECT_THAT(error_of("conv f32 n1}"), HasSubstr("7:12: This \"}\" closes no brace."));
  // The column is that of the line as it is written, before braces are written out.
  EXPECT_THAT(error_of("conv f32 {n1,n2} kk3"), HasSubstr("conv.txt:7:18: \"kk3\""));
}

TEST(Numbers, RoundToTheNearestWithTiesToEven) {
  EXPECT_EQ(round_to(2049, DataType::kFloat16), 2048);
  EXPECT_EQ(round_to(2051, DataType::kFloat16), 2052);
  EXPECT_EQ(round_to(65519, DataType::kFloat16), 65504);
  EXPECT_EQ(round_to(65520, DataType::kFloat16), std::numeric_limits<double>::infinity());
  EXPECT_EQ(round_to(0x1p-24, DataType::kFloat16), 0x1p-24);
  EXPECT_EQ(round_to(0x1p-26, DataType::kFloat16), 0);
  EXPECT_EQ(round_to(257, DataType::kBfloat16), 256);
  EXPECT_EQ(round_to(0.1, DataType::kFloat), 0.1F);
  EXPECT_EQ(round_to(2.5, DataType::kInt8), 2);
  for (DataType type : {DataType::kFloat16, DataType::kBfloat16})
    for (uint32_t bits = 0; bits < 0x7c00; ++bits) {
      const auto given = static_cast<uint16_t>(bits);
      uint16_t back = 0;
      encode(decode(&given, type), type, &back);
      ASSERT_EQ(back, given);
    }
}

// A bound admits the numbers that an error of it may round to, and no further one.
TEST(Comparison, AdmitsWhatTheBoundRoundsTo) {
  Array wanted(DataType::kFloat, {2}, 1);
  wanted.error(1) = 1e-6;
  float got[] = {1, 1.0000009F};
  EXPECT_TRUE(compare(wanted, got, 1).within);
  got[1] = 1.0000012F;
  const Comparison beyond = compare(wanted, got, 1);
  EXPECT_FALSE(beyond.within);
  EXPECT_EQ(beyond.element, 1);
  EXPECT_THAT(beyond.text("y", {1, 2}), HasSubstr("at y[0,1]: 1.0000011920928955 instead of 1"));
  EXPECT_TRUE(compare(wanted, got, 16).within);
  got[1] = std::numeric_limits<float>::quiet_NaN();
  EXPECT_FALSE(compare(wanted, got, 16).within);
  wanted[1] = got[1];
  EXPECT_TRUE(compare(wanted, got, 1).within);
  got[1] = 1;
  EXPECT_FALSE(compare(wanted, got, 1).within);
}

// An error of the inputs grows as the function is steep.
TEST(Bounds, GoThroughFunctions) {
  const Number y = through({2, 0.25}, DataType::kDouble, 0, [](double x) { return x * x; });
  EXPECT_EQ(y.v, 4);
  EXPECT_EQ(y.e, 2.25 * 2.25 - 4);
}

TEST(Runner, NamesWhatALineGetsWrong) {
  const Runner runner = Runner::create({}).value();
  EXPECT_EQ(runner.run(only("conv f32 n1c4h5w5 o6 k3 cpu=conv7x7")).verdict, Verdict::kFailed);
  EXPECT_THAT(runner.run(only("conv f32 n1c4h5w5 o6 k3 cpu=conv7x7")).text,
              HasSubstr("the plan has no kernel conv7x7, but"));
  EXPECT_THAT(runner.run(only("conv f32 n1c4h5w5 o6 k9")).text, HasSubstr("this is no problem of conv: A window of 9"));
  const Outcome passed = runner.run(only("conv f32 n1c4h5w5 o6 k3"));
  EXPECT_EQ(passed.verdict, Verdict::kPassed);
  EXPECT_THAT(passed.text, HasSubstr("allowed at y["));
}

}  // namespace
}  // namespace tenon::problems
