// CompileModel: makes a session of the input, lets its EPs put EPContext nodes in the place of what they have compiled,
// and writes the model that is left.
#include <algorithm>
#include <filesystem>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "abi/compile_options.h"
#include "abi/model_editor.h"
#include "abi/objects/allocator.h"
#include "abi/objects/slots.h"
#include "abi/objects/status.h"
#include "abi/session.h"
#include "base/config_keys.h"
#include "ep/host/plugin_context.h"
#include "graph/external_initializers.h"
#include "graph/output_file.h"
#include "runtime/session_impl.h"
#include "runtime/session_model.h"

namespace tenon::abi {

namespace {

// Bytes of an allocator, the program's once they are taken.
class Block {
 public:
  explicit Block(const CompileBuffer& buffer) : buffer_(buffer) {}
  Block(const Block&) = delete;
  Block& operator=(const Block&) = delete;
  ~Block() { free_block(buffer_.allocator, data_); }

  Status fill(std::span<const std::byte> bytes) {
    TENON_TRY_ASSIGN(data_, allocate(buffer_.allocator, bytes.size()));
    if (data_ != nullptr) std::copy(bytes.begin(), bytes.end(), static_cast<std::byte*>(data_));
    size_bytes_ = bytes.size();
    return {};
  }
  void hand_over() {
    *buffer_.data = std::exchange(data_, nullptr);
    *buffer_.size_bytes = size_bytes_;
  }

 private:
  const CompileBuffer buffer_;
  void* data_ = nullptr;
  size_t size_bytes_ = 0;
};

// The status that a function of the program gave, with its code.
Status from_program(OrtStatus* status) {
  if (status == nullptr) return {};
  const OrtErrorCode code = status->code;
  return with_ort_code(from_ort(status), code);
}

// Asks the program's function where an initializer lies.
Result<std::optional<ExternalPlace>> locate(const InitializerFunction& function, const GraphNotes& notes,
                                            const std::string& name, const ConstantRef& constant) {
  TENON_TRY_ASSIGN(const std::unique_ptr<OrtValue> value, value_of(constant));
  std::optional<OrtExternalInitializerInfo> before;
  if (const ExternalTensor* external = notes.find_external(constant))
    before = {external->location, static_cast<int64_t>(external->offset_bytes), constant->size_bytes};
  OrtExternalInitializerInfo* made = nullptr;
  TENON_TRY(
      from_program(function.locate(function.state, name.c_str(), value.get(), before ? &*before : nullptr, &made)));
  if (made == nullptr) return std::optional<ExternalPlace>();
  const std::unique_ptr<OrtExternalInitializerInfo> owned(made);
  TENON_INVALID_IF(owned->offset < 0 || owned->size_bytes != constant->size_bytes,
                   "The place of initializer \"{}\" has the offset {} and {} bytes; the initializer has {} bytes.",
                   name, owned->offset, owned->size_bytes, constant->size_bytes);
  return std::optional<ExternalPlace>({owned->path, static_cast<size_t>(owned->offset), owned->size_bytes});
}

class Compilation {
 public:
  Compilation(const OrtEnv* env, const OrtModelCompilationOptions& options)
      : env_(env),
        options_(options),
        session_options_(options.session),
        output_(options.output),
        model_(ContextModel::create_for_compilation()) {
    session_options_.compilation = model_;
  }

  OrtStatus* run() {
    if (OrtStatus* bad = check_input()) return bad;
    if (OrtStatus* bad = choose_output()) return bad;
    std::unique_ptr<OrtSession> session;
    if (OrtStatus* bad = make(session)) return bad;
    model_->begin(read_->graph, read_->info, read_->notes);
    if ((options_.flags & OrtCompileApiFlags_ERROR_IF_NO_NODES_COMPILED) != 0 && !model_->has_compiled_nodes())
      return make_ort_status(ORT_FAIL,
                             "Unable to compile any nodes. Check that the session EPs support compilation and can "
                             "execute at least one subgraph in the model.");
    return to_ort(write());
  }

 private:
  OrtStatus* check_input() {
    if (std::holds_alternative<std::monostate>(options_.input))
      return make_ort_status(ORT_INVALID_ARGUMENT,
                             "Input model to compile must be specified via file path, memory buffer, or OrtModel");
    const auto* path = std::get_if<std::string>(&options_.input);
    std::error_code error;
    if (path != nullptr && !std::filesystem::exists(*path, error))
      return ort_error(ORT_INVALID_ARGUMENT, "Input model path does not exist: \"{}\"", *path);
    const auto* model = std::get_if<const OrtModel*>(&options_.input);
    if (model != nullptr && (*model)->graph == nullptr)
      return make_ort_status(ORT_INVALID_ARGUMENT, "OrtModel has no graph. Call AddGraphToModel before compilation.");
    return nullptr;
  }

