#include "ep/cuda/fake_plugin/host_program.h"

#include <dlfcn.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <mutex>

#include "base/format.h"
#include "ep/cuda/compute/device_headers.h"
#include "ep/cuda/compute/kernel_cache.h"
#include "ep/cuda/compute/template_op.h"
#include "ep/cuda/fake_plugin/host_products.h"

namespace tenon::cuda {

// Those of host_device/.
std::span<const DeviceHeader> host_headers();

}  // namespace tenon::cuda

namespace tenon::cuda::fake {

namespace {

CUdeviceptr device_address(std::byte* memory) { return reinterpret_cast<CUdeviceptr>(memory); }

// Where the compiler finds the headers: written once a machine, user and build of them.
Result<std::string> header_folder() {
  static const Result<std::string> written = []() -> Result<std::string> {
    std::vector<DeviceHeader> headers(device_headers().begin(), device_headers().end());
    // Later ones replace those of the same name.
    headers.insert(headers.end(), host_headers().begin(), host_headers().end());
    std::string all;
    for (const DeviceHeader& header : headers) all += header.text;
    std::error_code error;
    const std::filesystem::path folder =
        std::filesystem::temp_directory_path(error) / format("tenon_host_kernels_{}", static_cast<unsigned>(getuid()));
    std::filesystem::create_directory(folder, error);
    std::filesystem::permissions(folder, std::filesystem::perms::owner_all, error);
    if (error) return internal_error("{} cannot hold host kernels: {}.", folder.string(), error.message());
    const std::filesystem::path made = folder / format("headers_{:016x}", std::hash<std::string>()(all));
    if (std::filesystem::exists(made, error)) return made.string();
    const std::filesystem::path own = folder / format("headers_{}", getpid());
    for (const DeviceHeader& header : headers) {
      const std::filesystem::path file = own / header.name;
      std::filesystem::create_directories(file.parent_path(), error);
      std::ofstream(file) << header.text;
    }
    std::filesystem::rename(own, made, error);
    // Another process was first.
    if (error) std::filesystem::remove_all(own, error);
    return made.string();
  }();
  return written;
}

// Whether the header, or one that it includes, lets a block's threads meet.
bool threads_meet(std::string_view name) {
  for (const DeviceHeader& header : device_headers()) {
    if (header.name != name) continue;
    const std::string_view text = header.text;
    if (text.find("__syncthreads") != std::string_view::npos) return true;
    constexpr std::string_view kInclude = "#include \"";
    for (size_t at = 0; (at = text.find(kInclude, at)) != std::string_view::npos;) {
      at += kInclude.size();
      if (threads_meet(text.substr(at, text.find('"', at) - at))) return true;
    }
  }
  return false;
}

// Compiles the kernel as `launch`.
std::string library_text(const KernelCode& kernel) {
  return format("#include \"cuda_words.h\"\n#include \"{}.h\"\n#include \"launch.h\"\n",
                threads_meet(kernel.header) ? "fibers" : "turns") +
         kernel_text({&kernel, 1}) +
         format(
             "extern \"C\" void launch(void** p, const unsigned* grid, unsigned threads, unsigned cluster_z) {{\n"
             "  run_grid(grid, threads, cluster_z, [](void** p) {{ call_instance(&{}, p); }}, p);\n}}\n",
             kernel.name);
}

// The library of this text: compiled once a machine and user, because many models have the same kernels.
Result<void*> load_compiled(const std::string& text) {
  TENON_TRY_ASSIGN(const std::string headers, header_folder());
  const std::filesystem::path folder = std::filesystem::path(headers).parent_path();
  std::error_code error;
  const std::string name = format("{:016x}_{}", std::hash<std::string>()(headers + text), text.size());
  const std::string library = (folder / (name + ".so")).string();
  if (void* const known = dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL)) return known;
  const std::string own = (folder / format("{}_{}_{}", name, getpid(), static_cast<const void*>(text.data()))).string();
  const std::string source = own + ".cc", made = own + ".so";
  std::ofstream(source) << text;
  // Without the C++ library, which no kernel uses: linking it takes a sixth of the time.
  const int compiled = std::system(
      format("c++ -std=c++17 -O0 -w -fPIC -shared -nostdlib -I{} -o {} {} -lm -lgcc -lc", headers, made, source)
          .c_str());
  if (compiled != 0) return internal_error("The kernels in {} do not compile ({}).", source, compiled);
  std::filesystem::rename(made, library, error);
  std::filesystem::remove(source, error);
  void* const loaded = dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (loaded == nullptr) return internal_error("{} does not load: {}.", library, dlerror());
  return loaded;
}

}  // namespace

