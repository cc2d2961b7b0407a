#include "ep/cuda/compute/context.h"

#include <algorithm>
#include <condition_variable>
#include <cstring>
#include <filesystem>
#include <future>
#include <new>
#include <optional>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "base/checked.h"
#include "base/format.h"
#include "base/log.h"
#include "ep/cuda/compute/parallel.h"
#include "ep/cuda/driver/nvrtc.h"
#include "ep/cuda/lap.h"
#include "graph/huge_chunk.h"

namespace tenon::cuda {

namespace {

constexpr size_t kConstantAlignment = 256;  // what a library may ask of an operand

}  // namespace

Result<std::shared_ptr<ComputeContext>> ComputeContext::create(std::shared_ptr<CudaDevice> device,
                                                               std::shared_ptr<plugin::ScratchSource> memory,
                                                               ComputeOptions options) {
  std::shared_ptr<ComputeContext> context(new ComputeContext(std::move(device), std::move(memory), std::move(options)),
                                          &ComputeContext::retire);
  TENON_TRY_ASSIGN(const ContextScope scope, ContextScope::enter(*context->device_));
  const CudaDriver& driver = context->device_->driver();
  for (CUstream* stream : {&context->stream_, &context->upload_stream_})
    TENON_CUDA_TRY(driver, StreamCreateWithPriority, stream, CU_STREAM_NON_BLOCKING, 0);
  TENON_TRY_ASSIGN(const CudaDeviceInfo info, describe_device(driver, context->device_->ordinal()));
  const auto open = [self = context.get(), name = info.name] { self->open_libraries(name); };
  try {
    context->opening_ = std::async(std::launch::async, open).share();
  } catch (const std::system_error&) {
    open();
  }
  context->load_on_a_thread([self = context.get()] { self->load_usual(); });
  return context;
}

void ComputeContext::retire(ComputeContext* context) {
  const auto later = context->options_.release_later;
  std::shared_ptr<ComputeContext> retired(context);
  if (later) later(std::move(retired));
}

void ComputeContext::open_libraries(const std::string& device_name) {
  const CudaDriver& driver = device_->driver();
  const Result<ContextScope> scope = ContextScope::enter(*device_);
  // Without the libraries our own kernels do what they can.
  const Status left_out = options_.libraries ? scope.status() : not_found("It is left out.");
  auto blas = left_out.ok() ? BlasHandle::create() : Result<std::unique_ptr<BlasHandle>>(left_out);
  if (blas.ok())
    blas_ = *std::move(blas);
  else
    missing_.push_back(format("Products may be slow without cuBLASLt: {}", blas.status().message()));
  const Status no_cudnn = options_.cudnn ? left_out : not_found("Option \"enable_cudnn\" is 0.");
  auto cudnn = no_cudnn.ok() ? CudnnHandle::create() : Result<std::unique_ptr<CudnnHandle>>(no_cudnn);
  if (cudnn.ok())
    cudnn_ = *std::move(cudnn);
  else
    missing_.push_back(format("Convolutions may be slow without cuDNN: {}", cudnn.status().message()));
  algorithms_ = std::make_unique<AlgorithmCache>(
      options_.cache_file,
      format("2 {} driver {} cublaslt {} cudnn {}", device_name, driver.version,
             blas_ != nullptr ? blas_->version() : 0, cudnn_ != nullptr ? cudnn_->library().version : 0));
}

std::string ComputeContext::products_module(DataType type) const {
  if (type == DataType::kFloat && options_.tf32) return "conv_tf32";
  return "conv_" + std::string(kernel_type(type));
}

AlgorithmCache::Kept ComputeContext::kept_products(DataType type) {
  const std::string_view name = data_type_name(type);
  for (const char* kind : {"product", "conv"}) {
    const AlgorithmCache::Kept kept = algorithms().kept(format("{} {} ", kind, name), {"tile", "plain"});
    if (kept != AlgorithmCache::Kept::kNothing) return kept;
  }
  return AlgorithmCache::Kept::kNothing;
}

// Loads the modules that nearly every model wants, and those that the kept choices name: a tenth of a second, which
// passes while the host goes on with the model.
void ComputeContext::load_usual() {
  for (const char* module : {"norm", "softmax", "attention", "attention_tiles", "direct"}) (void)kernels_.load(module);
  for (const DataType type : {DataType::kFloat, DataType::kFloat16, DataType::kBfloat16})
    if (kept_products(type) == AlgorithmCache::Kept::kOurs) (void)kernels_.load(products_module(type));
  for (const char* kind : {"product ", "conv "})
    if (algorithms().kept(kind, {"group"}) == AlgorithmCache::Kept::kOurs) (void)kernels_.load("conv_hopper");
  // After that, because a kernel that waits for them loads in a millisecond.
  if (blas() != nullptr && (algorithms().kept("split_product ", {}) != AlgorithmCache::Kept::kNothing ||
                            algorithms().kept(" float32 ", {"split_f16 "}) == AlgorithmCache::Kept::kOurs)) {
    Lap lap;
    warm_up(*blas(), DataType::kFloat16, DataType::kFloat, false);
    TENON_TRACE(kPlan, "CUDA: cuBLASLt is ready for split products after {:.1f} ms.", lap.ms());
  }
  for (const DataType type : {DataType::kFloat, DataType::kFloat16, DataType::kBfloat16}) {
    Lap lap;
    const std::string name(data_type_name(type));
    const AlgorithmCache& choices = algorithms();
    const bool batches = choices.kept("batched_product " + name + " ", {}) != AlgorithmCache::Kept::kNothing;
    if (blas() != nullptr && (batches || choices.kept(name + " ", {"blas "}) == AlgorithmCache::Kept::kOurs)) {
      warm_up(*blas(), type, type, options_.tf32);
      TENON_TRACE(kPlan, "CUDA: cuBLASLt is ready for {} after {:.1f} ms.", name, lap.ms());
    }
    if (cudnn() != nullptr && choices.kept(name + " ", {"cudnn "}) == AlgorithmCache::Kept::kOurs) {
      warm_up(*cudnn(), type, options_.tf32);
      TENON_TRACE(kPlan, "CUDA: cuDNN is ready for {} after {:.1f} ms.", name, lap.ms());
    }
  }
}

void ComputeContext::load_early(const Graph& graph) {
  const auto has = [&](DataType type) {
    return std::any_of(graph.values.begin(), graph.values.end(),
                       [&](const Value& value) { return value.type == type; });
  };
  const DataType type = has(DataType::kFloat16)    ? DataType::kFloat16
                        : has(DataType::kBfloat16) ? DataType::kBfloat16
                                                   : DataType::kFloat;
  load_on_a_thread([this, type] {
    if (kept_products(type) != AlgorithmCache::Kept::kOthers) (void)kernels_.load(products_module(type));
  });
  if (!options_.measure) return;
  load_on_a_thread([this, type] {
    if (kept_products(type) == AlgorithmCache::Kept::kNothing && blas() != nullptr)
      warm_up(*blas(), type, type, options_.tf32);
  });
  const bool convolutions = std::any_of(graph.nodes.begin(), graph.nodes.end(),
                                        [](const Node& node) { return node.op_type == "Conv" && node.domain.empty(); });
  if (!convolutions || !measures_cudnn(*device_, type)) return;
  load_on_a_thread([this, type] {
    if (kept_products(type) == AlgorithmCache::Kept::kNothing && cudnn() != nullptr)
      warm_up(*cudnn(), type, options_.tf32);
  });
}

void ComputeContext::load_on_a_thread(std::function<void()> load) {
  const auto in_context = [this, load = std::move(load)] {
    // A failure here comes again, and is told, where the module is needed.
    const Result<ContextScope> scope = ContextScope::enter(*device_);
    if (scope.ok()) load();
  };
  try {
    loading_.push_back(std::async(std::launch::async, in_context));
  } catch (const std::system_error&) {
    // Later, then.
  }
}

ComputeContext::~ComputeContext() {
  if (opening_.valid()) opening_.wait();
  loading_.clear();
  const Result<ContextScope> scope = ContextScope::enter(*device_);
  for (CUstream stream : {stream_, upload_stream_}) {
    if (stream == nullptr) continue;
    (void)device_->driver().StreamSynchronize(stream);
    (void)device_->driver().StreamDestroy(stream);
  }
  constants_.clear();
}

Status ComputeContext::can_generate() const {
  std::error_code failed;
  if (const std::string folder = cache_folder(); !folder.empty())
    for (std::filesystem::directory_iterator file(folder, failed), end; !failed && file != end; file.increment(failed))
      if (file->path().extension() == ".cubin") return Status();
  return compiler().status();
}

Result<const Nvrtc*> ComputeContext::compiler() const {
  if (!options_.compiler) return not_found("NVRTC is left out.");
  return nvrtc();
}

std::string ComputeContext::cache_folder() const {
  if (options_.cache_file.empty()) return "";
  const std::filesystem::path folder = std::filesystem::path(options_.cache_file).parent_path();
  return folder.empty() ? "." : folder.string();
}

Result<DeviceBlockRef> ComputeContext::allocate(size_t size_bytes) {
  TENON_TRY_ASSIGN(void* memory, memory_->allocate(std::max<size_t>(size_bytes, 256)));
  return DeviceBlockRef(std::make_shared<DeviceBlock>(memory_, memory));
}

namespace {

// Weights that threads pack while the caller uploads those that are ready. Their buffers come back, because fresh
// memory costs more than packing into it.
class Packing {
 public:
  Packing(std::span<const DeviceConstant> constants, std::span<const size_t> wanted)
      : constants_(constants), wanted_(wanted) {
    try {
      thread_ = std::thread([this] { run(); });
    } catch (const std::system_error&) {
      limit_bytes_ = SIZE_MAX;  // nobody would give anything back
      run();
    }
  }
  ~Packing() {
    {
      const std::lock_guard lock(mutex_);
      given_up_ = true;
    }
    returned_.notify_all();
    if (thread_.joinable()) thread_.join();
  }
  Packing(const Packing&) = delete;
  Packing& operator=(const Packing&) = delete;

