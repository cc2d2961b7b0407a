// The sessions that advertise concurrent runs, asked through the plugin's own table as hosts of several API versions
// do.
//   tenon_cuda_concurrent_runs HOST_LIBRARY PLUGIN
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <utility>
#include <vector>

#include "base/format.h"
#include "base/status.h"
#include "conformance/host.h"
#include "conformance/library.h"

namespace {

using namespace tenon;  // NOLINT(google-build-using-namespace)
using conformance::Host;
using conformance::to_status;

// The host, as if it were older.
const OrtApiBase* real_base = nullptr;
uint32_t shown_version = 0;
std::string shown_text;
const OrtApi* ORT_API_CALL get_api(uint32_t version) noexcept {
  return version > shown_version ? nullptr : real_base->GetApi(version);
}
const char* ORT_API_CALL get_version() noexcept { return shown_text.c_str(); }

using Options = std::vector<std::pair<std::string, std::string>>;
using CreateFactories = OrtStatus*(const char*, const OrtApiBase*, const OrtLogger*, OrtEpFactory**, size_t, size_t*);
using ReleaseFactory = OrtStatus*(OrtEpFactory*);

struct Plugin {
  CreateFactories* create = nullptr;
  ReleaseFactory* release = nullptr;
};

Result<bool> takes_concurrent_runs(const Host& host, const Plugin& plugin, uint32_t version, const Options& options) {
  const OrtApi& api = host.api();
  const auto ask = [&](OrtStatus* status, const char* what) { return to_status(host.take(status), what); };
  shown_version = version;
  shown_text = format("1.{}.0", version);
  const OrtApiBase base = {&get_api, &get_version};
  OrtEpFactory* factory = nullptr;
  size_t count = 0;
  TENON_TRY(ask(plugin.create("cuda", &base, nullptr, &factory, 1, &count), "CreateEpFactories"));
  const auto end = [&](OrtEpFactory* made) { (void)host.take(plugin.release(made)); };
  const std::unique_ptr<OrtEpFactory, decltype(end)> owner(factory, end);
  OrtEpDevice* device = nullptr;
  TENON_TRY(ask(factory->GetSupportedDevices(factory, nullptr, 0, &device, 1, &count), "GetSupportedDevices"));
  TENON_INVALID_IF(count != 1, "There is no device.");
  const auto device_owner = host.own(device, host.ep().ReleaseEpDevice);
  OrtSessionOptions* session = nullptr;
  TENON_TRY(ask(api.CreateSessionOptions(&session), "CreateSessionOptions"));
  const auto session_owner = host.own(session, api.ReleaseSessionOptions);
  for (const auto& [key, value] : options)
    TENON_TRY(ask(api.AddSessionConfigEntry(session, ("ep.cuda." + key).c_str(), value.c_str()), key.c_str()));
  const OrtHardwareDevice* const hardware = api.EpDevice_Device(device);
  const OrtKeyValuePairs* const metadata = api.EpDevice_EpMetadata(device);
  OrtEp* ep = nullptr;
  TENON_TRY(ask(factory->CreateEp(factory, &hardware, &metadata, 1, session, nullptr, &ep), "CreateEp"));
  bool takes = false;
  Status asked = ask(ep->IsConcurrentRunSupported(ep, &takes), "IsConcurrentRunSupported");
  factory->ReleaseEp(factory, ep);
  TENON_TRY(std::move(asked));
  return takes;
}

void* allocate(size_t size_bytes) { return std::malloc(size_bytes); }
void release(void* memory) { std::free(memory); }

Status check(const char* library, const char* plugin_library) {
  // Registers the plugin too; what is asked here are factories of its own.
  TENON_TRY_ASSIGN(const auto host,
                   Host::load({.library = library, .plugin_name = "cuda", .plugin_library = plugin_library}));
  TENON_TRY_ASSIGN(void* const opened_host, conformance::open_library(library));
  auto* const get_base =
      reinterpret_cast<const OrtApiBase* (*)()>(conformance::library_symbol(opened_host, "OrtGetApiBase"));
  real_base = get_base();
  TENON_TRY_ASSIGN(void* const opened, conformance::open_library(plugin_library));
  const Plugin plugin = {reinterpret_cast<CreateFactories*>(conformance::library_symbol(opened, "CreateEpFactories")),
                         reinterpret_cast<ReleaseFactory*>(conformance::library_symbol(opened, "ReleaseEpFactory"))};
  const auto address = [](auto* function) { return format("{}", reinterpret_cast<uintptr_t>(function)); };
  struct Row {
    uint32_t version;
    Options options;
    bool wanted;
    const char* why;
  };
  const Row rows[] = {
      {28, {}, true, "each run has a stream of its own"},
      {27, {}, false, "S5.3: the host may hand a kernel another run's stream"},
      {24, {}, false, "S5.3: the host may hand a kernel another run's stream"},
      {28, {{"use_ep_level_unified_stream", "1"}}, false, "S4.2: one stream for the session"},
      {28, {{"has_user_compute_stream", "1"}}, false, "S4.1: the program's stream"},
      {28,
       {{"gpu_external_alloc", address(&allocate)}, {"gpu_external_free", address(&release)}},
       false,
       "S4.3: memory goes back when the session's stream has passed it"},
      {28, {{"do_copy_in_default_stream", "0"}}, true, "copies are ordered by events"},
  };
  for (const Row& row : rows) {
    TENON_TRY_ASSIGN(const bool takes, takes_concurrent_runs(*host, plugin, row.version, row.options));
    // A host that is older has no other tables to show.
    const bool wanted = row.wanted && host->version() >= 28;
    std::string text;
    for (const auto& [key, value] : row.options) text += format(" {}={}", key, value);
    std::printf("%s  API %u%s: %s concurrent runs (%s)\n", takes == wanted ? "ok   " : "WRONG", row.version,
                text.c_str(), takes ? "takes" : "takes no", row.why);
    if (takes != wanted) return internal_error("A session says the wrong thing.");
  }
  return Status();
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) {
    std::fprintf(stderr, "usage: %s HOST_LIBRARY PLUGIN\n", argv[0]);
    return 2;
  }
  const Status done = check(argv[1], argv[2]);
  std::printf("%s\n", done.to_string().c_str());
  return done.ok() ? 0 : 1;
}
