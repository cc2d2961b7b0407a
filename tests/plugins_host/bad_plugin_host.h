// For tests that load the faulty EP library: sets its mistake and other switches (bad_plugin.cc), reads the calls that
// it recorded, and tells whether it is loaded. Threads: one, because it sets environment variables.
#pragma once

#include <dlfcn.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <ostream>
#include <string>
#include <vector>

namespace tenon::bad_plugin {

inline constexpr const char* kPlugin = BAD_PLUGIN;

// A variable of the environment that is set for as long as the object lives.
class Variable {
 public:
  Variable(const char* name, const std::string& value) : name_(name) { setenv(name, value.c_str(), 1); }
  ~Variable() { unsetenv(name_); }
  Variable(const Variable&) = delete;
  Variable& operator=(const Variable&) = delete;

 private:
  const char* const name_;
};

struct Lie : Variable {
  explicit Lie(const std::string& name) : Variable("TENON_BAD_PLUGIN", name) {}
};
// The library offers a device, too.
struct WithDevice : Variable {
  WithDevice() : Variable("TENON_BAD_PLUGIN_DEVICE", "1") {}
};

// The library's functions that the host calls while this lives, in their order.
class Calls {
 public:
  std::vector<std::string> names() const {
    std::vector<std::string> names;
    std::ifstream file(file_);
    for (std::string line; std::getline(file, line);) names.push_back(line);
    return names;
  }
  ~Calls() { std::filesystem::remove(file_); }

 private:
  static std::string new_file() {
    std::string file = (std::filesystem::temp_directory_path() / "tenon_calls_XXXXXX").string();
    const int fd = mkstemp(file.data());
    if (fd >= 0) close(fd);
    return file;
  }
  const std::string file_ = new_file();
  const Variable variable_{"TENON_BAD_PLUGIN_CALLS", file_};
};

inline bool plugin_is_loaded() {
  void* handle = dlopen(kPlugin, RTLD_NOW | RTLD_NOLOAD);
  if (handle != nullptr) dlclose(handle);
  return handle != nullptr;
}

// A lie, the step that fails because of it, and a part of the failure's text.
template <typename Step>
struct LieCase {
  const char* lie;
  Step fails_at;
  const char* says = "";
  friend void PrintTo(const LieCase& one, std::ostream* out) { *out << one.lie; }
};

}  // namespace tenon::bad_plugin
