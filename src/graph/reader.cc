#include "graph/reader.h"

#include <cstring>
#include <exception>
#include <new>

#include "base/utf8.h"
#include "graph/ort_format.h"
#include "graph/proto.h"
#include "graph/reader_internal.h"
#include "graph/schema.h"

namespace tenon {

namespace reader {

namespace {

constexpr int64_t kOldestIr = 1, kNewestIr = 14;

struct ModelParts {
  ModelInfo info;
  std::string_view graph;
  bool has_graph = false;
  std::vector<std::string_view> opset_imports, functions;
};

Result<ModelParts> split_model(std::string_view message) {
  using P = proto::ModelProto;
  ModelParts parts;
  proto::Entry entry;
  proto::Reader reader = proto::reader(message);
  while (reader.next()) {
    switch (reader.tag_and_type()) {
      case proto::varint(P::kIrVersion):
        parts.info.ir_version = reader.get_int64();
        break;
      case proto::bytes(P::kProducerName):
        parts.info.producer_name = proto::text(reader.get_view());
        break;
      case proto::bytes(P::kProducerVersion):
        parts.info.producer_version = proto::text(reader.get_view());
        break;
      case proto::bytes(P::kDomain):
        parts.info.domain = proto::text(reader.get_view());
        break;
      case proto::varint(P::kModelVersion):
        parts.info.model_version = reader.get_int64();
        parts.info.has_model_version = true;
        break;
      case proto::bytes(P::kDocString):
        parts.info.doc_string = proto::text(reader.get_view());
        break;
      case proto::bytes(P::kMetadata):
        entry = proto::read_entry(proto::text(reader.get_view()));
        parts.info.metadata.emplace_back(entry.key, entry.value);
        break;
      case proto::bytes(P::kOpsetImport):
        parts.opset_imports.push_back(proto::text(reader.get_view()));
        break;
      case proto::bytes(P::kFunctions):
        parts.functions.push_back(proto::text(reader.get_view()));
        break;
      case proto::bytes(P::kGraph):
        TENON_INVALID_IF(parts.has_graph, "The model has two graphs.");
        parts.graph = proto::text(reader.get_view());
        parts.has_graph = true;
        break;
      default:
        reader.skip();
    }
  }
  return parts;
}

Result<Model> read_model(ReadContext& context, std::string_view bytes) {
  TENON_TRY_ASSIGN(ModelParts parts, split_model(bytes));
  const int64_t ir = parts.info.ir_version;
  TENON_INVALID_IF(ir < kOldestIr, "The model has IR version {}; the oldest that is read is {}.", ir, kOldestIr);
  TENON_UNSUPPORTED_IF(ir > kNewestIr, "The model has IR version {}; the newest that is known is {}.", ir, kNewestIr);
  TENON_INVALID_IF(!parts.has_graph, "The model has no graph.");
  Opsets opsets;
  for (std::string_view message : parts.opset_imports) TENON_TRY(add_opset_import(opsets, message));
  std::vector<Function> functions;
  for (std::string_view message : parts.functions) {
    TENON_TRY_ASSIGN(Function function, read_function(context, message));
    functions.push_back(std::move(function));
  }
  Model model;
  TENON_TRY_ASSIGN(model.graph, read_graph(context, parts.graph, opsets, functions));
  model.notes = std::move(context.notes);
  model.info = std::move(parts.info);
  model.info.file_bytes = bytes.size();
  return model;
}

// The one place where exceptions of protozero and of the allocator end.
Result<Model> read_and_catch(ReadContext& context, std::span<const std::byte> bytes) {
  TENON_INVALID_IF(bytes.empty(), "The model is empty: 0 bytes.");
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  try {
    return read_model(context, text);
  } catch (const std::bad_alloc&) {
    return resource_exhausted("There is no memory for a model of {} bytes.", bytes.size());
  } catch (const std::exception& error) {
    constexpr std::string_view kPointer = "version https://git-lfs";
    return invalid_argument(
        "The {} bytes are not an ONNX model: {} ({}).{}", bytes.size(), kBrokenEncoding, error.what(),
        text.starts_with(kPointer) ? " They are Git LFS's pointer to one: `git lfs pull` fetches it." : "");
  }
}

}  // namespace

std::string_view plain_domain(std::string_view domain) { return domain == "ai.onnx" ? "" : domain; }

int opset_of(const Opsets& opsets, std::string_view domain) {
  for (const auto& [imported, version] : opsets)
    if (imported == domain) return version;
  return 0;
}

Status add_opset_import(Opsets& opsets, std::string_view message) {
  std::string_view domain;
  int64_t version = 0;
  proto::Reader reader = proto::reader(message);
  while (reader.next()) {
    switch (reader.tag_and_type()) {
      case proto::bytes(proto::OpsetProto::kDomain):
        domain = plain_domain(proto::text(reader.get_view()));
        break;
      case proto::varint(proto::OpsetProto::kVersion):
        version = reader.get_int64();
        break;
      default:
        reader.skip();
    }
  }
  const std::string_view shown = domain.empty() ? "ai.onnx" : domain;
  TENON_INVALID_IF(domain == "tenon", "The model imports the domain \"tenon\", which is for Tenon's own operators.");
  TENON_INVALID_IF(version < 1 || version > INT32_MAX, "The model imports opset {} of {}, which is not a version.",
                   version, shown);
  if (const int newest = newest_readable_opset(domain); newest > 0) {
    TENON_UNSUPPORTED_IF(version > newest, "The model imports opset {} of {}; the newest that is known is {}.", version,
                         shown, newest);
  }
  // Of two imports of one domain the later counts, as in ONNX Runtime.
  for (auto& [imported, known] : opsets) {
    if (imported != domain) continue;
    known = static_cast<int>(version);
    return Status();
  }
  opsets.emplace_back(domain, static_cast<int>(version));
  return Status();
}

Status check_name(const ReadContext& context, std::string_view name, const char* what) {
  if (name.size() > context.limits.max_string_bytes) {
    return resource_exhausted("The name of a {} has {} bytes; the limit is {}.", what, name.size(),
                              context.limits.max_string_bytes);
  }
  for (size_t at = 0; at < name.size();) {
    // Mostly ASCII: eight bytes at a time.
    if (uint64_t eight; name.size() - at >= sizeof(eight)) {
      std::memcpy(&eight, name.data() + at, sizeof(eight));
      if ((eight & 0x8080808080808080u) == 0) {
        at += sizeof(eight);
        continue;
      }
    }
    if (static_cast<unsigned char>(name[at]) < 0x80) {
      ++at;
      continue;
    }
    const size_t length = utf8_length(name.substr(at));
    TENON_INVALID_IF(length == 0, "The name of a {} is not UTF-8: byte {} of {}.", what, at, name.size());
    at += length;
  }
  return Status();
}

}  // namespace reader

const ExternalTensor* GraphNotes::find_external(const ConstantRef& constant) const {
  const auto found = external.find(constant.get());
  // The address may be that of a later constant.
  return found != external.end() && found->second.constant.lock() == constant ? &found->second : nullptr;
}

std::string_view GraphNotes::find_notes(const ConstantRef& constant) const {
  const auto found = constants.find(constant.get());
  return found != constants.end() && found->second.constant.lock() == constant ? found->second.fields
                                                                               : std::string_view();
}

namespace {

Status add_files(reader::ReadContext& context, const ReaderReplacements& replacements) {
  for (const auto& [name, bytes] : replacements.files) TENON_TRY(context.external.add(name, bytes));
  return Status();
}

Status check_used(const reader::ReadContext& context, const ReaderReplacements& replacements) {
  if (!replacements.all_used) return Status();
  for (const auto& [name, constant] : replacements.initializers) {
    // One that became an input is held by nobody.
    TENON_INVALID_IF(constant.use_count() == 1 && !replacements.initializers_as_inputs,
                     "A tensor is given for the initializer \"{}\", which the model does not have.", name);
  }
  const std::string file = context.external.first_unopened();
  TENON_INVALID_IF(!file.empty(),
                   "The external file \"{}\" is given, and the model keeps no data in a file of that name.", file);
  return Status();
}

}  // namespace

Result<Model> read_model_file(const std::string& path, const ReaderLimits& limits,
                              const ReaderReplacements& replacements) {
  TENON_TRY_ASSIGN(const std::shared_ptr<const MappedFile> file, MappedFile::open(path));
  const size_t slash = path.rfind('/');
  std::string directory = slash == std::string::npos ? "." : path.substr(0, slash + 1);
  if (is_ort_format(file->bytes())) {
    Result<Model> converted = read_model_bytes(file->bytes(), directory, limits, replacements);
    if (!converted.ok()) return std::move(converted).status().with_context(format("while reading \"{}\".", path));
    converted->info.path = path;
    return converted;
  }
  reader::ReadContext context{.limits = limits,
                              .replacements = replacements,
                              .owner = file,
                              .in_file = true,
                              .external = ExternalFiles(std::move(directory))};
  TENON_TRY(add_files(context, replacements));
  Result<Model> model = reader::read_and_catch(context, file->bytes());
  if (!model.ok()) return std::move(model).status().with_context(format("while reading \"{}\".", path));
  TENON_TRY(check_used(context, replacements));
  model->info.path = path;
  // Data that was copied is not read here again, and most weights are read once more at most, to be packed.
  file->drop_pages();
  return model;
}

Result<Model> read_model_bytes(std::span<const std::byte> bytes, const std::string& base_directory,
                               const ReaderLimits& limits, const ReaderReplacements& replacements) {
  const bool is_ort = is_ort_format(bytes);
  std::string onnx;
  if (is_ort) {
    TENON_TRY_ASSIGN(onnx, ort_format_to_onnx(bytes));
    bytes = std::as_bytes(std::span(onnx));
  }
  constexpr std::align_val_t kAlignment{64};
  auto* copy = static_cast<std::byte*>(::operator new(bytes.size() + 1, kAlignment, std::nothrow));
  if (copy == nullptr) return resource_exhausted("There is no memory for a model of {} bytes.", bytes.size());
  std::shared_ptr<const void> owner(
      copy, [](const void* p) { ::operator delete(const_cast<void*>(p), std::align_val_t{64}); });
  if (!bytes.empty()) std::memcpy(copy, bytes.data(), bytes.size());
  reader::ReadContext context{.limits = limits,
                              .replacements = replacements,
                              .owner = std::move(owner),
                              .in_file = false,
                              .external = ExternalFiles(base_directory),
                              .may_hide = is_ort};
  TENON_TRY(add_files(context, replacements));
  Result<Model> model = reader::read_and_catch(context, {copy, bytes.size()});
  if (model.ok()) TENON_TRY(check_used(context, replacements));
  return model;
}

}  // namespace tenon
