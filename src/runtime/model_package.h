// Model packages: folders with a manifest.json that names components, whose variants hold one model for different EPs.
// The format is ONNX Runtime's, schema version 1.
//
// Ownership: a value; it keeps nothing of the folder open. Threads: const access from any.
// Errors: kInvalidArgument with ONNX Runtime's words for what is wrong in which file. A package of layout "portable"
// names nothing outside of its folder, neither by ".." nor by links.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/json_value.h"
#include "base/status.h"

namespace tenon {

using PackageEntries = std::vector<std::pair<std::string, std::string>>;

struct PackageVariant {
  std::string name;
  std::string folder;  // "" when there is none
  std::optional<std::string> ep;
  std::string device;  // "cpu", "gpu" or "npu"; "": any
  std::string compatibility;
  // What the variant says to ONNX Runtime (executor_info["ort"]). Paths are resolved; they need not be there.
  std::string model_file;  // "" when it says nothing
  PackageEntries session_options;
  PackageEntries provider_options;
};

struct PackageComponent {
  std::string name;
  std::vector<PackageVariant> variants;

  const PackageVariant* find(std::string_view variant) const;
};

// The session options whose values are paths.
bool is_package_path_option(std::string_view key);

class ModelPackage {
 public:
  static Result<ModelPackage> open(const std::string& folder);

  int64_t schema_version() const { return schema_version_; }  // the major one
  const std::vector<PackageComponent>& components() const { return components_; }
  const PackageComponent* find(std::string_view component) const;

  // An absolute path for "sha256:<hex>", "sha256:<hex>/path", or a path from `base` (null: the package's folder).
  Result<std::string> resolve(const char* base, const std::string& input, bool must_exist) const;

 private:
  Status read(const std::string& folder);
  Status read_version(const JsonValue& manifest);
  Status read_component(const std::string& name, const JsonValue& value);
  Result<PackageVariant> read_variant(const std::string& name, const JsonValue& value,
                                      const std::string& component_folder, const std::string& component) const;
  Status read_executor_info(const JsonValue& info, const std::string& component, PackageVariant& variant) const;
  Status read_ort_info(const JsonValue& info, const std::string& component, PackageVariant& variant) const;
  Status read_assets(const JsonValue& manifest);

  std::string root_;
  bool external_ = false;  // layout "installed": paths may lead out of the folder
  int64_t schema_version_ = 0;
  bool newer_ = false;  // a minor version above 0, whose further members are ignored
  std::vector<PackageComponent> components_;
  std::map<std::string, std::string, std::less<>> assets_;  // folders by "sha256:<hex>"
};

}  // namespace tenon
