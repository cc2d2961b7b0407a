#include "session.h"

#include <tenon/ort_bridge.h>
#include <tenon/plan_report.h>

#include <pthread.h>

#include <optional>

#include "arrays.h"

namespace tenon::python {
namespace {

uint64_t forks = 0;

constexpr size_t kNotFound = static_cast<size_t>(-1);

size_t find_name(const std::vector<nb::object>& names, nb::handle name, size_t hint) {
  if (hint < names.size() && names[hint].ptr() == name.ptr()) [[likely]]
    return hint;
  for (size_t i = 0; i < names.size(); ++i)
    if (names[i].ptr() == name.ptr() || PyUnicode_Compare(names[i].ptr(), name.ptr()) == 0) return i;
  return kNotFound;
}

std::string text_of(nb::handle name, const char* what) {
  if (PyUnicode_Check(name.ptr()) == 0)
    raise(PyExc_TypeError, std::string("The names of ") + what + " are strings, and " +
                               nb::cast<std::string>(nb::repr(name)) + " is none.");
  Py_ssize_t size = 0;
  const char* text = PyUnicode_AsUTF8AndSize(name.ptr(), &size);
  if (text == nullptr) throw nb::python_error();  // half of a surrogate pair
  return {text, static_cast<size_t>(size)};
}

nb::object make_shape(const ValueInfo& info) {
  nb::list dims;
  if (!info.has_shape) return dims;
  for (size_t i = 0; i < info.dims.size(); ++i) {
    if (info.dims[i] >= 0) {
      dims.append(info.dims[i]);
    } else if (i < info.dim_names.size() && !info.dim_names[i].empty()) {
      dims.append(info.dim_names[i]);
    } else {
      dims.append(nb::none());
    }
  }
  return dims;
}

nb::list make_args(std::span<const ValueInfo> infos) {
  nb::list made;
  for (const ValueInfo& info : infos)
    made.append(nb::cast(NodeArg{.name = info.name, .type = type_text(info), .shape = make_shape(info)}));
  return made;
}

nb::object interned(const std::string& text) {
  PyObject* made = PyUnicode_InternFromString(text.c_str());
  if (made == nullptr) throw nb::python_error();
  return nb::steal(made);
}

bool is_optional(const ValueInfo& info) { return info.object != nullptr && info.object->kind == ObjectKind::kOptional; }

const ValueInfo* find_info(std::span<const ValueInfo> infos, std::string_view name) {
  for (const ValueInfo& info : infos)
    if (info.name == name) return &info;
  return nullptr;
}

// A call's feed as a dictionary. Errors: what a dictionary says of things that are no mapping.
nb::dict feed_dict(nb::handle feed) {
  if (PyDict_Check(feed.ptr()) != 0) return nb::borrow<nb::dict>(feed);
  nb::dict made;
  if (!nb::hasattr(feed, "keys")) (void)feed.attr("keys");  // AttributeError, as from onnxruntime's package
  if (PyDict_Update(made.ptr(), feed.ptr()) != 0) throw nb::python_error();
  return made;
}

// Names and values of one run through the C ABI.
struct Call {
  std::vector<std::string> input_texts;
  std::vector<Value> values;            // made for this run
  std::vector<const OrtValue*> inputs;  // those, and the caller's
  std::vector<nb::object> kept;         // the caller's
  std::vector<std::string> output_texts;
  std::vector<const char*> input_names, output_names;
  std::vector<OrtValue*> outputs;

