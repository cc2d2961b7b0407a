// Devices and kinds of memory, and the process's env: providers, plugin libraries, logging.
#include <tenon/log.h>

#include <array>
#include <map>

#include "value.h"

namespace tenon::python {
namespace {

constexpr uint32_t kMicrosoft = 0x1414;
// The numbers of kinds of devices that OrtDevice has as functions. DirectML's is that of its GPUs.
constexpr int kDmlNumber = 4;
constexpr std::array<std::pair<const char*, int>, 8> kDeviceNumbers = {
    {{"cpu", 0}, {"gpu", 1}, {"cuda", 1}, {"webgpu", 1}, {"fpga", 2}, {"npu", 3}, {"cann", 3}, {"dml", kDmlNumber}}};

// The names that onnxruntime's package takes, and whose devices they mean.
struct DeviceName {
  const char* name;
  int type;
  uint32_t vendor;
};
constexpr std::array<DeviceName, 7> kDeviceNames = {{
    {"cpu", 0, 0},
    {"cuda", 1, 0x10de},
    {"dml", 1, kMicrosoft},
    {"cann", 3, 0x19e5},
    {"webgpu", 1, 0},
    {"gpu", 1, 0},
    {"npu", 3, 0},
}};

// The C ABI counts a device's kinds in another way than onnxruntime's package.
OrtMemoryInfoDeviceType abi_type(int type) {
  if (type == 1) return OrtMemoryInfoDeviceType_GPU;
  if (type == 3) return OrtMemoryInfoDeviceType_NPU;
  return OrtMemoryInfoDeviceType_CPU;
}

// What the env is made with; it is made by the first call that needs it.
struct EnvSettings {
  OrtEnv* env = nullptr;
  int severity = ORT_LOGGING_LEVEL_WARNING;
  bool global_threads = false;
  int intra_op_threads = 0;
};
EnvSettings& settings() {
  static EnvSettings made;
  return made;
}

void set_severity(int severity) {
  if (severity < 0 || severity > 4)
    raise(PyExc_RuntimeError, "Invalid logging severity (" + std::to_string(severity) +
                                  "). 0:Verbose, 1:Info, 2:Warning, 3:Error, 4:Fatal");
  settings().severity = severity;
  if (settings().env != nullptr)
    check(api().UpdateEnvWithCustomLogLevel(settings().env, static_cast<OrtLoggingLevel>(severity)));
}

void set_global_threads(int intra_op_num_threads, int) {
  if (settings().env != nullptr) {
    if (PyErr_WarnEx(PyExc_RuntimeWarning,
                     "set_global_thread_pool_sizes has no effect here: it has to be called before anything else makes "
                     "the environment (a session, a list of devices).",
                     1) != 0)
      throw nb::python_error();
    return;
  }
  settings().global_threads = true;
  settings().intra_op_threads = intra_op_num_threads;
}

std::vector<std::string> available_providers() {
  char** names = nullptr;
  int count = 0;
  check(api().GetAvailableProviders(&names, &count));
  std::vector<std::string> made(names, names + count);
  check(api().ReleaseAvailableProviders(names, count));
  // Those of registered plugin libraries come first: programs prefer them to the CPU.
  const OrtEpDevice* const* devices = nullptr;
  size_t device_count = 0;
  check(api().GetEpDevices(env(), &devices, &device_count));
  std::vector<std::string> registered;
  for (size_t i = 0; i < device_count; ++i) {
    const std::string name = api().EpDevice_EpName(devices[i]);
    if (std::find(made.begin(), made.end(), name) == made.end() &&
        std::find(registered.begin(), registered.end(), name) == registered.end())
      registered.push_back(name);
  }
  made.insert(made.begin(), registered.begin(), registered.end());
  return made;
}

std::vector<EpDevice> ep_devices() {
  const OrtEpDevice* const* devices = nullptr;
  size_t count = 0;
  check(api().GetEpDevices(env(), &devices, &count));
  std::vector<EpDevice> made;
  for (size_t i = 0; i < count; ++i) made.push_back({devices[i]});
  return made;
}

nb::object memory_info_of_device(const EpDevice& device, OrtDeviceMemoryType kind) {
  const OrtMemoryInfo* info = api().EpDevice_MemoryInfo(device.device, kind);
  if (info == nullptr) return nb::none();
  return nb::cast(MemoryInfo{.owned = {}, .info = info, .owner = nullptr});
}

MemoryInfo make_info(OwnedMemoryInfo owned) {
  const OrtMemoryInfo* info = owned.get();
  return {.owned = std::move(owned), .info = info, .owner = nullptr};
}

template <typename T>
T ask(const MemoryInfo& info, OrtStatus* (*OrtApi::*getter)(const OrtMemoryInfo*, T*) noexcept) {
  T answer{};
  check((api().*getter)(info.info, &answer));
  return answer;
}

void bind_memory_info(nb::module_& m) {
  using nb::arg;
  nb::class_<MemoryInfo>(m, "OrtMemoryInfo", "A kind of memory: its device, and how it is allocated.")
      .def(
          "__init__",
          [](MemoryInfo* self, const std::string& name, OrtAllocatorType allocator, int id, OrtMemType memory) {
            OwnedMemoryInfo made;
            check_run(api().CreateMemoryInfo(name.c_str(), allocator, id, memory, made.out()));
            new (self) MemoryInfo(make_info(std::move(made)));
          },
          arg("name"), arg("allocator_type"), arg("device_id"), arg("mem_type"),
          "Memory by onnxruntime's name: \"Cpu\", \"Cuda\", ... Errors: RuntimeError for a name that is not known.")
      .def_static(
          "create_v2",
          [](const std::string& name, OrtMemoryInfoDeviceType type, uint32_t vendor, int32_t id,
             OrtDeviceMemoryType memory, size_t alignment, OrtAllocatorType allocator) {
            OwnedMemoryInfo made;
            check_run(
                api().CreateMemoryInfo_V2(name.c_str(), type, vendor, id, memory, alignment, allocator, made.out()));
            return make_info(std::move(made));
          },
          arg("name"), arg("device_type"), arg("vendor_id"), arg("device_id"), arg("mem_type"), arg("alignment"),
          arg("allocator_type"),
          "Memory of a device by its kind, PCI vendor id and number. `alignment` is in bytes; 0: the allocator's own.")
      .def_prop_ro(
          "name", [](const MemoryInfo& info) { return std::string(ask(info, &OrtApi::MemoryInfoGetName)); },
          "The allocator's name: \"Cpu\", \"Cuda\", ...")
      .def_prop_ro(
          "device_id", [](const MemoryInfo& info) { return ask(info, &OrtApi::MemoryInfoGetId); },
          "The device's number among those of its kind.")
      .def_prop_ro(
          "mem_type", [](const MemoryInfo& info) { return ask(info, &OrtApi::MemoryInfoGetMemType); },
          "The use of the memory.")
      .def_prop_ro(
          "allocator_type", [](const MemoryInfo& info) { return ask(info, &OrtApi::MemoryInfoGetType); },
          "How the memory is allocated.")
      .def_prop_ro(
          "device_mem_type", [](const MemoryInfo& info) { return api().MemoryInfoGetDeviceMemType(info.info); },
          "Whether the host reads and writes the memory as well.")
      .def_prop_ro(
          "device_vendor_id", [](const MemoryInfo& info) { return api().MemoryInfoGetVendorId(info.info); },
          "The PCI vendor id of the device; 0 for the CPU.");
}

void bind_enums(nb::module_& m) {
  nb::enum_<OrtAllocatorType>(m, "OrtAllocatorType", "How memory is allocated, in an OrtMemoryInfo.",
                              nb::is_arithmetic())
      .value("INVALID", OrtInvalidAllocator)
      .value("ORT_DEVICE_ALLOCATOR", OrtDeviceAllocator)
      .value("ORT_ARENA_ALLOCATOR", OrtArenaAllocator);
  nb::enum_<OrtMemType>(
      m, "OrtMemType",
      "The use of memory, in an OrtMemoryInfo: CPU_INPUT and CPU_OUTPUT are host memory of a device's provider.",
      nb::is_arithmetic())
      .value("CPU_INPUT", OrtMemTypeCPUInput)
      .value("CPU_OUTPUT", OrtMemTypeCPUOutput)
      .value("DEFAULT", OrtMemTypeDefault);
  m.attr("OrtMemType").attr("CPU") = m.attr("OrtMemType").attr("CPU_OUTPUT");
  nb::enum_<OrtDeviceMemoryType>(
      m, "OrtDeviceMemoryType",
      "A device's memory: its own (DEFAULT), or memory that the host reads and writes as well (HOST_ACCESSIBLE).",
      nb::is_arithmetic())
      .value("DEFAULT", OrtDeviceMemoryType_DEFAULT)
      .value("HOST_ACCESSIBLE", OrtDeviceMemoryType_HOST_ACCESSIBLE);
  nb::enum_<OrtMemoryInfoDeviceType>(m, "OrtMemoryInfoDeviceType", "The kind of device that memory belongs to.",
                                     nb::is_arithmetic())
      .value("CPU", OrtMemoryInfoDeviceType_CPU)
      .value("GPU", OrtMemoryInfoDeviceType_GPU)
      .value("FPGA", OrtMemoryInfoDeviceType_FPGA)
      .value("NPU", OrtMemoryInfoDeviceType_NPU);
  nb::enum_<OrtHardwareDeviceType>(m, "OrtHardwareDeviceType", "The kind of a piece of hardware.", nb::is_arithmetic())
      .value("CPU", OrtHardwareDeviceType_CPU)
      .value("GPU", OrtHardwareDeviceType_GPU)
      .value("NPU", OrtHardwareDeviceType_NPU);
}

void bind_ep_devices(nb::module_& m) {
  nb::class_<HardwareDevice>(m, "OrtHardwareDevice", "A piece of hardware.")
      .def_prop_ro(
          "type", [](const HardwareDevice& d) { return api().HardwareDevice_Type(d.device); }, "CPU, GPU or NPU.")
      .def_prop_ro(
          "vendor", [](const HardwareDevice& d) { return std::string(api().HardwareDevice_Vendor(d.device)); },
          "The vendor's name.")
      .def_prop_ro(
          "vendor_id", [](const HardwareDevice& d) { return api().HardwareDevice_VendorId(d.device); },
          "The PCI vendor id.")
      .def_prop_ro(
          "device_id", [](const HardwareDevice& d) { return api().HardwareDevice_DeviceId(d.device); },
          "The PCI device id: of the model of hardware, no number of a device.")
      .def_prop_ro(
          "metadata", [](const HardwareDevice& d) { return to_map(api().HardwareDevice_Metadata(d.device)); },
          "More about it, as texts by name.");
  nb::class_<EpDevice>(m, "OrtEpDevice", "A device that an execution provider can use.")
      .def_prop_ro(
          "ep_name", [](const EpDevice& d) { return std::string(api().EpDevice_EpName(d.device)); },
          "The name of the execution provider.")
      .def_prop_ro(
          "ep_vendor", [](const EpDevice& d) { return std::string(api().EpDevice_EpVendor(d.device)); },
          "The provider's vendor.")
      .def_prop_ro(
          "ep_metadata", [](const EpDevice& d) { return to_map(api().EpDevice_EpMetadata(d.device)); },
          "What the provider says of itself and the device, as texts by name.")
      .def_prop_ro(
          "ep_options", [](const EpDevice& d) { return to_map(api().EpDevice_EpOptions(d.device)); },
          "Options that the provider takes for this device, with their defaults.")
      .def_prop_ro(
          "device", [](const EpDevice& d) { return HardwareDevice{api().EpDevice_Device(d.device)}; }, "The hardware.")
      .def("memory_info", &memory_info_of_device, nb::arg("memory_type"),
           "The OrtMemoryInfo of the device's memory of this kind; None if it offers none.",
           nb::sig("def memory_info(self, memory_type: OrtDeviceMemoryType) -> OrtMemoryInfo | None"))
      .def("create_sync_stream", &create_stream, nb::rv_policy::move,
           "A stream of the device's, for copy_tensors. Errors: those of a provider that has no streams.",
           nb::sig("def create_sync_stream(self) -> OrtSyncStream"))
      .def("_address", [](const EpDevice& d) { return reinterpret_cast<uintptr_t>(d.device); });
}

}  // namespace

std::map<std::string, std::string> to_map(const OrtKeyValuePairs* pairs) {
  std::map<std::string, std::string> made;
  if (pairs == nullptr) return made;
  const char* const* keys = nullptr;
  const char* const* values = nullptr;
  size_t count = 0;
  api().GetKeyValuePairs(pairs, &keys, &values, &count);
  for (size_t i = 0; i < count; ++i) made[keys[i]] = values[i];
  return made;
}

Device device_of_argument(nb::handle device, int id, int64_t vendor) {
  if (nb::isinstance<Device>(device)) return nb::cast<const Device&>(device);
  return make_device(nb::cast<std::string>(device), id, vendor);
}

Device make_device(const std::string& name, int id, int64_t vendor) {
  for (const DeviceName& known : kDeviceNames)
    if (known.name == name)
      return {.type = known.type, .vendor = vendor < 0 ? known.vendor : static_cast<uint32_t>(vendor), .id = id};
  raise(PyExc_Exception, "Unsupported device type: " + name);
}

OwnedMemoryInfo memory_info_of(const Device& device) {
  OwnedMemoryInfo info;
  if (device.type == 0 && device.memory == 0) {
    check(api().CreateCpuMemoryInfo(OrtDeviceAllocator, OrtMemTypeDefault, info.out()));
  } else {
    check(api().CreateMemoryInfo_V2("", abi_type(device.type), device.vendor, device.id,
                                    static_cast<OrtDeviceMemoryType>(device.memory), 0, OrtDeviceAllocator,
                                    info.out()));
  }
  return info;
}

OrtAllocator* default_allocator() {
  OrtAllocator* allocator = nullptr;
  check(api().GetAllocatorWithDefaultOptions(&allocator));
  return allocator;
}

std::string take_text(char* text) {
  std::string made = text;
  OrtAllocator* allocator = default_allocator();
  check(api().AllocatorFree(allocator, text));
  return made;
}

OrtEnv* env() {
  EnvSettings& made = settings();
  if (made.env != nullptr) [[likely]]
    return made.env;
  const auto severity = static_cast<OrtLoggingLevel>(made.severity);
  if (!made.global_threads) {
    check(api().CreateEnvWithCustomLogger(&write_log, nullptr, severity, "Default", &made.env));
  } else {
    OrtThreadingOptions* threads = nullptr;
    check(api().CreateThreadingOptions(&threads));
    OrtStatus* status = api().SetGlobalIntraOpNumThreads(threads, made.intra_op_threads);
    if (status == nullptr)
      status = api().CreateEnvWithCustomLoggerAndGlobalThreadPools(&write_log, nullptr, severity, "Default", threads,
                                                                   &made.env);
    api().ReleaseThreadingOptions(threads);
    check(status);
  }
  // Not when the package is imported: the program may still say how many threads the env has.
  (void)nb::module_::import_("tenon._installed").attr("register_providers")();
  return made.env;
}

void bind_devices(nb::module_& m) {
  using nb::arg;
  bind_enums(m);
  bind_memory_info(m);
  bind_ep_devices(m);
  nb::class_<Device> device(m, "OrtDevice", "Where tensors are: a device by the name that onnxruntime gives it.");
  device
      .def_static("make", &make_device, arg("ort_device_name"), arg("device_id"), arg("vendor_id") = -1,
                  "\"cpu\", \"cuda\", \"gpu\", \"npu\", \"dml\", \"cann\" or \"webgpu\"; a PCI vendor id chooses "
                  "between \"gpu\" or \"npu\" devices.")
      .def(
          "device_id", [](const Device& d) { return d.id; }, "The number among devices of the kind.")
      .def(
          "device_type", [](const Device& d) { return d.type; }, "0: CPU, 1: GPU, 3: NPU.")
      .def(
          "device_vendor_id", [](const Device& d) { return d.vendor; }, "The PCI vendor id; 0: any.")
      .def(
          "device_mem_type", [](const Device& d) { return d.memory; },
          "0: the device's own memory; others as onnxruntime counts them.")
      .def("_get_c_device", [](nb::handle self) { return nb::borrow(self); })
      // onnxruntime has a second, native class beneath this one, which programs use as well.
      .def(nb::init<const Device&>(), arg("c_ort_device"), "The same device.")
      .def(
          "__init__",
          [](Device* self, int type, int memory, int id) {
            const bool is_dml = type == kDmlNumber;
            new (self) Device{.type = is_dml ? 1 : type, .memory = memory, .vendor = is_dml ? kMicrosoft : 0, .id = id};
          },
          arg("device_type"), arg("mem_type"), arg("device_id"))
      .def(
          "__init__",
          [](Device* self, int type, int memory, uint32_t vendor, int id) {
            new (self) Device{.type = type, .memory = memory, .vendor = vendor, .id = id};
          },
          arg("device_type"), arg("mem_type"), arg("vendor_id"), arg("device_id"))
      .def(
          "vendor_id", [](const Device& d) { return d.vendor; }, "The same as device_vendor_id().")
      .def(
          "mem_type", [](const Device& d) { return d.memory; }, "The same as device_mem_type().")
      .def_static("default_memory", [] { return 0; }, "A device's own memory, for OrtDevice's mem_type.");
  for (const auto& [name, number] : kDeviceNumbers)
    device.def_static(name, [number = number] { return number; }, "A device_type of OrtDevice.");
}

void bind_environment(nb::module_& m) {
  using nb::arg;
  m.def("get_available_providers", &available_providers,
        "The names of the execution providers that sessions can use, those of registered libraries first.");
  m.def("get_ep_devices", &ep_devices, "All devices of all execution providers.");
  m.def(
      "register_execution_provider_library",
      [](const std::string& registration_name, const std::string& library_path) {
        check(api().RegisterExecutionProviderLibrary(env(), registration_name.c_str(), library_path.c_str()));
      },
      arg("registration_name"), arg("library_path"),
      "Loads a plugin library; its providers and devices are then there.");
  m.def(
      "unregister_execution_provider_library",
      [](const std::string& registration_name) {
        check(api().UnregisterExecutionProviderLibrary(env(), registration_name.c_str()));
      },
      arg("registration_name"), "The library is unloaded when no session uses it any more.");
  m.def("set_default_logger_severity", &set_severity, arg("severity"),
        "Messages from this severity on are written: 0 verbose, 1 info, 2 warning, 3 error, 4 fatal.");
  m.def("set_default_logger_verbosity", [](int) {}, arg("verbosity"), "Accepted, and without effect.");
  m.def("set_global_thread_pool_sizes", &set_global_threads, arg("intra_op_num_threads") = 0,
        arg("inter_op_num_threads") = 0,
        "The threads that sessions share whose options have use_per_session_threads = False. To be called before the "
        "first session.");
  m.def(
      "get_version_string", [] { return std::string(OrtGetApiBase()->GetVersionString()); },
      "The version of onnxruntime whose behaviour this is.");
  m.def("get_build_info", [] { return std::string(api().GetBuildInfoString()); }, "What built the library.");
}

}  // namespace tenon::python
