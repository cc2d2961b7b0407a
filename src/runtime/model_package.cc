#include "runtime/model_package.h"

#include <dirent.h>
#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <memory>

#include "base/format.h"
#include "graph/mapped_file.h"

namespace tenon {

namespace {

constexpr int64_t kSchemaVersion = 1;
constexpr std::string_view kAssetPrefix = "sha256:";
constexpr size_t kAssetDigits = 64;

bool is_there(const std::string& path) {
  struct stat info;
  return ::stat(path.c_str(), &info) == 0;
}
bool is_folder(const std::string& path) {
  struct stat info;
  return ::stat(path.c_str(), &info) == 0 && S_ISDIR(info.st_mode);
}

Result<std::string> real_path(const std::string& path) {
  const std::unique_ptr<char, void (*)(void*)> real(::realpath(path.c_str(), nullptr), std::free);
  TENON_INVALID_IF(real == nullptr, "The path '{}' cannot be followed.", path);
  return std::string(real.get());
}

std::vector<std::string_view> segments_of(std::string_view path) {
  std::vector<std::string_view> segments;
  while (!path.empty()) {
    const size_t end = std::min(path.find('/'), path.size());
    if (end > 0) segments.push_back(path.substr(0, end));
    path.remove_prefix(std::min(end + 1, path.size()));
  }
  return segments;
}

// Without ".", "..", and empty segments, as far as the text alone tells.
std::string normal(const std::string& path) {
  std::vector<std::string_view> kept;
  for (const std::string_view segment : segments_of(path)) {
    if (segment == ".") continue;
    if (segment == ".." && !kept.empty() && kept.back() != "..") {
      kept.pop_back();
      continue;
    }
    kept.push_back(segment);
  }
  std::string made;
  for (const std::string_view segment : kept) made.append(1, '/').append(segment);
  if (!path.starts_with('/') && !made.empty()) made.erase(0, 1);
  return made.empty() ? "/" : made;
}

bool is_within(const std::string& path, const std::string& folder) {
  return path == folder || (path.starts_with(folder) && path[folder.size()] == '/') || folder == "/";
}

// `base` is a folder. Without `external` the result lies in `root`.
Result<std::string> resolve_path(const std::string& base, const std::string& root, const std::string& input,
                                 bool external, bool must_exist) {
  TENON_INVALID_IF(input.empty(), "ResolvePath: input must not be empty.");
  TENON_INVALID_IF(input.find('\0') != std::string::npos, "ResolvePath: a path has a zero byte.");
  const bool absolute = input.front() == '/';
  TENON_INVALID_IF(absolute && !external,
                   "ResolvePath: absolute or drive-rooted path '{}' is not allowed in portable layout.", input);
  const auto segments = segments_of(input);
  TENON_INVALID_IF(!external && std::find(segments.begin(), segments.end(), "..") != segments.end(),
                   "ResolvePath: '..' segments are not allowed in portable layout: '{}'.", input);
  const std::string joined = absolute ? input : base + "/" + input;
  const bool there = is_there(joined);
  TENON_INVALID_IF(!there && must_exist, "ResolvePath: '{}' does not exist.", joined);
  std::string path = normal(joined);
  if (there) {
    TENON_TRY_ASSIGN(path, real_path(joined));
  }
  TENON_INVALID_IF(!external && !is_within(path, root), "ResolvePath: '{}' escapes package_root '{}'.", path, root);
  return path;
}

bool is_asset(std::string_view uri) {
  if (!uri.starts_with(kAssetPrefix) || uri.size() != kAssetPrefix.size() + kAssetDigits) return false;
  const std::string_view digits = uri.substr(kAssetPrefix.size());
  return std::all_of(digits.begin(), digits.end(),
                     [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); });
}

Result<JsonValue> read_json(const std::string& path) {
  TENON_TRY_ASSIGN(const std::shared_ptr<const MappedFile> file, MappedFile::open(path));
  const std::span<const std::byte> bytes = file->bytes();
  Result<JsonValue> value = JsonValue::parse({reinterpret_cast<const char*>(bytes.data()), bytes.size()});
  if (value.ok()) return value;
  return std::move(value).status().with_context(format("while reading '{}'", path));
}

// Versions with another minor number may have members that are not known here.
Status check_members(const JsonValue& value, std::span<const std::string_view> known, std::string_view where,
                     bool newer) {
  TENON_INVALID_IF(!value.is_object(), "{}: expected a JSON object.", where);
  if (newer) return Status();
  for (const auto& [name, member] : value.members)
    TENON_INVALID_IF(std::find(known.begin(), known.end(), name) == known.end(), "{}: unknown field '{}'.", where,
                     name);
  return Status();
}

// The text of a member that may be absent.
Result<std::optional<std::string>> text_member(const JsonValue& value, std::string_view name, std::string_view where) {
  const JsonValue* member = value.find(name);
  if (member == nullptr) return std::optional<std::string>();
  TENON_INVALID_IF(!member->is_string(), "{}: '{}' must be a string.", where, name);
  return std::optional(member->text);
}

Result<PackageEntries> entries_of(const JsonValue& info, std::string_view name, std::string_view where) {
  PackageEntries entries;
  const JsonValue* member = info.find(name);
  if (member == nullptr) return entries;
  TENON_INVALID_IF(!member->is_object(), "ORT variant configuration: '{}' must be a JSON object for {}", name, where);
  for (const auto& [key, value] : member->members) {
    TENON_INVALID_IF(!value.is_string(), "ORT variant configuration: '{}' entries must be strings for {}", name, where);
    TENON_INVALID_IF(key.find('\0') != std::string::npos,
                     "ORT variant configuration: '{}' entry keys must not contain embedded NUL characters for {}", name,
                     where);
    entries.emplace_back(key, value.text);
  }
  return entries;
}

}  // namespace