  Call() = default;
  Call(const Call&) = delete;
  Call& operator=(const Call&) = delete;
  ~Call() {
    for (OrtValue* output : outputs) api().ReleaseValue(output);
  }
  void point() {
    for (const std::string& text : input_texts) input_names.push_back(text.c_str());
    for (const std::string& text : output_texts) output_names.push_back(text.c_str());
    outputs.assign(output_names.size(), nullptr);
  }
  Value take_output(size_t index) { return Value::take(std::exchange(outputs[index], nullptr)); }
};

void check_complete(const Loaded& loaded, nb::dict feed) {
  nb::list missing;
  for (const ValueInfo& info : loaded.core->inputs())
    if (!is_optional(info) && !feed.contains(info.name.c_str())) missing.append(info.name);
  if (nb::len(missing) == 0) return;
  raise(PyExc_ValueError, "Required inputs (" + nb::cast<std::string>(nb::repr(missing)) +
                              ") are missing from input feed (" + nb::cast<std::string>(nb::repr(feed.keys())) + ").");
}

void add_input(const Loaded& loaded, Call& call, const std::string& name, nb::handle given, SettingsLease& settings) {
  const ValueInfo* info = find_info(loaded.core->inputs(), name);
  if (info == nullptr) info = find_info(loaded.core->overridable_initializers(), name);
  if (info == nullptr && given.is_none()) return;  // as onnxruntime
  if (nb::isinstance<Value>(given)) {
    call.inputs.push_back(nb::cast<const Value&>(given).handle());
    call.kept.push_back(nb::borrow(given));
  } else {
    if (given.is_none() && info != nullptr && !is_optional(*info))
      raise(ORT_INVALID_ARGUMENT,
            "Input \"" + name + "\" is None, and the model declares it as " + type_text(*info) + ".");
    const bool is_tensor = is_array(given) && (info == nullptr || info->object == nullptr);
    bool copied = false;
    Tensor tensor = is_tensor ? tensor_of_array(given, &copied)
                              : tensor_of_object(given, info == nullptr ? DataType::kUndefined : info->type,
                                                 info == nullptr ? nullptr : info->object, name);
    if (copied && tensor.type() != DataType::kString) {
      if (loaded.strict || settings->strict()) raise_copy(given, name);
      settings.before.push_back({.name = name,
                                 .source = "cpu",
                                 .target = "cpu",
                                 .reason = "not_contiguous",
                                 .size_bytes = tensor.size_bytes()});
    }
    call.values.emplace_back(std::move(tensor));
    call.inputs.push_back(nullptr);  // of `values`, which still grows
  }
  call.input_texts.push_back(name);
}

void fill_outputs(const Loaded& loaded, Call& call, nb::handle output_names) {
  const int given = PyObject_IsTrue(output_names.ptr());
  if (given < 0) throw nb::python_error();
  if (given == 0) {
    for (const ValueInfo& info : loaded.core->outputs()) call.output_texts.push_back(info.name);
    return;
  }
  if (PyUnicode_Check(output_names.ptr()) != 0)
    raise(PyExc_TypeError,
          "output_names is a list of names, and this is one string: \"" + nb::cast<std::string>(output_names) + "\".");
  for (nb::handle name : output_names)
    call.output_texts.push_back(nb::isinstance<nb::bytes>(name) ? std::string(nb::cast<nb::bytes>(name).c_str())
                                                                : text_of(name, "outputs"));
}

void fill(const Loaded& loaded, Call& call, nb::handle output_names, nb::handle given, SettingsLease& settings) {
  const nb::dict feed = feed_dict(given);
  check_complete(loaded, feed);
  for (auto [name, value] : feed) add_input(loaded, call, text_of(name, "inputs"), value, settings);
  for (const ValueInfo& info : loaded.core->inputs()) {
    if (!is_optional(info) || feed.contains(info.name.c_str())) continue;
    call.values.emplace_back(object_tensor(nullptr));
    call.inputs.push_back(nullptr);
    call.input_texts.push_back(info.name);
  }
  size_t next = 0;
  for (const OrtValue*& input : call.inputs)
    if (input == nullptr) input = call.values[next++].handle();
  fill_outputs(loaded, call, output_names);
  call.point();
}

void run_call(const Loaded& loaded, Call& call, const OrtRunOptions* options) {
  OrtStatus* status = nullptr;
  {
    const Unlocked unlocked;
    status = api().Run(loaded.session.get(), options, call.input_names.data(), call.inputs.data(), call.inputs.size(),
                       call.output_names.data(), call.output_names.size(), call.outputs.data());
  }
  check(status);
}

// A binding for one run, given back at its end.
class Lease {
 public:
  explicit Lease(Loaded& loaded) : loaded_(loaded) {
    if (loaded.idle.empty()) {
      plain_.reset(
          new Loaded::Plain{.binding = unwrap(loaded.core->make_binding()), .report = {}, .texts = {}, .arrays = {}});
      plain_->report.timed = false;
    } else {
      plain_ = std::move(loaded.idle.back());
      loaded.idle.pop_back();
    }
  }
  Lease(const Lease&) = delete;
  Lease& operator=(const Lease&) = delete;
  ~Lease() {
    if (holds_objects_) (void)plain_->binding.clear();
    plain_->arrays.clear();
    loaded_.idle.push_back(std::move(plain_));
  }
  Binding& binding() { return plain_->binding; }
  RunReport& report() { return plain_->report; }
  // The strings of an array; nothing for one that the C ABI looks at. Those of the run before are not bound any more.
  std::optional<Tensor> strings_of(size_t input, nb::handle array) {
    if (input >= plain_->texts.size()) plain_->texts.resize(input + 1);
    (void)plain_->binding.unbind_input(input);
    return plain_strings_of(array, plain_->texts[input]);
  }
  // Keeps an array alive as long as the run reads it.
  void keep(nb::handle array) { plain_->arrays.push_back(nb::borrow(array)); }
  // Binds a value that may keep objects of the program's alive, as outputs made of it may: the idle binding does not.
  Status bind_made(size_t input, Tensor value) {
    holds_objects_ = true;
    return plain_->binding.bind_input(input, std::move(value));
  }

