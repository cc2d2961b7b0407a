// Needs neither a device nor NVRTC.
#include "ep/cuda/compute/rehearsal.h"

#include <gmock/gmock.h>

#include <future>

#include "base/testing.h"
#include "ep/cuda/compute/region.h"
#include "plan/testing.h"

namespace tenon::cuda {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;
using ::testing::UnorderedElementsAre;

Dim named(const char* symbol) { return {.value = -1, .symbol = symbol}; }
Dim number(int64_t value) { return {.value = value, .symbol = {}}; }

Graph graph_of(const std::vector<std::vector<Dim>>& inputs) {
  plan_testing::GraphBuilder builder;
  for (size_t i = 0; i < inputs.size(); ++i) (void)builder.input("x" + std::to_string(i), inputs[i], DataType::kFloat);
  return std::move(builder.graph);
}

TEST(OtherSizes, EqualSymbolsStayEqualAndNumbersAsTheyAre) {
  const Graph graph = graph_of({{named("batch"), number(3), named("length")}, {named("length"), named("batch")}});
  const std::vector<Shape> now = {Shape{2, 3, 100}, Shape{100, 2}};
  const std::vector<std::vector<Shape>> others = other_sizes(graph, now);
  EXPECT_FALSE(others.empty());
  for (const std::vector<Shape>& shapes : others) {
    ASSERT_THAT(shapes, SizeIs(2));
    EXPECT_EQ(shapes[0][1], 3);
    EXPECT_EQ(shapes[0][0], shapes[1][1]);
    EXPECT_EQ(shapes[0][2], shapes[1][0]);
    EXPECT_NE(shapes, now);
    EXPECT_EQ(std::count(others.begin(), others.end(), shapes), 1);
  }
}

TEST(OtherSizes, AllAlignmentsAreAmongThemAndOneAndFew) {
  const Graph graph = graph_of({{named("batch"), named("length")}});
  for (const int64_t length : {193, 200, 202, 36}) {
    const std::vector<Shape> now = {Shape{1, length}};
    std::set<int64_t> alignments = {length & -length};
    std::set<int64_t> lengths, batches;
    for (const std::vector<Shape>& shapes : other_sizes(graph, now)) {
      const int64_t other = shapes[0][1];
      if (shapes[0][0] == 1) alignments.insert(std::min<int64_t>(other & -other, 8));
      lengths.insert(other);
      batches.insert(shapes[0][0]);
    }
    EXPECT_THAT(alignments, ::testing::IsSupersetOf({1, 2, 4, 8})) << length;
    EXPECT_THAT(lengths, ::testing::IsSupersetOf({int64_t{1}, int64_t{7}, 2 * length}));
    EXPECT_THAT(batches, ::testing::IsSupersetOf({1, 2, 3}));
  }
}

// A network that halves its images five times takes multiples of 32.
TEST(OtherSizes, TheLikelyOnesKeepWhatTheSizeIsAMultipleOf) {
  const Graph graph = graph_of({{number(1), named("height"), named("width")}});
  int divisible = 0;
  for (const std::vector<Shape>& shapes : other_sizes(graph, std::vector<Shape>{Shape{1, 736, 704}}))
    divisible += shapes[0][1] % 32 == 0 && shapes[0][2] % 32 == 0 ? 1 : 0;
  EXPECT_GE(divisible, 8);
}

TEST(OtherSizes, ThereAreNoneWithoutSymbolsOrOfNothing) {
  EXPECT_THAT(other_sizes(graph_of({{number(4), number(5)}}), std::vector<Shape>{Shape{4, 5}}), IsEmpty());
  EXPECT_THAT(other_sizes(graph_of({{named("n"), number(5)}}), std::vector<Shape>{Shape{0, 5}}), IsEmpty());
}

// The kernels "k<i>" for a shape of i elements, and some that all shapes have.
Result<Program> program_of(std::span<const Shape> shapes) {
  if (shapes[0][0] == 13) return invalid_argument("13 is no size.");
  Program program;
  for (const std::string& name : {std::string("all"), "k" + std::to_string(shapes[0][0])})
    program.add_kernel({.name = name, .header = "header", .text = ""});
  return program;
}

TEST(Rehearsal, EachKernelIsCompiledOnceAndSizesThatAreRefusedAreLeftOut) {
  std::mutex mutex;
  std::vector<std::string> compiled;
  const std::vector<KernelCode> known = {{.name = "k2", .header = "header", .text = ""}};
  const auto rehearsal = Rehearsal::begin({.lower = &program_of,
                                           .compile =
                                               [&](const KernelCode& kernel, const std::atomic<bool>&) {
                                                 const std::lock_guard lock(mutex);
                                                 compiled.push_back(kernel.name);
                                               }},
                                          {{Shape{1}}, {Shape{2}}, {Shape{13}}, {Shape{3}}, {Shape{1}}}, known, 3, 1);
  rehearsal->wait();
  EXPECT_TRUE(rehearsal->done());
  EXPECT_THAT(compiled, UnorderedElementsAre("all", "k1", "k3"));
}

// Compiles its first kernel until that is cancelled.
struct Held {
  std::promise<void> begun;
  std::vector<std::string> compiled;
  std::shared_ptr<Rehearsal> begin() {
    return Rehearsal::begin({.lower = &program_of,
                             .compile =
                                 [this](const KernelCode& kernel, const std::atomic<bool>& cancelled) {
                                   compiled.push_back(kernel.name);
                                   if (compiled.size() == 1) begun.set_value();
                                   while (!cancelled) std::this_thread::yield();
                                 }},
                            {{Shape{1}}, {Shape{2}}, {Shape{3}}}, {}, 1, 1);
  }
};

TEST(Rehearsal, ItsEndCancelsWhatHasBegun) {
  Held held;
  auto rehearsal = held.begin();
  held.begun.get_future().wait();
  EXPECT_FALSE(rehearsal->done());
  rehearsal.reset();
  EXPECT_THAT(held.compiled, ElementsAre("all"));
}

TEST(Rehearsal, TheProcessesEndCancelsWhatHasBegun) {
  Held held;
  const auto rehearsal = held.begin();
  held.begun.get_future().wait();
  (void)rehearsal->who_waits();
  rehearsal->wait();
  EXPECT_EQ(rehearsal->who_waits(), "");
  EXPECT_THAT(held.compiled, ElementsAre("all"));
}

// Beside the plan that is being made few threads work.
TEST(Rehearsal, AllThreadsWorkWhenThereIsAHurry) {
  std::mutex mutex;
  std::condition_variable changed;
  int at_work = 0, most = 0;
  bool open = false;
  std::vector<std::vector<Shape>> shapes;
  for (int64_t i = 20; i < 40; ++i) shapes.push_back({Shape{i}});
  const auto rehearsal = Rehearsal::begin({.lower = &program_of,
                                           .compile =
                                               [&](const KernelCode&, const std::atomic<bool>&) {
                                                 std::unique_lock lock(mutex);
                                                 most = std::max(most, ++at_work);
                                                 changed.notify_all();
                                                 changed.wait(lock, [&] { return open; });
                                                 --at_work;
                                               }},
                                          shapes, {}, 3, 1);
  {
    std::unique_lock lock(mutex);
    changed.wait(lock, [&] { return at_work == 1; });
  }
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  {
    const std::lock_guard lock(mutex);
    EXPECT_EQ(most, 1);
  }
  rehearsal->hurry();
  {
    std::unique_lock lock(mutex);
    changed.wait(lock, [&] { return at_work == 3; });
    open = true;
  }
  changed.notify_all();
  rehearsal->wait();
  EXPECT_EQ(most, 3);
}

// The shapes of a model change its kernels: vectors, joined axes, one row.
TEST(Rehearsal, ARegionWantsNoOtherKernelsForSizesToCome) {
  plan_testing::GraphBuilder builder;
  const ValueId x = builder.input("x", {named("batch"), named("length"), number(24)}, DataType::kFloat);
  const ValueId bias = builder.input("bias", {named("length"), number(24)}, DataType::kFloat);
  const ValueId sum = builder.node("Add", {x, bias}, "sum", DataType::kFloat);
  const ValueId turned = builder.node("Transpose", {sum}, "turned", DataType::kFloat);
  builder.last().set_ints("perm", {0, 2, 1});
  builder.output(builder.node("Softmax", {turned}, "y", DataType::kFloat));
  const Result<Region> region = Region::prepare(std::move(builder.graph));
  ASSERT_THAT(region, is_ok());
  const auto shapes_of = [](int64_t batch, int64_t length) {
    return std::vector<Shape>{Shape{batch, length, 24}, Shape{length, 24}};
  };
  const auto lower = [&](std::span<const Shape> shapes) { return region->lower_at(shapes, true); };
  const std::vector<Shape> first = shapes_of(1, 193);
  const Result<Program> program = lower(first);
  ASSERT_THAT(program.status(), is_ok());
  std::mutex mutex;
  std::set<std::string> compiled;
  for (const KernelCode& kernel : program->kernels) compiled.insert(kernel.name);
  const size_t of_first = compiled.size();
  const auto rehearsal = Rehearsal::begin({.lower = lower,
                                           .compile =
                                               [&](const KernelCode& kernel, const std::atomic<bool>&) {
                                                 const std::lock_guard lock(mutex);
                                                 compiled.insert(kernel.name);
                                               }},
                                          other_sizes(region->graph(), first), program->kernels, 2, 2);
  rehearsal->wait();
  EXPECT_GT(compiled.size(), of_first);
  for (const auto& [batch, length] : {std::pair(1, 77), {1, 128}, {1, 1}, {3, 50}, {8, 200}, {1, 300}, {2, 9}}) {
    const Result<Program> other = lower(shapes_of(batch, length));
    ASSERT_THAT(other.status(), is_ok());
    for (const KernelCode& kernel : other->kernels)
      EXPECT_THAT(compiled, Contains(kernel.name)) << batch << "x" << length;
  }
}

}  // namespace
}  // namespace tenon::cuda
