// The families of operators that problem lines know: one row each, one source each.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "problems/case.h"
#include "problems/problem.h"

namespace tenon::problems {

// An option of a line: `name=value`, or `name` alone (kFlag).
struct Option {
  enum class Kind { kFlag, kInteger, kNumber, kIntegers, kNumbers, kWord, kPermutation };
  std::string_view name;
  Kind kind = Kind::kFlag;
  // For kWord, the words that it takes; a star in a line stands for all of them. Empty: any word. A star of a
  // permutation stands for each order of the first shape's axes.
  std::vector<std::string> words = {};
};

struct Family {
  std::string_view name;
  // Words that may follow the type, of which a line has one; empty: none. A star in a line stands for all of them.
  std::vector<std::string> operators;
  // Named sizes in the order in which they are printed. Those of the first entry make one word (n1c24h7w9).
  std::vector<std::vector<std::string>> sizes;
  size_t fewest_shapes = 0, most_shapes = 0;
  std::vector<Option> options;
  std::vector<DataType> types;
  // Adds inputs, nodes and expected outputs. Errors: kInvalidArgument for sizes that do not fit each other.
  Status (*build)(const Problem&, Case&);
};

std::span<const Family> families();
const Family* find_family(std::string_view name);
// Options of every family: how the model is made, and which kernel has to run.
std::span<const Option> common_options();

// One function a source, in the order in which families are listed.
#define TENON_PROBLEM_FAMILIES(X) \
  X(conv_families)                \
  X(conv_transpose_families)      \
  X(pool_families)                \
  X(matmul_families)              \
  X(matmul_integer_families)      \
  X(conv_integer_families)        \
  X(norm_families)                \
  X(softmax_families)             \
  X(reduce_families)              \
  X(unary_families)               \
  X(binary_families)              \
  X(move_families)                \
  X(index_families)               \
  X(resize_families)              \
  X(scan_families)                \
  X(attention_families)           \
  X(recurrent_families)           \
  X(quantize_families)            \
  X(einsum_families)
#define TENON_DECLARE_(function) std::vector<Family> function();
TENON_PROBLEM_FAMILIES(TENON_DECLARE_)
#undef TENON_DECLARE_

extern const std::vector<DataType> kFloats;    // f32 f16 bf16 f64
extern const std::vector<DataType> kIntegers;  // i8 u8 i16 u16 i32 u32 i64 u64
extern const std::vector<DataType> kNumbers;   // both
extern const std::vector<DataType> kAll;       // and bool

}  // namespace tenon::problems
