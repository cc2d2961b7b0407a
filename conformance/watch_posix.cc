#include "conformance/watch.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cstring>

#include "conformance/library.h"

// The library's bytes are a part of this program, which thereby needs no file beside it.
__asm__(
    ".pushsection .rodata\n"
    ".global tenon_watch_begin\n"
    ".global tenon_watch_end\n"
    "tenon_watch_begin:\n"
    ".incbin \"" TENON_WATCH_FILE
    "\"\n"
    "tenon_watch_end:\n"
    ".popsection\n");
extern "C" const char tenon_watch_begin[];
extern "C" const char tenon_watch_end[];

namespace tenon::conformance {

namespace {

// A file of the library in memory, which stays open: a host opens it by its name.
Result<std::string> library_file() {
  const int fd = ::memfd_create("tenon_conformance_watch", MFD_CLOEXEC);
  if (fd < 0) return device_error("{}", errno_text("memfd_create", errno));
  const char* from = tenon_watch_begin;
  while (from != tenon_watch_end) {
    const ssize_t written = ::write(fd, from, static_cast<size_t>(tenon_watch_end - from));
    if (written <= 0) {
      const int error = errno;
      ::close(fd);
      return device_error("{}", errno_text("write", error));
    }
    from += written;
  }
  return format("/proc/self/fd/{}", fd);
}

}  // namespace

Result<std::unique_ptr<Watch>> Watch::create(const std::string& plugin) {
  TENON_TRY_ASSIGN(void* const own, open_library(plugin));
  const auto create = reinterpret_cast<TenonCreateEpFactoriesFn>(library_symbol(own, "CreateEpFactories"));
  const auto release = reinterpret_cast<TenonReleaseEpFactoryFn>(library_symbol(own, "ReleaseEpFactory"));
  if (create == nullptr || release == nullptr)
    return unsupported("\"{}\" has no CreateEpFactories or no ReleaseEpFactory.", plugin);
  TENON_TRY_ASSIGN(std::string file, library_file());
  TENON_TRY_ASSIGN(void* const library, open_library(file));
  const auto get = reinterpret_cast<TenonGetWatchApiFn>(library_symbol(library, "TenonGetWatchApi"));
  if (get == nullptr) return unsupported("The library of this program has no TenonGetWatchApi.");
  const TenonWatchApi* api = get();
  api->set_plugin(create, release);
  return std::unique_ptr<Watch>(new Watch(std::move(file), api));
}

std::vector<Watch::LiveObjects> Watch::live() const {
  std::vector<LiveObjects> objects;
  api_->visit_live(
      [](void* user, const char* kind, const char* made_by, size_t count) {
        static_cast<std::vector<LiveObjects>*>(user)->push_back({kind, made_by, count});
      },
      &objects);
  return objects;
}

OrtEpFactory* Watch::factory(const std::string& ep_name) const {
  constexpr size_t kMost = 16;
  OrtEpFactory* factories[kMost] = {};
  const size_t count = api_->factories(factories, kMost);
  for (size_t i = 0; i < count; ++i)
    if (ep_name == factories[i]->GetName(factories[i])) return factories[i];
  return nullptr;
}

}  // namespace tenon::conformance
