// Mistakes of an EP library in its device's importer, streams, allocators and graphics interop, through the C ABI: each
// is a status that names library and member, everything is released once, and a correct device works afterwards.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <tenon/external_handles.h>
#include <tenon/onnxruntime_c_api.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "bad_plugin_host.h"

namespace tenon {
namespace {

using bad_plugin::kPlugin;
using ::testing::AllOf;
using ::testing::AnyOf;
using ::testing::HasSubstr;

constexpr size_t kCount = 16;

const OrtApi& api() { return *OrtGetApiBase()->GetApi(ORT_API_VERSION); }
const OrtInteropApi& interop() { return *api().GetInteropApi(); }

enum class Step {
  kRegister,
  kGraphics,
  kImporter,
  kCanImport,
  kMemory,
  kTensor,
  kSemaphore,
  kStream,
  kWait,
  kSignal,
  kNotification,
  kAllocation,
  kNone
};
using Case = bad_plugin::LieCase<Step>;

// The error of the first failing call, and the plugin's calls; everything that was made is released before.
struct Outcome {
  Step failed_at = Step::kNone;
  OrtErrorCode code = ORT_OK;
  std::string text;
  bool has_importer = false;
  std::vector<std::string> calls;
  ptrdiff_t count(const char* name) const { return std::count(calls.begin(), calls.end(), name); }
};

template <typename T>
class Holder {
 public:
  explicit Holder(void(ORT_API_CALL* release)(T*)) : release_(release) {}
  ~Holder() { release_(object); }
  Holder(const Holder&) = delete;
  Holder& operator=(const Holder&) = delete;
  T* object = nullptr;

 private:
  void(ORT_API_CALL* const release_)(T*);
};

class Program {
 public:
  Outcome run() {
    walk();
    return outcome_;
  }

 private:
  bool failed(Step step, OrtStatus* status) {
    if (status == nullptr) return false;
    outcome_.failed_at = step;
    outcome_.code = api().GetErrorCode(status);
    outcome_.text = api().GetErrorMessage(status);
    api().ReleaseStatus(status);
    return true;
  }

  void walk() {
    OrtEnv* env = nullptr;
    if (failed(Step::kRegister, api().CreateEnv(ORT_LOGGING_LEVEL_FATAL, "bad", &env))) return;
    if (!failed(Step::kRegister, api().RegisterExecutionProviderLibrary(env, "bad", kPlugin))) {
      use_device(env);
      api().ReleaseStatus(api().UnregisterExecutionProviderLibrary(env, "bad"));
    }
    api().ReleaseEnv(env);
  }

  void use_device(OrtEnv* env) {
    const OrtEpDevice* const* devices = nullptr;
    size_t count = 0;
    if (failed(Step::kRegister, api().GetEpDevices(env, &devices, &count))) return;
    const OrtEpDevice* device = devices[count - 1];
    OrtGraphicsInteropConfig config{};
    config.version = ORT_API_VERSION;
    config.graphics_api = ORT_GRAPHICS_API_VULKAN;
    if (failed(Step::kGraphics, interop().InitGraphicsInteropForEpDevice(device, &config)) &&
        outcome_.code != ORT_NOT_IMPLEMENTED)
      return;
    if (outcome_.failed_at == Step::kNone) {
      if (failed(Step::kGraphics, interop().DeinitGraphicsInteropForEpDevice(device))) return;
    }
    const Outcome graphics = std::exchange(outcome_, Outcome());
    import(env, device);
    if (outcome_.failed_at == Step::kNone && graphics.failed_at != Step::kNone) {
      outcome_.failed_at = graphics.failed_at;
      outcome_.code = graphics.code;
      outcome_.text = graphics.text;
    }
  }