 private:
  Loaded& loaded_;
  std::unique_ptr<Loaded::Plain> plain_;
  bool holds_objects_ = false;
};

void keep_copies(Loaded& loaded, const CopyLedger& ledger) {
  if (ledger.records.empty() && loaded.last_copies.empty()) [[likely]]
    return;
  loaded.last_copies.clear();
  for (const CopyRecord& record : ledger.records)
    loaded.last_copies.push_back({.name = record.what,
                                  .source = record.source.to_string(),
                                  .target = record.target.to_string(),
                                  .reason = std::string(copy_reason_name(record.reason)),
                                  .size_bytes = record.bytes,
                                  .once = record.once});
}

// Whether the model takes this type and shape as they are; what is only nearly right the C ABI looks at.
bool fits(const ValueInfo& info, const Tensor& tensor) {
  if (tensor.type() != info.type) return false;
  if (!info.has_shape) return true;
  if (static_cast<size_t>(tensor.shape().rank()) != info.dims.size()) return false;
  for (size_t i = 0; i < info.dims.size(); ++i)
    if (info.dims[i] >= 0 && info.dims[i] != tensor.shape()[static_cast<int>(i)]) return false;
  return true;
}

// `feed`, or a copy of it where a value is no array: reading a list may run code of the program's, which may take
// arrays out of `feed` that are bound already.
nb::object steady(nb::handle feed) {
  Py_ssize_t position = 0;
  PyObject* array = nullptr;
  while (PyDict_Next(feed.ptr(), &position, nullptr, &array) != 0) {
    if (is_array(array)) continue;
    nb::object copy = nb::steal(PyDict_Copy(feed.ptr()));
    if (!copy.is_valid()) throw nb::python_error();
    return copy;
  }
  return nb::borrow(feed);
}

// The value of a list or a dictionary; nothing for other objects, and for those that the C ABI has the words for.
std::optional<Tensor> made_of(nb::handle object, const ValueInfo& info) {
  if (PyList_Check(object.ptr()) == 0 && PyTuple_Check(object.ptr()) == 0 && PyDict_Check(object.ptr()) == 0)
    return std::nullopt;
  try {
    Tensor made = tensor_of_object(object, info.type, info.object, info.name);
    if (info.object != nullptr || fits(info, made)) return made;
  } catch (nb::python_error& error) {
    if (!error.matches(PyExc_Exception)) throw;
  }
  return std::nullopt;
}

// The run of most calls: a dictionary with an array, or a list of the right kind, for each input. Arrays are used where
// they lie, and what the arrays of its results show is memory of the run. An invalid object for all other calls, and
// for what is wrong: the C ABI then does it, or finds the words.
nb::object run_plain(Loaded& loaded, nb::handle output_names, nb::handle feed) {
  const std::span<const ValueInfo> infos = loaded.core->inputs();
  if (static_cast<size_t>(PyDict_Size(feed.ptr())) != infos.size()) return {};
  const nb::object items = steady(feed);
  Lease lease(loaded);
  Binding& binding = lease.binding();
  Py_ssize_t position = 0;
  PyObject* name = nullptr;
  PyObject* array = nullptr;
  for (size_t i = 0; PyDict_Next(items.ptr(), &position, &name, &array) != 0; ++i) {
    if (PyUnicode_Check(name) == 0) return {};
    const size_t index = find_name(loaded.input_names, name, i);
    if (index == kNotFound) return {};
    if (!is_array(array)) {
      std::optional<Tensor> made = made_of(array, infos[index]);
      if (!made || !lease.bind_made(index, *std::move(made)).ok()) return {};
      continue;
    }
    std::optional<Tensor> view =
        infos[index].type == DataType::kString ? lease.strings_of(index, array) : view_of(array, /*owned=*/false);
    if (!view || !fits(infos[index], *view)) return {};
    if (!binding.bind_input(index, *std::move(view)).ok()) return {};
    lease.keep(array);
  }
  const bool listed = PyList_Check(output_names.ptr()) != 0 || PyTuple_Check(output_names.ptr()) != 0;
  if (!listed && !output_names.is_none()) return {};
  const Py_ssize_t listed_count = listed ? PySequence_Size(output_names.ptr()) : 0;
  if (listed_count < 0) throw nb::python_error();
  const bool all = listed_count == 0;
  std::vector<size_t> wanted;
  if (!all) {
    for (nb::handle output : output_names) {
      if (PyUnicode_Check(output.ptr()) == 0) return {};
      wanted.push_back(find_name(loaded.output_names, output, wanted.size()));
      if (wanted.back() == kNotFound) return {};
    }
  }
  Status status;
  {
    const Unlocked unlocked;
    status = loaded.core->run(binding, {.report = &lease.report()});
  }
  keep_copies(loaded, lease.report().copies);
  if (!status.ok()) [[unlikely]]
    raise(static_cast<OrtErrorCode>(error_code_of_run(status)), status.message());
  const size_t count = all ? loaded.output_names.size() : wanted.size();
  nb::list results = nb::steal<nb::list>(PyList_New(static_cast<Py_ssize_t>(count)));
  for (size_t i = 0; i < count; ++i) {
    nb::object result = to_python(binding.output(all ? i : wanted[i]));
    PyList_SetItem(results.ptr(), static_cast<Py_ssize_t>(i), result.release().ptr());
  }
  return results;
}

// A run on another thread, with all that it needs.
struct AsyncRun {
  AsyncRun(const std::shared_ptr<Loaded>& session, nb::handle run_options)
      : loaded(session), settings(session, run_options, nb::none(), nb::none()) {}
  Call call;
  std::shared_ptr<Loaded> loaded;
  SettingsLease settings;
  nb::object feed, callback, user_data;
};

void finish_async(void* user_data, OrtValue**, size_t, OrtStatus* status) noexcept {
  if (Py_IsInitialized() == 0) return;
  const Locked locked;
  const std::unique_ptr<AsyncRun> run(static_cast<AsyncRun*>(user_data));
  nb::list results;
  std::string message;
  try {
    if (status != nullptr) {
      message = take_message(status);
    } else {
      for (size_t i = 0; i < run->call.outputs.size(); ++i)
        results.append(to_python(run->call.take_output(i).tensor()));
    }
    run->callback(results, run->user_data, message);
  } catch (nb::python_error& error) {
    error.discard_as_unraisable("the callback of run_async");
  } catch (const std::exception& error) {
    PyErr_SetString(PyExc_RuntimeError, error.what());
    PyErr_WriteUnraisable(run->callback.ptr());
  } catch (abi::__forced_unwind&) {  // the callback gave the lock away and wants it back
    stop_thread();
  }
}

nb::list memory_infos(const PySession& session, bool inputs) {
  const std::shared_ptr<Loaded> kept = session.loaded();
  const Loaded& loaded = *kept;
  const size_t count = inputs ? loaded.core->inputs().size() : loaded.core->outputs().size();
  std::vector<const OrtMemoryInfo*> infos(count);
  check(inputs ? api().SessionGetMemoryInfoForInputs(loaded.session.get(), infos.data(), count)
               : api().SessionGetMemoryInfoForOutputs(loaded.session.get(), infos.data(), count));
  nb::list made;
  for (const OrtMemoryInfo* info : infos) made.append(nb::cast(MemoryInfo{.owned = {}, .info = info, .owner = kept}));
  return made;
}

nb::list input_devices(const PySession& session) {
  const std::shared_ptr<Loaded> kept = session.loaded();
  const Loaded& loaded = *kept;
  std::vector<const OrtEpDevice*> devices(loaded.core->inputs().size());
  check(api().SessionGetEpDeviceForInputs(loaded.session.get(), devices.data(), devices.size()));
  nb::list made;
  for (const OrtEpDevice* device : devices) {
    if (device == nullptr) {
      made.append(nb::none());
    } else {
      made.append(nb::cast(EpDevice{device}));
    }
  }
  return made;
}

nb::object metadata(const PySession& session) {
  const ModelMetadata& m = session.loaded()->core->metadata();
  nb::dict custom;
  for (const auto& [key, value] : m.custom) custom[key.c_str()] = value;
  // As onnxruntime: the largest number stands for none.
  return nb::make_tuple(m.producer_name, m.graph_name, m.domain, m.description, m.graph_description,
                        m.has_version ? m.version : INT64_MAX, custom);
}

nb::list assignments(const PySession& session) {
  const OrtEpAssignedSubgraph* const* parts = nullptr;
  size_t count = 0;
  check(api().Session_GetEpGraphAssignmentInfo(session.loaded()->session.get(), &parts, &count));
  nb::list made;
  for (size_t i = 0; i < count; ++i) {
    const char* ep = "";
    check(api().EpAssignedSubgraph_GetEpName(parts[i], &ep));
    const OrtEpAssignedNode* const* nodes = nullptr;
    size_t node_count = 0;
    check(api().EpAssignedSubgraph_GetNodes(parts[i], &nodes, &node_count));
    nb::list node_list;
    for (size_t n = 0; n < node_count; ++n) {
      const char *name = "", *domain = "", *type = "";
      check(api().EpAssignedNode_GetName(nodes[n], &name));
      check(api().EpAssignedNode_GetDomain(nodes[n], &domain));
      check(api().EpAssignedNode_GetOperatorType(nodes[n], &type));
      node_list.append(nb::make_tuple(name, domain, type));
    }
    made.append(nb::make_tuple(ep, node_list));
  }
  return made;
}

// The plan for these shapes, as text and as JSON.
nb::tuple plan(const PySession& session, const std::map<std::string, std::vector<int64_t>>& given) {
  std::map<std::string, Shape> shapes;
  for (const auto& [name, dims] : given) shapes.emplace(name, Shape(std::span<const int64_t>(dims)));
  const std::shared_ptr<Session> core = session.loaded()->core;
  std::pair<std::string, std::string> texts;
  Status status;
  {
    const Unlocked unlocked;
    Result<PlanReport> report = core->plan_report(shapes, {});
    status = report.status();
    if (status.ok()) texts = {report->to_text(), report->to_json()};
  }
  check(status);
  return nb::make_tuple(texts.first, texts.second);
}

std::string end_profiling(const PySession& session) {
  char* file = nullptr;
  check(api().SessionEndProfiling(session.loaded()->session.get(), default_allocator(), &file));
  return take_text(file);
}

uint64_t profiling_start(const PySession& session) {
  uint64_t start = 0;
  check(api().SessionGetProfilingStartTimeNs(session.loaded()->session.get(), &start));
  return start;
}

void set_dynamic_options(const PySession& session, const Texts& options) {
  std::vector<const char*> keys, values;
  for (const auto& [key, value] : options) {
    keys.push_back(key.c_str());
    values.push_back(value.c_str());
  }
  check(api().SetEpDynamicOptions(session.loaded()->session.get(), keys.data(), values.data(), keys.size()));
}

// Bytes, or any object with a buffer of them.
std::span<const std::byte> bytes_of(nb::handle object, char** data) {
  Py_ssize_t size = 0;
  if (PyBytes_AsStringAndSize(object.ptr(), data, &size) != 0) throw nb::python_error();
  return {reinterpret_cast<const std::byte*>(*data), static_cast<size_t>(size)};
}

// The end of a session unmaps its memory and waits for its threads, which may wait for the interpreter's lock (the
// program's logging function is called by them): other threads of Python run meanwhile.
void end_loaded(Loaded* loaded) {
  if (loaded->forks != forks) return;          // the threads of a parent's session are not in a child of fork
  const std::unique_ptr<Loaded> rest(loaded);  // Python's objects in it go when the lock is back
  const Unlocked unlocked;
  loaded->idle.clear();
  loaded->core.reset();
  loaded->session = OwnedSession();
}

}  // namespace

void raise_copy(nb::handle array, const std::string& name) {
  raise(ORT_INVALID_ARGUMENT,
        "Input \"" + name + "\" would be copied, and tenon.disallow_copies is set: its array of shape " +
            str_of(array.attr("shape")) + " has strides of " + str_of(array.attr("strides")) + " bytes and the dtype " +
            str_of(array.attr("dtype").attr("str")) +
            ". A run reads arrays in place that are contiguous, aligned and of the machine's byte order.");
}

SettingsLease::SettingsLease(std::shared_ptr<Loaded> loaded, nb::handle run_options, nb::handle waits,
                             nb::handle signals)
    : loaded_(std::move(loaded)), options_(nb::borrow(run_options)) {
  settings_ = settings_of(run_options);
  const bool fences = !is_none(waits) || !is_none(signals);
  if (settings_ != nullptr) {
    if (fences)
      raise(PyExc_TypeError, "Fences are given to run() or are the RunOptions' (waits, signals), and not both.");
    return;
  }
  if (fences) {
    own_ = std::make_unique<RunSettings>();
    own_->set_fences(is_none(waits) ? nb::tuple() : waits, is_none(signals) ? nb::tuple() : signals);
  } else if (loaded_->idle_settings.empty()) {
    own_ = std::make_unique<RunSettings>();
  } else {
    own_ = std::move(loaded_->idle_settings.back());
    loaded_->idle_settings.pop_back();
  }
  settings_ = own_.get();
}

SettingsLease::~SettingsLease() {
  loaded_->last_copies = std::move(before);
  for (Copy& copy : settings_->take_copies()) loaded_->last_copies.push_back(std::move(copy));
  if (own_ != nullptr && nb::len(own_->waits) == 0 && nb::len(own_->signals) == 0)
    loaded_->idle_settings.push_back(std::move(own_));
}

RunSettings* settings_of(nb::handle options) {
  if (options.is_none()) return nullptr;
  if (!nb::isinstance<RunSettings>(options))
    raise(PyExc_TypeError,
          "run_options is a RunOptions or None, and this is " + nb::cast<std::string>(nb::repr(options)) + ".");
  return nb::cast<RunSettings*>(options);
}

uint64_t fork_count() { return forks; }

const std::shared_ptr<Loaded>& PySession::loaded() const {
  if (loaded_ == nullptr) raise(PyExc_RuntimeError, "The session has no model: its __init__ has not run.");
  if (loaded_->forks != forks) [[unlikely]]
    nb::find(*this).attr("_reload")();
  return loaded_;
}

void PySession::load(nb::handle path_or_bytes, const Options& options,
                     const std::vector<std::tuple<std::string, Texts>>& providers, int default_threads) {
  const OwnedSessionOptions prepared = options.prepare(providers, default_threads);
  OrtEnv* const environment = env();
  const bool observed = options.enable_profiling || options.has_custom_operators;
  if (PyBytes_Check(path_or_bytes.ptr()) != 0) {
    char* data = nullptr;
    const std::span<const std::byte> bytes = bytes_of(path_or_bytes, &data);
    const auto create = [&](OrtSession** made) {
      return api().CreateSessionFromArray(environment, bytes.data(), bytes.size(), prepared.get(), made);
    };
    return load_by(create, observed);
  }
  const nb::object encoded = nb::steal(PyUnicode_EncodeFSDefault(path_or_bytes.ptr()));
  if (!encoded.is_valid()) throw nb::python_error();
  char* text = nullptr;  // no size is asked for: a path with a zero in it is a ValueError
  if (PyBytes_AsStringAndSize(encoded.ptr(), &text, nullptr) != 0) throw nb::python_error();
  const std::string path = text;
  const auto create = [&](OrtSession** made) {
    return api().CreateSession(environment, path.c_str(), prepared.get(), made);
  };
  load_by(create, observed);
}

void PySession::load_by(const std::function<OrtStatus*(OrtSession**)>& create, bool observed) {
  std::shared_ptr<Loaded> made(new Loaded, &end_loaded);
  made->forks = forks;
  OrtStatus* status = nullptr;
  {
    const Unlocked unlocked;
    status = create(made->session.out());
  }
  check(status);
  made->core = session_of(made->session.get());
  made->inputs = make_args(made->core->inputs());
  made->outputs = make_args(made->core->outputs());
  made->overridable = make_args(made->core->overridable_initializers());
  for (const ValueInfo& info : made->core->inputs()) made->input_names.push_back(interned(info.name));
  for (const ValueInfo& info : made->core->outputs()) made->output_names.push_back(interned(info.name));
  made->plain = !observed;
  for (const ValueSpace& space : made->core->output_spaces())
    made->plain &= devices_are_memory_compatible(space.space, MemorySpace());
  made->strict = made->core->options().disallow_copies;
  loaded_ = std::move(made);
}

nb::object PySession::run(nb::handle output_names, nb::handle feed, nb::handle run_options, nb::handle waits,
                          nb::handle signals) {
  const std::shared_ptr<Loaded> loaded = this->loaded();
  if (loaded->plain && run_options.is_none() && waits.is_none() && signals.is_none() && PyDict_Check(feed.ptr()) != 0) {
    nb::object results = run_plain(*loaded, output_names, feed);
    if (results.is_valid()) [[likely]]
      return results;
    PyErr_Clear();
  }
  SettingsLease settings(loaded, run_options, waits, signals);
  Call call;
  fill(*loaded, call, output_names, feed, settings);
  run_call(*loaded, call, settings->handle.get());
  nb::list results;
  for (size_t i = 0; i < call.outputs.size(); ++i) results.append(to_python(call.take_output(i).tensor()));
  return results;
}

nb::object PySession::run_with_values(nb::handle output_names, nb::handle feed, nb::handle run_options) {
  const std::shared_ptr<Loaded> loaded = this->loaded();
  SettingsLease settings(loaded, run_options, nb::none(), nb::none());
  Call call;
  fill(*loaded, call, output_names, feed, settings);
  run_call(*loaded, call, settings->handle.get());
  nb::list results;
  for (size_t i = 0; i < call.outputs.size(); ++i) results.append(nb::cast(call.take_output(i)));
  return results;
}

void PySession::run_async(nb::handle output_names, nb::handle feed, nb::handle callback, nb::handle user_data,
                          nb::handle run_options) {
  if (PyCallable_Check(callback.ptr()) == 0)
    raise(PyExc_TypeError, "callback is a function, and this is " + str_of(nb::repr(callback)) + ".");
  auto run = std::make_unique<AsyncRun>(loaded(), run_options);
  fill(*run->loaded, run->call, output_names, feed, run->settings);
  run->feed = nb::borrow(feed);
  run->callback = nb::borrow(callback);
  run->user_data = nb::borrow(user_data);
  Call& call = run->call;
  check(api().RunAsync(run->loaded->session.get(), run->settings->handle.get(), call.input_names.data(),
                       call.inputs.data(), call.inputs.size(), call.output_names.data(), call.output_names.size(),
                       call.outputs.data(), finish_async, run.get()));
  (void)run.release();  // the callback's
}

void bind_session(nb::module_& m) {
  using nb::arg;
  pthread_atfork(nullptr, nullptr, [] { ++forks; });
  nb::class_<NodeArg>(m, "NodeArg", "An input, output or overridable initializer, as the model declares it.")
      .def_ro("name", &NodeArg::name, "As the model has it.")
      .def_ro("type", &NodeArg::type, "\"tensor(float)\", \"seq(tensor(int64))\", ...")
      .def_ro("shape", &NodeArg::shape,
              "A number, a name or None for each dimension; empty for a scalar and for what has no shape.",
              nb::sig("def shape(self, /) -> list[int | str | None]"))
      .def("__repr__", [](const NodeArg& a) {
        return "NodeArg(name='" + a.name + "', type='" + a.type +
               "', shape=" + nb::cast<std::string>(nb::repr(a.shape)) + ")";
      });
  nb::class_<Copy>(m, "Copy", "A copy that a run made.")
      .def_ro("name", &Copy::name, "Of the tensor, as the model has it.")
      .def_ro("source", &Copy::source, "\"cpu\", \"gpu:0 (vendor 0x10de)\", ...")
      .def_ro("target", &Copy::target, "The memory that was written, named as `source`.")
      .def_ro("reason", &Copy::reason, "\"not_contiguous\" for an argument's array, else a reason of the run's.")
      .def_ro("size_bytes", &Copy::size_bytes, "Bytes that were copied.")
      .def_ro("once", &Copy::once, "Made once for the session, and in no later run.")
      .def("__repr__", [](const Copy& c) {
        return "Copy(name='" + c.name + "', size_bytes=" + std::to_string(c.size_bytes) + ", reason='" + c.reason +
               "', source='" + c.source + "', target='" + c.target + "')";
      });
  constexpr const char* kRunDoc =
      "Runs the model and returns a list of its outputs.\n\n"
      "output_names: a list of names, or None for all outputs.\n"
      "input_feed: a dictionary from names to arrays, lists, OrtValues, or dictionaries for maps.\n"
      "run_options: RunOptions, or None.\n"
      "waits: fences that the run waits for before it reads an input.\n"
      "signals: fences that it signals when all outputs are written.\n\n"
      "Arrays that are contiguous are read where they lie; the arrays of the results are the memory that the run "
      "wrote. "
      "Other Python threads run meanwhile. Errors: ValueError for a missing input, InvalidArgument for a wrong name, "
      "type "
      "or shape, and what a run of the model raises.";
  nb::class_<PySession>(m, "Session", "A loaded model. InferenceSession is what programs use.",
                        nb::is_weak_referenceable())
      .def(nb::init<>())
      .def(
          "_load", &PySession::load,
          nb::sig(
              "def _load(self, path_or_bytes: str | bytes, options: SessionOptions, providers: "
              "collections.abc.Sequence[tuple[str, collections.abc.Mapping[str, str]]], default_threads: int) -> None"),
          arg("path_or_bytes"), arg("options"), arg("providers"), arg("default_threads"))
      .def("run", &PySession::run, arg("output_names").none(), arg("input_feed").none(),
           arg("run_options") = nb::none(), nb::kw_only(), arg("waits") = nb::none(), arg("signals") = nb::none(),
           kRunDoc,
           nb::sig("def run(self, output_names: collections.abc.Sequence[str] | None, input_feed: "
                   "collections.abc.Mapping[str, typing.Any], run_options: RunOptions | None = None, *, waits: "
                   "collections.abc.Iterable[Fence] | None = None, signals: collections.abc.Iterable[Fence] | None = "
                   "None) -> list[typing.Any]"))
      .def("run_with_ort_values", &PySession::run_with_values, arg("output_names").none(), arg("input_dict_ort_values"),
           arg("run_options") = nb::none(), "The same with OrtValues in and out.",
           nb::sig("def run_with_ort_values(self, output_names: collections.abc.Sequence[str] | None, "
                   "input_dict_ort_values: collections.abc.Mapping[str, OrtValue], run_options: RunOptions | None = "
                   "None) -> list[OrtValue]"))
      .def("run_with_iobinding", &run_with_binding, arg("iobinding"), arg("run_options") = nb::none(), nb::kw_only(),
           arg("waits") = nb::none(), arg("signals") = nb::none(),
           "Runs the model on what is bound, after the fences `waits`, and signals the fences `signals` at its end.\n\n"
           "Errors: ValueError for the binding of another session; RuntimeError says what is wrong with the binding or "
           "the run.",
           nb::sig("def run_with_iobinding(self, iobinding: tenon._session.IOBinding | SessionIOBinding, run_options: "
                   "RunOptions | None = None, *, waits: collections.abc.Iterable[Fence] | None = None, signals: "
                   "collections.abc.Iterable[Fence] | None = None) -> None"))
      .def("run_async", &PySession::run_async, arg("output_names").none(), arg("input_feed"), arg("callback"),
           arg("user_data").none(), arg("run_options") = nb::none(),
           "Starts a run and returns. Another thread calls callback(results, user_data, error) at its end; `error` is "
           "empty when all went well.",
           nb::sig("def run_async(self, output_names: collections.abc.Sequence[str] | None, input_feed: "
                   "collections.abc.Mapping[str, typing.Any], callback: collections.abc.Callable[[list[typing.Any], "
                   "typing.Any, str], None], user_data: typing.Any, run_options: RunOptions | None = None) -> None"))
      .def(
          "get_inputs", [](const PySession& s) { return s.loaded()->inputs; }, "What a run takes.",
          nb::sig("def get_inputs(self) -> list[NodeArg]"))
      .def(
          "get_outputs", [](const PySession& s) { return s.loaded()->outputs; }, "What a run gives.",
          nb::sig("def get_outputs(self) -> list[NodeArg]"))
      .def(
          "get_overridable_initializers", [](const PySession& s) { return s.loaded()->overridable; },
          "Initializers that a run may replace by inputs of their names.",
          nb::sig("def get_overridable_initializers(self) -> list[NodeArg]"))
      .def_prop_ro(
          "last_copies", [](const PySession& s) { return s.loaded()->last_copies; },
          "The copies that the run made which ended last, its arguments included; empty for most runs.",
          nb::sig("def last_copies(self, /) -> list[Copy]"))
      .def("_plan", &plan, arg("shapes"),
           nb::sig("def _plan(self, shapes: collections.abc.Mapping[str, collections.abc.Sequence[int]]) -> tuple[str, "
                   "str]"))
      .def("_metadata", &metadata,
           nb::sig("def _metadata(self) -> tuple[str, str, str, str, str, int, dict[str, str]]"))
      .def("_assignments", &assignments,
           nb::sig("def _assignments(self) -> list[tuple[str, list[tuple[str, str, str]]]]"))
      .def(
          "get_input_memory_infos", [](const PySession& s) { return memory_infos(s, true); },
          "Where each input is wanted: a tensor there needs no copy.",
          nb::sig("def get_input_memory_infos(self) -> list[OrtMemoryInfo]"))
      .def("get_input_epdevices", &input_devices,
           "The device whose provider wants each input; None for an input that nothing reads.",
           nb::sig("def get_input_epdevices(self) -> list[OrtEpDevice | None]"))
      .def(
          "get_output_memory_infos", [](const PySession& s) { return memory_infos(s, false); },
          "Where each output is made.", nb::sig("def get_output_memory_infos(self) -> list[OrtMemoryInfo]"))
      .def("end_profiling", &end_profiling, "Ends the profile and returns its file's name.")
      .def("_profiling_start_ns", &profiling_start)
      .def("set_ep_dynamic_options", &set_dynamic_options, arg("options"),
           "Changes options of the session's providers between runs; names and values are strings. Errors: those of a "
           "provider that does not know an option.");
}

}  // namespace tenon::python
