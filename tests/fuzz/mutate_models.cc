// Loads and runs mutants of real models: tenon_mutate_models [--rounds N] [--seed S] [--only ROUND] [--dump FILE]
// MODEL...
//
// Exits with 1 for anything but a clean status: a crash, a hang, an internal error, an empty message, a leaked file.
// A round depends on the seed, the model and its own number only: --only repeats one.
#include <dirent.h>
#include <fcntl.h>
#include <sys/time.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <vector>

#include "mutator.h"
#include "try_model.h"
#include "windows.h"

#ifdef TENON_ADDRESS_SANITIZER
#include <sanitizer/common_interface_defs.h>
// A mutated shape asks for any amount of memory: malloc answers null as it would on a machine without so much.
extern "C" const char* __asan_default_options() { return "allocator_may_return_null=1:max_allocation_size_mb=256"; }
#endif

namespace {

using namespace tenon::fuzz;

// A round takes milliseconds; a mutated size may make it seconds. On a loaded machine waiting says little, so that a
// hang is told by CPU time, and a wait for ever by the clock.
constexpr time_t kHangCpuSeconds = 60;
constexpr unsigned kHangSeconds = 900;
constexpr size_t kKeepBytes = 4096;
constexpr const char* kZeros = "zeros.bin";
// Most rounds change a part of a model: a part loads and runs ten times as fast as the whole.
constexpr size_t kWindowNodes = 24;
constexpr size_t kWholeEvery = 16;

// The mutant that is being tried, for whoever reports a crash. Plain memory: a signal handler reads it.
std::array<char, 512> current{};

void say_current() {
  const char* const parts[] = {"\nmutate_models: ", current.data(), "\n"};
  for (const char* part : parts) (void)!::write(STDERR_FILENO, part, std::strlen(part));
}

void on_signal(int signal) {
  say_current();
  if (signal == SIGALRM || signal == SIGPROF) {
    constexpr char kText[] = "mutate_models: it hangs\n";
    (void)!::write(STDERR_FILENO, kText, sizeof(kText) - 1);
  }
  std::_Exit(1);
}

void start_watch(bool on) {
  const itimerval cpu{{0, 0}, {on ? kHangCpuSeconds : 0, 0}};
  (void)::setitimer(ITIMER_PROF, &cpu, nullptr);
  ::alarm(on ? kHangSeconds : 0);
}

size_t open_files() {
  DIR* directory = ::opendir("/proc/self/fd");
  if (directory == nullptr) return 0;
  size_t count = 0;
  while (::readdir(directory) != nullptr) ++count;
  ::closedir(directory);
  return count;
}

struct Arguments {
  size_t rounds = 10'000;
  uint64_t seed = 1;
  long only = -1;
  std::string dump;
  bool skip_unsupported = false;  // leaves out models that cannot run themselves
  std::vector<std::string> models;
};

Arguments parse_arguments(int count, char** texts) {
  Arguments arguments;
  for (int i = 1; i < count; ++i) {
    const std::string text = texts[i];
    const auto next = [&]() -> std::string { return i + 1 < count ? texts[++i] : ""; };
    if (text == "--rounds") {
      arguments.rounds = std::strtoull(next().c_str(), nullptr, 10);
    } else if (text == "--seed") {
      arguments.seed = std::strtoull(next().c_str(), nullptr, 10);
    } else if (text == "--only") {
      arguments.only = std::strtol(next().c_str(), nullptr, 10);
    } else if (text == "--skip-unsupported") {
      arguments.skip_unsupported = true;
    } else if (text == "--dump") {
      arguments.dump = next();
    } else {
      arguments.models.push_back(text);
    }
  }
  return arguments;
}

struct Model {
  std::string name;
  Mutator mutator;
};

struct Counts {
  std::map<std::string, size_t> outcomes;
  size_t changes = 0, weight_changes = 0;
};

// False for what must never happen.
bool count(const tenon::Status& status, const char* what, Counts& counts) {
  ++counts.outcomes[std::string(what) + " " + std::string(tenon::status_code_name(status.code()))];
  if (status.ok()) return true;
  if (status.code() != tenon::StatusCode::kInternal && !status.message().empty()) return true;
  say_current();
  std::fprintf(stderr, "mutate_models: %s\n", status.to_string().c_str());
  return false;
}

class ZeroFile {
 public:
  explicit ZeroFile(size_t size_bytes) {
    std::string name = (std::filesystem::temp_directory_path() / "tenon_mutate_XXXXXX").string();
    if (::mkdtemp(name.data()) == nullptr) return;
    directory_ = name;
    std::ofstream(directory_ / kZeros).close();
    std::filesystem::resize_file(directory_ / kZeros, size_bytes);  // sparse: takes no room
  }
  ~ZeroFile() {
    std::error_code ignored;
    std::filesystem::remove_all(directory_, ignored);
  }
  std::string directory() const { return directory_.string(); }