bool is_package_path_option(std::string_view key) {
  return key == "session.model_external_initializers_file_folder_path" || key == "ep.context_file_path";
}

const PackageVariant* PackageComponent::find(std::string_view variant) const {
  for (const PackageVariant& one : variants)
    if (one.name == variant) return &one;
  return nullptr;
}

const PackageComponent* ModelPackage::find(std::string_view component) const {
  for (const PackageComponent& one : components_)
    if (one.name == component) return &one;
  return nullptr;
}

Result<ModelPackage> ModelPackage::open(const std::string& folder) {
  ModelPackage package;
  Status read = package.read(folder);
  if (read.ok()) return package;
  return invalid_argument("Failed to open model package at '{}': {}", folder, read.message());
}

Status ModelPackage::read(const std::string& folder) {
  TENON_INVALID_IF(!is_folder(folder), "package_root '{}' is not a directory.", folder);
  TENON_TRY_ASSIGN(root_, real_path(folder));
  TENON_TRY_ASSIGN(const JsonValue manifest, read_json(root_ + "/manifest.json"));
  constexpr std::array<std::string_view, 8> kKnown = {
      "schema_version", "package_name", "package_version", "description",
      "layout",         "components",   "shared_assets",   "additional_metadata"};
  TENON_TRY(read_version(manifest));
  TENON_TRY(check_members(manifest, kKnown, "manifest", newer_));
  for (const std::string_view name : {"package_name", "package_version", "description"}) {
    TENON_TRY_ASSIGN(const auto unused, text_member(manifest, name, "manifest"));
    (void)unused;
  }
  TENON_TRY_ASSIGN(const auto layout, text_member(manifest, "layout", "manifest"));
  TENON_INVALID_IF(layout && *layout != "portable" && *layout != "installed",
                   "manifest: 'layout' must be 'portable' or 'installed'.");
  external_ = layout && *layout == "installed";
  TENON_TRY(read_assets(manifest));
  const JsonValue* components = manifest.find("components");
  TENON_INVALID_IF(components == nullptr, "manifest: missing required 'components' object.");
  TENON_INVALID_IF(!components->is_object(), "manifest: 'components' must be an object.");
  for (const auto& [name, value] : components->members) TENON_TRY(read_component(name, value));
  return Status();
}

