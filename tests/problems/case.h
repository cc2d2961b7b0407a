// The model of one problem, its inputs and its expected outputs.
#pragma once

#include <tenon/tensor.h>

#include <initializer_list>
#include <map>
#include <random>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "problems/array.h"
#include "problems/problem.h"

namespace tenon::problems {

// A value of the model with its numbers. A default one is an input that is left out.
struct Value {
  std::string name;
  Array data;
};

// The role of an operand decides whether a run gives it or the model holds it.
enum class Role {
  kData,    // an input of the model
  kWeight,  // a constant; with the flag `weights` an input
  kShape,   // a constant that shapes depend on (axes, pads, sizes); with the flag `shapes` an input
};

class Case {
 public:
  Case(const Problem& problem, uint64_t seed);

  // Random numbers of [low, high], whole ones for integer types, as they are in `type`.
  Value random(const std::string& name, DataType type, const Dims& dims, double low, double high,
               Role role = Role::kData);
  // Of the problem's type, from the range of the line (`range=low,high`), else of the arguments. With the flag
  // `transposed` the numbers come through a Transpose, with `sliced` through a Slice: memory that a plan may leave
  // where it is. With `computed` they come from a Neg, with `blocked` from a convolution with the identity.
  Value data(const std::string& name, const Dims& dims, double low = -1, double high = 1);
  Value weight(const std::string& name, const Dims& dims, double low = -1, double high = 1);
  Value values(const std::string& name, DataType type, const Dims& dims, const std::vector<double>& values, Role role);
  Value integers(const std::string& name, const Dims& values, Role role = Role::kShape);
  // A node with one output, whose name is given back. Attributes are serialised (graph/model_writer.h).
  std::string node(const std::string& op, const std::vector<std::string>& inputs,
                   const std::vector<std::string>& attributes = {});
  std::vector<std::string> nodes(const std::string& op, const std::vector<std::string>& inputs, size_t outputs,
                                 const std::vector<std::string>& attributes = {});
  // An output of the model and its numbers.
  void expect(const std::string& name, Array wanted);

  // The nodes that follow a product: bias is the family's; `act=` and `residual=` of the line. Gives the output's name
  // and numbers.
  Value epilogue(Value z);

  // The newest opset that all stock versions under test run.
  static constexpr int kNewestStock = 21;
  int opset() const { return opset_; }
  // Raises the opset of the model where the line states none.
  void needs_opset(int opset);

  struct Feed {
    std::string name;
    DataType type;
    Dims dims;
    std::vector<std::byte> bytes;
  };
  const std::vector<Feed>& feeds() const { return feeds_; }
  const std::vector<Value>& expected() const { return expected_; }
  std::string model() const;

 private:
  Value computed(const Value& from);
  Value add(const std::string& name, Array data, Role role);

  const Problem& problem_;
  std::mt19937_64 random_;
  int opset_ = kNewestStock;
  std::vector<std::string> nodes_, initializers_, inputs_, outputs_;
  std::vector<Feed> feeds_;
  std::vector<Value> expected_;
};

// Read from the operator's schema at `opset`, or where that has none yet, at the newest: the default of a float
// attribute, and whether the first input may be of `type`.
double schema_default(std::string_view op, std::string_view attribute, int opset = Case::kNewestStock);
bool schema_takes(std::string_view op, DataType type, int opset = Case::kNewestStock);

// The function that `act=` names ("relu", "clip:-0.25:0.5"), in double.
Result<std::function<double(double)>> activation_of(const std::string& word);
std::vector<std::string> activation_words();

}  // namespace tenon::problems
