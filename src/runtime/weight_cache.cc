#include "runtime/weight_cache.h"

#include <algorithm>
#include <charconv>

#include "base/config_keys.h"
#include "base/content_hash.h"
#include "base/log.h"
#include "base/trace.h"
#include "base/version.h"
#include "ep/cpu/simd/isa.h"
#include "graph/mapped_file.h"
#include "runtime/memory.h"

namespace tenon {

namespace {

// Less takes a page and a look-up for what is packed in a microsecond.
constexpr size_t kLeastShared = 16 * 1024;

// All that a packing depends on.
ContentHash packing_name(std::span<const ConstantRef> constants, std::string_view format, size_t bytes) {
  static const std::string library = tenon::format("{} {} {} {}", project_version(), library_build(),
                                                   cpu::isa_name(cpu::selected_isa()), cpu::selected_vnni());
  std::string text = tenon::format("{}\n{}\n{}", library, format, bytes);
  for (const ConstantRef& constant : constants) {
    text += constant == nullptr
                ? std::string("\nnone")
                : tenon::format("\n{} {} {}", data_type_name(constant->type), constant->shape.to_string(),
                                content_hash({constant->data.stored(), constant->size_bytes}).to_string());
  }
  return content_hash(text);
}

Result<std::shared_ptr<const std::byte>> pack_apart(const Constant& weight, size_t bytes, const PackFunction& pack) {
  TENON_TRY_ASSIGN(std::shared_ptr<std::byte> memory, allocate_zeroed(bytes, Pages::kAtOnce));
  pack(weight, memory.get());
  return std::shared_ptr<const std::byte>(std::move(memory));
}

}  // namespace

std::shared_ptr<PackedFolder> packed_folder_of(const std::map<std::string, std::string>& config) {
  const auto path = config.find(std::string(kPackedFolderKey));
  if (path == config.end() || path->second.empty()) return nullptr;
  const auto limit = config.find(std::string(kPackedLimitKey));
  size_t megabytes = 0;
  if (limit != config.end())
    std::from_chars(limit->second.data(), limit->second.data() + limit->second.size(), megabytes);
  Result<std::shared_ptr<PackedFolder>> folder = PackedFolder::open(path->second, megabytes << 20);
  if (folder.ok()) return *folder;
  log_warning("pack", "The session packs its weights for itself: {}", folder.status().message());
  return nullptr;
}

void SessionWeightCache::share(std::shared_ptr<SharedPackings> packings, std::shared_ptr<PackedFolder> folder) {
  folder_ = std::move(folder);
  // Two constants of the same bytes are one file of the folder.
  packings_ = packings == nullptr && folder_ != nullptr ? std::make_shared<SharedPackings>() : std::move(packings);
}

bool SessionWeightCache::Entry::expired() const {
  return std::any_of(sources.begin(), sources.end(), [](const auto& source) { return source.expired(); });
}

Result<std::shared_ptr<const std::byte>> SessionWeightCache::shared(std::span<const ConstantRef> constants,
                                                                    std::string_view format, size_t bytes,
                                                                    const PackFunction& pack) {
  const Constant& weight = *constants.front();
  if (packings_ == nullptr || bytes < kLeastShared) return pack_apart(weight, bytes, pack);
  const ContentHash name = packing_name(constants, format, bytes);
  return packings_->get(name, bytes, [&]() -> Result<std::shared_ptr<const std::byte>> {
    if (folder_ == nullptr) return pack_apart(weight, bytes, pack);
    auto mapped = folder_->get(name, bytes, [&](std::byte* memory) { pack(weight, memory); });
    if (mapped.ok()) return mapped;
    std::call_once(warned_, [&] {
      log_warning("pack", "The session packs some of its weights for itself: {}", mapped.status().message());
    });
    return pack_apart(weight, bytes, pack);
  });
}

Result<std::shared_ptr<const std::byte>> SessionWeightCache::get(std::span<const ConstantRef> constants,
                                                                 std::string_view format, size_t bytes,
                                                                 const PackFunction& pack) {
  Key key{{}, std::string(format)};
  for (const ConstantRef& constant : constants) key.first.push_back(constant.get());
  std::shared_ptr<Entry> entry;
  {
    auto entries = entries_.lock();
    std::shared_ptr<Entry>& slot = (*entries)[key];
    // Another constant may have been made at the address of one that is gone.
    if (slot == nullptr || slot->expired()) {
      slot = std::make_shared<Entry>();
      for (const ConstantRef& constant : constants)
        if (constant != nullptr) slot->sources.emplace_back(constant);
      std::erase_if(*entries, [](const auto& item) { return item.second->expired(); });
    }
    entry = (*entries)[key];
  }
  const std::lock_guard lock(entry->mutex);
  if (entry->packed != nullptr) {
    if (entry->size_bytes != bytes) {
      return internal_error("A weight was packed as \"{}\" into {} bytes before, and {} bytes are asked for now.",
                            format, entry->size_bytes, bytes);
    }
    return entry->packed;
  }
  const Constant& weight = *constants.front();
  TraceSpan span("pack", format);
  if (span) {
    span.args()
        .add("node", TraceSubject::current().node)
        .add("shape", weight.shape.to_string())
        .add("from_bytes", weight.size_bytes)
        .add("bytes", bytes);
  }
  TENON_TRY_ASSIGN(entry->packed, shared(constants, format, bytes, pack));
  entry->size_bytes = bytes;
  if (weight.in_file) drop_file_pages({weight.data.stored(), weight.size_bytes});
  return entry->packed;
}

size_t SessionWeightCache::size_bytes() const {
  auto entries = entries_.lock();
  size_t sum = 0;
  for (const auto& [key, entry] : *entries) {
    const std::lock_guard lock(entry->mutex);
    sum += entry->size_bytes;
  }
  return sum;
}

}  // namespace tenon
