#include "ep/cuda/fake_plugin/host_program.h"

#include <dlfcn.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <mutex>

#include "base/format.h"
#include "ep/cuda/compute/generated_op.h"

namespace tenon::cuda::fake {

namespace {

// CUDA's words for a host compiler. Where a block's threads meet, each is a context of its own, and they take turns
// from one meeting to the next.
constexpr const char* kShim = R"(
#define __device__
#define __forceinline__ inline
#define __global__
#define __shared__ static
#define __launch_bounds__(...)
#define EACH(F) F(fabs) F(exp) F(log) F(sqrt) F(floor) F(ceil) F(rint) F(sin) F(cos) F(tan) F(erf) F(tanh) \
  F(log1p) F(expm1) F(asin) F(acos) F(atan) F(sinh) F(cosh) F(asinh) F(acosh) F(atanh) F(round) F(trunc)
#define DECLARE(name) extern "C" float name##f(float) noexcept; extern "C" double name(double) noexcept;
EACH(DECLARE)
extern "C" float fminf(float, float) noexcept;
extern "C" float fmaxf(float, float) noexcept;
extern "C" float fmodf(float, float) noexcept;
extern "C" float powf(float, float) noexcept;
extern "C" double pow(double, double) noexcept;
extern "C" double fmod(double, double) noexcept;
extern "C" double fmin(double, double) noexcept;
extern "C" double fmax(double, double) noexcept;
struct Place { unsigned x; };
static Place blockIdx, threadIdx;
template <typename To, typename From> static To as(From from) {
  To to;
  __builtin_memcpy(&to, &from, sizeof(to));
  return to;
}
static float __int_as_float(int bits) { return as<float>(bits); }
static float __uint_as_float(unsigned bits) { return as<float>(bits); }
static unsigned __float_as_uint(float number) { return as<unsigned>(number); }
static double __longlong_as_double(long long bits) { return as<double>(bits); }
template <typename T> static T atomicAdd(T* at, T v) { const T old = *at; *at = old + v; return old; }
template <typename T> static T atomicOr(T* at, T v) { const T old = *at; *at = old | v; return old; }
template <typename T> static T atomicMax(T* at, T v) { const T old = *at; *at = v > old ? v : old; return old; }
template <typename T> static T atomicMin(T* at, T v) { const T old = *at; *at = v < old ? v : old; return old; }
static int __dp4a(int a, int b, int sum) {
  for (int n = 0; n < 4; ++n) sum += (int)(signed char)(a >> 8 * n) * (int)(signed char)(b >> 8 * n);
  return sum;
}
static unsigned atomicCAS(unsigned* at, unsigned wanted, unsigned v) {
  const unsigned old = *at;
  if (old == wanted) *at = v;
  return old;
}
static float rsqrtf(float x) { return 1.0f / sqrtf(x); }
static double rsqrt(double x) { return 1.0 / sqrt(x); }
struct half_bits { unsigned short bits; };
struct bfloat_bits { unsigned short bits; };
static float from_half(half_bits v) { return (float)as<_Float16>(v.bits); }
static half_bits to_half(float f) { return {as<unsigned short>((_Float16)f)}; }
static float from_bfloat(bfloat_bits v) { return as<float>((unsigned)v.bits << 16); }
static bfloat_bits to_bfloat(float f) {
  const unsigned bits = as<unsigned>(f);
  if (f != f) return {(unsigned short)(bits >> 16 | 0x40)};
  return {(unsigned short)((bits + 0x7fff + (bits >> 16 & 1)) >> 16)};
}
)";

constexpr const char* kMeetings = R"(
#include <ucontext.h>
static ucontext_t scheduler, fibers[1024];
static char stacks[1024][16384];
static bool finished[1024];
static void (*body)(void**);
static void** arguments;
static void __syncthreads() { swapcontext(&fibers[threadIdx.x], &scheduler); }
static void one_thread() {
  body(arguments);
  finished[threadIdx.x] = true;
}
static void run_block(unsigned threads, void (*work)(void**), void** parameters) {
  body = work, arguments = parameters;
  for (unsigned t = 0; t < threads; ++t) {
    getcontext(&fibers[t]);
    fibers[t].uc_stack.ss_sp = stacks[t];
    fibers[t].uc_stack.ss_size = sizeof(stacks[t]);
    fibers[t].uc_link = &scheduler;
    finished[t] = false;
    makecontext(&fibers[t], one_thread, 0);
  }
  for (bool more = true; more;) {
    more = false;
    for (unsigned t = 0; t < threads; ++t) {
      if (finished[t]) continue;
      threadIdx.x = t;
      swapcontext(&scheduler, &fibers[t]);
      more = more || !finished[t];
    }
  }
}
)";

constexpr const char* kTurns = R"(
static void run_block(unsigned threads, void (*work)(void**), void** parameters) {
  for (threadIdx.x = 0; threadIdx.x < threads; ++threadIdx.x) work(parameters);
}
)";

std::string launcher(const GeneratedKernel& kernel, size_t parameters) {
  std::string list;
  for (size_t i = 0; i < parameters; ++i) list += format("{}Any{{p[{}]}}", i == 0 ? "" : ", ", i);
  return format(
      "extern \"C\" void launch_{0}(void** p, unsigned blocks, unsigned threads) {{\n"
      "  for (blockIdx.x = 0; blockIdx.x < blocks; ++blockIdx.x)\n"
      "    run_block(threads, [](void** p) {{ {0}({1}); }}, p);\n}}\n",
      kernel.name, list);
}

