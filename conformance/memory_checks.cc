// Checks of memory imports and their tensors: S1.2, S1.3, S1.4, S1.6.
#include <atomic>
#include <functional>
#include <limits>
#include <thread>

#include "conformance/tensors.h"

namespace tenon::conformance {

namespace {

constexpr size_t kSize = 64 * 1024;

// The exporters that the EP can use; none is a skip.
std::vector<std::unique_ptr<MemoryExporter>> usable(Check& check) {
  if (check.importer() == nullptr) return {};
  auto exporters = check.memory_exporters();
  if (exporters.empty()) check.skip("The EP imports no kind of memory that this program can make.");
  return exporters;
}

using ImportFn = std::function<Outcome(const OrtExternalMemoryDescriptor&, Owned<OrtExternalMemoryHandle>*)>;

// A failed import leaves the caller's handle, and nothing of its own.
void expect_refused(Check& check, SharedMemory& memory, const OrtExternalMemoryDescriptor& descriptor,
                    OrtErrorCode code, const std::string& what, const ImportFn& import) {
  check.step(what);
  const int fds = count_open_fds();
  Owned<OrtExternalMemoryHandle> handle;
  check.expect_code(import(descriptor, &handle), code, "ImportMemory with " + what);
  if (handle != nullptr) {
    memory.take_on_success();
    return;
  }
  const std::string lost = memory.check_still_ours();
  if (!lost.empty()) check.fail(what + ": " + lost);
  check.expect(count_open_fds() == fds,
               format("{}: a failed import leaves {} file descriptors open.", what, count_open_fds() - fds));
}

ImportFn through_host(Check& check) {
  return [&check](const OrtExternalMemoryDescriptor& descriptor, Owned<OrtExternalMemoryHandle>* out) {
    return import_memory(check, check.importer(), descriptor, out);
  };
}

// S1.2
void unimportable_kinds(Check& check) {
  if (check.importer() == nullptr) return;
  auto memory = host_memory_exporters().front()->make(kSize);
  if (!check.expect_ok(memory.status(), "A memfd")) return;
  constexpr uint32_t kKinds[] = {0, 1, 2, 3, 4, 1000, 0x544E0077u, 0xffffffffu};
  for (const uint32_t kind : kKinds) {
    bool supported = true;
    const auto type = std::bit_cast<OrtExternalMemoryHandleType>(kind);
    if (!check.take(check.interop().CanImportMemory(check.importer(), type, &supported)).ok() || supported) continue;
    OrtExternalMemoryDescriptor descriptor = (*memory)->descriptor(check.host().version());
    descriptor.handle_type = type;
    expect_refused(check, **memory, descriptor, ORT_NOT_IMPLEMENTED, format("the unsupported kind {:#x}", kind),
                   through_host(check));
  }
}

void refuse_bad_descriptors(Check& check, MemoryExporter& exporter, const std::string& who, const ImportFn& import) {
  auto made = exporter.make(kSize);
  if (!check.expect_ok(made.status(), who)) return;
  SharedMemory& memory = **made;
  const auto refused = [&](const char* what, const std::function<void(OrtExternalMemoryDescriptor&)>& spoil) {
    OrtExternalMemoryDescriptor descriptor = memory.descriptor(check.host().version());
    spoil(descriptor);
    expect_refused(check, memory, descriptor, ORT_INVALID_ARGUMENT, format("{} ({})", what, who), import);
  };
  constexpr size_t kHuge = std::numeric_limits<size_t>::max();
  refused("version 0", [](auto& descriptor) { descriptor.version = 0; });
  refused("version 1000", [](auto& descriptor) { descriptor.version = 1000; });
  refused("size 0", [](auto& descriptor) { descriptor.size_bytes = 0; });
  refused("an offset plus a size that overflow", [](auto& descriptor) { descriptor.offset_bytes = kHuge - 100; });
  if (memory.size_is_known()) {
    refused("a size beyond the object", [](auto& descriptor) { descriptor.size_bytes = 16 * kSize; });
    refused("an offset that leaves the object", [](auto& descriptor) { descriptor.offset_bytes += 4096; });
    refused("a huge size", [](auto& descriptor) { descriptor.size_bytes = kHuge / 2; });
  }
  expect_refused(check, memory, memory.broken_descriptor(check.host().version()), ORT_INVALID_ARGUMENT,
                 format("a handle that is none ({})", who), import);
}

// S1.3
void bad_descriptors(Check& check) {
  const OwnImporter own(check);
  for (const auto& exporter : usable(check)) {
    refuse_bad_descriptors(check, *exporter, exporter->name(), through_host(check));
    if (own)
      refuse_bad_descriptors(check, *exporter, format("{}, the plugin's own importer", exporter->name()),
                             [&](const OrtExternalMemoryDescriptor& descriptor, Owned<OrtExternalMemoryHandle>* out) {
                               return own.import_memory(descriptor, out);
                             });
  }
}

// S1.7
void import_shared_resource(Check& check) {
  for (const auto& exporter : usable(check)) {
    for (int round = 0; round < 3; ++round) {
      check.step(format("{}, round {}", exporter->name(), round + 1));
      // A device may open things of its own at its first import.
      const int fds = count_open_fds();
      {
        auto memory = exporter->make(kSize);
        if (!check.expect_ok(memory.status(), exporter->name())) break;
        auto handle = import_all(check, **memory);
        if (handle == nullptr) break;
        handle.reset();
        const std::string wrong = (*memory)->check_given_back();
        if (!wrong.empty()) check.fail(format("{}: {}", exporter->name(), wrong));
      }
      check.expect(
          round == 0 || count_open_fds() == fds,
          format("{}: import and release leave {} file descriptors open.", exporter->name(), count_open_fds() - fds));
    }
  }
}

using TensorFn = std::function<Outcome(const OrtExternalTensorDescriptor&, Owned<OrtValue>*)>;

void refuse_bad_tensors(Check& check, const std::string& who, const TensorFn& create) {
  const auto refused = [&](const std::string& what, const std::vector<int64_t>& shape,
                           const std::function<void(OrtExternalTensorDescriptor&)>& spoil) {
    check.step(format("{} ({})", what, who));
    OrtExternalTensorDescriptor descriptor = describe_tensor(check, shape);
    spoil(descriptor);
    Owned<OrtValue> value;
    check.expect_code(create(descriptor, &value), ORT_INVALID_ARGUMENT,
                      format("CreateTensorFromMemory with {} ({})", what, who));
  };
  const auto as_is = [](OrtExternalTensorDescriptor&) {};
  constexpr int64_t kFits = kSize / sizeof(float);
  constexpr int64_t kLarge = int64_t{1} << 62;
  refused("version 0", {4}, [](auto& descriptor) { descriptor.version = 0; });
  refused("one element too many", {kFits + 1}, as_is);
  refused("an offset that leaves the import", {kFits}, [](auto& descriptor) { descriptor.offset_bytes = 4; });
  refused("an offset past the end", {1}, [](auto& descriptor) { descriptor.offset_bytes = kSize; });
  refused("an offset that overflows", {1}, [](auto& descriptor) { descriptor.offset_bytes = SIZE_MAX - 3; });
  refused("an offset that is not aligned", {4}, [](auto& descriptor) { descriptor.offset_bytes = 2; });
  refused("a negative dimension", {2, -1}, as_is);
  refused("dimensions whose product overflows", {kLarge, kLarge}, as_is);
  refused("dimensions whose bytes overflow", {kLarge}, as_is);
  refused("a null shape", {4}, [](auto& descriptor) { descriptor.shape = nullptr; });
  refused("strings", {4}, [](auto& descriptor) { descriptor.element_type = ONNX_TENSOR_ELEMENT_DATA_TYPE_STRING; });
  refused("no type", {4}, [](auto& descriptor) { descriptor.element_type = ONNX_TENSOR_ELEMENT_DATA_TYPE_UNDEFINED; });
  refused("an unknown type", {4},
          [](auto& descriptor) { descriptor.element_type = std::bit_cast<ONNXTensorElementDataType>(1000); });
}

// S1.4
void bad_tensors(Check& check) {
  const OwnImporter own(check);
  for (const auto& exporter : usable(check)) {
    auto memory = exporter->make(kSize);
    if (!check.expect_ok(memory.status(), exporter->name())) continue;
    const auto handle = import_all(check, **memory);
    if (handle == nullptr) continue;
    refuse_bad_tensors(check, exporter->name(),
                       [&](const OrtExternalTensorDescriptor& descriptor, Owned<OrtValue>* out) {
                         return create_tensor(check, check.importer(), handle.get(), descriptor, out);
                       });
    if (!own) continue;
    const std::string who = format("{}, the plugin's own importer", exporter->name());
    memory = exporter->make(kSize);
    Owned<OrtExternalMemoryHandle> own_handle;
    if (!check.expect_ok(memory.status(), who) ||
        !check.expect_ok(own.import_memory((*memory)->descriptor(check.host().version()), &own_handle), who))
      continue;
    (*memory)->take_on_success();
    refuse_bad_tensors(check, who, [&](const OrtExternalTensorDescriptor& descriptor, Owned<OrtValue>* out) {
      return own.create_tensor(own_handle.get(), descriptor, out);
    });
  }
}

// S1.7, S1.4: a view of what the other side wrote.
void create_tensor_from_memory(Check& check) {
  const std::vector<int64_t> shape = {2, 3, 16};
  constexpr size_t kOffset = 4096;
  for (const auto& exporter : usable(check)) {
    check.step(exporter->name());
    auto memory = exporter->make(kSize);
    if (!check.expect_ok(memory.status(), exporter->name())) continue;
    {
      const auto handle = import_all(check, **memory);
      if (handle == nullptr) continue;
      const auto value = make_tensor(check, handle.get(), shape, kOffset);
      if (value == nullptr) continue;
      OrtTensorTypeAndShapeInfo* raw_info = nullptr;
      if (!check.expect_ok(check.take(check.api().GetTensorTypeAndShape(value.get(), &raw_info)),
                           "GetTensorTypeAndShape"))
        continue;
      const auto info = check.host().own(raw_info, check.api().ReleaseTensorTypeAndShapeInfo);
      std::vector<int64_t> dims(shape.size());
      size_t rank = 0;
      (void)check.take(check.api().GetDimensionsCount(raw_info, &rank));
      check.expect(rank == shape.size(), format("The tensor has rank {} instead of {}.", rank, shape.size()));
      (void)check.take(check.api().GetDimensions(raw_info, dims.data(), dims.size()));
      check.expect(dims == shape, "The tensor has another shape than it was asked to have.");
      // Written after the tensor was made: a copy would not show it.
      auto* floats = reinterpret_cast<float*>((*memory)->view() + kOffset);
      for (int i = 0; i < 96; ++i) floats[i] = static_cast<float>(i) - 7;
      (*memory)->publish();
      const auto elements = read_floats(check, value.get(), shape);
      if (!check.expect_ok(elements.status(), "Reading the tensor back")) continue;
      for (size_t i = 0; i < elements->size(); ++i) {
        if ((*elements)[i] == static_cast<float>(i) - 7) continue;
        check.fail(format("{}: element {} reads {} instead of {}: the tensor is no view of the memory.",
                          exporter->name(), i, (*elements)[i], static_cast<float>(i) - 7));
        break;
      }
    }
    const std::string wrong = (*memory)->check_given_back();
    if (!wrong.empty()) check.fail(format("{}: {}", exporter->name(), wrong));
  }
}

// S1.4: the tensor keeps the import alive.
void release_in_any_order(Check& check) {
  const std::vector<int64_t> shape = {64};
  for (const auto& exporter : usable(check)) {
    auto memory = exporter->make(kSize);
    if (!check.expect_ok(memory.status(), exporter->name())) continue;
    reinterpret_cast<float*>((*memory)->view())[5] = 42;
    (*memory)->publish();
    {
      auto importer = check.host().create_importer();
      if (!check.expect_ok(importer.status(), "CreateExternalResourceImporterForDevice")) return;
      Owned<OrtExternalMemoryHandle> handle;
      if (!check.expect_ok(
              import_memory(check, importer->get(), (*memory)->descriptor(check.host().version()), &handle),
              "ImportMemory"))
        continue;
      (*memory)->take_on_success();
      Owned<OrtValue> value;
      if (!check.expect_ok(create_tensor(check, importer->get(), handle.get(), describe_tensor(check, shape), &value),
                           "CreateTensorFromMemory"))
        continue;
      check.step(format("{}: importer first, then handle, tensor last", exporter->name()));
      importer->reset();
      handle.reset();
      const auto elements = read_floats(check, value.get(), shape);
      if (check.expect_ok(elements.status(), "Reading a tensor whose import was released"))
        check.expect((*elements)[5] == 42, "A tensor whose import was released reads something else.");
    }
    const std::string wrong = (*memory)->check_given_back();
    if (!wrong.empty()) check.fail(format("{}: {}", exporter->name(), wrong));
  }
}

// S1.3, S1.6: nothing grows.
void nothing_is_left(Check& check) {
  constexpr int kWarmUp = 50, kRounds = 500;
  constexpr size_t kSlack = 2 << 20;
  for (const auto& exporter : usable(check)) {
    check.step(exporter->name());
    const auto round = [&] {
      auto memory = exporter->make(kSize);
      if (!memory.ok()) return false;
      const auto handle = import_all(check, **memory);
      return handle != nullptr && make_tensor(check, handle.get(), {16}) != nullptr;
    };
    bool good = true;
    for (int i = 0; good && i < kWarmUp; ++i) good = round();
    const int fds = count_open_fds();
    const size_t memory = resident_bytes();
    for (int i = 0; good && i < kRounds; ++i) good = round();
    check.expect(count_open_fds() == fds, format("{}: {} imports leave {} file descriptors open.", exporter->name(),
                                                 kRounds, count_open_fds() - fds));
    check.expect(resident_bytes() < memory + kSlack, format("{}: {} imports leave {} KiB behind.", exporter->name(),
                                                            kRounds, (resident_bytes() - memory) / 1024));
  }
}

// S1.6
void many_threads(Check& check) {
  for (const auto& exporter : usable(check)) {
    check.step(exporter->name());
    std::atomic<int> wrong{0};
    constexpr int kThreads = 8;
    std::vector<std::thread> threads;
    threads.reserve(kThreads);
    for (int t = 0; t < kThreads; ++t) {
      threads.emplace_back([&, t] {
        for (int i = 0; i < 25; ++i) {
          auto memory = exporter->make(kSize);
          if (!memory.ok()) return void(++wrong);
          reinterpret_cast<float*>((*memory)->view())[0] = static_cast<float>(t * 100 + i);
          (*memory)->publish();
          const auto handle = import_all(check, **memory);
          if (handle == nullptr) return void(++wrong);
          const auto value = make_tensor(check, handle.get(), {16});
          if (value == nullptr) return void(++wrong);
          const auto elements = read_floats(check, value.get(), {16});
          if (!elements.ok() || (*elements)[0] != static_cast<float>(t * 100 + i)) return void(++wrong);
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
    check.expect(wrong == 0,
                 format("{}: {} of 8 threads that share an importer fail.", exporter->name(), wrong.load()));
  }
}

}  // namespace

const std::vector<CheckEntry> kMemoryChecks = {
    {"UnimportableMemoryIsNotImplemented", "S1.2", &unimportable_kinds},
    {"ImportRefusesBadDescriptors", "S1.3", &bad_descriptors},
    {"TensorsRefuseBadDescriptors", "S1.4", &bad_tensors},
    {"ImportSharedResource", "S1.7", &import_shared_resource},
    {"CreateTensorFromImportedMemory", "S1.7", &create_tensor_from_memory},
    {"TensorKeepsTheImportAlive", "S1.4", &release_in_any_order},
    {"ImportsLeaveNothingBehind", "S1.3", &nothing_is_left},
    {"ManyThreadsShareAnImporter", "S1.6", &many_threads},
};

}  // namespace tenon::conformance
