#include "ep/cuda/compute/codegen_map.h"

#include <functional>
#include <numeric>

#include "base/format.h"
#include "ep/cuda/compute/codegen_text.h"

namespace tenon::cuda {

Result<GeneratedKernel> generate_map(const GeneratedMap& map) {
  const int64_t count = std::accumulate(map.dims.begin(), map.dims.end(), int64_t{1}, std::multiplies<>());
  std::string parameters;
  for (const auto& [type, name] : map.reads) {
    TENON_UNSUPPORTED_IF(compute_type(type).empty(), "Kernels cannot read {}.", data_type_name(type));
    parameters += format("{}const {}* {}", parameters.empty() ? "" : ", ", storage_type(type), name);
  }
  for (const auto& [type, name] : map.writes) {
    TENON_UNSUPPORTED_IF(compute_type(type).empty(), "Kernels cannot make {}.", data_type_name(type));
    parameters += format("{}{}* {}", parameters.empty() ? "" : ", ", storage_type(type), name);
  }
  std::string text = format("({}) {{\n{}", parameters, index_types(map.wide || needs_wide_index(map.dims, {}, 0)));
  text += map.by_block ? "  begin_kernel();\n  const index_t flat = blockIdx.x;\n" : flat_index(count);
  if (!map.dims.empty()) text += split_index(map.dims, "i", "flat");
  text += map.body + "}\n";
  GeneratedKernel kernel{.name = hash_name(map.name.c_str(), text),
                         .threads = map.by_block && map.threads != 0 ? map.threads : kGeneratedThreads};
  kernel.source = format("extern \"C\" __global__ void __launch_bounds__({}) {}{}", kernel.threads, kernel.name, text);
  TENON_TRY_ASSIGN(kernel.blocks, blocks_of(count, map.by_block ? 1 : kGeneratedThreads));
  return kernel;
}

std::string dense_address(const std::vector<std::string>& names, const std::vector<int64_t>& dims) {
  std::string text;
  for (size_t d = 0; d < names.size(); ++d)
    text = d == 0 ? names[0] : format("({} * {} + {})", text, dims[d], names[d]);
  return text.empty() ? "0" : text;
}

std::vector<std::string> index_names(size_t rank, const char* variable) {
  std::vector<std::string> names;
  names.reserve(rank);
  for (size_t d = 0; d < rank; ++d) names.push_back(format("{}{}", variable, d));
  return names;
}

}  // namespace tenon::cuda