// The library of this text: compiled once a machine and user, because many models have the same kernels.
Result<void*> load_compiled(const std::string& text) {
  std::error_code error;
  const std::filesystem::path folder =
      std::filesystem::temp_directory_path(error) / format("tenon_host_kernels_{}", static_cast<unsigned>(getuid()));
  std::filesystem::create_directory(folder, error);
  std::filesystem::permissions(folder, std::filesystem::perms::owner_all, error);
  if (error) return internal_error("{} cannot hold host kernels: {}.", folder.string(), error.message());
  const std::string name = format("{:016x}_{}", std::hash<std::string>()(text), text.size());
  const std::string library = (folder / (name + ".so")).string();
  if (void* const known = dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL)) return known;
  const std::string own = (folder / format("{}_{}_{}", name, getpid(), static_cast<const void*>(text.data()))).string();
  const std::string source = own + ".cc", made = own + ".so";
  std::ofstream(source) << text;
  // Without the C++ library, which no kernel uses: linking it takes a sixth of the time.
  const int compiled =
      std::system(format("c++ -std=c++17 -O0 -w -fPIC -shared -nostdlib -o {} {} -lm -lgcc -lc", made, source).c_str());
  if (compiled != 0) return internal_error("The kernels in {} do not compile ({}).", source, compiled);
  std::filesystem::rename(made, library, error);
  std::filesystem::remove(source, error);
  void* const loaded = dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (loaded == nullptr) return internal_error("{} does not load: {}.", library, dlerror());
  return loaded;
}

}  // namespace

Result<std::shared_ptr<HostProgram>> HostProgram::create(Program program) {
  std::shared_ptr<HostProgram> made(new HostProgram(std::move(program)));
  TENON_TRY(made->compile());
  made->arena_.resize(made->program_.arena_bytes);
  for (const DeviceConstant& constant : made->program_.constants) {
    made->constants_.emplace_back(constant.size_bytes);
    if (constant.size_bytes != 0) constant.fill(made->constants_.back().data());
  }
  return made;
}

Status HostProgram::compile() {
  std::string text = kShim;
  text += generated_helpers();
  text += "struct Any { void* p; template <typename T> operator T*() const { return (T*)p; } };\n";
  text += program_.generated_source.find("__syncthreads") != std::string::npos ? kMeetings : kTurns;
  // The kernels call __syncthreads, which stands above them; run_block calls them through a pointer.
  text += program_.generated_source;
  std::map<std::string, bool> written;
  for (const auto& op : program_.ops) {
    const auto* const generated = dynamic_cast<const GeneratedOp*>(op.get());
    TENON_UNSUPPORTED_IF(generated == nullptr && dynamic_cast<const CopyOp*>(op.get()) == nullptr,
                         "The fake driver has no kernel for {} ({}).", op->label(), op->description(program_));
    if (generated == nullptr || !written.emplace(generated->kernel().name, true).second) continue;
    text += launcher(generated->kernel(), generated->reads().size() + generated->writes().size());
  }
  if (!written.empty()) {
    TENON_TRY_ASSIGN(library_, load_compiled(text));
  }
  for (const auto& op : program_.ops) {
    const auto* const generated = dynamic_cast<const GeneratedOp*>(op.get());
    void* found = nullptr;
    if (generated != nullptr) found = dlsym(library_, format("launch_{}", generated->kernel().name).c_str());
    if (generated != nullptr && found == nullptr) return internal_error("{} was not compiled.", op->label());
    launchers_.push_back(reinterpret_cast<void (*)(void**, unsigned, unsigned)>(found));
  }
  return Status();
}

HostProgram::~HostProgram() {
  if (library_ != nullptr) dlclose(library_);
}

void HostProgram::run(std::span<std::byte* const> inputs, std::span<std::byte* const> outputs) {
  // Programs of the same text share a library, and what it knows of the thread that runs.
  static std::mutex running;
  const std::lock_guard lock(running);
  const auto address = [&](TensorId id) -> std::byte* {
    const DeviceStorage& storage = program_.storage_of(id);
    const auto index = static_cast<size_t>(storage.index);
    std::byte* base = nullptr;
    if (storage.kind == StorageKind::kArena) base = arena_.data() + storage.offset_bytes;
    if (storage.kind == StorageKind::kConstant) base = constants_[index].data();
    if (storage.kind == StorageKind::kInput) base = inputs[index];
    if (storage.kind == StorageKind::kOutput) base = outputs[index];
    return base + program_.tensor(id).offset_bytes;
  };
  // Nothing of an earlier run is right by chance.
  std::fill(arena_.begin(), arena_.end(), std::byte{0xa5});
  for (size_t i = 0; i < program_.ops.size(); ++i) {
    const DeviceOp& op = *program_.ops[i];
    std::vector<void*> parameters;
    for (TensorId id : op.reads()) parameters.push_back(address(id));
    for (TensorId id : op.writes()) parameters.push_back(address(id));
    if (launchers_[i] == nullptr) {
      const size_t bytes = program_.tensor(op.writes()[0]).size_bytes();
      if (bytes != 0) std::memcpy(parameters[1], parameters[0], bytes);
      continue;
    }
    const GeneratedKernel& kernel = static_cast<const GeneratedOp&>(op).kernel();
    launchers_[i](parameters.data(), kernel.blocks, kernel.threads);
  }
}

}  // namespace tenon::cuda::fake
