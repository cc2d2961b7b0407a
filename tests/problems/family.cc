#include "problems/family.h"

namespace tenon::problems {

const std::vector<DataType> kFloats = {DataType::kFloat, DataType::kFloat16, DataType::kBfloat16, DataType::kDouble};
const std::vector<DataType> kIntegers = {DataType::kInt8,  DataType::kUint8,  DataType::kInt16, DataType::kUint16,
                                         DataType::kInt32, DataType::kUint32, DataType::kInt64, DataType::kUint64};

namespace {

std::vector<DataType> joined(std::vector<DataType> types, const std::vector<DataType>& more) {
  types.insert(types.end(), more.begin(), more.end());
  return types;
}

}  // namespace

const std::vector<DataType> kNumbers = joined(kFloats, kIntegers);
const std::vector<DataType> kAll = joined(kNumbers, {DataType::kBool});

std::span<const Family> families() {
  static const std::vector<Family> all = [] {
    std::vector<Family> joined;
    const auto add = [&](const std::vector<Family>& made) { joined.insert(joined.end(), made.begin(), made.end()); };
#define TENON_ADD_(function) add(function());
    TENON_PROBLEM_FAMILIES(TENON_ADD_)
#undef TENON_ADD_
    return joined;
  }();
  return all;
}

const Family* find_family(std::string_view name) {
  for (const Family& family : families())
    if (family.name == name) return &family;
  return nullptr;
}

std::span<const Option> common_options() {
  static const std::vector<Option> options = {
      {"range", Option::Kind::kNumbers},  // of the inputs that runs give
      {"opset", Option::Kind::kInteger},
      {"dynamic"},                   // the dimensions of inputs are symbols
      {"weights"},                   // constants are inputs
      {"shapes"},                    // axes, pads and sizes are inputs
      {"transposed"},                // data come through a Transpose
      {"channels_last"},             // data come through a Transpose from images with channels last
      {"sliced"},                    // data come through a Slice
      {"computed"},                  // data and residuals come from a node, whose memory an operator may overwrite
      {"blocked"},                   // data come from a convolution, in blocks of channels
      {"cpu", Option::Kind::kWord},  // the kernel that has to be in the CPU EP's plan
  };
  return options;
}

}  // namespace tenon::problems
