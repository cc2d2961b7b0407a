// Operators that apply one function to each element, and the epilogues of internal operators: read from nodes and
// written back.
#pragma once

#include <span>
#include <string_view>

#include "base/status.h"
#include "graph/graph.h"
#include "ops/activation.h"

namespace tenon {

// Where a parameter of a formula comes from: an ONNX attribute, or a number.
struct UnaryParameter {
  std::string_view attribute;  // empty: `number`
  double number = 0;
  bool used = false;
};

// A row of activation_list.h.
struct UnaryRow {
  Unary function = Unary::kNone;
  std::string_view text;           // in tenon's `activation`; empty: no activation of an epilogue
  std::string_view operator_name;  // of ONNX; empty: none
  int since = 0;
  UnaryParameter alpha, beta;
  bool cheap = true;         // bounded by memory, not by arithmetic
  std::string_view formula;  // as the list spells it

  // The CPU EP has a vector loop for it.
  bool has_vector_loop() const { return static_cast<int>(function) < kVectorFunctionCount; }
};

// All rows, in the order of Unary.
std::span<const UnaryRow> unary_rows();
const UnaryRow& row_of(Unary function);
inline const UnaryRow& row_of(Activation activation) { return row_of(unary_of(activation)); }
// The row of an operator of ai.onnx, or null.
const UnaryRow* find_unary_row(std::string_view op_type);
// True for an operator of the list and for tenon.Activation.
bool is_unary(const Node& node);

// A function with its parameters (a and b of the formula).
struct UnaryDesc {
  Unary function = Unary::kNone;
  double alpha = 0, beta = 0;
};

// Reads a node for which is_unary holds: an operator of the list (Gelu with its `approximate`, ONNX Gelu 20) or
// tenon.Activation. Bounds that are inputs of Clip (from version 11 on) are not read: alpha and beta are then the
// lowest and the largest float32. Errors: invalid_argument for an unknown name of an activation or approximation.
Result<UnaryDesc> read_unary(const Node& node);

// The epilogue of tenon.Conv, tenon.ConvTranspose, tenon.MatMul or tenon.Activation; other operators have none. A
// parameter that is left out has the default of the activation's ONNX operator.
// Errors: invalid_argument for an activation that docs/reference/internal-operators.md does not have.
Result<Epilogue> read_epilogue(const Node& node);
// True if the internal node states an activation, also "none".
bool has_activation(const Node& node);
// Sets the attributes of `epilogue`'s activation on an internal node: its name, and the parameters that it uses.
void write_activation(Node& node, const Epilogue& epilogue);

// The function that `name` stands for in the attribute `activations` of LSTM, GRU and RNN, in any case of letters (as
// ONNX Runtime takes them), with its default parameters. `takes_alpha` and `takes_beta`: the lists `activation_alpha`
// and `activation_beta` have a value for it.
struct CellFunctionRow {
  UnaryDesc function;
  bool takes_alpha = false, takes_beta = false;
};
// Null if there is none.
const CellFunctionRow* find_cell_function(std::string_view name);

}  // namespace tenon