// "<major>.<minor>", where any minor one is known, or the major one alone.
Status ModelPackage::read_version(const JsonValue& manifest) {
  TENON_INVALID_IF(!manifest.is_object(), "manifest: expected a JSON object.");
  const JsonValue* version = manifest.find("schema_version");
  TENON_INVALID_IF(version == nullptr, "manifest: missing required 'schema_version'.");
  const std::string_view text = version->text;
  const auto is_number = [](std::string_view part) {
    constexpr size_t kMostDigits = 9;
    return !part.empty() && part.size() <= kMostDigits &&
           std::all_of(part.begin(), part.end(), [](char c) { return c >= '0' && c <= '9'; });
  };
  const size_t dot = text.find('.');
  const bool whole =
      is_number(text.substr(0, dot)) && (dot == std::string_view::npos || is_number(text.substr(dot + 1)));
  const bool number = version->kind == JsonValue::Kind::kNumber && dot == std::string_view::npos;
  TENON_INVALID_IF(!whole || !(number || version->is_string()),
                   "manifest: 'schema_version' must be a \"<major>.<minor>\" string.");
  schema_version_ = std::strtol(std::string(text.substr(0, dot)).c_str(), nullptr, 10);
  TENON_INVALID_IF(schema_version_ != kSchemaVersion,
                   "manifest: schema_version major {} is not supported (this build supports major {}).",
                   schema_version_, kSchemaVersion);
  newer_ = dot != std::string_view::npos && text.find_first_not_of('0', dot + 1) != std::string_view::npos;
  return Status();
}

Status ModelPackage::read_component(const std::string& name, const JsonValue& value) {
  const std::string where = format("component '{}'", name);
  TENON_INVALID_IF(!value.is_string() && !value.is_object(), "{}: value must be a string (path) or object (inline).",
                   where);
  std::string folder = root_;
  JsonValue external;
  if (value.is_string()) {
    TENON_TRY_ASSIGN(std::string path, resolve_path(root_, root_, value.text, external_, /*must_exist=*/true));
    if (is_folder(path)) {
      path += "/component.json";
      TENON_INVALID_IF(!is_there(path), "{}: directory has no 'component.json'.", where);
    }
    TENON_TRY_ASSIGN(external, read_json(path));
    folder = path.substr(0, path.rfind('/'));
  }
  const JsonValue& body = value.is_string() ? external : value;
  constexpr std::array<std::string_view, 3> kKnown = {"component_name", "variants", "additional_metadata"};
  TENON_TRY(check_members(body, kKnown, where, newer_));
  const JsonValue* own_name = body.find("component_name");
  TENON_INVALID_IF(own_name != nullptr && !own_name->is_string(), "{}: component_name must be a string.", where);
  const JsonValue* variants = body.find("variants");
  TENON_INVALID_IF(variants == nullptr, "{}: missing required 'variants' object.", where);
  TENON_INVALID_IF(!variants->is_object(), "{}: 'variants' must be an object.", where);
  PackageComponent component{.name = name, .variants = {}};
  for (const auto& [variant_name, variant] : variants->members) {
    TENON_TRY_ASSIGN(PackageVariant made, read_variant(variant_name, variant, folder, name));
    component.variants.push_back(std::move(made));
  }
  components_.push_back(std::move(component));
  return Status();
}

Result<PackageVariant> ModelPackage::read_variant(const std::string& name, const JsonValue& value,
                                                  const std::string& component_folder,
                                                  const std::string& component) const {
  const std::string where = format("variant '{}'", name);
  constexpr std::array<std::string_view, 6> kKnown = {
      "variant_directory", "ep", "device", "compatibility_string", "executor_info", "additional_metadata"};
  TENON_TRY(check_members(value, kKnown, where, newer_));
  PackageVariant variant;
  variant.name = name;
  TENON_TRY_ASSIGN(variant.ep, text_member(value, "ep", where));
  TENON_TRY_ASSIGN(const auto device, text_member(value, "device", where));
  TENON_TRY_ASSIGN(const auto compatibility, text_member(value, "compatibility_string", where));
  variant.device = device.value_or("");
  variant.compatibility = compatibility.value_or("");
  const JsonValue* folder = value.find("variant_directory");
  TENON_INVALID_IF(folder != nullptr && !folder->is_string(), "{}: variant_directory must be a string.", where);
  TENON_TRY_ASSIGN(const std::string path,
                   resolve_path(component_folder, root_, folder != nullptr ? folder->text : name, external_,
                                /*must_exist=*/folder != nullptr));
  if (is_there(path)) variant.folder = path;
  const JsonValue* info = value.find("executor_info");
  if (info == nullptr) return variant;
  TENON_INVALID_IF(!info->is_object(), "{}: executor_info must be an object.", where);
  TENON_TRY(read_executor_info(*info, component, variant));
  return variant;
}

