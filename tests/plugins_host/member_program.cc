// Walks through all that a host does with an EP, step by step, and prints how each step ends; members_test.py compares
// the steps of a whole plugin with those of one that lacks a member. Usage: member_program HOST PLUGIN
//
// Prints "> STEP" before a step, so that a crash has a name, then "STEP: ok DETAIL" or "STEP: MESSAGE".
#include <tenon/onnxruntime_c_api.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "conformance/exporter.h"
#include "conformance/host.h"
#include "programs/relu_model.h"

namespace {

using tenon::Status;
using tenon::conformance::Host;
using tenon::conformance::HostOptions;
using tenon::conformance::memfd_exporter;
using tenon::conformance::Outcome;
using tenon::conformance::shared_timeline_exporter;
using tenon::conformance::to_status;

template <typename F>
void step(const char* name, F&& body) {
  std::printf("> %s\n", name);
  std::fflush(stdout);
  std::string detail;
  const Status status = body(detail);
  std::printf("%s: %s\n", name, status.ok() ? ("ok " + detail).c_str() : status.message().c_str());
  std::fflush(stdout);
}

Status took(const Host& host, OrtStatus* status, const char* what) { return to_status(host.take(status), what); }

std::vector<std::byte> model() { return tenon::test::chain_model({"Relu", "Neg"}, {2, 4}); }

Status use_session(const Host& host, const std::map<std::string, std::string>& ep_options, const char* profile,
                   const OrtRunOptions* options, std::string& detail) {
  TENON_TRY_ASSIGN(const auto session, profile != nullptr ? host.create_session(model(), ep_options, true, profile)
                                                          : host.create_session(model(), ep_options));
  TENON_TRY_ASSIGN(const auto eps, host.node_eps(session.get()));
  for (const auto& [ep, nodes] : eps)
    for (const std::string& node : nodes) detail.append(node).append("=").append(ep).append(" ");
  std::vector<float> x = {-1, 2, -3, 4, 5, -6, 7, -8}, y(8);
  const int64_t shape[] = {2, 4};
  TENON_TRY_ASSIGN(const auto input, host.tensor_over(x, shape));
  TENON_TRY_ASSIGN(const auto output, host.tensor_over(y, shape));
  for (int i = 0; i < 2; ++i) TENON_TRY(host.run(session.get(), input.get(), output.get(), options));
  for (size_t i = 0; i < y.size(); ++i)
    if (y[i] != -(x[i] > 0 ? x[i] : 0.0f)) return tenon::Status(tenon::StatusCode::kDeviceError, "wrong values");
  const char* key = "no_such_option";
  const char* value = "1";
  const Outcome dynamic = host.take(host.api().SetEpDynamicOptions(session.get(), &key, &value, 1));
  detail += dynamic.ok() ? "dynamic options" : "no dynamic options";
  if (profile == nullptr) return {};
  OrtAllocator* allocator = nullptr;
  TENON_TRY(took(host, host.api().GetAllocatorWithDefaultOptions(&allocator), "GetAllocatorWithDefaultOptions"));
  char* file = nullptr;
  TENON_TRY(took(host, host.api().SessionEndProfiling(session.get(), allocator, &file), "SessionEndProfiling"));
  std::remove(file);
  allocator->Free(allocator, file);
  return {};
}

// Tensors of the device's own allocators, copied there and back.
Status copy(const Host& host, std::string&) {
  const OrtApi& api = host.api();
  const OrtMemoryInfo* info = api.EpDevice_MemoryInfo(host.device(), OrtDeviceMemoryType_DEFAULT);
  OrtAllocator* allocator = nullptr;
  TENON_TRY(took(host, api.GetSharedAllocator(host.env(), info, &allocator), "GetSharedAllocator"));
  if (allocator == nullptr) return tenon::Status(tenon::StatusCode::kNotFound, "there is no shared allocator");
  OrtKeyValuePairs* stats = nullptr;
  (void)host.take(api.AllocatorGetStats(allocator, &stats));
  api.ReleaseKeyValuePairs(stats);
  const int64_t shape[] = {4};
  OrtValue* raw = nullptr;
  TENON_TRY(took(host, api.CreateTensorAsOrtValue(allocator, shape, 1, ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT, &raw),
                 "CreateTensorAsOrtValue"));
  const auto there = host.own(raw, api.ReleaseValue);
  std::vector<float> x = {1, 2, 3, 4}, y(4);
  TENON_TRY_ASSIGN(const auto src, host.tensor_over(x, shape));
  TENON_TRY_ASSIGN(const auto dst, host.tensor_over(y, shape));
  const OrtValue* from[] = {src.get(), there.get()};
  OrtValue* to[] = {there.get(), dst.get()};
  for (int i = 0; i < 2; ++i)
    TENON_TRY(took(host, api.CopyTensors(host.env(), &from[i], &to[i], nullptr, 1), "CopyTensors"));
  return x == y ? Status() : tenon::Status(tenon::StatusCode::kDeviceError, "wrong values");
}

Status stream(const Host& host, std::string& detail) {
  TENON_TRY_ASSIGN(const auto made, host.create_stream());
  detail = host.api().SyncStream_GetHandle(made.get()) != nullptr ? "with a handle" : "without a handle";
  OrtRunOptions* raw = nullptr;
  TENON_TRY(took(host, host.api().CreateRunOptions(&raw), "CreateRunOptions"));
  const auto options = host.own(raw, host.api().ReleaseRunOptions);
  host.api().RunOptionsSetSyncStream(raw, made.get());
  std::string nodes;
  return use_session(host, {}, nullptr, raw, nodes);
}

Status import(const Host& host, bool with_tensor, std::string& detail) {
  TENON_TRY_ASSIGN(const auto importer, host.create_importer());
  if (importer == nullptr) {
    detail = "no importer";
    return {};
  }
  const auto exporter = memfd_exporter("a memfd", TENON_EXTERNAL_MEMORY_MAPPABLE_FD);
  bool can = false;
  TENON_TRY(took(host,
                 host.interop().CanImportMemory(importer.get(),
                                                std::bit_cast<OrtExternalMemoryHandleType>(exporter->kind()), &can),
                 "CanImportMemory"));
  TENON_TRY_ASSIGN(const auto memory, exporter->make(4096));
  const OrtExternalMemoryDescriptor descriptor = memory->descriptor(host.version());
  OrtExternalMemoryHandle* raw = nullptr;
  TENON_TRY(took(host, host.interop().ImportMemory(importer.get(), &descriptor, &raw), "ImportMemory"));
  const auto handle = host.own(raw, host.interop().ReleaseExternalMemoryHandle);
  memory->take_on_success();
  if (!with_tensor) return {};
  const int64_t shape[] = {16};
  return host.tensor_in(importer.get(), raw, shape).status();
}

Status semaphore(const Host& host, bool with_use, std::string& detail) {
  TENON_TRY_ASSIGN(const auto importer, host.create_importer());
  if (importer == nullptr) {
    detail = "no importer";
    return {};
  }
  const auto exporter = shared_timeline_exporter("a shared timeline", TENON_EXTERNAL_SEMAPHORE_SHARED_TIMELINE_FD);
  bool can = false;
  TENON_TRY(took(host,
                 host.interop().CanImportSemaphore(importer.get(),
                                                   std::bit_cast<OrtExternalSemaphoreType>(exporter->kind()), &can),
                 "CanImportSemaphore"));
  TENON_TRY_ASSIGN(const auto shared, exporter->make());
  const OrtExternalSemaphoreDescriptor descriptor = shared->descriptor(host.version());
  OrtExternalSemaphoreHandle* raw = nullptr;
  TENON_TRY(took(host, host.interop().ImportSemaphore(importer.get(), &descriptor, &raw), "ImportSemaphore"));
  const auto handle = host.own(raw, host.interop().ReleaseExternalSemaphoreHandle);
  shared->take_on_success();
  if (!with_use) return {};
  TENON_TRY_ASSIGN(const auto made, host.create_stream());
  TENON_TRY(shared->other().signal(1));
  TENON_TRY(took(host, host.interop().WaitSemaphore(importer.get(), raw, made.get(), 1), "WaitSemaphore"));
  TENON_TRY(took(host, host.interop().SignalSemaphore(importer.get(), raw, made.get(), 2), "SignalSemaphore"));
  constexpr int64_t kLongNs = 5'000'000'000;
  return shared->other().wait(2, kLongNs);
}

Status graphics(const Host& host, std::string&) {
  if (host.version() < 25) return {};
  OrtGraphicsInteropConfig config = {};
  config.version = host.version();
  config.graphics_api = ORT_GRAPHICS_API_VULKAN;
  TENON_TRY(took(host, host.interop().InitGraphicsInteropForEpDevice(host.device(), &config),
                 "InitGraphicsInteropForEpDevice"));
  return took(host, host.interop().DeinitGraphicsInteropForEpDevice(host.device()), "DeinitGraphicsInteropForEpDevice");
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  HostOptions options;
  options.library = argv[1];
  options.plugin_name = "member";
  options.plugin_library = argv[2];
  std::unique_ptr<Host> host;
  step("registration", [&](std::string&) -> Status {
    TENON_TRY_ASSIGN(host, Host::load(options));
    return {};
  });
  if (host == nullptr) return 0;
  // The SDK knows its handles by their function Release.
  const char* member = std::getenv("TENON_NULL_MEMBER");
  const bool whole = member == nullptr || std::strncmp(member, "OrtExternalMemoryHandle:", 24) != 0;
  const bool whole_semaphore = member == nullptr || std::strncmp(member, "OrtExternalSemaphoreHandle:", 27) != 0;
  step("graphics", [&](std::string& detail) { return graphics(*host, detail); });
  step("compiled session", [&](std::string& detail) { return use_session(*host, {}, nullptr, nullptr, detail); });
  step("session of kernels",
       [&](std::string& detail) { return use_session(*host, {{"mode", "kernels"}}, nullptr, nullptr, detail); });
  step("session with a CPU node",
       [&](std::string& detail) { return use_session(*host, {{"exclude", "Neg"}}, nullptr, nullptr, detail); });
  step("profile", [&](std::string& detail) { return use_session(*host, {}, "member_profile", nullptr, detail); });
  step("copies", [&](std::string& detail) { return copy(*host, detail); });
  step("stream", [&](std::string& detail) { return stream(*host, detail); });
  step("imported memory", [&](std::string& detail) { return import(*host, whole, detail); });
  step("imported semaphore", [&](std::string& detail) { return semaphore(*host, whole_semaphore, detail); });
  step("end", [&](std::string&) -> Status {
    host.reset();
    return {};
  });
  return 0;
}
