// Making and releasing sessions.
#include "abi/session.h"

#include <sys/stat.h>

#include <algorithm>
#include <cstring>

#include "abi/objects/session_config.h"
#include "abi/objects/slots.h"
#include "abi/objects/status.h"
#include "abi/run.h"
#include "base/deadline.h"
#include "ep/host/custom_ops.h"
#include "ep/host/plugin_context.h"
#include "graph/mapped_file.h"
#include "graph/ort_format.h"
#include "graph/output_file.h"
#include "graph/reader.h"
#include "runtime/session_config.h"
#include "runtime/session_impl.h"

namespace tenon::abi {
namespace {

bool contains(const Status& status, std::string_view text) { return status.message().find(text) != std::string::npos; }

// Of a call that has made a session and saved its model.
OrtStatus* made_and_saved(const Status& saved, OrtSession*& session) {
  if (!saved.ok()) delete std::exchange(session, nullptr);
  return saved_status(saved);
}

void describe_parts(OrtSession& session) {
  session.parts.clear();
  session.part_pointers.clear();
  for (const EpAssignment& assignment : session.core().assignments()) {
    OrtEpAssignedSubgraph part;
    part.ep_name = assignment.ep_name;
    for (const auto& node : assignment.nodes) part.nodes.push_back({node.name, node.domain, node.op_type});
    session.parts.push_back(std::move(part));
  }
  for (OrtEpAssignedSubgraph& part : session.parts) {
    for (const OrtEpAssignedNode& node : part.nodes) part.pointers.push_back(&node);
    session.part_pointers.push_back(&part);
  }
}

// The program's own operators run on the CPU EP, as in the reference, though the core knows an EP of theirs.
bool runs_custom_ops(const OrtSession& session, const Session& core) {
  if (session.custom_ops == nullptr) return false;
  const std::string name = session.custom_ops->choice().ep_name;
  const std::span<const EpAssignment> parts = core.assignments();
  return std::any_of(parts.begin(), parts.end(), [&](const EpAssignment& part) { return part.ep_name == name; });
}

// The place of a context model is a part of the call, whether or not an EP makes one.
OrtStatus* check_context_model(const OrtSessionOptions* options, const std::string& model_path) {
  if (options == nullptr || !wants_context(options->config_entries)) return nullptr;
  return to_ort(context_path(options->config_entries, model_path).status());
}

OrtStatus* session_from_path(const OrtEnv* env, const char* path, const OrtSessionOptions* options,
                             OrtSession** out) noexcept {
  return guarded([&]() -> OrtStatus* {
    const std::string file = path;
    const std::string prefix = "Load model from " + file + " failed:";
    struct stat info;
    if (::stat(path, &info) != 0)
      return ort_error(ORT_NO_SUCHFILE, "{}Load model {} failed. File doesn't exist", prefix, file);
    if (S_ISDIR(info.st_mode))
      return ort_error(ORT_INVALID_ARGUMENT, "{}The model path is a directory; a model is one file.", prefix);
    if (OrtStatus* bad = check_context_model(options, file)) return bad;
    if (OrtStatus* bad = make_session(
            env, options, prefix, [file](const SessionOptions& core) { return Session::load(file, core); }, out))
      return bad;
    if (options == nullptr || options->optimized_model_path.empty()) return nullptr;
    const Result<std::shared_ptr<const MappedFile>> model = MappedFile::open(file);
    return made_and_saved(model.ok() ? save_model(*options, (*model)->bytes()) : model.status(), *out);
  });
}

OrtStatus* session_from_bytes(const OrtEnv* env, const void* data, size_t size, const OrtSessionOptions* options,
                              OrtSession** out) noexcept {
  return guarded([&]() -> OrtStatus* {
    const std::span bytes(static_cast<const std::byte*>(data), size);
    const std::string directory = external_folder(options);
    if (OrtStatus* bad = check_context_model(options, "")) return bad;
    // External data that is given needs no folder, but a place to look for the rest.
    const auto first = [bytes, directory](const SessionOptions& core) {
      return Session::load_from_bytes(bytes, core, directory);
    };
    if (OrtStatus* bad = make_session(env, options, "", first, out)) return bad;
    OrtSession& session = **out;
    // For scalars alone a large model is not worth a copy: such a run is refused then.
    constexpr size_t kMostCopied = size_t{64} << 20;
    if (session.core().overridable_initializers().empty() && bytes.size() > kMostCopied) session.load = nullptr;
    if (session.load) {
      // A run may ask for the model again, when the program's bytes are gone.
      session.load = [copy = std::vector(bytes.begin(), bytes.end()), directory](const SessionOptions& core) {
        return Session::load_from_bytes(copy, core, directory);
      };
    }
    if (options == nullptr || options->optimized_model_path.empty()) return nullptr;
    return made_and_saved(save_model(*options, bytes), *out);
  });
}

bool has_scalars(std::span<const ValueInfo> infos) {
  return std::any_of(infos.begin(), infos.end(), [](const ValueInfo& info) { return declares_scalar(info); });
}

}  // namespace

Status save_model(const OrtSessionOptions& options, std::span<const std::byte> bytes) {
  constexpr char kFormatKey[] = "session.save_model_format";
  const std::string& path = options.optimized_model_path;
  const char* const entry = options.config_entries.find(kFormatKey);
  const std::string_view format = entry != nullptr ? entry : "";
  const bool as_ort = format.empty() ? path.ends_with(".ort") : format == "ORT";
  std::string converted;
  if (as_ort != is_ort_format(bytes)) {
    TENON_UNSUPPORTED_IF(as_ort,
                         "Tenon reads models in ORT format and writes none: \"{}\" is to be one, by its name or by "
                         "{}. Save it as ONNX, or make the file with onnxruntime.",
                         path, kFormatKey);
    TENON_TRY_ASSIGN(converted, ort_format_to_onnx(bytes));
    bytes = std::as_bytes(std::span(converted));
  }
  TENON_TRY_ASSIGN(OutputFile file, OutputFile::create(path));
  TENON_TRY(file.write(bytes));
  return file.commit();
}

OrtStatus* saved_status(const Status& saved) {
  return saved.code() == StatusCode::kUnsupported ? to_ort(saved) : to_ort(saved, ORT_FAIL);
}

void describe_memory(OrtSession& session) {
  session.input_memory.clear();
  session.output_memory.clear();
  for (const ValueSpace& input : session.core().input_spaces())
    session.input_memory.push_back(to_memory_info(input.space));
  for (const ValueSpace& output : session.core().output_spaces())
    session.output_memory.push_back(to_memory_info(output.space));
}

std::string external_folder(const OrtSessionOptions* options) {
  const char* folder = options == nullptr
                           ? nullptr
                           : options->config_entries.find("session.model_external_initializers_file_folder_path");
  return folder != nullptr ? folder : "";
}

OrtStatus* fill_session(OrtSession& session, const std::string& load_prefix, CoreLoader load) {
  const std::atomic<bool>& cancelled_flag = *session.options.cancel_load;
  const auto load_cancelled = [&] { return cancelled_flag.load(std::memory_order_relaxed); };
  if (session.options.profiling) {
    session.profile = std::make_shared<SessionProfile>(session.options.profile_prefix);
    session.plugins.profile = session.profile;
  }
  const int64_t begin_ns = monotonic_ns();
  if (OrtStatus* bad = check_session_config(session.options.config_entries)) return bad;
  if (OrtStatus* bad = choose_eps(session.options, *session.env)) return bad;
  if (OrtStatus* bad = to_core(session.options, *session.env, session.core_options)) return bad;
  // Before the model is read: these are faults of the call.
  if (const auto checked = checked_options(session.core_options); !checked.ok()) return to_ort(checked.status());
  if (!session.options.custom_op_domains.empty()) {
    Result<std::unique_ptr<CustomOpEp>> ep = CustomOpEp::create(session.options);
    if (!ep.ok()) return to_ort(ep.status());
    session.custom_ops = *std::move(ep);
    session.core_options.eps.insert(session.core_options.eps.begin(), session.custom_ops->choice());
  }
  const MakingSession making(session.options, session.plugins);
  const TraceSink::Scope traced(session.profile.get());
  Result<std::shared_ptr<Session>> core = load(session.core_options);
  // Until here the program kept the buffers.
  session.options.external_files.clear();
  session.core_options.external_files.clear();
  if (load_cancelled()) return make_ort_status(ORT_MODEL_LOAD_CANCELED, "The loading of the model was cancelled.");
  if (!core.ok() && !remembered_code(core.status()) && has_custom_domain(session.options, core.status().message()))
    return ort_error(ORT_NOT_IMPLEMENTED, "{}None of the custom operators of its domain serves a node. {}", load_prefix,
                     core.status().message());
  if (!core.ok() && is_fallback_refusal(core.status())) return to_ort(core.status(), ORT_FAIL);
  if (!core.ok()) return load_error(core.status(), load_prefix);
  if (runs_custom_ops(session, **core) && cpu_fallback_disabled(session.core_options))
    return to_ort(fallback_refused(""), ORT_FAIL);
  session.main = std::make_shared<CoreSession>(*std::move(core));
  session.has_scalar_inputs =
      has_scalars(session.core().inputs()) || has_scalars(session.core().overridable_initializers());
  if (session.has_scalar_inputs || !session.core().overridable_initializers().empty()) session.load = std::move(load);
  describe_parts(session);
  describe_memory(session);
  if (session.profile != nullptr) session.profile->add("session_initialization", begin_ns, monotonic_ns());
  return nullptr;
}

// Every session is the core's own, but for one that is being edited, which gives no binding.
Result<Binding> make_unguarded_binding(CoreSession& core) {
  auto* own = dynamic_cast<SessionImpl*>(core.core.get());
  return own != nullptr ? own->make_unguarded_binding() : core.core->make_binding();
}

// Faults of a model for which the reference has another code, by what the core says of them.
// tests/python/errors_test.py compares the codes.
constexpr std::pair<std::string_view, OrtErrorCode> kLoadCodes[] = {
    {"the newest that is known is", ORT_FAIL},
    {kOfShapes, ORT_FAIL},
    {"\" has a cycle: ", ORT_FAIL},
    {"\" has a name that something else in graph \"", ORT_FAIL},
    {"\" is made by none of its nodes", ORT_FAIL},
    {"of which no opset is imported", ORT_FAIL},
    {"\" that differ", ORT_FAIL},
    {" differ in type", ORT_FAIL},
    {", which no node, input or initializer", ORT_INVALID_ARGUMENT},
};

OrtStatus* load_error(const Status& status, const std::string& prefix) noexcept {
  if (contains(status, kBrokenEncoding)) {
    return prefix.empty()
               ? make_ort_status(ORT_INVALID_PROTOBUF, "Failed to load model because protobuf parsing failed.")
               : ort_error(ORT_INVALID_PROTOBUF, "{}Protobuf parsing failed.", prefix);
  }
  if (contains(status, "The model is empty") || contains(status, "The model has no graph"))
    return ort_error(ORT_INVALID_ARGUMENT, "{}No graph was found in the protobuf.", prefix);
  // An EP's or an operator's own failure is none of the model's.
  if (remembered_code(status)) return to_ort(status);
  OrtErrorCode code = to_ort_code(status.code());
  // An operator that no schema has is a fault of the model; one without a kernel is a limit of Tenon.
  if (contains(status, "which does not exist up to opset") ||
      contains(status, "Tenon knows no operator of that domain"))
    code = ORT_INVALID_GRAPH;
  // These codes mean that the model is wrong, and not the call.
  if (status.code() == StatusCode::kInvalidArgument || status.code() == StatusCode::kOutOfRange)
    code = ORT_INVALID_GRAPH;
  for (const auto& [phrase, known] : kLoadCodes)
    if (contains(status, phrase)) code = known;
  if (status.code() == StatusCode::kNotFound) code = ORT_FAIL;  // external data; the model itself is there
  return ort_error(code, "{}{}", prefix, status.message());
}

OrtStatus* make_session(const OrtEnv* env, const OrtSessionOptions* options, std::string load_prefix, CoreLoader load,
                        OrtSession** out) noexcept {
  return guarded([&]() -> OrtStatus* {
    auto session = std::make_unique<OrtSession>();
    session->env = current_env();
    if (session->env.get() != env) return make_ort_status(ORT_INVALID_ARGUMENT, "The env was released.");
    if (options != nullptr) session->options = *options;
    if (OrtStatus* bad = fill_session(*session, load_prefix, std::move(load))) return bad;
    *out = session.release();
    return nullptr;
  });
}

OrtStatus* ort_api::CreateSession(const OrtEnv* env, const ORTCHAR_T* model_path, const OrtSessionOptions* options,
                                  OrtSession** out) noexcept {
  clear(out);
  if (OrtStatus* bad = check_pointers("CreateSession", {{"env", env}, {"model_path", model_path}, {"out", out}}))
    return bad;
  return session_from_path(env, model_path, options, out);
}

OrtStatus* ort_api::CreateSessionFromArray(const OrtEnv* env, const void* model_data, size_t model_data_length,
                                           const OrtSessionOptions* options, OrtSession** out) noexcept {
  clear(out);
  if (OrtStatus* bad =
          check_pointers("CreateSessionFromArray", {{"env", env}, {"model_data", model_data}, {"out", out}}))
    return bad;
  return session_from_bytes(env, model_data, model_data_length, options, out);
}

void ort_api::ReleaseSession(OrtSession* input) noexcept { delete input; }

}  // namespace tenon::abi
