#include "cli/model_arguments.h"

#include <algorithm>
#include <charconv>
#include <cstring>
#include <random>
#include <set>

#include "cli/status.h"
#include "programs/npy.h"

namespace tenon::cli {
namespace {

// Splits at the last '=': names may contain one, numbers do not, and a path with one can be written with a name before
// it.
Result<std::pair<std::string, std::string>> split(const std::string& text, size_t at, const char* option,
                                                  const char* form) {
  if (at == std::string::npos || at == 0 || at + 1 == text.size())
    return invalid_argument("{} \"{}\" has not the form {}.", option, text, form);
  return std::pair(text.substr(0, at), text.substr(at + 1));
}

// IEEE half precision, rounded to nearest; what is subnormal there becomes zero. Enough for random values of moderate
// size: g++ 12 has _Float16 on x86 only.
uint16_t to_half(float value) {
  uint32_t bits = 0;
  std::memcpy(&bits, &value, sizeof bits);
  const uint32_t sign = bits >> 31 << 15, magnitude = bits & 0x7FFFFFFF;
  constexpr uint32_t kSmallestNormal = 0x38800000, kBias = (127 - 15) << 23;
  if (magnitude < kSmallestNormal) return static_cast<uint16_t>(sign);
  return static_cast<uint16_t>(sign | (magnitude - kBias + 0xFFF + (magnitude >> 13 & 1)) >> 13);
}

uint16_t to_bfloat16(float value) {
  uint32_t bits = 0;
  std::memcpy(&bits, &value, sizeof bits);
  return static_cast<uint16_t>((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16);
}

// " --dim A=N --dim B=N": the named dimensions of these values that `dims` leaves open, each once.
std::string open_dims(const std::vector<const ValueInfo*>& values, const std::map<std::string, int64_t>& dims) {
  std::string options;
  std::set<std::string> seen;
  for (const ValueInfo* value : values)
    for (size_t i = 0; i < value->dims.size(); ++i) {
      const std::string& name = value->dim_names[i];
      if (value->dims[i] < 0 && !name.empty() && !dims.contains(name) && seen.insert(name).second)
        options += format(" --dim {}=N", name);
    }
  return options;
}

Status missing_inputs(const std::vector<const ValueInfo*>& missing, const std::map<std::string, int64_t>& dims) {
  std::string list;
  for (const ValueInfo* info : missing)
    list += format("{}{} {}", list.empty() ? "" : ", ", info->name, info->to_string());
  return invalid_argument(
      "These inputs have no values: {}. Give {} with --input {}=FILE.npy, or random ones with --random{}.", list,
      missing.size() == 1 ? "them" : "each one's", missing[0]->name, open_dims(missing, dims));
}

template <typename T, typename Make>
void fill(const Tensor& tensor, const Make& make) {
  std::generate_n(tensor.data_as<T>(), tensor.size_bytes() / sizeof(T), make);
}

}  // namespace

void ModelArguments::add_model(CLI::App& command) {
  command.add_option("model", model, "The model's file (.onnx)")->required();
  command.add_flag("--json", json, "Print one JSON object");
}

void ModelArguments::add_dims(CLI::App& command) {
  command.add_option("--dim", dims, "NAME=N: fixes a symbolic dimension; may be repeated")
      ->type_name("NAME=N")
      ->allow_extra_args(false);
}

void ModelArguments::add_inputs(CLI::App& command) {
  command.add_option("--input", inputs, "NAME=FILE.npy: an input's values; may be repeated")
      ->type_name("NAME=FILE")
      ->allow_extra_args(false);
}

void ModelArguments::add_seed(CLI::App& command) { command.add_option("--seed", seed, "Seed of random inputs"); }

void ModelArguments::add_threads(CLI::App& command) {
  command.add_option("--threads", threads, "Threads, the caller's included; 0: one for each CPU")
      ->check(CLI::Range(0, 1024));
}

void ModelArguments::add_strict(CLI::App& command) {
  command.add_flag("--strict", strict, "Strict mode: a copy that a run would need is an error");
}

void ModelArguments::add_without(CLI::App& command) {
  command.add_option("--without", without, "Leave this pass out, or all of them; may be repeated")
      ->type_name("PASS|all")
      ->allow_extra_args(false);
}

void ModelArguments::add_kernels(CLI::App& command) {
  command.add_flag("--reference-kernels", reference_kernels, "Only the plain kernels of the CPU EP: slow");
  command.add_flag("--no-winograd", no_winograd, "No Winograd for 3x3 convolutions: slower, more exact");
}

void ModelArguments::add_for_runs(CLI::App& command) {
  add_model(command);
  add_inputs(command);
  add_seed(command);
  add_dims(command);
  add_threads(command);
  add_strict(command);
  add_without(command);
  add_plugins(command);
  add_eps(command);
}

Result<SessionOptions> ModelArguments::session_options() const {
  TENON_TRY(load_plugins());
  SessionOptions options;
  TENON_TRY_ASSIGN(options.eps, choices());
  TENON_TRY(check_plugins_used());
  options.threads = threads;
  options.disallow_copies = strict;
  options.disabled_passes = without;
  options.reference_kernels = reference_kernels;
  options.winograd = !no_winograd;
  for (const std::string& dim : dims) {
    TENON_TRY_ASSIGN(const auto pair, split(dim, dim.rfind('='), "--dim", "NAME=N"));
    int64_t value = 0;
    const char* end = pair.second.data() + pair.second.size();
    const auto [stop, error] = std::from_chars(pair.second.data(), end, value);
    if (error != std::errc() || stop != end || value < 0)
      return invalid_argument("--dim \"{}\" gives {} no whole number from 0 on.", dim, pair.first);
    if (!options.dims.emplace(pair.first, value).second)
      return invalid_argument("--dim gives \"{}\" twice.", pair.first);
  }
  return options;
}

Result<std::vector<std::pair<std::string, Tensor>>> ModelArguments::given_inputs(const Session& session) const {
  std::vector<std::pair<std::string, Tensor>> given;
  for (const std::string& input : inputs) {
    // An input's name may hold a '=' too: take the split whose name the model knows, else the first.
    size_t at = input.find('=');
    for (size_t i = at; i != std::string::npos; i = input.find('=', i + 1)) {
      const auto known = std::any_of(session.inputs().begin(), session.inputs().end(),
                                     [&](const ValueInfo& info) { return info.name == input.substr(0, i); });
      if (known) at = i;
    }
    TENON_TRY_ASSIGN(const auto pair, split(input, at, "--input", "NAME=FILE.npy"));
    const auto same_name = [&pair](const auto& other) { return other.first == pair.first; };
    if (std::any_of(given.begin(), given.end(), same_name))
      return invalid_argument("--input gives \"{}\" twice.", pair.first);
    std::string names;
    bool known = false;
    for (const ValueInfo& info : session.inputs()) {
      known = known || info.name == pair.first;
      names += format("{}\"{}\"", names.empty() ? "" : ", ", info.name);
    }
    if (!known)
      return not_found("The model has no input \"{}\"; it has {}.", pair.first, names.empty() ? "none" : names);
    Result<Tensor> tensor = read_npy(pair.second);
    if (!tensor.ok()) return std::move(tensor).status().with_context(format("for input \"{}\"", pair.first));
    given.emplace_back(pair.first, *std::move(tensor));
  }
  return given;
}

Result<std::vector<std::pair<std::string, Tensor>>> ModelArguments::read_inputs(const Session& session,
                                                                                bool fill) const {
  TENON_TRY_ASSIGN(const auto given, given_inputs(session));
  std::vector<std::pair<std::string, Tensor>> all;
  std::vector<const ValueInfo*> missing;
  for (size_t i = 0; i < session.inputs().size(); ++i) {
    const ValueInfo& info = session.inputs()[i];
    const auto found =
        std::find_if(given.begin(), given.end(), [&](const auto& pair) { return pair.first == info.name; });
    if (found != given.end()) {
      all.push_back(*found);
    } else if (fill) {
      TENON_TRY_ASSIGN(const Shape shape, fixed_shape(info, session.options().dims, /*takes_input=*/true));
      Result<Tensor> tensor = random_tensor(info.type, shape, seed + i);
      if (!tensor.ok()) return std::move(tensor).status().with_context(format("for input \"{}\"", info.name));
      all.emplace_back(info.name, *std::move(tensor));
    } else {
      missing.push_back(&info);
    }
  }
  if (!missing.empty()) return missing_inputs(missing, session.options().dims);
  return all;
}

Result<Shape> fixed_shape(const ValueInfo& info, const std::map<std::string, int64_t>& dims, bool takes_input) {
  const std::string values = takes_input ? format("give its values with --input {}=FILE.npy", info.name) : "";
  if (!info.has_shape)
    return invalid_argument("\"{}\" has no shape in the model{}.", info.name, takes_input ? "; " + values : "");
  if (info.dims.size() > static_cast<size_t>(Shape::kMaxRank))
    return invalid_argument("\"{}\" has {} dimensions; {} are the most.", info.name, info.dims.size(), Shape::kMaxRank);
  const std::string options = open_dims({&info}, dims);
  if (!options.empty())
    return invalid_argument("The size of \"{}\" {} is open: fix it with{}{}.", info.name, info.to_string(), options,
                            takes_input ? ", or " + values : "");
  Shape shape;
  for (size_t i = 0; i < info.dims.size(); ++i) {
    if (info.dims[i] < 0 && info.dim_names[i].empty())
      return invalid_argument("Dimension {} of \"{}\" {} is open and has no name for --dim{}.", i, info.name,
                              info.to_string(), takes_input ? "; " + values : "");
    shape.push_back(info.dims[i] >= 0 ? info.dims[i] : dims.at(info.dim_names[i]));
  }
  return shape;
}

Result<Tensor> random_tensor(DataType type, const Shape& shape, uint64_t seed) {
  TENON_TRY_ASSIGN(Tensor tensor, Tensor::allocate(type, shape));
  std::mt19937_64 random(seed);
  std::normal_distribution<float> normal;
  const auto bit = [&random] { return static_cast<uint8_t>(random() & 1); };
  switch (type) {
    case DataType::kFloat:
      fill<float>(tensor, [&] { return normal(random); });
      return tensor;
    case DataType::kDouble:
      fill<double>(tensor, [&] { return normal(random); });
      return tensor;
    case DataType::kFloat16:
      fill<uint16_t>(tensor, [&] { return to_half(normal(random)); });
      return tensor;
    case DataType::kBfloat16:
      fill<uint16_t>(tensor, [&] { return to_bfloat16(normal(random)); });
      return tensor;
    case DataType::kUint8:
    case DataType::kInt8:
    case DataType::kBool:
      fill<uint8_t>(tensor, bit);
      return tensor;
    case DataType::kUint16:
    case DataType::kInt16:
      fill<uint16_t>(tensor, bit);
      return tensor;
    case DataType::kUint32:
    case DataType::kInt32:
      fill<uint32_t>(tensor, bit);
      return tensor;
    case DataType::kUint64:
    case DataType::kInt64:
      fill<uint64_t>(tensor, bit);
      return tensor;
    default:
      return unsupported("Random values of type {} are not made; give them with --input.", data_type_name(type));
  }
}

}  // namespace tenon::cli