  void import(OrtEnv* env, const OrtEpDevice* device) {
    Holder<OrtExternalResourceImporter> importer(interop().ReleaseExternalResourceImporter);
    Holder<OrtExternalMemoryHandle> memory(interop().ReleaseExternalMemoryHandle);
    Holder<OrtExternalSemaphoreHandle> semaphore(interop().ReleaseExternalSemaphoreHandle);
    Holder<OrtSyncStream> stream(api().ReleaseSyncStream);
    Holder<OrtValue> tensor(api().ReleaseValue);
    Holder<OrtValue> allocated(api().ReleaseValue);
    if (failed(Step::kImporter, interop().CreateExternalResourceImporterForDevice(device, &importer.object))) return;
    outcome_.has_importer = importer.object != nullptr;
    if (importer.object != nullptr) {
      TenonExternalMemoryInfo info{};
      info.version = TENON_EXTERNAL_MEMORY_INFO_VERSION;
      info.kind = TENON_EXTERNAL_MEMORY_HOST_ALLOCATION;
      info.handle.pointer = floats_;
      OrtExternalMemoryDescriptor from{};
      from.version = ORT_API_VERSION;
      std::memcpy(&from.handle_type, &info.kind, sizeof(info.kind));
      from.native_handle = &info;
      from.size_bytes = sizeof(floats_);
      bool can = false;
      if (failed(Step::kCanImport, interop().CanImportMemory(importer.object, from.handle_type, &can))) return;
      if (failed(Step::kMemory, interop().ImportMemory(importer.object, &from, &memory.object))) return;
      const int64_t shape[] = {kCount};
      OrtExternalTensorDescriptor wanted{};
      wanted.version = ORT_API_VERSION;
      wanted.element_type = ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT;
      wanted.shape = shape;
      wanted.rank = 1;
      if (failed(Step::kTensor,
                 interop().CreateTensorFromMemory(importer.object, memory.object, &wanted, &tensor.object)))
        return;
      OrtExternalSemaphoreDescriptor timeline{};
      timeline.version = ORT_API_VERSION;
      timeline.type = ORT_EXTERNAL_SEMAPHORE_D3D12_FENCE;
      timeline.native_handle = this;
      if (failed(Step::kCanImport, interop().CanImportSemaphore(importer.object, timeline.type, &can))) return;
      if (failed(Step::kSemaphore, interop().ImportSemaphore(importer.object, &timeline, &semaphore.object))) return;
    }
    if (failed(Step::kStream, api().CreateSyncStreamForEpDevice(device, nullptr, &stream.object))) return;
    if (importer.object != nullptr) {
      if (failed(Step::kWait, interop().WaitSemaphore(importer.object, semaphore.object, stream.object, 1))) return;
      if (failed(Step::kSignal, interop().SignalSemaphore(importer.object, semaphore.object, stream.object, 2))) return;
    }
    allocate(env, device, &allocated.object);
  }

  void allocate(OrtEnv* env, const OrtEpDevice* device, OrtValue** value) {
    OrtAllocator* allocator = nullptr;
    const OrtMemoryInfo* info = api().EpDevice_MemoryInfo(device, OrtDeviceMemoryType_DEFAULT);
    if (failed(Step::kAllocation, api().GetSharedAllocator(env, info, &allocator))) return;
    const int64_t shape[] = {kCount};
    if (failed(Step::kAllocation,
               api().CreateTensorAsOrtValue(allocator, shape, 1, ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT, value)))
      return;
    allocate_on_stream_of_cpu(env, allocator);
  }

  // The plugin ends the process for a stream that it did not make.
  static void allocate_on_stream_of_cpu(OrtEnv* env, OrtAllocator* allocator) {
    const OrtEpDevice* const* devices = nullptr;
    size_t count = 0;
    ASSERT_EQ(api().GetEpDevices(env, &devices, &count), nullptr);
    Holder<OrtSyncStream> stream(api().ReleaseSyncStream);
    ASSERT_EQ(api().CreateSyncStreamForEpDevice(devices[0], nullptr, &stream.object), nullptr);
    if (allocator->AllocOnStream == nullptr) return;
    void* block = allocator->AllocOnStream(allocator, 64, stream.object);
    EXPECT_NE(block, nullptr);
    allocator->Free(allocator, block);
  }

