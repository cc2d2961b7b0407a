// A folder of values that a run has made: .npy files, and values.json, which says which value each of them is.
#pragma once

#include <tenon/node_values.h>
#include <tenon/session.h>

#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "cli/model_values.h"

namespace tenon::cli {

// Writes each value when it is given, so that a run's values never lie in memory together. A type that NumPy lacks is
// written as the bits of an unsigned type.
class KeptWriter {
 public:
  // The folder exists.
  explicit KeptWriter(std::string folder) : folder_(std::move(folder)) {}
  Status add_inputs(const std::vector<std::pair<std::string, Tensor>>& inputs);
  Status add(const NodeValue& value);
  // The number of values.
  size_t size() const { return values_.size(); }
  // Writes values.json. `absent`: values that the run has not made, with the reason.
  Status finish(const std::string& model, const std::vector<std::pair<ValueName, std::string>>& absent) const;

 private:
  std::string folder_;
  nlohmann::ordered_json inputs_ = nlohmann::ordered_json::array();
  nlohmann::ordered_json values_ = nlohmann::ordered_json::array();
};

class KeptValues {
 public:
  using Key = std::pair<ValueName, int64_t>;  // and the occurrence

  // Errors: kNotFound for a folder without values.json; kInvalidArgument for one that says something else.
  static Result<KeptValues> read(const std::string& folder);
  bool contains(const Key& key) const { return files_.contains(key); }
  bool contains_name(const ValueName& name) const;
  size_t size() const { return files_.size(); }
  Result<Tensor> load(const Key& key) const;
  Result<std::vector<std::pair<std::string, Tensor>>> load_inputs() const;

 private:
  struct File {
    std::string name;
    DataType type = DataType::kUndefined;
    Shape shape;
  };
  Result<File> parse(const nlohmann::json& entry) const;
  Result<Tensor> load(const File& file) const;

  std::string folder_;
  std::map<Key, File> files_;
  std::vector<std::pair<std::string, File>> inputs_;
};

// A folder for values that nobody wants to keep; removed with what it holds.
class TemporaryFolder {
 public:
  static Result<TemporaryFolder> make();
  ~TemporaryFolder();
  TemporaryFolder(TemporaryFolder&& other) noexcept : path_(std::exchange(other.path_, {})) {}
  TemporaryFolder& operator=(TemporaryFolder&&) = delete;
  const std::string& path() const { return path_; }

 private:
  explicit TemporaryFolder(std::string path) : path_(std::move(path)) {}
  std::string path_;
};

}  // namespace tenon::cli
