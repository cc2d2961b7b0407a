#include "ep/cuda/compute/kernel_cache.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <functional>
#include <set>
#include <sstream>

#include "base/format.h"
#include "base/log.h"
#include "ep/cuda/compute/device_headers.h"
#include "ep/cuda/compute/parallel.h"
#include "ep/cuda/lap.h"

namespace tenon::cuda {

namespace {

// Plans hold the kernels that they use; the cache forgets all of them when it has so many.
constexpr size_t kMostKernels = 1024;

// NVRTC has no standard library.
constexpr const char* kIntegerTypes =
    "typedef signed char int8_t;\ntypedef unsigned char uint8_t;\ntypedef short int16_t;\n"
    "typedef unsigned short uint16_t;\ntypedef int int32_t;\ntypedef unsigned uint32_t;\n"
    "typedef long long int64_t;\ntypedef unsigned long long uint64_t;\n";

const std::vector<NvrtcHeader>& compiler_headers() {
  static const std::vector<NvrtcHeader> headers = [] {
    std::vector<NvrtcHeader> made = {{"cstdint", kIntegerTypes}};
    for (const DeviceHeader& header : device_headers()) made.push_back({header.name, header.text});
    return made;
  }();
  return headers;
}

std::vector<std::byte> read_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::vector<char> bytes((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  const auto* const begin = reinterpret_cast<const std::byte*>(bytes.data());
  return {begin, begin + bytes.size()};
}

void write_file(const std::string& path, std::string_view list, std::span<const std::byte> bytes) {
  std::error_code failed;
  bool written = false;
  std::filesystem::create_directories(std::filesystem::path(path).parent_path(), failed);
  const std::string temporary = format("{}.{}", path, static_cast<const void*>(bytes.data()));
  {
    std::ofstream file(temporary, std::ios::binary | std::ios::trunc);
    file.write(list.data(), static_cast<std::streamsize>(list.size()));
    file.write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
    file.close();
    written = file.good();
  }
  failed.clear();
  if (written) std::filesystem::rename(temporary, path, failed);
  if (!written || failed) std::filesystem::remove(temporary, failed);
}

// The line of a kept file that names a kernel in the code; an empty line ends the list.
std::string line_of(const KernelCode& kernel, const std::string& name) { return format("{}\t{}\n", kernel.name, name); }

// The names in the code of a kept file, which is left in `code`. Empty for a file of other kernels.
std::vector<std::string> take_names(std::span<const KernelCode> kernels, std::span<const std::byte>& code) {
  std::vector<std::string> names;
  const std::string_view text(reinterpret_cast<const char*>(code.data()), code.size());
  size_t at = 0;
  for (const KernelCode& kernel : kernels) {
    const size_t end = text.find('\n', at), tab = at + kernel.name.size();
    if (end == std::string_view::npos || tab >= end) return {};
    std::string name(text.substr(tab + 1, end - tab - 1));
    if (text.substr(at, end + 1 - at) != line_of(kernel, name)) return {};
    names.push_back(std::move(name));
    at = end + 1;
  }
  if (at >= text.size() || text[at] != '\n') return {};
  code = code.subspan(at + 1);
  return names;
}

}  // namespace

Result<CUfunction> CompiledKernels::function(const std::string& name) const {
  const auto found = kernels_.find(name);
  if (found == kernels_.end()) return internal_error("The kernel {} was not compiled.", name);
  return found->second.function;
}

std::string kernel_text(std::span<const KernelCode> kernels) {
  std::set<std::string> headers;
  std::string texts;
  for (const KernelCode& kernel : kernels) {
    headers.insert(kernel.header);
    texts += kernel.text;
  }
  std::string text;
  for (const std::string& header : headers) text += format("#include \"{}\"\n", header);
  return text + texts;
}

Result<NvrtcImage> compile_kernels(const Nvrtc& compiler, std::span<const KernelCode> kernels, int compute_capability) {
  NvrtcSource source{
      .text = kernel_text(kernels), .name = "tenon_kernels.cu", .headers = compiler_headers(), .instances = {}};
  std::string list;
  for (const KernelCode& kernel : kernels) {
    source.instances.push_back(kernel.name);
    list += format("{}{} of {}", list.empty() ? "" : ", ", kernel.name, kernel.header);
  }
  Result<NvrtcImage> image = compiler.compile(source, compute_capability);
  if (!image.ok()) return std::move(image).status().with_context("while compiling " + list);
  return image;
}

std::vector<std::span<const KernelCode>> program_groups(std::span<const KernelCode> kernels) {
  // A program costs NVRTC 20 ms of its own, and a kernel 10 to 50 ms.
  constexpr size_t kMost = 4;
  std::vector<std::span<const KernelCode>> groups;
  for (; !kernels.empty(); kernels = kernels.subspan(std::min(kMost, kernels.size())))
    groups.push_back(kernels.first(std::min(kMost, kernels.size())));
  return groups;
}

std::string KernelCache::path_of(std::span<const KernelCode> kernels) const {
  if (setting_.folder.empty()) return "";
  std::string key;
  for (const DeviceHeader& header : device_headers()) key += header.text;
  for (const KernelCode& kernel : kernels) key += kernel.name + "\n" + kernel.text;
  return format("{}/kernels_{:016x}_{}.cubin", setting_.folder, std::hash<std::string>()(key),
                setting_.device->compute_capability());
}

Result<NvrtcImage> KernelCache::compile_anew(std::span<const KernelCode> kernels) const {
  TENON_TRY_ASSIGN(const Nvrtc* compiler, setting_.compiler());
  TENON_TRY_ASSIGN(NvrtcImage image, compile_kernels(*compiler, kernels, setting_.device->compute_capability()));
  if (const std::string path = path_of(kernels); !path.empty()) {
    std::string list;
    for (size_t k = 0; k < kernels.size(); ++k) list += line_of(kernels[k], image.instance_names[k]);
    write_file(path, list + "\n", image.code);
  }
  return image;
}

Result<KernelCache::Kernels> KernelCache::load(std::span<const KernelCode> kernels, std::span<const std::byte> code,
                                               std::span<const std::string> names) const {
  TENON_TRY_ASSIGN(const std::shared_ptr<CudaModule> module, CudaModule::load(setting_.device, code));
  Kernels made;
  for (size_t k = 0; k < kernels.size(); ++k) {
    TENON_TRY_ASSIGN(const CUfunction function, module->function(names[k].c_str()));
    made[kernels[k].name] = {module, function};
  }
  return made;
}

Result<KernelCache::Kernels> KernelCache::make(std::span<const KernelCode> kernels) const {
  Kernels made;
  std::vector<std::span<const KernelCode>> missing;
  for (const std::span<const KernelCode> group : program_groups(kernels)) {
    const std::string path = path_of(group);
    const std::vector<std::byte> kept = path.empty() ? std::vector<std::byte>() : read_file(path);
    std::span<const std::byte> code = kept;
    const std::vector<std::string> names = take_names(group, code);
    // A group that cannot be loaded is compiled anew.
    Result<Kernels> loaded = not_found("Nothing is kept.");
    if (!names.empty()) loaded = load(group, code, names);
    if (loaded.ok()) {
      made.merge(*loaded);
    } else {
      missing.push_back(group);
    }
  }
  if (missing.empty()) return made;
  Lap lap;
  std::vector<Result<NvrtcImage>> images(missing.size(), internal_error("It was not compiled."));
  run_parallel(missing.size(), [&](size_t i) { images[i] = compile_anew(missing[i]); });
  TENON_TRACE(kPlan, "CUDA: {} kernels compiled in {:.1f} ms.", kernels.size() - made.size(), lap.ms());
  for (size_t i = 0; i < missing.size(); ++i) {
    TENON_TRY_ASSIGN(const NvrtcImage image, std::move(images[i]));
    TENON_TRY_ASSIGN(auto loaded, load(missing[i], image.code, image.instance_names));
    made.merge(loaded);
  }
  return made;
}

Result<CompiledKernels> KernelCache::compile(std::span<const KernelCode> kernels) {
  CompiledKernels result;
  std::vector<KernelCode> missing;
  {
    const auto known = known_.lock();
    for (const KernelCode& kernel : kernels) {
      const auto found = known->find(kernel.name);
      if (found == known->end()) {
        missing.push_back(kernel);
      } else {
        result.kernels_.insert(*found);
      }
    }
  }
  if (missing.empty()) return result;
  // In one order, so that the kept code is found whichever operator came first.
  std::sort(missing.begin(), missing.end(), [](const KernelCode& a, const KernelCode& b) { return a.name < b.name; });
  TENON_TRY_ASSIGN(auto made, make(missing));
  auto known = known_.lock();
  if (known->size() + made.size() > kMostKernels) known->clear();
  known->insert(made.begin(), made.end());
  result.kernels_.merge(made);
  return result;
}

}  // namespace tenon::cuda
