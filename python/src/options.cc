#include "options.h"

#include <tenon/ort_bridge.h>

#include <cstdlib>
#include <span>

#include "adapter.h"

namespace tenon::python {
namespace {

// A switch takes whatever says itself whether it is true, and None, as onnxruntime's does: 0 and 1 are common, and
// numpy's booleans. A text does not say it.
struct Truth {
  bool value = false;
};

bool read_truth(PyObject* object, Truth& truth) {
  if (object != Py_None && object != Py_True && object != Py_False &&
      PyType_GetSlot(Py_TYPE(object), Py_nb_bool) == nullptr)
    return false;
  const int found = PyObject_IsTrue(object);
  if (found < 0) PyErr_Clear();
  truth.value = found == 1;
  return found >= 0;
}

}  // namespace
}  // namespace tenon::python

template <>
struct nanobind::detail::type_caster<tenon::python::Truth> {
  NB_TYPE_CASTER(tenon::python::Truth, const_name("bool"))
  bool from_python(handle source, uint8_t, cleanup_list*) noexcept {
    return tenon::python::read_truth(source.ptr(), value);
  }
};

namespace tenon::python {
namespace {

using ProviderList = std::vector<std::tuple<std::string, Texts>>;
constexpr const char* kCpuProvider = "CPUExecutionProvider";

// The device of an EP that its options name ("device_id"), or its first.
const OrtEpDevice* device_of(const std::string& provider, const Texts& options) {
  const OrtEpDevice* const* devices = nullptr;
  size_t count = 0;
  check(api().GetEpDevices(env(), &devices, &count));
  std::vector<const OrtEpDevice*> own;
  for (size_t i = 0; i < count; ++i)
    if (provider == api().EpDevice_EpName(devices[i])) own.push_back(devices[i]);
  if (own.empty()) raise(PyExc_RuntimeError, "Unknown Provider Type: " + provider);
  const auto asked = options.find("device_id");
  const size_t index = asked == options.end() ? 0 : std::strtoul(asked->second.c_str(), nullptr, 10);
  if (index >= own.size())
    raise(ORT_INVALID_ARGUMENT, "Provider " + provider + " has " + std::to_string(own.size()) +
                                    " devices, and its option device_id is " + asked->second + ".");
  return own[index];
}

void append_providers(OrtSessionOptions* options, const ProviderList& providers) {
  for (const auto& [name, entries] : providers) {
    if (name == kCpuProvider) continue;
    const OrtEpDevice* device = device_of(name, entries);
    std::vector<const char*> keys, values;
    for (const auto& [key, value] : entries) {
      if (key == "device_id") continue;
      keys.push_back(key.c_str());
      values.push_back(value.c_str());
    }
    check(api().SessionOptionsAppendExecutionProvider_V2(options, env(), &device, 1, keys.data(), values.data(),
                                                         keys.size()));
  }
}

// The class of onnxruntime's package for a key; a wrong value is InvalidArgument.
void check_key(const std::string& key) {
  constexpr size_t kMost = 1024;
  if (key.empty() || key.size() > kMost)
    raise(PyExc_RuntimeError, "Config key is empty or longer than maximum length " + std::to_string(kMost));
}

void add_config_entry(Options& options, const std::string& key, const std::string& value) {
  check_key(key);
  check(api().AddSessionConfigEntry(options.handle.get(), key.c_str(), value.c_str()));
  options.calls.emplace_back("add_session_config_entry", nb::make_tuple(key, value));
}

std::string config_entry(const Options& options, const std::string& key) {
  int there = 0;
  check(api().HasSessionConfigEntry(options.handle.get(), key.c_str(), &there));
  if (there == 0) raise(PyExc_RuntimeError, "SessionOptions does not have configuration with key: " + key);
  size_t size = 0;
  check(api().GetSessionConfigEntry(options.handle.get(), key.c_str(), nullptr, &size));
  std::string value(size, '\0');
  check(api().GetSessionConfigEntry(options.handle.get(), key.c_str(), value.data(), &size));
  value.resize(size > 0 ? size - 1 : 0);  // without the final zero
  return value;
}

void add_dimension(Options& options, const std::string& name, int64_t dim) {
  check(api().AddFreeDimensionOverrideByName(options.handle.get(), name.c_str(), dim));
  options.calls.emplace_back("add_free_dimension_override_by_name", nb::make_tuple(name, dim));
}

void add_dimension_by_denotation(Options& options, const std::string& denotation, int64_t dim) {
  check(api().AddFreeDimensionOverride(options.handle.get(), denotation.c_str(), dim));
  options.calls.emplace_back("add_free_dimension_override_by_denotation", nb::make_tuple(denotation, dim));
}

void add_initializer(Options& options, const std::string& name, nb::handle value) {
  if (!nb::isinstance<Value>(value)) raise(PyExc_RuntimeError, "The provided Python object must be an OrtValue");
  check_run(api().AddInitializer(options.handle.get(), name.c_str(), nb::cast<const Value&>(value).handle()));
  options.calls.emplace_back("add_initializer", nb::make_tuple(name, value));
}

void add_external_initializers(Options& options, const std::vector<std::string>& names, nb::list values) {
  if (names.size() != nb::len(values))
    raise(PyExc_RuntimeError, "add_external_initializers has " + std::to_string(names.size()) + " names and " +
                                  std::to_string(nb::len(values)) + " values.");
  std::vector<const char*> texts;
  std::vector<const OrtValue*> handles;
  for (size_t i = 0; i < names.size(); ++i) {
    if (!nb::isinstance<Value>(values[i])) raise(PyExc_RuntimeError, "The provided Python object must be an OrtValue");
    texts.push_back(names[i].c_str());
    handles.push_back(nb::cast<const Value&>(values[i]).handle());
  }
  check(api().AddExternalInitializers(options.handle.get(), texts.data(), handles.data(), texts.size()));
  options.calls.emplace_back("add_external_initializers", nb::make_tuple(names, values));
}

void add_files_in_memory(Options& options, const std::vector<std::string>& names, const std::vector<nb::bytes>& buffers,
                         const std::vector<size_t>& lengths) {
  if (names.size() != buffers.size() || names.size() != lengths.size())
    raise(PyExc_RuntimeError, "Names, buffers and lengths of the files have to be equally many.");
  std::vector<const char*> texts;
  std::vector<char*> data;
  for (size_t i = 0; i < names.size(); ++i) {
    if (lengths[i] > buffers[i].size())
      raise(PyExc_RuntimeError, "The buffer of \"" + names[i] + "\" has " + std::to_string(buffers[i].size()) +
                                    " bytes, and its length is given as " + std::to_string(lengths[i]) + ".");
    texts.push_back(names[i].c_str());
    data.push_back(const_cast<char*>(buffers[i].c_str()));  // read alone
  }
  check(api().AddExternalInitializersFromFilesInMemory(options.handle.get(), texts.data(), data.data(), lengths.data(),
                                                       texts.size()));
  options.calls.emplace_back("add_external_initializers_from_files_in_memory", nb::make_tuple(names, buffers, lengths));
}

void add_provider(Options& options, const std::string& name, const Texts& entries) {
  if (name != kCpuProvider) (void)device_of(name, entries);
  options.providers.emplace_back(name, entries);
}

void add_provider_for_devices(Options& options, nb::list devices, const Texts& entries) {
  std::vector<const OrtEpDevice*> handles;
  for (nb::handle device : devices)
    handles.push_back(reinterpret_cast<const OrtEpDevice*>(nb::cast<uintptr_t>(device.attr("_address")())));
  std::vector<const char*> keys, values;
  for (const auto& [key, value] : entries) {
    keys.push_back(key.c_str());
    values.push_back(value.c_str());
  }
  check(api().SessionOptionsAppendExecutionProvider_V2(options.handle.get(), env(), handles.data(), handles.size(),
                                                       keys.data(), values.data(), keys.size()));
  options.has_devices = options.has_own_devices = true;
}

void set_policy(Options& options, OrtExecutionProviderDevicePolicy policy) {
  check(api().SessionOptionsSetEpSelectionPolicy(options.handle.get(), policy));
  options.has_devices = true;
  options.calls.emplace_back("set_provider_selection_policy", nb::make_tuple(policy));
}

void register_custom_operators(Options& options, const std::string& path) {
  check(api().RegisterCustomOpsLibrary_V2(options.handle.get(), path.c_str()));
  options.has_custom_operators = true;
  options.calls.emplace_back("register_custom_ops_library", nb::make_tuple(path));
}

nb::dict attributes(const Options& o) {
  nb::dict made;
  made["graph_optimization_level"] = o.graph_optimization_level;
  made["execution_mode"] = o.execution_mode;
  made["execution_order"] = o.execution_order;
  made["intra_op_num_threads"] = o.intra_op_num_threads;
  made["inter_op_num_threads"] = o.inter_op_num_threads;
  made["log_severity_level"] = o.log_severity_level;
  made["log_verbosity_level"] = o.log_verbosity_level;
  made["enable_cpu_mem_arena"] = o.enable_cpu_mem_arena;
  made["enable_mem_pattern"] = o.enable_mem_pattern;
  made["enable_mem_reuse"] = o.enable_mem_reuse;
  made["enable_profiling"] = o.enable_profiling;
  made["use_deterministic_compute"] = o.use_deterministic_compute;
  made["use_per_session_threads"] = o.use_per_session_threads;
  made["logid"] = o.logid;
  made["optimized_model_filepath"] = o.optimized_model_filepath;
  made["profile_file_prefix"] = o.profile_file_prefix;
  return made;
}

nb::tuple reduce(const Options& options) {
  if (options.has_own_devices)
    raise(PyExc_TypeError,
          "SessionOptions with add_provider_for_devices cannot be pickled: devices are this process's.");
  if (options.context_reader != nullptr)
    raise(PyExc_TypeError, "SessionOptions with a function for EPContext data cannot be pickled.");
  if (options.policy_delegate != nullptr)
    raise(PyExc_TypeError, "SessionOptions with a function that chooses devices cannot be pickled.");
  nb::list calls;
  for (const auto& [function, arguments] : options.calls) {
    if (function.find("initializer") != std::string::npos)
      raise(PyExc_TypeError, "SessionOptions with initializers of the program (" + function + ") cannot be pickled.");
    calls.append(nb::make_tuple(function, arguments));
  }
  return nb::make_tuple(nb::module_::import_("tenon._session").attr("_restore_options"),
                        nb::make_tuple(attributes(options), options.providers, calls));
}

const TenonCopyLedgerApi& ledgers() {
  static const TenonCopyLedgerApi* const table = reinterpret_cast<TenonGetCopyLedgerApiFn>(
      api().GetExperimentalFunction(TENON_GET_COPY_LEDGER_API))(TENON_COPY_LEDGER_API_VERSION);
  return *table;
}

void set_terminate(RunSettings& run, Truth terminate) {
  const bool value = terminate.value;
  check(value ? api().RunOptionsSetTerminate(run.handle.get()) : api().RunOptionsUnsetTerminate(run.handle.get()));
  run.terminate = value;
}

void bind_run_options(nb::module_& m) {
  using nb::arg;
  nb::class_<RunSettings>(m, "RunOptions", "Options of one run.")
      .def(nb::init<>())
      .def_prop_rw(
          "log_severity_level",
          [](const RunSettings& run) {
            int level = 0;
            check(api().RunOptionsGetRunLogSeverityLevel(run.handle.get(), &level));
            return level;
          },
          [](RunSettings& run, int level) { check(api().RunOptionsSetRunLogSeverityLevel(run.handle.get(), level)); },
          "Messages from this severity on: 0 verbose, 1 info, 2 warning, 3 error, 4 fatal; -1: as the session.")
      .def_prop_rw(
          "log_verbosity_level",
          [](const RunSettings& run) {
            int level = 0;
            check(api().RunOptionsGetRunLogVerbosityLevel(run.handle.get(), &level));
            return level;
          },
          [](RunSettings& run, int level) { check(api().RunOptionsSetRunLogVerbosityLevel(run.handle.get(), level)); },
          "How much is said at severity 0 (verbose); higher is more.")
      .def_prop_rw(
          "logid",
          [](const RunSettings& run) {
            const char* tag = "";
            check(api().RunOptionsGetRunTag(run.handle.get(), &tag));
            return std::string(tag == nullptr ? "" : tag);
          },
          [](RunSettings& run, const std::string& tag) {
            check(api().RunOptionsSetRunTag(run.handle.get(), tag.c_str()));
          },
          "Names the run in messages.")
      .def_prop_rw(
          "terminate", [](const RunSettings& run) { return run.terminate; }, &set_terminate,
          nb::for_setter(nb::arg("on").none()),
          "True ends the runs with these options, also those under way, with the error Fail.")
      .def_prop_rw(
          "waits", [](const RunSettings& run) { return run.waits; },
          [](RunSettings& run, nb::handle fences) { run.set_fences(fences, run.signals); },
          "Runs with these options wait for these fences before they read an input.",
          nb::for_getter(nb::sig("def waits(self, /) -> list[Fence]")),
          nb::for_setter(nb::sig("def waits(self, fences: collections.abc.Iterable[Fence], /) -> None")))
      .def_prop_rw(
          "signals", [](const RunSettings& run) { return run.signals; },
          [](RunSettings& run, nb::handle fences) { run.set_fences(run.waits, fences); },
          "Runs with these options signal these fences when all outputs are written; a run that fails poisons them.",
          nb::for_getter(nb::sig("def signals(self, /) -> list[Fence]")),
          nb::for_setter(nb::sig("def signals(self, fences: collections.abc.Iterable[Fence], /) -> None")))
      .def_prop_rw(
          "only_execute_path_to_fetches", [](const RunSettings& run) { return run.only_execute_path_to_fetches; },
          [](RunSettings& run, Truth only) { run.only_execute_path_to_fetches = only.value; },
          nb::for_setter(nb::arg("on").none()), "Accepted, and without effect.")
      .def(
          "add_run_config_entry",
          [](RunSettings& run, const std::string& key, const std::string& value) {
            check_key(key);
            check(api().AddRunConfigEntry(run.handle.get(), key.c_str(), value.c_str()));
          },
          arg("key"), arg("value"),
          "Sets an option by its key: \"tenon.disallow_copies\" = \"1\" makes a copy an error.")
      .def(
          "get_run_config_entry",
          [](const RunSettings& run, const std::string& key) {
            const char* value = api().GetRunConfigEntry(run.handle.get(), key.c_str());
            if (value == nullptr) raise(PyExc_RuntimeError, "RunOptions does not have configuration with key: " + key);
            return std::string(value);
          },
          arg("key"), "The value of an option by its key. Errors: RuntimeError for one that is not set.")
      .def(
          "add_active_adapter",
          [](RunSettings& run, const Adapter& adapter) {
            if (!adapter.handle)
              raise(PyExc_RuntimeError, "The LoraAdapter has no parameters: give it a file with Load first.");
            check(api().RunOptionsAddActiveLoraAdapter(run.handle.get(), adapter.handle.get()));
            run.has_adapters = true;
          },
          arg("adapter"),
          "Runs with these options take the adapter's parameters in the place of the model's initializers, and of "
          "inputs "
          "of the same names.");
}

void bind_option_enums(nb::module_& m) {
  nb::enum_<GraphOptimizationLevel>(m, "GraphOptimizationLevel",
                                    "Which passes rewrite the graph when a model is loaded.", nb::is_arithmetic())
      .value("ORT_DISABLE_ALL", ORT_DISABLE_ALL)
      .value("ORT_ENABLE_BASIC", ORT_ENABLE_BASIC)
      .value("ORT_ENABLE_EXTENDED", ORT_ENABLE_EXTENDED)
      .value("ORT_ENABLE_LAYOUT", ORT_ENABLE_LAYOUT)
      .value("ORT_ENABLE_ALL", ORT_ENABLE_ALL);
  nb::enum_<ExecutionMode>(m, "ExecutionMode", "Accepted, and without effect: one operator runs at a time.",
                           nb::is_arithmetic())
      .value("ORT_SEQUENTIAL", ORT_SEQUENTIAL)
      .value("ORT_PARALLEL", ORT_PARALLEL);
  nb::enum_<ExecutionOrder>(m, "ExecutionOrder", "Accepted, and without effect: the planner orders the nodes.",
                            nb::is_arithmetic())
      .value("DEFAULT", ExecutionOrder::kDefault)
      .value("PRIORITY_BASED", ExecutionOrder::kPriorityBased)
      .value("MEMORY_EFFICIENT", ExecutionOrder::kMemoryEfficient);
  nb::enum_<OrtExecutionProviderDevicePolicy>(m, "OrtExecutionProviderDevicePolicy",
                                              "How set_provider_selection_policy() chooses devices.",
                                              nb::is_arithmetic())
      .value("DEFAULT", OrtExecutionProviderDevicePolicy_DEFAULT)
      .value("PREFER_CPU", OrtExecutionProviderDevicePolicy_PREFER_CPU)
      .value("PREFER_NPU", OrtExecutionProviderDevicePolicy_PREFER_NPU)
      .value("PREFER_GPU", OrtExecutionProviderDevicePolicy_PREFER_GPU)
      .value("MAX_PERFORMANCE", OrtExecutionProviderDevicePolicy_MAX_PERFORMANCE)
      .value("MAX_EFFICIENCY", OrtExecutionProviderDevicePolicy_MAX_EFFICIENCY)
      .value("MIN_OVERALL_POWER", OrtExecutionProviderDevicePolicy_MIN_OVERALL_POWER);
}

}  // namespace

Options::Options() { check(api().CreateSessionOptions(handle.out())); }

RunSettings::RunSettings() {
  check(api().CreateRunOptions(handle.out()));
  check(ledgers().CreateLedger(&ledger_));
  check(ledgers().SetRunLedger(handle.get(), ledger_));
}

RunSettings::~RunSettings() { ledgers().ReleaseLedger(ledger_); }

void RunSettings::set_fences(nb::handle new_waits, nb::handle new_signals) {
  nb::list kept_waits, kept_signals;
  std::vector<Fence> wait_fences, signal_fences;
  const auto read = [](nb::handle given, const char* what, nb::list& kept, std::vector<Fence>& fences) {
    for (nb::handle fence : given) {
      if (!nb::isinstance<Fence>(fence))
        raise(PyExc_TypeError,
              std::string(what) + " is a list of Fence, and " + nb::cast<std::string>(nb::repr(fence)) + " is none.");
      kept.append(fence);
      fences.push_back(nb::cast<const Fence&>(fence));
    }
  };
  read(new_waits, "waits", kept_waits, wait_fences);
  read(new_signals, "signals", kept_signals, signal_fences);
  check(set_run_fences(handle.get(), wait_fences, signal_fences));
  waits = std::move(kept_waits);
  signals = std::move(kept_signals);
}

std::vector<Copy> RunSettings::take_copies() {
  const TenonCopyRecord* records = nullptr;
  size_t count = 0;
  check(ledgers().GetRecords(ledger_, &records, &count));
  std::vector<Copy> made;
  for (const TenonCopyRecord& record : std::span(records, count))
    made.push_back({.name = record.name,
                    .source = record.from,
                    .target = record.to,
                    .reason = record.reason,
                    .size_bytes = record.bytes,
                    .once = record.once != 0});
  if (count > 0) check(ledgers().ClearLedger(ledger_));
  return made;
}

bool RunSettings::strict() const {
  const char* value = api().GetRunConfigEntry(handle.get(), "tenon.disallow_copies");
  if (value == nullptr) return false;
  const std::string_view text(value);
  return text == "1" || text == "yes" || text == "true" || text == "on";
}

OwnedSessionOptions Options::prepare(const ProviderList& session_providers, int default_threads) const {
  OwnedSessionOptions made;
  check(api().CloneSessionOptions(handle.get(), made.out()));
  OrtSessionOptions* o = made.get();
  check(api().SetSessionGraphOptimizationLevel(o, graph_optimization_level));
  check(api().SetSessionExecutionMode(o, execution_mode));
  check(api().SetIntraOpNumThreads(o, intra_op_num_threads > 0 ? intra_op_num_threads : default_threads));
  check(api().SetInterOpNumThreads(o, inter_op_num_threads));
  if (log_severity_level >= 0) check(api().SetSessionLogSeverityLevel(o, log_severity_level));
  check(api().SetSessionLogVerbosityLevel(o, log_verbosity_level));
  check(enable_cpu_mem_arena ? api().EnableCpuMemArena(o) : api().DisableCpuMemArena(o));
  check(enable_mem_pattern ? api().EnableMemPattern(o) : api().DisableMemPattern(o));
  if (enable_profiling) check(api().EnableProfiling(o, profile_file_prefix.c_str()));
  if (use_deterministic_compute) check(api().SetDeterministicCompute(o, true));
  if (!use_per_session_threads) check(api().DisablePerSessionThreads(o));
  if (!logid.empty()) check(api().SetSessionLogId(o, logid.c_str()));
  if (!optimized_model_filepath.empty()) check(api().SetOptimizedModelFilePath(o, optimized_model_filepath.c_str()));
  append_providers(o, session_providers.empty() ? providers : session_providers);
  return made;
}

void bind_options(nb::module_& m) {
  using nb::arg;
  bind_option_enums(m);
  nb::class_<Options> options(
      m, "SessionOptions",
      "Options of a session. Tenon's own are configuration entries whose keys begin with \"tenon.\".");
  const auto add_switch = [&options]<bool Options::* kMember>(const char* name, const char* doc) {
    options.def_prop_rw(
        name, [](const Options& o) { return o.*kMember; }, [](Options& o, Truth on) { o.*kMember = on.value; },
        nb::for_setter(nb::arg("on").none()), doc);
  };
  constexpr const char* kNoEffect = "Accepted, and without effect.";
  add_switch.operator()<&Options::enable_cpu_mem_arena>("enable_cpu_mem_arena", kNoEffect);
  add_switch.operator()<&Options::enable_mem_pattern>("enable_mem_pattern", kNoEffect);
  add_switch.operator()<&Options::enable_mem_reuse>("enable_mem_reuse", kNoEffect);
  add_switch.operator()<&Options::enable_profiling>("enable_profiling",
                                                    "Runs write a profile; end_profiling() gives its file.");
  add_switch.operator()<&Options::use_deterministic_compute>(
      "use_deterministic_compute", "Providers give the same bits in each run. The CPU always does.");
  add_switch.operator()<&Options::use_per_session_threads>(
      "use_per_session_threads", "False: the session shares the threads of set_global_thread_pool_sizes().");
  options.def(nb::init<>())
      .def_rw("graph_optimization_level", &Options::graph_optimization_level, "Which passes rewrite the graph.")
      .def_rw("execution_mode", &Options::execution_mode, "Accepted, and without effect: one operator runs at a time.")
      .def_rw("execution_order", &Options::execution_order, "Accepted, and without effect.")
      .def_rw("intra_op_num_threads", &Options::intra_op_num_threads,
              "Threads that work on one run, the caller's included; 0: as many as the process may use.")
      .def_rw("inter_op_num_threads", &Options::inter_op_num_threads, "Accepted, and without effect.")
      .def_rw("log_severity_level", &Options::log_severity_level,
              "Messages from this severity on: 0 verbose, 1 info, 2 warning, 3 error, 4 fatal; -1: as the process.")
      .def_rw("log_verbosity_level", &Options::log_verbosity_level,
              "How much is said at severity 0 (verbose); higher is more.")
      .def_rw("logid", &Options::logid, "Names the session in messages.")
      .def_rw("profile_file_prefix", &Options::profile_file_prefix,
              "What the name of the profile's file begins with; date and time follow.")
      .def_rw("optimized_model_filepath", &Options::optimized_model_filepath,
              "Where the optimized model is written when a session is made; empty: nowhere.")
      .def("add_session_config_entry", &add_config_entry, arg("key"), arg("value"),
           "Sets an option by its key; both are strings. docs/reference/options.md lists Tenon's own.")
      .def("get_session_config_entry", &config_entry, arg("key"),
           "The value of an option by its key. Errors: RuntimeError for one that is not set.")
      .def("add_free_dimension_override_by_name", &add_dimension, arg("name"), arg("dim_value"),
           "Gives the dimension of this name in the model's shapes a value.")
      .def("add_free_dimension_override_by_denotation", &add_dimension_by_denotation, arg("denotation"),
           arg("dim_value"), "Gives the dimensions with this denotation (\"DATA_BATCH\") a value.")
      .def("add_initializer", &add_initializer, arg("name"), arg("ort_value"),
           "Takes the value where it lies in the place of the model's initializer.",
           nb::sig("def add_initializer(self, name: str, ort_value: OrtValue) -> None"))
      .def("add_external_initializers", &add_external_initializers, arg("names"), arg("ort_values"),
           "Takes values where they lie for initializers whose data the model has in other files.",
           nb::sig("def add_external_initializers(self, names: collections.abc.Sequence[str], ort_values: "
                   "list[OrtValue]) -> None"))
      .def(
          "add_external_initializers_from_files_in_memory", &add_files_in_memory, arg("file_names"), arg("buffers"),
          arg("lengths"),
          "Files of external data that are in memory: the names that the model has for them, their bytes, and how many "
          "of those count.")
      .def("add_provider", &add_provider, arg("provider_name"), arg("provider_options"),
           "Sessions without `providers` of their own use this one; options are strings by name.")
      .def("add_provider_for_devices", &add_provider_for_devices, arg("ep_devices"), arg("provider_options"),
           "The provider of these devices (get_ep_devices(), all of one provider) with options, strings by name.",
           nb::sig("def add_provider_for_devices(self, ep_devices: list[OrtEpDevice], provider_options: "
                   "collections.abc.Mapping[str, str]) -> None"))
      .def(
          "has_providers", [](const Options& o) { return o.has_devices || !o.providers.empty(); },
          "Whether providers, devices or a policy have been set here.")
      .def("set_provider_selection_policy", &set_policy, arg("policy"), "Leaves the choice of devices to a policy.")
      .def("set_provider_selection_policy_delegate", &set_policy_delegate, arg("delegate"),
           "Leaves the choice of devices to a function: it gets all devices, the model's metadata, the runtime's, and "
           "how many it may choose, and returns those that it chooses, the best first.",
           nb::sig("def set_provider_selection_policy_delegate(self, delegate: "
                   "collections.abc.Callable[[list[OrtEpDevice], dict[str, str], dict[str, str], int], "
                   "collections.abc.Sequence[OrtEpDevice]]) -> None"))
      .def(
          "set_load_cancellation_flag",
          [](Options& o, Truth cancel) {
            check(api().SessionOptionsSetLoadCancellationFlag(o.handle.get(), cancel.value));
          },
          arg("cancel"),
          "True ends the loading of a model with these options, also on another thread, with ModelLoadCanceled.")
      .def("register_custom_ops_library", &register_custom_operators, arg("path"),
           "Loads a library of operators that was built for onnxruntime's C API. Errors: RuntimeError or Fail when it "
           "cannot be loaded.")
      .def("set_ep_context_data_read_func", &set_context_reader, arg("read_func"), arg("max_data_size"),
           "read_func gets the name of EPContext data that the model does not hold, and an OrtEpContextDataBuffer to "
           "fill.",
           nb::sig("def set_ep_context_data_read_func(self, read_func: collections.abc.Callable[[str, "
                   "OrtEpContextDataBuffer], None], max_data_size: int) -> None"))
      .def("clear_ep_context_data_read_func", &clear_context_reader, "Undoes set_ep_context_data_read_func().")
      .def("_provider_list", [](const Options& o) { return o.providers; })
      .def("__reduce__", &reduce);
  bind_run_options(m);
}

}  // namespace tenon::python