// The entries of all executors have to be there, that of ONNX Runtime is read.
Status ModelPackage::read_executor_info(const JsonValue& info, const std::string& component,
                                        PackageVariant& variant) const {
  for (const auto& [executor, value] : info.members) {
    TENON_INVALID_IF(!value.is_string() && !value.is_object(),
                     "variant '{}': executor_info['{}'] must be a string (path) or object (inline).", variant.name,
                     executor);
    JsonValue external;
    if (value.is_string()) {
      TENON_INVALID_IF(variant.folder.empty(),
                       "variant '{}': executor_info['{}'] points at an external file but the variant has no resolved "
                       "variant_directory to anchor it.",
                       variant.name, executor);
      TENON_TRY_ASSIGN(const std::string path,
                       resolve_path(variant.folder, root_, value.text, external_, /*must_exist=*/true));
      TENON_TRY_ASSIGN(external, read_json(path));
    }
    if (executor == "ort") TENON_TRY(read_ort_info(value.is_string() ? external : value, component, variant));
  }
  return Status();
}

Status ModelPackage::read_ort_info(const JsonValue& info, const std::string& component, PackageVariant& variant) const {
  const std::string where = format("variant '{}' in component '{}'", variant.name, component);
  TENON_INVALID_IF(!info.is_object(), "ORT variant configuration must be a JSON object for {}", where);
  const char* base = variant.folder.empty() ? nullptr : variant.folder.c_str();
  if (const JsonValue* model = info.find("model_file"); model != nullptr) {
    TENON_INVALID_IF(!model->is_string(), "ORT variant configuration: model_file must be a string for {}", where);
    TENON_TRY_ASSIGN(variant.model_file, resolve(base, model->text, /*must_exist=*/false));
  }
  TENON_TRY_ASSIGN(variant.session_options, entries_of(info, "session_options", where));
  TENON_TRY_ASSIGN(variant.provider_options, entries_of(info, "provider_options", where));
  for (auto& [key, text] : variant.session_options) {
    if (!is_package_path_option(key)) continue;
    TENON_TRY_ASSIGN(text, resolve(base, text, /*must_exist=*/false));
  }
  return Status();
}

// Those that the manifest names, and the folders "sha256-<hex>" of shared_assets.
Status ModelPackage::read_assets(const JsonValue& manifest) {
  const JsonValue* named = manifest.find("shared_assets");
  TENON_INVALID_IF(named != nullptr && !named->is_object(), "manifest: shared_assets must be an object.");
  if (named != nullptr) {
    for (const auto& [uri, path] : named->members) {
      TENON_INVALID_IF(!is_asset(uri), "manifest: shared_assets key '{}' is not a valid sha256:<hex> URI.", uri);
      TENON_INVALID_IF(!path.is_string(), "manifest: shared_assets['{}'] must be a string path.", uri);
      TENON_TRY_ASSIGN(assets_[uri], resolve_path(root_, root_, path.text, external_, /*must_exist=*/false));
    }
  }
  const std::string folder = root_ + "/shared_assets";
  const std::unique_ptr<DIR, int (*)(DIR*)> entries(::opendir(folder.c_str()), ::closedir);
  if (entries == nullptr) return Status();
  while (const dirent* entry = ::readdir(entries.get())) {
    std::string uri = entry->d_name;
    const std::string path = format("{}/{}", folder, uri);
    if (!uri.starts_with("sha256-")) continue;
    uri[kAssetPrefix.size() - 1] = ':';
    if (is_asset(uri) && is_folder(path)) assets_.emplace(uri, path);
  }
  return Status();
}

Result<std::string> ModelPackage::resolve(const char* base, const std::string& input, bool must_exist) const {
  const size_t asset_bytes = kAssetPrefix.size() + kAssetDigits;
  const std::string uri = input.substr(0, asset_bytes);
  const bool asset = is_asset(uri) && (input.size() == asset_bytes || input[asset_bytes] == '/');
  if (!asset) return resolve_path(base != nullptr ? base : root_, root_, input, external_, must_exist);
  const auto found = assets_.find(uri);
  TENON_INVALID_IF(found == assets_.end(), "Asset URI not declared in this package: '{}'.", uri);
  const std::string& folder = found->second;
  if (input.size() == asset_bytes) {
    TENON_INVALID_IF(must_exist && !is_there(folder), "ResolvePath: '{}' does not exist.", folder);
    return folder;
  }
  // Paths in an asset must stay in its folder, in every layout; the folder itself may be a link.
  std::string root = folder;
  if (is_there(folder)) {
    TENON_TRY_ASSIGN(root, real_path(folder));
  }
  return resolve_path(folder, root, input.substr(asset_bytes + 1), /*external=*/false, must_exist);
}

}  // namespace tenon
