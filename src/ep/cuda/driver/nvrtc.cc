#include "ep/cuda/driver/nvrtc.h"

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

Result<std::vector<std::byte>> Nvrtc::compile(const std::string& source, const std::string& name,
                                              int compute_capability, std::span<const std::string> options) const {
  Program program{*this};
  TENON_NVRTC_TRY(*this, CreateProgram, &program.program, source.c_str(), name.c_str(), 0, nullptr, nullptr);
  std::string architecture = format("--gpu-architecture=sm_{}", compute_capability);
  std::vector<const char*> arguments = {"--std=c++17"};
  for (const std::string& option : options) {
    if (option.starts_with("--gpu-architecture="))
      architecture = option;
    else
      arguments.push_back(option.c_str());
  }
  arguments.push_back(architecture.c_str());
  TENON_FAULT_POINT("nvrtcCompileProgram");
  const nvrtcResult compiled = CompileProgram(program.program, static_cast<int>(arguments.size()), arguments.data());
  if (compiled != NVRTC_SUCCESS) {
    size_t length = 0;
    std::string log;
    if (GetProgramLogSize(program.program, &length) == NVRTC_SUCCESS && length > 1) {
      log.resize(length);
      if (GetProgramLog(program.program, log.data()) != NVRTC_SUCCESS) log.clear();
      while (!log.empty() && (log.back() == '\0' || log.back() == '\n')) log.pop_back();
    }
    return internal_error("nvrtcCompileProgram: {} ({}) for {} and sm_{}: {}", GetErrorString(compiled),
                          static_cast<int>(compiled), name, compute_capability, log);
  }
  size_t size_bytes = 0;
  TENON_NVRTC_TRY(*this, GetCUBINSize, program.program, &size_bytes);
  std::vector<std::byte> cubin(size_bytes);
  TENON_NVRTC_TRY(*this, GetCUBIN, program.program, reinterpret_cast<char*>(cubin.data()));
  return cubin;
}

}  // namespace tenon::cuda
