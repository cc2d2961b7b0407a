#pragma once

#include <tenon/session.h>

#include <functional>
#include <memory>

#include "arrays.h"
#include "options.h"
#include "value.h"

namespace tenon::python {

// An input, output or overridable initializer, as the model declares it.
struct NodeArg {
  std::string name;
  std::string type;
  nb::object shape;
};

// A loaded model. Sessions of Python change it as a whole (set_providers), so runs share it.
struct Loaded {
  OwnedSession session;
  std::shared_ptr<Session> core;
  nb::list inputs, outputs, overridable;              // of NodeArg
  std::vector<nb::object> input_names, output_names;  // interned: mostly compared by address
  std::vector<const char*> output_texts;
  // Runs may go to the core directly: nothing is profiled, and its outputs are made where the host reads.
  bool plain = false;
  // How often the process had forked when the model was loaded: its threads are not in a child.
  uint64_t forks = 0;
  bool strict = false;  // the session's options disallow copies
  // What no run uses now; guarded by the GIL.
  struct Plain {
    Binding binding;
    RunReport report;
    std::vector<std::shared_ptr<InputTexts>> texts;  // of inputs that are strings
    std::vector<nb::object> arrays;  // of the run under way: another thread may take them out of the feed meanwhile
  };
  std::vector<std::unique_ptr<Plain>> idle;
  std::vector<std::unique_ptr<RunSettings>> idle_settings;
  // Of the run that ended last; guarded by the GIL.
  std::vector<Copy> last_copies;
};

class PySession {
 public:
  void load(nb::handle path_or_bytes, const Options& options,
            const std::vector<std::tuple<std::string, Texts>>& providers, int default_threads);
  // The session that `create` makes, which is called without the interpreter's lock. `observed`: its runs are profiled
  // or have operators of the program.
  void load_by(const std::function<OrtStatus*(OrtSession**)>& create, bool observed);
  nb::object run(nb::handle output_names, nb::handle feed, nb::handle run_options, nb::handle waits,
                 nb::handle signals);
  nb::object run_with_values(nb::handle output_names, nb::handle feed, nb::handle run_options);
  void run_async(nb::handle output_names, nb::handle feed, nb::handle callback, nb::handle user_data,
                 nb::handle run_options);
  // In a child process of fork the model is loaded anew first.
  const std::shared_ptr<Loaded>& loaded() const;

 private:
  std::shared_ptr<Loaded> loaded_;
};

// How often this process and its parents have forked since the module was imported.
uint64_t fork_count();

// `binding` is an IOBinding of this session, or its native part.
void run_with_binding(nb::handle session, nb::handle binding, nb::handle run_options, nb::handle waits,
                      nb::handle signals);
// Null for None. Errors: TypeError for anything else than RunOptions.
RunSettings* settings_of(nb::handle options);
// InvalidArgument: the array that is input `name` would have to be copied, and strict mode refuses that.
[[noreturn]] void raise_copy(nb::handle array, const std::string& name);

// The settings of one run: the caller's RunOptions, or some of the session's. The destructor says which copies the run
// has made.
class SettingsLease {
 public:
  SettingsLease(std::shared_ptr<Loaded> loaded, nb::handle run_options, nb::handle waits, nb::handle signals);
  SettingsLease(const SettingsLease&) = delete;
  SettingsLease& operator=(const SettingsLease&) = delete;
  ~SettingsLease();
  RunSettings& operator*() const { return *settings_; }
  RunSettings* operator->() const { return settings_; }
  // Copies that the call itself made.
  std::vector<Copy> before;

 private:
  std::shared_ptr<Loaded> loaded_;
  nb::object options_;
  std::unique_ptr<RunSettings> own_;
  RunSettings* settings_ = nullptr;
};

}  // namespace tenon::python