  struct Buffer {
    std::shared_ptr<std::byte> bytes;  // null: there was no memory
    size_t capacity = 0;
  };
  struct Packed {
    size_t index = 0;
    Buffer buffer;
  };
  bool ready() {
    const std::lock_guard lock(mutex_);
    return !packed_.empty();
  }
  Packed next() {
    std::unique_lock lock(mutex_);
    ready_.wait(lock, [this] { return !packed_.empty(); });
    Packed packed = std::move(packed_.back());
    packed_.pop_back();
    return packed;
  }
  void give_back(std::vector<Buffer> buffers) {
    {
      const std::lock_guard lock(mutex_);
      for (Buffer& buffer : buffers) {
        in_use_bytes_ -= buffer.capacity;
        free_.push_back(std::move(buffer));
      }
    }
    returned_.notify_all();
  }

 private:
  static constexpr size_t kLimitBytes = size_t{192} << 20;

  void run() {
    run_parallel(wanted_.size(), [this](size_t i) {
      const DeviceConstant& constant = constants_[wanted_[i]];
      Packed packed{.index = wanted_[i], .buffer = take(constant.size_bytes)};
      try {
        if (packed.buffer.bytes != nullptr) constant.fill(packed.buffer.bytes.get());
      } catch (const std::bad_alloc&) {
        packed.buffer.bytes = nullptr;
      }
      const std::lock_guard lock(mutex_);
      packed_.push_back(std::move(packed));
      ready_.notify_one();
    });
  }

