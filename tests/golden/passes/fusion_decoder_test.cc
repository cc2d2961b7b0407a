// The patterns of decoders that passes rewrite, and those that look like them and are not: norms by the root of the
// mean square, rotary embedding, heads that share keys. The results stay the same.
#include <gtest/gtest.h>

#include <functional>

#include "graph_maker.h"
#include "interpreter.h"

namespace tenon {
namespace {

ValueId mean_of_squares(GraphMaker& m, ValueId x, bool as_power) {
  const ValueId mean = m.node("ReduceMean", {as_power ? m.node("Pow", {x, m.number(2)}) : m.node("Mul", {x, x})});
  m.set("axes", std::vector<int64_t>{-1});
  return mean;
}

// Each way to write x / sqrt(mean(x * x) + epsilon); x is read elsewhere too.
TEST(Decoder, NormsByTheRootOfTheMeanSquare) {
  using Write = std::function<ValueId(GraphMaker&, ValueId x, ValueId sum)>;
  const Write forms[] = {
      [](GraphMaker& m, ValueId x, ValueId sum) {
        return m.node("Mul", {x, m.node("Div", {m.number(1), m.node("Sqrt", {sum})})});
      },
      [](GraphMaker& m, ValueId x, ValueId sum) {
        return m.node("Mul", {m.node("Reciprocal", {m.node("Sqrt", {sum})}), x});
      },
      [](GraphMaker& m, ValueId x, ValueId sum) { return m.node("Div", {x, m.node("Sqrt", {sum})}); },
      [](GraphMaker& m, ValueId x, ValueId sum) { return m.node("Div", {x, m.node("Pow", {sum, m.number(0.5f)})}); },
      [](GraphMaker& m, ValueId x, ValueId sum) { return m.node("Mul", {x, m.node("Pow", {sum, m.number(-0.5f)})}); },
  };
  for (const Write& write : forms)
    for (const int scale : {0, 1, 2}) {
      GraphMaker m;
      const ValueId x = m.input("x", {"N", "T", "8"});
      const ValueId mean = mean_of_squares(m, x, scale == 1);
      const ValueId sum = scale == 2 ? mean : m.node("Add", {m.number(1e-5f), mean});
      ValueId y = write(m, x, sum);
      if (scale == 1) y = m.node("Mul", {m.weights("scale", {1, 8}), y});
      m.output(m.node("Sub", {y, x}));
      EXPECT_EQ(operators_after(m), "tenon.LayerNorm Sub") << &write - forms << " " << scale;
    }
}

TEST(Decoder, ASumBeforeANormAndABiasBehindItAreTakenIn) {
  GraphMaker m;
  const ValueId sum = m.node("Add", {m.input("x", {"N", "8"}), m.input("skip", {"N", "8"})});
  const ValueId root = m.node("Sqrt", {m.node("Add", {mean_of_squares(m, sum, true), m.number(1e-5f)})});
  const ValueId y = m.node("Mul", {m.node("Div", {sum, root}), m.weights("scale", {8})});
  m.output(m.node("Add", {y, m.weights("bias", {8})}));
  m.output(sum);
  EXPECT_EQ(operators_after(m), "tenon.LayerNorm");
}

TEST(Decoder, WhatIsNoNormByTheRootOfTheMeanSquareStays) {
  const auto left = [](const std::function<ValueId(GraphMaker&, ValueId)>& write) {
    GraphMaker m;
    m.output(write(m, m.input("x", {"N", "4", "4"})));
    return operators_after(m);
  };
  // The mean of another value, over another dimension, of cubes; the root of something else; a root that is read twice.
  EXPECT_EQ(left([](GraphMaker& m, ValueId x) {
              return m.node("Div", {m.node("Neg", {x}), m.node("Sqrt", {mean_of_squares(m, x, true)})});
            }),
            "Neg Pow GlobalAveragePool Sqrt Div");
  EXPECT_EQ(left([](GraphMaker& m, ValueId x) {
              const ValueId mean = m.node("ReduceMean", {m.node("Mul", {x, x})});
              m.set("axes", std::vector<int64_t>{1});
              return m.node("Div", {x, m.node("Sqrt", {mean})});
            }),
            "Mul ReduceMean Sqrt Div");
  EXPECT_EQ(left([](GraphMaker& m, ValueId x) {
              const ValueId mean = m.node("ReduceMean", {m.node("Pow", {m.node("Abs", {x}), m.number(3)})});
              m.set("axes", std::vector<int64_t>{-1});
              return m.node("Div", {x, m.node("Sqrt", {mean})});
            }),
            "Abs Pow GlobalAveragePool Sqrt Div");
  EXPECT_EQ(left([](GraphMaker& m, ValueId x) {
              const ValueId root = m.node("Sqrt", {mean_of_squares(m, x, true)});
              m.output(root);
              return m.node("Div", {x, root});
            }),
            "Pow GlobalAveragePool Sqrt Div");
  EXPECT_EQ(
      left([](GraphMaker& m, ValueId x) { return m.node("Div", {m.node("Sqrt", {mean_of_squares(m, x, true)}), x}); }),
      "Pow GlobalAveragePool Sqrt Div");
  // An epsilon and a scale that raise the rank, and a scale of each row.
  EXPECT_EQ(left([](GraphMaker& m, ValueId x) {
              const ValueId sum = m.node("Add", {mean_of_squares(m, x, true), m.number(1e-5f, {1, 1, 1, 1})});
              return m.node("Div", {x, m.node("Sqrt", {sum})});
            }),
            "Pow GlobalAveragePool Add Sqrt Div");
  for (const Shape& shape : {Shape{2, 1, 1, 4}, Shape{4, 1}})
    EXPECT_EQ(left([&](GraphMaker& m, ValueId x) {
                const ValueId y = m.node("Div", {x, m.node("Sqrt", {mean_of_squares(m, x, true)})});
                return m.node("Mul", {y, m.weights("scale", shape)});
              }),
              "tenon.LayerNorm Mul");
}

ValueId slice(GraphMaker& m, ValueId x, int64_t start, int64_t end, int64_t step = 1, int64_t axis = -1) {
  return m.node("Slice", {x, m.ints({start}), m.ints({end}), m.ints({axis}), m.ints({step})});
}

ValueId concat(GraphMaker& m, const std::vector<ValueId>& parts, int64_t axis = -1) {
  const ValueId y = m.node("Concat", parts);
  m.set("axis", axis);
  return y;
}

// (-x[half:], x[:half]) of `depth` elements.
ValueId halves(GraphMaker& m, ValueId x, int64_t depth) {
  const ValueId first = slice(m, x, 0, depth / 2);
  return concat(m, {m.node("Neg", {slice(m, x, depth / 2, INT64_MAX)}), first});
}

// x * cos + turned * sin, with the operands of each in any order.
ValueId rotation(GraphMaker& m, ValueId x, ValueId turned, ValueId cos, ValueId sin, bool swapped = false) {
  const ValueId a = m.node("Mul", swapped ? std::vector{cos, x} : std::vector{x, cos});
  const ValueId b = m.node("Mul", swapped ? std::vector{sin, turned} : std::vector{turned, sin});
  return m.node("Add", swapped ? std::vector{b, a} : std::vector{a, b});
}

TEST(Decoder, RotaryEmbedding) {
  for (const bool swapped : {false, true}) {
    GraphMaker m;
    const ValueId x = m.input("x", {"B", "3", "T", "8"});
    m.output(
        rotation(m, x, halves(m, x, 8), m.input("cos", {"B", "1", "T", "8"}), m.input("sin", {"T", "8"}), swapped));
    EXPECT_EQ(operators_after(m), "tenon.RotateHalf");
  }
}

// Of heads that come from a Transpose, and of the first elements of each, with the angles that repeat rows of x or that
// x repeats.
TEST(Decoder, RotaryEmbeddingOfAPartOfHeads) {
  for (const bool split : {false, true})
    for (const char* tokens : {"T", "1"}) {
      GraphMaker m;
      const ValueId rows = m.input("x", {"B", tokens, "3", "10"});
      const ValueId x = m.node("Transpose", {rows});
      m.set("perm", {0, 2, 1, 3});
      ValueId first = kNoValue, rest = kNoValue;
      if (split) {
        first = m.node("Split", {x, m.ints({6, 4})}, 2);
        rest = m.output_of_last(1);
        m.set("axis", int64_t{3});
      } else {
        first = slice(m, x, 0, 6);
        rest = slice(m, x, 6, 1000);
      }
      const ValueId cos = m.input("cos", {"1", tokens, "6"}), sin = m.input("sin", {"1", "1", tokens, "6"});
      m.output(concat(m, {rotation(m, first, halves(m, first, 6), cos, sin), rest}));
      EXPECT_EQ(operators_after(m), "tenon.RotateHalf") << split << tokens;
    }
}

TEST(Decoder, RotaryEmbeddingOfNeighbours) {
  GraphMaker m;
  const ValueId x = m.input("x", {"2", "3", "T", "8"}), axis = m.ints({-1});
  const ValueId odd = m.node("Unsqueeze", {m.node("Neg", {slice(m, x, 1, INT64_MAX, 2)}), axis});
  const ValueId even = m.node("Unsqueeze", {slice(m, x, 0, INT64_MAX, 2), axis});
  const ValueId turned = m.node("Reshape", {concat(m, {odd, even}), m.ints({2, 3, -1, 8})});
  m.output(rotation(m, x, turned, m.input("cos", {"T", "8"}), m.input("sin", {"T", "8"})));
  EXPECT_EQ(operators_after(m), "tenon.RotateHalf");
}

TEST(Decoder, WhatIsNoRotaryEmbeddingStays) {
  const auto is_rotation = [](const std::function<ValueId(GraphMaker&, ValueId x, ValueId cos, ValueId sin)>& write) {
    GraphMaker m;
    const ValueId x = m.input("x", {"2", "3", "8"}), cos = m.input("cos", {"3", "8"}), sin = m.input("sin", {"3", "8"});
    m.output(write(m, x, cos, sin));
    const std::string left = operators_after(m);
    EXPECT_EQ(left.find("differ"), std::string::npos) << left;
    return left.find("RotateHalf") != std::string::npos;
  };
  EXPECT_TRUE(is_rotation(
      [](GraphMaker& m, ValueId x, ValueId cos, ValueId sin) { return rotation(m, x, halves(m, x, 8), cos, sin); }));
  // The other half negated, halves of another length, in their own order, along another axis, of another value.
  EXPECT_FALSE(is_rotation([](GraphMaker& m, ValueId x, ValueId cos, ValueId sin) {
    const ValueId turned = concat(m, {slice(m, x, 4, 8), m.node("Neg", {slice(m, x, 0, 4)})});
    return rotation(m, x, turned, cos, sin);
  }));
  EXPECT_FALSE(is_rotation([](GraphMaker& m, ValueId x, ValueId cos, ValueId sin) {
    const ValueId turned = concat(m, {m.node("Neg", {slice(m, x, 3, 8)}), slice(m, x, 0, 3)});
    return rotation(m, x, turned, cos, sin);
  }));
  EXPECT_FALSE(is_rotation([](GraphMaker& m, ValueId x, ValueId cos, ValueId sin) {
    const ValueId turned = concat(m, {m.node("Neg", {slice(m, x, 0, 4)}), slice(m, x, 4, 8)});
    return rotation(m, x, turned, cos, sin);
  }));
  EXPECT_FALSE(is_rotation([](GraphMaker& m, ValueId x, ValueId cos, ValueId sin) {
    const ValueId turned = concat(m, {m.node("Neg", {slice(m, x, 1, 2, 1, 0)}), slice(m, x, 0, 1, 1, 0)}, 0);
    return rotation(m, x, turned, cos, sin);
  }));
  EXPECT_FALSE(is_rotation([](GraphMaker& m, ValueId x, ValueId cos, ValueId sin) {
    return rotation(m, m.node("Abs", {x}), halves(m, x, 8), cos, sin);
  }));
  // A backward step, angles that are one for all elements, and a turned value that others read.
  EXPECT_FALSE(is_rotation([](GraphMaker& m, ValueId x, ValueId cos, ValueId sin) {
    const ValueId turned = concat(m, {m.node("Neg", {slice(m, x, 7, 3, -1)}), slice(m, x, 0, 4)});
    return rotation(m, x, turned, cos, sin);
  }));
  EXPECT_FALSE(is_rotation([](GraphMaker& m, ValueId x, ValueId, ValueId sin) {
    return rotation(m, x, halves(m, x, 8), m.input("scale", {"3", "1"}), sin);
  }));
  EXPECT_FALSE(is_rotation([](GraphMaker& m, ValueId x, ValueId cos, ValueId sin) {
    const ValueId turned = halves(m, x, 8);
    m.output(turned);
    return rotation(m, x, turned, cos, sin);
  }));
}

// Softmax(Q K^T + mask) V with K and V as `repeat` makes them of 2 heads; `cap`: of scores cap * tanh(scores / cap).
std::string attention_after(const std::function<ValueId(GraphMaker&, ValueId x, ValueId total)>& repeat,
                            const std::vector<std::string>& kv, float cap = 0) {
  GraphMaker m;
  const ValueId q = m.input("q", {"B", "6", "T", "4"}), k = m.input("k", kv), v = m.input("v", kv);
  const ValueId mask = m.input("mask", {"B", "1", "T", "5"});
  const ValueId batch = slice(m, m.node("Shape", {q}), 0, 1, 1, 0);
  const ValueId turned = m.node("Transpose", {repeat(m, k, batch)});
  m.set("perm", {0, 1, 3, 2});
  ValueId scores = m.node("Mul", {m.node("MatMul", {q, turned}), m.number(0.5f)});
  if (cap > 0) scores = m.node("Mul", {m.node("Tanh", {m.node("Div", {scores, m.number(cap)})}), m.number(cap)});
  const ValueId weights = m.node("Softmax", {m.node("Add", {scores, mask})});
  m.set("axis", int64_t{-1});
  m.output(m.node("MatMul", {weights, repeat(m, v, batch)}));
  return operators_after(m);
}

ValueId expanded(GraphMaker& m, ValueId x, ValueId batch) {
  const ValueId shape = concat(m, {batch, m.ints({2, 3, 5, 4})}, 0);
  const ValueId wide = m.node("Expand", {m.node("Unsqueeze", {x, m.ints({2})}), shape});
  return m.node("Reshape", {wide, concat(m, {batch, m.ints({6, 5, 4})}, 0)});
}

TEST(Decoder, HeadsThatShareKeys) {
  const std::vector<std::string> few = {"B", "2", "5", "4"};
  EXPECT_EQ(attention_after(expanded, few), "tenon.Attention");
  EXPECT_EQ(attention_after(expanded, few, 2), "tenon.Attention");
  EXPECT_EQ(attention_after(
                [](GraphMaker& m, ValueId x, ValueId batch) {
                  const ValueId wide = m.node("Tile", {m.node("Unsqueeze", {x, m.ints({2})}), m.ints({1, 1, 3, 1, 1})});
                  return m.node("Reshape", {wide, concat(m, {batch, m.ints({6, 5, 4})}, 0)});
                },
                few),
            "tenon.Attention");
  const auto gathered = [](std::vector<int64_t> heads) {
    return [heads](GraphMaker& m, ValueId x, ValueId) {
      const ValueId y = m.node("Gather", {x, m.ints(heads)});
      m.set("axis", int64_t{1});
      return y;
    };
  };
  EXPECT_EQ(attention_after(gathered({0, 0, 0, 1, 1, 1}), few), "tenon.Attention");
  EXPECT_EQ(attention_after(gathered({0, 1, 0, 1, 0, 1}), few), "Gather Gather tenon.Attention");
  // All of them one.
  EXPECT_EQ(
      attention_after([](GraphMaker& m, ValueId x,
                         ValueId batch) { return m.node("Expand", {x, concat(m, {batch, m.ints({6, 5, 4})}, 0)}); },
                      {"B", "1", "5", "4"}),
      "tenon.Attention");
}

// Heads one behind another, not each of them several times; and positions that repeat.
TEST(Decoder, HeadsThatRepeatInAnotherOrderStay) {
  EXPECT_EQ(attention_after([](GraphMaker& m, ValueId x, ValueId) { return m.node("Tile", {x, m.ints({1, 3, 1, 1})}); },
                            {"B", "2", "5", "4"}),
            "Tile Tile tenon.Attention");
  EXPECT_EQ(attention_after(
                [](GraphMaker& m, ValueId x, ValueId batch) {
                  const ValueId shape = concat(m, {batch, m.ints({3, 2, 5, 4})}, 0);
                  const ValueId wide = m.node("Expand", {m.node("Unsqueeze", {x, m.ints({1})}), shape});
                  return m.node("Reshape", {wide, concat(m, {batch, m.ints({6, 5, 4})}, 0)});
                },
                {"B", "2", "5", "4"}),
            "Reshape Expand Reshape Reshape Expand Reshape tenon.Attention");
  EXPECT_EQ(
      attention_after([](GraphMaker& m, ValueId x,
                         ValueId batch) { return m.node("Expand", {x, concat(m, {batch, m.ints({6, 5, 4})}, 0)}); },
                      {"B", "6", "1", "4"}),
      "Expand Expand tenon.Attention");
}

}  // namespace
}  // namespace tenon