  OrtStatus* choose_output() {
    const auto* input = std::get_if<std::string>(&options_.input);
    if (std::holds_alternative<std::monostate>(output_) && input != nullptr) output_ = default_context_path(*input);
    if (std::holds_alternative<std::monostate>(output_)) {
      return std::holds_alternative<const OrtModel*>(options_.input)
                 ? make_ort_status(ORT_FAIL,
                                   "OrtModel has no model_path set and no valid output location was specified for "
                                   "EPContext model generation. SetOutputModelPath/SetOutputModelBuffer, or set the "
                                   "model_path on the OrtGraph before adding it to OrtModel.")
                 : to_ort(context_path({}, "").status());
    }
    const auto* path = std::get_if<std::string>(&output_);
    if (path == nullptr) return nullptr;
    if (Status bad = check_context_path(*path); !bad.ok()) return to_ort(bad);
    std::error_code error;
    if ((options_.flags & OrtCompileApiFlags_ERROR_IF_OUTPUT_FILE_EXISTS) != 0 && std::filesystem::exists(*path, error))
      return to_ort(context_exists(*path));
    return nullptr;
  }

  Result<Model> read(const SessionOptions& core_options) const {
    if (const auto* path = std::get_if<std::string>(&options_.input)) return read_session_model(*path, core_options);
    if (const auto* model = std::get_if<const OrtModel*>(&options_.input)) return to_core(**model);
    return read_session_model(std::get<std::span<const std::byte>>(options_.input), core_options,
                              external_folder(&session_options_));
  }

  OrtStatus* make(std::unique_ptr<OrtSession>& session) {
    const auto* path = std::get_if<std::string>(&options_.input);
    const std::string prefix = path != nullptr ? "Load model from " + *path + " failed:" : "";
    const auto load = [this, path](const SessionOptions& core_options) -> Result<std::shared_ptr<Session>> {
      TENON_TRY_ASSIGN(Model model, read(core_options));
      read_ = model;
      SessionOptions named = core_options;
      // EPs look for files beside the model (Graph_GetModelPath).
      if (path != nullptr && !named.eps.empty()) named.config.emplace(kModelPathKey, *path);
      return SessionImpl::create(std::move(model), named);
    };
    OrtSession* made = nullptr;
    OrtStatus* bad = make_session(env_, &session_options_, prefix, load, &made);
    session.reset(made);
    return bad;
  }

  Status write() {
    const auto* path = std::get_if<std::string>(&output_);
    std::unique_ptr<ExternalInitializersFile> file;
    std::optional<ExternalInitializers> in_memory;
    std::vector<std::byte> external_bytes;
    WriterOptions writing;
    const auto layout = [&](const auto& home) {
      return ExternalLayout{home.location, home.least_bytes, options_.alignment, options_.least_aligned_bytes};
    };
    if (const auto* home = std::get_if<InitializerFile>(&options_.initializers)) {
      TENON_TRY_ASSIGN(file, ExternalInitializersFile::create(layout(*home), path != nullptr ? *path : ""));
      writing.place = [&](const std::string&, const ConstantRef& constant) { return file->place(*constant); };
    }
    const auto* buffer = std::get_if<InitializerBuffer>(&options_.initializers);
    if (buffer != nullptr) {
      in_memory.emplace(layout(*buffer), [&](std::span<const std::byte> bytes) {
        external_bytes.insert(external_bytes.end(), bytes.begin(), bytes.end());
        return Status();
      });
      writing.place = [&](const std::string&, const ConstantRef& constant) { return in_memory->place(*constant); };
    }
    if (const auto* function = std::get_if<InitializerFunction>(&options_.initializers)) {
      writing.by_name = true;
      writing.place = [&, function](const std::string& name, const ConstantRef& constant) {
        return locate(*function, model_->notes(), name, constant);
      };
    }
    TENON_TRY_ASSIGN(const std::string bytes, model_->serialize(std::move(writing)));
    std::optional<Block> external;
    if (buffer != nullptr) {
      external.emplace(buffer->buffer);
      TENON_TRY(external->fill(external_bytes));
    }
    TENON_TRY(write(std::as_bytes(std::span(bytes)), file.get()));
    if (external) external->hand_over();
    return {};
  }

  // A file of initializers appears when the model is safe, but not after a file of the model that names it.
  Status write(std::span<const std::byte> bytes, ExternalInitializersFile* initializers) {
    if (const auto* path = std::get_if<std::string>(&output_)) {
      TENON_TRY_ASSIGN(OutputFile file, OutputFile::create(*path));
      TENON_TRY(file.write(bytes));
      if (initializers != nullptr) TENON_TRY(initializers->commit());
      return file.commit();
    }
    if (const auto* function = std::get_if<CompileFunction>(&output_)) {
      TENON_TRY(from_program(function->write(function->state, bytes.data(), bytes.size())));
      return initializers != nullptr ? initializers->commit() : Status();
    }
    Block block(std::get<CompileBuffer>(output_));
    TENON_TRY(block.fill(bytes));
    if (initializers != nullptr) TENON_TRY(initializers->commit());
    block.hand_over();
    return {};
  }

  const OrtEnv* const env_;
  const OrtModelCompilationOptions& options_;
  OrtSessionOptions session_options_;
  CompileOutput output_;
  const std::shared_ptr<ContextModel> model_;
  std::optional<Model> read_;  // for a session in which no EP was asked
};

}  // namespace

OrtStatus* compile_api::CompileModel(const OrtEnv* env, const OrtModelCompilationOptions* model_options) noexcept {
  if (OrtStatus* bad = check_pointers("CompileModel", {{"env", env}, {"model_options", model_options}})) return bad;
  return guarded([&] { return Compilation(env, *model_options).run(); });
}

}  // namespace tenon::abi