 private:
  std::filesystem::path directory_;
};

bool run_rounds(const Arguments& arguments, const std::vector<Model>& models, const std::vector<Model>& windows,
                const std::string& directory) {
  Counts counts;
  bool good = true;
  const size_t files_before = open_files();
  for (size_t round = 0; round < arguments.rounds; ++round) {
    if (arguments.only >= 0 && round != static_cast<size_t>(arguments.only)) continue;
    const bool whole = windows.empty() || round % kWholeEvery == 0;
    const std::vector<Model>& from = whole ? models : windows;
    const Model& model = from[(whole && !windows.empty() ? round / kWholeEvery : round) % from.size()];
    Random random(arguments.seed * 1'000'003 + round);
    const Mutator::Mutant mutant = model.mutator.mutate(random);
    counts.changes += mutant.changes;
    counts.weight_changes += mutant.weight_changes;
    std::snprintf(current.data(), current.size(), "%s, seed %llu: repeat with --only %zu", model.name.c_str(),
                  static_cast<unsigned long long>(arguments.seed), round);
    if (!arguments.dump.empty()) std::ofstream(arguments.dump, std::ios::binary) << mutant.bytes;
    start_watch(true);
    const Outcome outcome = try_model(std::as_bytes(std::span(mutant.bytes)), TryOptions{.base_directory = directory});
    start_watch(false);
    good = count(outcome.loaded, "load", counts) && good;
    if (outcome.ran) good = count(outcome.run, "run", counts) && good;
    if (arguments.only >= 0) {
      std::printf("load: %s\nrun: %s\n", outcome.loaded.to_string().c_str(), outcome.run.to_string().c_str());
    }
  }
  if (open_files() != files_before) {
    std::fprintf(stderr, "mutate_models: %zu files were open before, %zu are now\n", files_before, open_files());
    good = false;
  }
  for (const auto& [outcome, number] : counts.outcomes) std::printf("%-28s %zu\n", outcome.c_str(), number);
  std::printf("%zu changes, %zu of them in weights\n", counts.changes, counts.weight_changes);
  return good && counts.weight_changes * 5 <= counts.changes;
}

}  // namespace

int main(int argument_count, char** texts) {
  const Arguments arguments = parse_arguments(argument_count, texts);
  if (arguments.models.empty()) {
    std::fprintf(stderr, "mutate_models: no model is given\n");
    return 2;
  }
  limit_memory();
#ifdef TENON_ADDRESS_SANITIZER
  __sanitizer_set_death_callback(say_current);
#else
  for (int signal : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT}) std::signal(signal, on_signal);
#endif
  std::signal(SIGALRM, on_signal);
  std::signal(SIGPROF, on_signal);

  std::vector<Model> models;
  size_t largest = 1;
  for (const std::string& path : arguments.models) {
    std::ifstream file(path, std::ios::binary);
    const std::string bytes((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
    const MessageRef tree = parse(bytes, MessageKind::kModel);
    if (!tree || bytes.empty()) {
      std::fprintf(stderr, "mutate_models: %s is not a model\n", path.c_str());
      return 2;
    }
    models.push_back({path, Mutator(strip_weights(tree, kKeepBytes, kZeros, largest))});
  }
  const ZeroFile zeros(largest);
  // A mutant that does not load proves nothing when the model itself does not.
  std::erase_if(models, [&](const Model& model) {
    const std::string bytes = serialize(*model.mutator.model());
    const Outcome outcome = try_model(std::as_bytes(std::span(bytes)), TryOptions{.base_directory = zeros.directory()});
    if (outcome.loaded.ok() && outcome.run.ok()) return false;
    if (!arguments.skip_unsupported) {
      std::fprintf(stderr, "mutate_models: %s itself fails: %s %s\n", model.name.c_str(),
                   outcome.loaded.to_string().c_str(), outcome.run.to_string().c_str());
    }
    return true;
  });
  if (models.empty() || (models.size() != arguments.models.size() && !arguments.skip_unsupported)) return 1;
  std::vector<Model> windows;
  for (const Model& model : models) {
    for (const MessageRef& tree : cut_windows(model.mutator.model(), kWindowNodes, zeros.directory())) {
      const std::string bytes = serialize(*tree);
      const Outcome outcome =
          try_model(std::as_bytes(std::span(bytes)), TryOptions{.base_directory = zeros.directory()});
      // A part whose inputs come at two scales does not run on the small shapes that are chosen for them.
      if (outcome.ran && outcome.run.ok()) windows.push_back({model.name + ", a part", Mutator(tree)});
    }
  }
  std::printf("%zu models, %zu parts\n", models.size(), windows.size());
  return run_rounds(arguments, models, windows, zeros.directory()) ? 0 : 1;
}