Result<std::shared_ptr<HostProgram>> HostProgram::create(Program program, std::shared_ptr<CudaDevice> device,
                                                         std::shared_ptr<Communicator> communicator) {
  std::shared_ptr<HostProgram> made(new HostProgram(std::move(program), std::move(device), std::move(communicator)));
  TENON_TRY(made->compile());
  made->arena_.resize(made->program_.arena_bytes);
  for (const DeviceConstant& constant : made->program_.constants) {
    made->constants_.emplace_back(constant.size_bytes);
    if (constant.size_bytes != 0) constant.fill(made->constants_.back().data());
  }
  return made;
}

Status HostProgram::compile() {
  // Each instance is a library of its own, which other programs share.
  std::map<std::string, Launcher> launchers;
  for (const KernelCode& kernel : program_.kernels) {
    TENON_TRY_ASSIGN(void* const library, load_compiled(library_text(kernel)));
    libraries_.push_back(library);
    void* const found = dlsym(library, "launch");
    if (found == nullptr) return internal_error("{} was not compiled.", kernel.name);
    launchers[kernel.name] = reinterpret_cast<Launcher>(found);
  }
  for (const auto& op : program_.ops) {
    const auto* const template_op = dynamic_cast<const TemplateOp*>(op.get());
    TENON_UNSUPPORTED_IF(template_op == nullptr && dynamic_cast<const CopyOp*>(op.get()) == nullptr &&
                             !is_host_product(*op) && !op->needs_ranks(),
                         "The fake driver has no kernel for {} ({}).", op->label(), op->description(program_));
    launchers_.push_back(template_op == nullptr ? nullptr : launchers[template_op->kernel().instance]);
  }
  return Status();
}

HostProgram::~HostProgram() {
  for (void* library : libraries_) dlclose(library);
}

Status HostProgram::ready() {
  const bool needs_ranks =
      std::any_of(program_.ops.begin(), program_.ops.end(), [](const auto& op) { return op->needs_ranks(); });
  return needs_ranks ? communicator_->ready() : Status();
}

Status HostProgram::exchange(const DeviceOp& op, const Addresses& addresses) {
  TENON_TRY_ASSIGN(const ContextScope scope, ContextScope::enter(*device_));
  const CudaDriver& driver = device_->driver();
  CUstream stream = nullptr;
  TENON_CUDA_TRY(driver, StreamCreateWithPriority, &stream, CU_STREAM_NON_BLOCKING, 0);
  Status queued = op.queue(
      {.device = device_.get(), .stream = stream, .addresses = addresses, .communicator = communicator_.get()});
  if (queued.ok()) queued = cuda_status(driver, driver.StreamSynchronize(stream), "cuStreamSynchronize");
  (void)driver.StreamDestroy(stream);
  return queued;
}

void HostProgram::run(std::span<std::byte* const> inputs, std::span<std::byte* const> outputs) {
  // Programs of the same text share a library, and what it knows of the thread that runs.
  static std::mutex running;
  std::unique_lock lock(running);
  std::vector<CUdeviceptr> constants, given, made;
  for (std::vector<std::byte>& constant : constants_) constants.push_back(device_address(constant.data()));
  for (std::byte* input : inputs) given.push_back(device_address(input));
  for (std::byte* output : outputs) made.push_back(device_address(output));
  const Addresses addresses{&program_, device_address(arena_.data()), constants, given, made};
  // Nothing of an earlier run is right by chance.
  std::fill(arena_.begin(), arena_.end(), std::byte{0xa5});
  for (size_t i = 0; i < program_.ops.size(); ++i) {
    const DeviceOp& op = *program_.ops[i];
    if (op.needs_ranks()) {
      // Another rank of this process runs its part meanwhile. Where the ranks have been given up, the run has failed
      // already.
      lock.unlock();
      (void)exchange(op, addresses);
      lock.lock();
      continue;
    }
    if (is_host_product(op)) {
      run_host_product(op, addresses);
      continue;
    }
    const auto* const template_op = dynamic_cast<const TemplateOp*>(&op);
    if (template_op == nullptr) {
      const size_t bytes = program_.tensor(op.writes()[0]).size_bytes();
      if (bytes != 0) std::memcpy(addresses.pointer(op.writes()[0]), addresses.pointer(op.reads()[0]), bytes);
      continue;
    }
    std::vector<void*> parameters;
    parameters.push_back(const_cast<std::byte*>(template_op->kernel().params.data()));
    for (CUdeviceptr address : template_op->arguments(addresses, true))
      parameters.push_back(reinterpret_cast<void*>(address));
    const LaunchShape& shape = template_op->kernel().shape;
    if (shape.grid_x == 0) continue;
    if (template_op->kernel().nothing_in_place && addresses.of(op.reads()[0]) == addresses.of(op.writes()[0])) continue;
    const std::array<unsigned, 3> grid = {shape.grid_x, shape.grid_y, shape.grid_z};
    launchers_[i](parameters.data(), grid.data(), shape.block_x, template_op->kernel().cluster_z);
  }
}

}  // namespace tenon::cuda::fake
