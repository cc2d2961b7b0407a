#include "ep/cuda/compute/kernel_cache.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <functional>
#include <set>
#include <sstream>
#include <system_error>
#include <thread>

#include "base/format.h"
#include "base/log.h"
#include "ep/cuda/compute/checksum.h"
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

bool is_kept_code(const std::filesystem::path& path) {
  return path.extension() == ".cubin" && path.filename().string().starts_with("kernels_");
}

std::vector<std::byte> read_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::vector<char> bytes((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  const auto* const begin = reinterpret_cast<const std::byte*>(bytes.data());
  return {begin, begin + bytes.size()};
}

// The oldest ones go.
void remove_old_files(const std::filesystem::path& folder, size_t most) {
  struct File {
    std::filesystem::file_time_type written;
    std::filesystem::path path;
  };
  std::vector<File> files;
  std::error_code failed;
  for (std::filesystem::directory_iterator file(folder, failed), end; !failed && file != end; file.increment(failed)) {
    std::error_code gone;
    if (!is_kept_code(file->path())) continue;
    if (const auto written = file->last_write_time(gone); !gone) files.push_back({written, file->path()});
  }
  if (files.size() <= most) return;
  std::sort(files.begin(), files.end(), [](const File& a, const File& b) { return a.written < b.written; });
  for (size_t i = 0; i < files.size() - most; ++i) std::filesystem::remove(files[i].path, failed);
}

std::string_view text_of(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

void write_file(const std::string& path, std::string_view text) {
  std::error_code failed;
  bool written = false;
  std::filesystem::create_directories(std::filesystem::path(path).parent_path(), failed);
  const std::string temporary = format("{}.{}", path, static_cast<const void*>(text.data()));
  {
    std::ofstream file(temporary, std::ios::binary | std::ios::trunc);
    file.write(text.data(), static_cast<std::streamsize>(text.size()));
    file.close();
    written = file.good();
  }
  failed.clear();
  if (written) std::filesystem::rename(temporary, path, failed);
  if (!written || failed) std::filesystem::remove(temporary, failed);
}

// A kept file is a line with the checksum of the rest, a line for each kernel with its name in the code, an empty line
// and the code.
std::string line_of(const KernelCode& kernel, const std::string& name) { return format("{}\t{}\n", kernel.name, name); }

// The names in the code of a kept file, which is left in `code`. Empty for a file of other kernels.
std::vector<std::string> take_names(std::span<const KernelCode> kernels, std::span<const std::byte>& code) {
  std::vector<std::string> names;
  const std::string_view text = text_of(code);
  size_t at = text.find('\n') + 1;
  if (at == 0 || checksum(text.substr(at)) != text.substr(0, at - 1)) return {};
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

void sort_by_name(std::vector<KernelCode>& kernels) {
  std::sort(kernels.begin(), kernels.end(), [](const KernelCode& a, const KernelCode& b) { return a.name < b.name; });
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

Result<NvrtcImage> compile_kernels(const Nvrtc& compiler, std::span<const KernelCode> kernels, int compute_capability,
                                   const std::atomic<bool>* cancelled) {
  NvrtcSource source{.text = kernel_text(kernels),
                     .name = "tenon_kernels.cu",
                     .headers = compiler_headers(),
                     .instances = {},
                     .cancelled = cancelled};
  std::string list;
  for (const KernelCode& kernel : kernels) {
    source.instances.push_back(kernel.name);
    list += format("{}{} of {}", list.empty() ? "" : ", ", kernel.name, kernel.header);
  }
  Result<NvrtcImage> image = compiler.compile(source, compute_capability);
  if (!image.ok()) return std::move(image).status().with_context("while compiling " + list);
  return image;
}

size_t compiling_threads() {
  constexpr size_t kMost = 16;
  return std::clamp<size_t>(std::thread::hardware_concurrency(), 1, kMost);
}

std::vector<std::span<const KernelCode>> program_groups(std::span<const KernelCode> kernels, size_t threads) {
  // A program costs NVRTC 20 ms of its own, and a kernel 10 to 300 ms.
  constexpr size_t kMost = 4;
  const size_t size = std::clamp<size_t>(kernels.size() / threads, 1, kMost);
  std::vector<std::span<const KernelCode>> groups;
  for (; !kernels.empty(); kernels = kernels.subspan(std::min(size, kernels.size())))
    groups.push_back(kernels.first(std::min(size, kernels.size())));
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

Result<NvrtcImage> KernelCache::compile_anew(std::span<const KernelCode> kernels,
                                             const std::atomic<bool>* cancelled) const {
  TENON_TRY_ASSIGN(const Nvrtc* compiler, setting_.compiler());
  TENON_TRY_ASSIGN(NvrtcImage image,
                   compile_kernels(*compiler, kernels, setting_.device->compute_capability(), cancelled));
  if (const std::string path = path_of(kernels); !path.empty()) {
    std::string text;
    for (size_t k = 0; k < kernels.size(); ++k) text += line_of(kernels[k], image.instance_names[k]);
    text.append("\n").append(text_of(image.code));
    write_file(path, checksum(text) + "\n" + text);
    remove_old_files(setting_.folder, setting_.most_files);
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

struct KernelCache::Ahead {
  std::promise<void> made;
  std::shared_future<void> done = made.get_future().share();
  Result<NvrtcImage> image = internal_error("It was not compiled.");  // once it is done
};

struct KernelCache::Pending::Work {
  // Those of one program.
  struct Group {
    std::span<const KernelCode> kernels;
    std::vector<std::byte> kept;   // the file of an earlier session; empty: there is none
    std::shared_ptr<Ahead> ahead;  // null: nobody has begun before the plan
    Result<NvrtcImage> image = internal_error("It was not compiled.");
  };
  CompiledKernels known;
  std::vector<KernelCode> missing;
  std::vector<Group> groups;  // of missing
};

std::vector<std::byte> KernelCache::kept(std::span<const KernelCode> kernels) const {
  const std::string path = path_of(kernels);
  std::vector<std::byte> file = path.empty() ? std::vector<std::byte>() : read_file(path);
  std::span<const std::byte> code = file;
  if (take_names(kernels, code).empty()) file.clear();
  return file;
}

bool KernelCache::lacks(std::span<const KernelCode> kernels) const {
  std::vector<KernelCode> missing;
  {
    const auto known = known_.lock();
    const auto ahead = ahead_.lock();
    for (const KernelCode& kernel : kernels)
      if (!known->contains(kernel.name) && !ahead->contains(kernel.name)) missing.push_back(kernel);
  }
  std::erase_if(missing, [&](const KernelCode& kernel) { return !kept({&kernel, 1}).empty(); });
  sort_by_name(missing);
  const auto groups = program_groups(missing, setting_.threads);
  return std::any_of(groups.begin(), groups.end(), [&](const auto& group) { return kept(group).empty(); });
}

void KernelCache::compile_ahead(const KernelCode& kernel, const std::atomic<bool>& cancelled) {
  if (known_.lock()->contains(kernel.name) || !kept({&kernel, 1}).empty()) return;
  auto made = std::make_shared<Ahead>();
  {
    auto ahead = ahead_.lock();
    if (ahead->size() >= kMostAhead || !ahead->emplace(kernel.name, made).second) return;
  }
  made->image = compile_anew({&kernel, 1}, &cancelled);
  if (!made->image.ok() && cancelled) ahead_.lock()->erase(kernel.name);
  made->made.set_value();
}

KernelCache::Pending KernelCache::begin(std::span<const KernelCode> kernels) {
  Pending pending;
  pending.work_ = std::make_shared<Pending::Work>();
  Pending::Work& work = *pending.work_;
  {
    const auto known = known_.lock();
    for (const KernelCode& kernel : kernels) {
      const auto found = known->find(kernel.name);
      if (found == known->end()) {
        work.missing.push_back(kernel);
      } else {
        work.known.kernels_.insert(*found);
      }
    }
  }
  if (work.missing.empty()) return pending;
  // In one order, so that the kept code is found whichever operator came first.
  sort_by_name(work.missing);
  // First those for which there is code, each a program of its own: made ahead, or kept so.
  std::map<std::string, Pending::Work::Group> alone;
  for (const KernelCode& kernel : work.missing) {
    Pending::Work::Group group{.kernels = {}, .kept = {}, .ahead = {}};
    {
      const auto ahead = ahead_.lock();
      if (const auto found = ahead->find(kernel.name); found != ahead->end()) group.ahead = found->second;
    }
    if (group.ahead == nullptr) group.kept = kept({&kernel, 1});
    if (group.ahead != nullptr || !group.kept.empty()) alone.emplace(kernel.name, std::move(group));
  }
  std::stable_partition(work.missing.begin(), work.missing.end(),
                        [&](const KernelCode& kernel) { return alone.contains(kernel.name); });
  const std::span<const KernelCode> missing(work.missing);
  for (const KernelCode& kernel : missing.first(alone.size())) {
    work.groups.push_back(std::move(alone.at(kernel.name)));
    work.groups.back().kernels = {&kernel, 1};
  }
  std::vector<size_t> uncompiled;
  for (const std::span<const KernelCode> group : program_groups(missing.subspan(alone.size()), setting_.threads)) {
    work.groups.push_back({.kernels = group, .kept = kept(group), .ahead = {}});
    if (work.groups.back().kept.empty()) uncompiled.push_back(work.groups.size() - 1);
  }
  if (uncompiled.empty()) return pending;
  const auto compile_all = [this, &work, uncompiled = std::move(uncompiled)] {
    Lap lap;
    run_parallel(
        uncompiled.size(),
        [&](size_t i) {
          Pending::Work::Group& group = work.groups[uncompiled[i]];
          group.image = compile_anew(group.kernels);
        },
        setting_.threads);
    size_t count = 0;
    for (const size_t i : uncompiled) count += work.groups[i].kernels.size();
    TENON_TRACE(kPlan, "CUDA: {} kernels compiled in {:.1f} ms.", count, lap.ms());
  };
  try {
    pending.compiling_ = std::async(std::launch::async, compile_all);
  } catch (const std::system_error&) {
    compile_all();
  }
  return pending;
}

Result<CompiledKernels> KernelCache::finish(Pending pending) {
  Pending::Work& work = *pending.work_;
  if (pending.compiling_.valid()) pending.compiling_.wait();
  Kernels made;
  for (Pending::Work::Group& group : work.groups) {
    std::span<const std::byte> code = group.kept;
    std::vector<std::string> names;
    if (group.ahead != nullptr) {
      group.ahead->done.wait();
      if (group.ahead->image.ok()) {
        code = group.ahead->image->code;
        names = group.ahead->image->instance_names;
      }
    } else {
      names = take_names(group.kernels, code);
    }
    Result<Kernels> loaded = not_found("There is no code.");
    const bool compiled = group.ahead == nullptr && group.kept.empty();
    if (!names.empty()) loaded = load(group.kernels, code, names);
    if (!loaded.ok()) {
      // Code that was kept or made ahead and does not load is compiled anew.
      if (!compiled) group.image = compile_anew(group.kernels);
      TENON_TRY_ASSIGN(const NvrtcImage image, std::move(group.image));
      TENON_TRY_ASSIGN(loaded, load(group.kernels, image.code, image.instance_names));
    }
    made.merge(*loaded);
  }
  if (!made.empty()) {
    auto known = known_.lock();
    if (known->size() + made.size() > kMostKernels) known->clear();
    known->insert(made.begin(), made.end());
    auto ahead = ahead_.lock();
    for (const auto& [name, kernel] : made) ahead->erase(name);
  }
  CompiledKernels result = std::move(work.known);
  result.kernels_.merge(made);
  return result;
}

}  // namespace tenon::cuda
