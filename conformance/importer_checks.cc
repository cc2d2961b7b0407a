// Checks of the importer: S1.1, S1.2, S1.6, S1.9.
#include <tenon/importer.h>

#include "conformance/tensors.h"

namespace tenon::conformance {

namespace {

constexpr uint32_t kSinceGraphics = 25;
constexpr uint32_t kOutside[] = {4, 1000, 0x544E0077u, 0xffffffffu};

void null_arguments(Check& check) {
  const OrtInteropApi& interop = check.interop();
  check.step("a null device");
  OrtExternalResourceImporter* importer = nullptr;
  check.expect_code(check.take(interop.CreateExternalResourceImporterForDevice(nullptr, &importer)),
                    ORT_INVALID_ARGUMENT, "CreateExternalResourceImporterForDevice with a null device");
  check.step("a null out_importer");
  check.expect_code(check.take(interop.CreateExternalResourceImporterForDevice(check.host().device(), nullptr)),
                    ORT_INVALID_ARGUMENT, "CreateExternalResourceImporterForDevice with a null out_importer");

  check.step("a null importer");
  bool supported = true;
  check.expect_code(
      check.take(interop.CanImportMemory(nullptr, ORT_EXTERNAL_MEMORY_HANDLE_TYPE_VK_MEMORY_OPAQUE_FD, &supported)),
      ORT_INVALID_ARGUMENT, "CanImportMemory with a null importer");
  check.expect_code(check.take(interop.CanImportSemaphore(nullptr, ORT_EXTERNAL_SEMAPHORE_D3D12_FENCE, &supported)),
                    ORT_INVALID_ARGUMENT, "CanImportSemaphore with a null importer");
  const OrtExternalMemoryDescriptor memory = {};
  OrtExternalMemoryHandle* memory_handle = nullptr;
  check.expect_code(check.take(interop.ImportMemory(nullptr, &memory, &memory_handle)), ORT_INVALID_ARGUMENT,
                    "ImportMemory with a null importer");
  const OrtExternalSemaphoreDescriptor semaphore = {};
  OrtExternalSemaphoreHandle* semaphore_handle = nullptr;
  check.expect_code(check.take(interop.ImportSemaphore(nullptr, &semaphore, &semaphore_handle)), ORT_INVALID_ARGUMENT,
                    "ImportSemaphore with a null importer");
  const OrtExternalTensorDescriptor tensor = {};
  OrtValue* value = nullptr;
  check.expect_code(check.take(interop.CreateTensorFromMemory(nullptr, nullptr, &tensor, &value)), ORT_INVALID_ARGUMENT,
                    "CreateTensorFromMemory with a null importer");
  check.expect_code(check.take(interop.WaitSemaphore(nullptr, nullptr, nullptr, 1)), ORT_INVALID_ARGUMENT,
                    "WaitSemaphore with a null importer");
  check.expect_code(check.take(interop.SignalSemaphore(nullptr, nullptr, nullptr, 1)), ORT_INVALID_ARGUMENT,
                    "SignalSemaphore with a null importer");

  OrtExternalResourceImporter* real = check.importer();
  if (real == nullptr) return;
  check.step("a null descriptor");
  check.expect_code(check.take(interop.ImportMemory(real, nullptr, &memory_handle)), ORT_INVALID_ARGUMENT,
                    "ImportMemory with a null descriptor");
  check.expect_code(check.take(interop.ImportSemaphore(real, nullptr, &semaphore_handle)), ORT_INVALID_ARGUMENT,
                    "ImportSemaphore with a null descriptor");
  check.step("a null out parameter");
  check.expect_code(check.take(interop.ImportMemory(real, &memory, nullptr)), ORT_INVALID_ARGUMENT,
                    "ImportMemory with a null out_handle");
  check.expect_code(check.take(interop.ImportSemaphore(real, &semaphore, nullptr)), ORT_INVALID_ARGUMENT,
                    "ImportSemaphore with a null out_handle");
  check.expect_code(
      check.take(interop.CanImportMemory(real, ORT_EXTERNAL_MEMORY_HANDLE_TYPE_VK_MEMORY_OPAQUE_FD, nullptr)),
      ORT_INVALID_ARGUMENT, "CanImportMemory with a null out_supported");
  check.step("a null handle");
  check.expect_code(check.take(interop.CreateTensorFromMemory(real, nullptr, &tensor, &value)), ORT_INVALID_ARGUMENT,
                    "CreateTensorFromMemory with a null mem_handle");
}

// S1.6
void release_of_null(Check& check) {
  check.step("releasing null");
  check.interop().ReleaseExternalResourceImporter(nullptr);
  check.interop().ReleaseExternalMemoryHandle(nullptr);
  check.interop().ReleaseExternalSemaphoreHandle(nullptr);
}

// S1.1
void create_importer(Check& check) {
  const int fds = count_open_fds();
  for (int i = 0; i < 3; ++i) {
    check.step(format("importer {}", i + 1));
    auto importer = check.host().create_importer();
    if (!check.expect_ok(importer.status(), "CreateExternalResourceImporterForDevice")) return;
    if (*importer == nullptr) check.note("The EP has no importer: null, with success.");
    if (*importer == nullptr) return;
  }
  check.step("two importers at once");
  auto first = check.host().create_importer();
  auto second = check.host().create_importer();
  check.expect(first.ok() && second.ok() && *first != nullptr && *second != nullptr, "A second importer is not made.");
  first = Status(StatusCode::kCancelled, "");
  second = Status(StatusCode::kCancelled, "");
  // A device may open what it needs once, with its first importer.
  const int after_first = count_open_fds();
  {
    auto again = check.host().create_importer();
  }
  check.expect(count_open_fds() == after_first,
               format("An importer leaves {} file descriptors open.", count_open_fds() - after_first));
  if (after_first != fds) check.note(format("The device keeps {} file descriptors open.", after_first - fds));
}

// S1.2
void memory_capabilities(Check& check) {
  if (check.importer() == nullptr) return;
  std::string can;
  for (const ExternalMemoryKind kind : external_memory_kinds()) {
    const std::string name = external_memory_kind_name(kind);
    check.step(name);
    bool supported = false;
    if (!check.expect_ok(check.take(check.interop().CanImportMemory(
                             check.importer(), std::bit_cast<OrtExternalMemoryHandleType>(kind), &supported)),
                         format("CanImportMemory of {}", name)))
      continue;
    if (supported) can += (can.empty() ? "" : ", ") + name;
  }
  check.note("It imports memory of: " + (can.empty() ? std::string("nothing") : can) + ".");
  for (const uint32_t kind : kOutside) {
    check.step(format("kind {:#x}", kind));
    bool supported = true;
    check.expect_ok(check.take(check.interop().CanImportMemory(
                        check.importer(), std::bit_cast<OrtExternalMemoryHandleType>(kind), &supported)),
                    format("CanImportMemory of {:#x}", kind));
    check.expect(!supported, format("CanImportMemory says yes to the unknown kind {:#x}.", kind));
  }
}

// S1.2
void semaphore_capabilities(Check& check) {
  if (check.importer() == nullptr) return;
  std::string can;
  for (const TimelineKind kind : timeline_kinds()) {
    const std::string name = timeline_kind_name(kind);
    check.step(name);
    bool supported = false;
    if (!check.expect_ok(check.take(check.interop().CanImportSemaphore(
                             check.importer(), std::bit_cast<OrtExternalSemaphoreType>(kind), &supported)),
                         format("CanImportSemaphore of {}", name)))
      continue;
    if (supported) can += (can.empty() ? "" : ", ") + name;
  }
  check.note("It imports semaphores of: " + (can.empty() ? std::string("nothing") : can) + ".");
  for (const uint32_t kind : kOutside) {
    check.step(format("type {:#x}", kind));
    bool supported = true;
    check.expect_ok(check.take(check.interop().CanImportSemaphore(
                        check.importer(), std::bit_cast<OrtExternalSemaphoreType>(kind), &supported)),
                    format("CanImportSemaphore of {:#x}", kind));
    check.expect(!supported, format("CanImportSemaphore says yes to the unknown type {:#x}.", kind));
  }
}

// S1.9
void graphics_interop(Check& check) {
  if (check.host().version() < kSinceGraphics) return check.skip("The host has no graphics interop (API 25).");
  const OrtInteropApi& interop = check.interop();
  const OrtEpDevice* device = check.host().device();
  OrtGraphicsInteropConfig config = {};
  config.version = check.host().version();
  config.graphics_api = ORT_GRAPHICS_API_VULKAN;
  check.step("null arguments");
  check.expect_code(check.take(interop.InitGraphicsInteropForEpDevice(nullptr, &config)), ORT_INVALID_ARGUMENT,
                    "InitGraphicsInteropForEpDevice with a null device");
  check.expect_code(check.take(interop.InitGraphicsInteropForEpDevice(device, nullptr)), ORT_INVALID_ARGUMENT,
                    "InitGraphicsInteropForEpDevice with a null config");
  check.expect_code(check.take(interop.DeinitGraphicsInteropForEpDevice(nullptr)), ORT_INVALID_ARGUMENT,
                    "DeinitGraphicsInteropForEpDevice with a null device");
  check.step("init");
  const Outcome init = check.take(interop.InitGraphicsInteropForEpDevice(device, &config));
  if (init.code == ORT_NOT_IMPLEMENTED) {
    check.note("The EP has no graphics interop: " + init.message);
    // Of an EP without it; and of one whose device has none, where there is nothing to end.
    check.step("deinit without init");
    const Outcome deinit = check.take(interop.DeinitGraphicsInteropForEpDevice(device));
    check.expect(deinit.ok() || deinit.code == ORT_NOT_IMPLEMENTED,
                 "DeinitGraphicsInteropForEpDevice of a device without it gives " + deinit.message);
    return;
  }
  if (init.code == ORT_INVALID_ARGUMENT) {
    // Some EPs want a queue, which takes a driver to make.
    check.note("The EP wants more than a graphics API: " + init.message);
    check.expect_ok(check.take(interop.DeinitGraphicsInteropForEpDevice(device)), "DeinitGraphicsInteropForEpDevice");
    return;
  }
  if (!check.expect_ok(init, "InitGraphicsInteropForEpDevice")) return;
  check.step("init twice");
  check.expect(!check.take(interop.InitGraphicsInteropForEpDevice(device, &config)).ok(),
               "A second InitGraphicsInteropForEpDevice without a Deinit succeeds.");
  for (int i = 0; i < 2; ++i) {
    check.step(format("deinit {}", i + 1));
    check.expect_ok(check.take(interop.DeinitGraphicsInteropForEpDevice(device)), "DeinitGraphicsInteropForEpDevice");
  }
}

}  // namespace

const std::vector<CheckEntry> kImporterChecks = {
    {"NullArgumentsAreRefused", "S1.1", &null_arguments},
    {"ReleaseOfNullIsHarmless", "S1.6", &release_of_null},
    {"CreateExternalResourceImporter", "S1.7", &create_importer},
    {"CanImportMemoryCapabilities", "S1.7", &memory_capabilities},
    {"CanImportSemaphoreCapabilities", "S1.7", &semaphore_capabilities},
    {"GraphicsInterop", "S1.9", &graphics_interop},
};

}  // namespace tenon::conformance