  // Zeros, because a packing may leave out what is padded.
  Buffer take(size_t size_bytes) {
    Buffer buffer;
    {
      std::unique_lock lock(mutex_);
      const auto fits = [&] {
        auto best = free_.end();
        for (auto it = free_.begin(); it != free_.end(); ++it)
          if (it->capacity >= size_bytes && (best == free_.end() || it->capacity < best->capacity)) best = it;
        return best;
      };
      returned_.wait(lock,
                     [&] { return given_up_ || in_use_bytes_ == 0 || in_use_bytes_ + size_bytes <= limit_bytes_; });
      if (given_up_) return buffer;
      if (const auto best = fits(); best != free_.end()) {
        buffer = std::move(*best);
        free_.erase(best);
      } else {
        buffer.capacity = std::max(size_bytes, size_t{1});
      }
      in_use_bytes_ += buffer.capacity;
    }
    if (buffer.bytes != nullptr) {
      std::memset(buffer.bytes.get(), 0, size_bytes);
    } else if (const std::optional<size_t> padded = checked_add(buffer.capacity, kSmallPage - 1)) {
      buffer.bytes = huge_chunk(*padded / kSmallPage * kSmallPage);
    }
    return buffer;
  }

  const std::span<const DeviceConstant> constants_;
  const std::span<const size_t> wanted_;
  std::mutex mutex_;
  std::condition_variable ready_, returned_;
  std::vector<Packed> packed_;
  std::vector<Buffer> free_;
  size_t in_use_bytes_ = 0, limit_bytes_ = kLimitBytes;
  bool given_up_ = false;
  std::thread thread_;
};

}  // namespace

Status ComputeContext::upload(std::span<const DeviceConstant> constants, std::span<const size_t> wanted,
                              std::span<const DeviceBlockRef> blocks) {
  const CudaDriver& driver = device_->driver();
  std::vector<size_t> as_is, packed;
  for (size_t i : wanted) (constants[i].as_is ? as_is : packed).push_back(i);
  // The largest first, so that no thread is left with it at the end.
  std::sort(packed.begin(), packed.end(),
            [&](size_t a, size_t b) { return constants[a].size_bytes > constants[b].size_bytes; });
  Packing packing(constants, packed);
  const auto copy = [&](size_t i, const std::byte* data) -> Status {
    if (constants[i].size_bytes != 0)
      TENON_CUDA_TRY(driver, MemcpyHtoDAsync, blocks[i]->address(), data, constants[i].size_bytes, upload_stream_);
    return Status();
  };
  for (size_t i : as_is) TENON_TRY(copy(i, constants[i].source->data));
  std::vector<Packing::Buffer> in_use;
  size_t bytes = 0;
  constexpr size_t kBatchBytes = size_t{32} << 20;
  for (size_t count = packed.size(); count > 0; --count) {
    // Before this thread waits too: whoever packs may wait for these buffers.
    if (!in_use.empty() && (bytes >= kBatchBytes || !packing.ready())) {
      TENON_CUDA_TRY(driver, StreamSynchronize, upload_stream_);
      packing.give_back(std::exchange(in_use, {}));
      bytes = 0;
    }
    Packing::Packed next = packing.next();
    if (next.buffer.bytes == nullptr)
      return resource_exhausted("The host has no memory to pack {} bytes of weights.",
                                constants[next.index].size_bytes);
    TENON_TRY(copy(next.index, next.buffer.bytes.get()));
    bytes += next.buffer.capacity;
    in_use.push_back(std::move(next.buffer));
  }
  TENON_CUDA_TRY(driver, StreamSynchronize, upload_stream_);
  return Status();
}

Result<ComputeContext::Uploading> ComputeContext::begin_upload(std::span<const DeviceConstant> constants) {
  std::erase_if(constants_, [](const auto& entry) { return entry.second.has_source && entry.second.source.expired(); });
  Uploading uploading{
      .blocks = std::vector<DeviceBlockRef>(constants.size()), .constants = constants, .wanted = {}, .done = {}};
  std::vector<DeviceBlockRef>& blocks = uploading.blocks;
  std::vector<size_t>& wanted = uploading.wanted;
  std::vector<size_t> offsets;
  size_t bytes = 0;
  for (size_t i = 0; i < constants.size(); ++i) {
    if (const auto known = constants_.find(constants[i].key); known != constants_.end()) {
      blocks[i] = known->second.block;
      continue;
    }
    wanted.push_back(i);
    offsets.push_back(bytes);
    const std::optional<size_t> padded = checked_add(constants[i].size_bytes, kConstantAlignment - 1);
    const std::optional<size_t> next =
        padded ? checked_add(bytes, *padded / kConstantAlignment * kConstantAlignment) : padded;
    if (!next) return resource_exhausted("The region's weights are larger than any memory.");
    bytes = *next;
  }
  if (wanted.empty()) return uploading;
  // One block: each would cost the pool a mapping of its own.
  TENON_TRY_ASSIGN(const DeviceBlockRef whole, allocate(bytes));
  for (size_t i = 0; i < wanted.size(); ++i) blocks[wanted[i]] = std::make_shared<DeviceBlock>(whole, offsets[i]);
  const auto upload_all = [this, constants, wanted, blocks]() -> Status {
    TENON_TRY_ASSIGN(const ContextScope scope, ContextScope::enter(*device_));
    return upload(constants, wanted, blocks);
  };
  try {
    uploading.done = std::async(std::launch::async, upload_all);
  } catch (const std::system_error&) {
    uploading.done = std::async(std::launch::deferred, upload_all);
  }
  return uploading;
}

Status ComputeContext::finish(Uploading& uploading) {
  if (!uploading.done.valid()) return Status();
  TENON_TRY(uploading.done.get());
  for (size_t i : uploading.wanted) {
    const DeviceConstant& constant = uploading.constants[i];
    constants_[constant.key] = {
        .has_source = constant.source != nullptr, .source = constant.source, .block = uploading.blocks[i]};
  }
  return Status();
}

}  // namespace tenon::cuda
