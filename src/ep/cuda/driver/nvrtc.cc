#include "ep/cuda/driver/nvrtc.h"

#include <algorithm>
#include <iterator>

#include "base/fault.h"
#include "ep/cuda/driver/shared_library.h"

namespace tenon::cuda {

namespace {

#define TENON_NVRTC_TRY(library, function, ...)                                                                        \
  do {                                                                                                                 \
    TENON_FAULT_POINT("nvrtc" #function);                                                                              \
    if (const nvrtcResult tenon_nvrtc_result_ = (library).function(__VA_ARGS__); tenon_nvrtc_result_ != NVRTC_SUCCESS) \
      return internal_error("nvrtc" #function ": {} ({}).", (library).GetErrorString(tenon_nvrtc_result_),             \
                            static_cast<int>(tenon_nvrtc_result_));                                                    \
  } while (false)

Result<Nvrtc> load() {
  TENON_TRY_ASSIGN(const SharedLibrary library, SharedLibrary::open(LibraryKind::kNvrtc));
  Nvrtc table;
#define TENON_NVRTC_LOAD_(name) TENON_TRY(library.find("nvrtc" #name, &table.name));
  TENON_NVRTC_FUNCTIONS(TENON_NVRTC_LOAD_)
#undef TENON_NVRTC_LOAD_
  TENON_NVRTC_TRY(table, Version, &table.major, &table.minor);
  return table;
}

struct Program {
  const Nvrtc& library;
  nvrtcProgram program = nullptr;
  ~Program() {
    if (program != nullptr) (void)library.DestroyProgram(&program);
  }
};

}  // namespace

Result<const Nvrtc*> nvrtc() {
  static const Result<Nvrtc> table = load();
  if (!table.ok()) return table.status();
  return &*table;
}

Result<NvrtcImage> Nvrtc::compile(const NvrtcSource& source, int compute_capability) const {
  int count = 0;
  TENON_NVRTC_TRY(*this, GetNumSupportedArchs, &count);
  std::vector<int> known(static_cast<size_t>(std::max(count, 1)));
  TENON_NVRTC_TRY(*this, GetSupportedArchs, known.data());
  int target = 0;
  for (int one : known)
    if (one <= compute_capability) target = std::max(target, one);
  TENON_UNSUPPORTED_IF(target == 0, "NVRTC {}.{} has no code for compute capability {}.{}.", major, minor,
                       compute_capability / 10, compute_capability % 10);
  const bool machine_code = target == compute_capability;
  Program program{*this};
  std::vector<const char*> names, texts;
  for (const NvrtcHeader& header : source.headers) {
    names.push_back(header.name);
    texts.push_back(header.text);
  }
  TENON_NVRTC_TRY(*this, CreateProgram, &program.program, source.text.c_str(), source.name.c_str(),
                  static_cast<int>(names.size()), texts.data(), names.data());
  for (const std::string& instance : source.instances)
    TENON_NVRTC_TRY(*this, AddNameExpression, program.program, instance.c_str());
  if (source.cancelled != nullptr)
    TENON_NVRTC_TRY(
        *this, SetFlowCallback, program.program,
        [](void* cancelled, void*) { return static_cast<const std::atomic<bool>*>(cancelled)->load() ? 1 : 0; },
        const_cast<std::atomic<bool>*>(source.cancelled));
  const std::string architecture = format("--gpu-architecture={}_{}", machine_code ? "sm" : "compute", target);
  // Headers that the host includes too say nothing of devices.
  const char* const arguments[] = {"--std=c++17", "-default-device", architecture.c_str()};
  TENON_FAULT_POINT("nvrtcCompileProgram");
  const nvrtcResult compiled = CompileProgram(program.program, static_cast<int>(std::size(arguments)), arguments);
  if (compiled != NVRTC_SUCCESS) {
    size_t length = 0;
    std::string log;
    if (GetProgramLogSize(program.program, &length) == NVRTC_SUCCESS && length > 1) {
      log.resize(length);
      if (GetProgramLog(program.program, log.data()) != NVRTC_SUCCESS) log.clear();
      while (!log.empty() && (log.back() == '\0' || log.back() == '\n')) log.pop_back();
    }
    return internal_error("nvrtcCompileProgram: {} ({}) for {} and {}: {}", GetErrorString(compiled),
                          static_cast<int>(compiled), source.name, architecture, log);
  }
  size_t size_bytes = 0;
  if (machine_code) {
    TENON_NVRTC_TRY(*this, GetCUBINSize, program.program, &size_bytes);
  } else {
    TENON_NVRTC_TRY(*this, GetPTXSize, program.program, &size_bytes);  // with the zero at its end
  }
  NvrtcImage image;
  image.code.resize(size_bytes);
  auto* const bytes = reinterpret_cast<char*>(image.code.data());
  if (machine_code) {
    TENON_NVRTC_TRY(*this, GetCUBIN, program.program, bytes);
  } else {
    TENON_NVRTC_TRY(*this, GetPTX, program.program, bytes);
  }
  for (const std::string& instance : source.instances) {
    const char* name = nullptr;  // the program's
    TENON_NVRTC_TRY(*this, GetLoweredName, program.program, instance.c_str(), &name);
    image.instance_names.emplace_back(name);
  }
  return image;
}

}  // namespace tenon::cuda
