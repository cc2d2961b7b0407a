#include "cli/kept_values.h"

#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <system_error>

#include "cli/status.h"
#include "programs/npy.h"
#include "programs/output.h"

namespace tenon::cli {
namespace {

constexpr const char* kIndex = "values.json";

// Names of values may hold anything; file names hold what every file system and shell takes.
std::string file_name(size_t number, const std::string& name) {
  std::string safe;
  for (const char c : name.substr(0, 60)) {
    const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-';
    safe += plain ? c : '_';
  }
  return format("{:05}-{}.npy", number, safe);
}

// The same bytes in a type that NumPy has.
Result<Tensor> as_numpy(const Tensor& tensor) {
  switch (tensor.type()) {
    case DataType::kBfloat16:
      return tensor.reinterpret(DataType::kUint16, tensor.shape());
    case DataType::kFloat8E4M3FN:
    case DataType::kFloat8E4M3FNUZ:
    case DataType::kFloat8E5M2:
    case DataType::kFloat8E5M2FNUZ:
    case DataType::kFloat8E8M0:
      return tensor.reinterpret(DataType::kUint8, tensor.shape());
    default:
      break;
  }
  if (data_type_size(tensor.type()) > 0) return tensor;
  return tensor.reinterpret(DataType::kUint8, Shape{static_cast<int64_t>(tensor.size_bytes())});
}

Result<nlohmann::ordered_json> write(const std::string& folder, const std::string& file, const std::string& name,
                                     const Tensor& tensor) {
  TENON_TRY_ASSIGN(const Tensor stored, as_numpy(tensor));
  TENON_TRY(write_npy(folder + "/" + file, stored));
  nlohmann::ordered_json entry = {
      {"name", name}, {"dtype", data_type_name(tensor.type())}, {"shape", tensor.shape().dims()}, {"file", file}};
  if (stored.type() != tensor.type()) entry["stored_as"] = data_type_name(stored.type());
  return entry;
}

DataType type_named(const std::string& name) {
  for (int32_t type = 1; data_type_bits(static_cast<DataType>(type)) > 0; ++type)
    if (data_type_name(static_cast<DataType>(type)) == name) return static_cast<DataType>(type);
  return DataType::kUndefined;
}

}  // namespace

Status KeptWriter::add_inputs(const std::vector<std::pair<std::string, Tensor>>& inputs) {
  for (size_t i = 0; i < inputs.size(); ++i) {
    TENON_TRY_ASSIGN(auto entry, write(folder_, format("input-{}.npy", i), inputs[i].first, inputs[i].second));
    inputs_.push_back(std::move(entry));
  }
  return {};
}

Status KeptWriter::add(const NodeValue& value) {
  TENON_TRY_ASSIGN(auto entry, write(folder_, file_name(values_.size(), value.name), value.name, value.tensor));
  if (!value.body.empty()) {
    entry["body"] = value.body;
    entry["occurrence"] = value.occurrence;
  }
  if (!value.op_type.empty()) entry["node"] = {{"name", value.node}, {"op_type", value.op_type}};
  if (!value.model_nodes.empty()) entry["model_nodes"] = value.model_nodes;
  entry["kernel"] = value.kernel;
  values_.push_back(std::move(entry));
  return {};
}

Status KeptWriter::finish(const std::string& model,
                          const std::vector<std::pair<ValueName, std::string>>& absent) const {
  auto left_out = nlohmann::ordered_json::array();
  for (const auto& [name, why] : absent) {
    left_out.push_back({{"name", name.second}, {"why", why}});
    if (!name.first.empty()) left_out.back()["body"] = name.first;
  }
  const nlohmann::ordered_json index = {
      {"model", model}, {"inputs", inputs_}, {"values", values_}, {"not_computed", left_out}};
  return write_text(folder_ + "/" + kIndex,
                    index.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n");
}

Result<KeptValues::File> KeptValues::parse(const nlohmann::json& entry) const {
  const std::string path = folder_ + "/" + kIndex;
  const auto text = [&](const char* key) {
    return entry.is_object() && entry.contains(key) && entry[key].is_string() ? entry[key].get<std::string>() : "";
  };
  File file{.name = text("file"), .type = type_named(text("dtype"))};
  if (file.name.empty() || file.name.find('/') != std::string::npos)
    return invalid_argument("\"{}\" has a value without a \"file\" in its own folder.", path);
  if (file.type == DataType::kUndefined || !entry.contains("shape") || !entry["shape"].is_array())
    return invalid_argument("\"{}\" says for \"{}\" no \"dtype\" or no \"shape\" that a tensor can have.", path,
                            file.name);
  for (const auto& dim : entry["shape"]) {
    if (!dim.is_number_integer() || dim.get<int64_t>() < 0 || file.shape.rank() == Shape::kMaxRank)
      return invalid_argument("\"{}\" says for \"{}\" no \"shape\" that a tensor can have.", path, file.name);
    file.shape.push_back(dim.get<int64_t>());
  }
  return file;
}

Result<KeptValues> KeptValues::read(const std::string& folder) {
  KeptValues values;
  values.folder_ = folder;
  const std::string path = folder + "/" + kIndex;
  std::ifstream stream(path);
  if (!stream)
    return not_found("The folder \"{}\" has no {}; tenon run --keep all --output-dir writes one.", folder, kIndex);
  const auto index = nlohmann::json::parse(stream, nullptr, /*allow_exceptions=*/false);
  if (!index.is_object() || !index.contains("values") || !index["values"].is_array())
    return invalid_argument("\"{}\" is no list of values, as tenon run --keep writes it.", path);
  for (const auto& entry : index["values"]) {
    TENON_TRY_ASSIGN(File file, values.parse(entry));
    const auto name = entry.contains("name") && entry["name"].is_string() ? entry["name"].get<std::string>() : "";
    const auto body = entry.contains("body") && entry["body"].is_string() ? entry["body"].get<std::string>() : "";
    const bool counted = entry.contains("occurrence") && entry["occurrence"].is_number_integer();
    if (name.empty()) return invalid_argument("\"{}\" has a value without a \"name\".", path);
    values.files_.emplace(Key(ValueName(body, name), counted ? entry["occurrence"].get<int64_t>() : 0),
                          std::move(file));
  }
  if (!index.contains("inputs") || !index["inputs"].is_array()) return values;
  for (const auto& entry : index["inputs"]) {
    TENON_TRY_ASSIGN(File file, values.parse(entry));
    if (!entry.contains("name") || !entry["name"].is_string())
      return invalid_argument("\"{}\" has an input without a \"name\".", path);
    values.inputs_.emplace_back(entry["name"].get<std::string>(), std::move(file));
  }
  return values;
}

bool KeptValues::contains_name(const ValueName& name) const {
  const auto found = files_.lower_bound(Key(name, 0));
  return found != files_.end() && found->first.first == name;
}

Result<Tensor> KeptValues::load(const File& file) const {
  TENON_TRY_ASSIGN(const Tensor stored, read_npy(folder_ + "/" + file.name));
  Result<Tensor> tensor = stored.reinterpret(file.type, file.shape);
  if (!tensor.ok() || tensor->size_bytes() != stored.size_bytes())
    return invalid_argument("\"{}/{}\" holds {}{}, and {} says {}{}.", folder_, file.name,
                            data_type_name(stored.type()), stored.shape().to_string(), kIndex,
                            data_type_name(file.type), file.shape.to_string());
  return tensor;
}

Result<Tensor> KeptValues::load(const Key& key) const { return load(files_.at(key)); }

Result<std::vector<std::pair<std::string, Tensor>>> KeptValues::load_inputs() const {
  std::vector<std::pair<std::string, Tensor>> inputs;
  for (const auto& [name, file] : inputs_) {
    TENON_TRY_ASSIGN(Tensor tensor, load(file));
    inputs.emplace_back(name, std::move(tensor));
  }
  return inputs;
}

Result<TemporaryFolder> TemporaryFolder::make() {
  std::error_code error;
  const std::filesystem::path parent = std::filesystem::temp_directory_path(error);
  if (error) return not_found("There is no folder for temporary files: {}.", error.message());
  std::string path = (parent / "tenon-values-XXXXXX").string();
  if (mkdtemp(path.data()) == nullptr)
    return not_found("No folder can be made in \"{}\": {}.", parent.string(), errno_text("mkdtemp", errno));
  return TemporaryFolder(std::move(path));
}

TemporaryFolder::~TemporaryFolder() {
  std::error_code ignored;
  if (!path_.empty()) std::filesystem::remove_all(path_, ignored);
}

}  // namespace tenon::cli