  Outcome outcome_;
  alignas(64) float floats_[kCount] = {};
};

// With the plugin's device, and the names of the plugin's functions that were called.
Outcome try_device(const char* lie) {
  const bad_plugin::Lie chosen(lie);
  const bad_plugin::WithDevice device;
  const bad_plugin::Calls calls;
  Outcome outcome = Program().run();
  outcome.calls = calls.names();
  EXPECT_FALSE(bad_plugin::plugin_is_loaded());
  return outcome;
}

void expect_honest_device_works() {
  const Outcome outcome = try_device("");
  EXPECT_EQ(outcome.failed_at, Step::kNone) << outcome.text;
  EXPECT_TRUE(outcome.has_importer);
  for (const char* name :
       {"Importer.Release", "Memory.Release", "Semaphore.Release", "Stream.Release", "ReleaseAllocator",
        "WaitSemaphore", "SignalSemaphore", "InitGraphicsInterop", "DeinitGraphicsInterop", "ReleaseEpFactory"})
    EXPECT_EQ(outcome.count(name), 1) << name;
  for (const char* name : {"Alloc", "Free"}) EXPECT_EQ(outcome.count(name), 2) << name;
  EXPECT_EQ(outcome.count("AllocOnStream"), 0) << "the stream was another library's";
  EXPECT_EQ(outcome.count("ReleaseMemory"), 0) << "a handle is released by its own function";
}

TEST(BadImporter, AnHonestDeviceWorks) { expect_honest_device_works(); }

class BadDevice : public ::testing::TestWithParam<Case> {};

TEST_P(BadDevice, HarmsNobody) {
  const Case& one = GetParam();
  const Outcome outcome = try_device(one.lie);
  EXPECT_EQ(static_cast<int>(outcome.failed_at), static_cast<int>(one.fails_at)) << outcome.text;
  if (one.fails_at != Step::kNone) {
    EXPECT_THAT(outcome.text, AllOf(AnyOf(HasSubstr("EP"), HasSubstr("BadMemory")), HasSubstr(one.says)));
  }
  expect_honest_device_works();
}

INSTANTIATE_TEST_SUITE_P(
    NullMember, BadDevice,
    ::testing::Values(Case{"null CanImportMemory", Step::kCanImport, "CanImportMemory is null"},
                      Case{"null ImportMemory", Step::kMemory, "ImportMemory is null"},
                      Case{"null CreateTensorFromMemory", Step::kTensor, "CreateTensorFromMemory is null"},
                      Case{"null CanImportSemaphore", Step::kCanImport, "CanImportSemaphore is null"},
                      Case{"null ImportSemaphore", Step::kSemaphore, "ImportSemaphore is null"},
                      Case{"null WaitSemaphore", Step::kWait, "WaitSemaphore is null"},
                      Case{"null SignalSemaphore", Step::kSignal, "SignalSemaphore is null"},
                      Case{"null CreateNotification", Step::kStream, "CreateNotification is null"},
                      Case{"null Alloc", Step::kRegister, "OrtAllocator::Alloc is null"},
                      Case{"null Free", Step::kRegister, "OrtAllocator::Free is null"},
                      Case{"null Info", Step::kRegister, "OrtAllocator::Info is null"},
                      Case{"null ReleaseAllocator", Step::kRegister, "ReleaseAllocator is null"},
                      Case{"null InitGraphicsInterop", Step::kGraphics, "InitGraphicsInterop is null"},
                      Case{"null CreateSyncStreamForDevice", Step::kStream, "made no stream"}));

// Members that may be null.
INSTANTIATE_TEST_SUITE_P(OptionalMember, BadDevice,
                         ::testing::Values(Case{"null ReleaseMemory", Step::kNone},
                                           Case{"null ReleaseSemaphore", Step::kNone},
                                           Case{"null GetHandle", Step::kNone}, Case{"null Flush", Step::kNone},
                                           Case{"null AllocOnStream", Step::kNone}));

INSTANTIATE_TEST_SUITE_P(
    NoFunction, BadDevice,
    ::testing::Values(Case{"data CreateImporter", Step::kImporter, "does not point to a function"},
                      Case{"data CanImportMemory", Step::kCanImport, "does not point to a function"},
                      Case{"data ImportMemory", Step::kMemory, "does not point to a function"},
                      Case{"data WaitSemaphore", Step::kWait, "does not point to a function"},
                      Case{"data InitGraphicsInterop", Step::kGraphics, "does not point to a function"}));

INSTANTIATE_TEST_SUITE_P(WrongObject, BadDevice,
                         ::testing::Values(Case{"bad importer", Step::kImporter, "no memory"},
                                           Case{"null memory", Step::kMemory, "null OrtExternalMemoryHandle"},
                                           Case{"bad memory", Step::kMemory, "no memory"},
                                           Case{"null semaphore", Step::kSemaphore, "null OrtExternalSemaphoreHandle"},
                                           Case{"bad semaphore", Step::kSemaphore, "no memory"},
                                           Case{"null tensor", Step::kTensor, "gives no tensor"},
                                           Case{"bad tensor", Step::kTensor, "leads to no value"},
                                           Case{"tensor of nobody", Step::kTensor, "leads to no value"},
                                           Case{"tensor of half the size", Step::kTensor, "another value"},
                                           Case{"tensor of another rank", Step::kTensor, "another value"},
                                           Case{"tensor of another type", Step::kTensor, "another value"},
                                           Case{"tensor of strings", Step::kTensor, "another value"},
                                           Case{"tensor of another device", Step::kTensor, "(vendor 0x544e)"},
                                           Case{"null stream", Step::kStream, "made no stream"},
                                           Case{"bad stream", Step::kStream, "no memory"},
                                           Case{"bad allocator", Step::kRegister, "no memory"},
                                           Case{"null info", Step::kRegister, "null OrtMemoryInfo"}));

// A struct of a version before its members came has none of them.
INSTANTIATE_TEST_SUITE_P(Versions, BadDevice,
                         ::testing::Values(Case{"importer of version 0", Step::kCanImport, "needs version 24"},
                                           Case{"importer of version 23", Step::kCanImport, "needs version 24"},
                                           Case{"importer of version 99", Step::kNone},
                                           Case{"memory of version 99", Step::kNone},
                                           Case{"stream of version 0", Step::kStream, "needs version 23"},
                                           Case{"stream of version 99", Step::kNone},
                                           Case{"semaphore of version 99", Step::kNone},
                                           Case{"factory of version 23", Step::kGraphics, "needs version 25"}));

INSTANTIATE_TEST_SUITE_P(ThrowsOrFails, BadDevice,
                         ::testing::Values(Case{"throw CreateImporter", Step::kImporter, "throws"},
                                           Case{"fail CreateImporter", Step::kImporter, "the plugin cannot"},
                                           Case{"throw CanImportMemory", Step::kCanImport, "throws"},
                                           Case{"throw ImportMemory", Step::kMemory, "throws"},
                                           Case{"fail ImportMemory", Step::kMemory, "the plugin cannot"},
                                           Case{"throw int CreateTensorFromMemory", Step::kTensor, "no std::exception"},
                                           Case{"fail CreateTensorFromMemory", Step::kTensor, "the plugin cannot"},
                                           Case{"throw ImportSemaphore", Step::kSemaphore, "throws"},
                                           Case{"fail ImportSemaphore", Step::kSemaphore, "the plugin cannot"},
                                           Case{"throw WaitSemaphore", Step::kWait, "throws"},
                                           Case{"fail WaitSemaphore", Step::kWait, "the plugin cannot"},
                                           Case{"throw SignalSemaphore", Step::kSignal, "throws"},
                                           Case{"fail SignalSemaphore", Step::kSignal, "the plugin cannot"},
                                           Case{"throw CreateSyncStreamForDevice", Step::kStream, "throws"},
                                           Case{"fail CreateSyncStreamForDevice", Step::kStream, "the plugin cannot"},
                                           Case{"throw InitGraphicsInterop", Step::kGraphics, "throws"},
                                           Case{"fail InitGraphicsInterop", Step::kGraphics, "the plugin cannot"},
                                           Case{"fail DeinitGraphicsInterop", Step::kGraphics, "the plugin cannot"},
                                           Case{"throw CreateAllocator", Step::kRegister, "throws"},
                                           Case{"fail CreateAllocator", Step::kRegister, "the plugin cannot"},
                                           Case{"throw Alloc", Step::kAllocation, "no memory"},
                                           Case{"no memory", Step::kAllocation, "no memory"},
                                           // Nobody to tell: the log gets it.
                                           Case{"throw Importer.Release", Step::kNone},
                                           Case{"throw Memory.Release", Step::kNone},
                                           Case{"throw Semaphore.Release", Step::kNone},
                                           Case{"throw Stream.Release", Step::kNone}, Case{"throw Free", Step::kNone},
                                           Case{"throw ReleaseAllocator", Step::kNone}));

// S1.1: null, with success, is an EP without an importer; so is a factory that is older than the member, whatever lies
// where the member would be.
TEST(BadImporter, ADeviceWithoutAnImporterIsNoError) {
  for (const char* lie : {"null importer", "null CreateImporter", "factory of version 23"}) {
    const Outcome outcome = try_device(lie);
    EXPECT_FALSE(outcome.has_importer) << lie;
    EXPECT_TRUE(outcome.failed_at == Step::kNone || outcome.code == ORT_NOT_IMPLEMENTED) << lie << ": " << outcome.text;
    EXPECT_EQ(outcome.count("CanImportMemory"), 0) << lie;
  }
}

// A handle whose own Release cannot be called goes back through the importer, once.
TEST(BadImporter, AHandleWithoutReleaseGoesBackThroughTheImporter) {
  for (const char* lie :
       {"null Memory.Release", "memory of version 0", "null Semaphore.Release", "semaphore of version 0"}) {
    const Outcome outcome = try_device(lie);
    EXPECT_EQ(outcome.failed_at, Step::kNone) << lie << ": " << outcome.text;
    EXPECT_EQ(outcome.count("Memory.Release") + outcome.count("ReleaseMemory"), 1) << lie;
    EXPECT_EQ(outcome.count("Semaphore.Release") + outcome.count("ReleaseSemaphore"), 1) << lie;
  }
}

// S1.2: what the importer does not take is not passed on.
TEST(BadImporter, WhatTheImporterDoesNotTakeIsNotPassedOn) {
  const Outcome outcome = try_device("imports no memory");
  EXPECT_EQ(outcome.failed_at, Step::kMemory);
  EXPECT_EQ(outcome.code, ORT_NOT_IMPLEMENTED) << outcome.text;
  EXPECT_EQ(outcome.count("ImportMemory"), 0);
}

}  // namespace
}  // namespace tenon
