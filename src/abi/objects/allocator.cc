#include "abi/objects/allocator.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <new>

#include "abi/objects/slots.h"
#include "abi/objects/status.h"
#include "base/checked.h"
#include "base/status.h"
#include "ep/api/abi_since.h"

namespace tenon::abi {

namespace {

// As Tensor::allocate does: whole vectors, and room behind the last element.
constexpr size_t kAlignment = 64;

struct DefaultAllocator {
  OrtAllocator functions;
  OrtMemoryInfo info;
};

void* ORT_API_CALL default_alloc(OrtAllocator*, size_t size) {
  const auto padded = checked_add(size, 2 * kAlignment - 1);
  return padded ? std::aligned_alloc(kAlignment, *padded & ~(kAlignment - 1)) : nullptr;
}
void ORT_API_CALL default_free(OrtAllocator*, void* block) { std::free(block); }
const OrtMemoryInfo* ORT_API_CALL default_info(const OrtAllocator* self) {
  return &reinterpret_cast<const DefaultAllocator*>(self)->info;
}
OrtStatus* ORT_API_CALL default_stats(const OrtAllocator*, OrtKeyValuePairs** out) {
  // It keeps none; an empty list says so, as the reference's does.
  kOrtApi.CreateKeyValuePairs(out);
  return nullptr;
}

// The allocator that a program releases with ReleaseAllocator: it passes every call on to `inner`.
struct BorrowedAllocator {
  OrtAllocator functions;
  OrtAllocator* inner;
  std::shared_ptr<const void> keep_alive;
};

OrtAllocator* inner_of(const OrtAllocator* self) { return reinterpret_cast<const BorrowedAllocator*>(self)->inner; }

void* ORT_API_CALL borrowed_alloc(OrtAllocator* self, size_t size) {
  return inner_of(self)->Alloc(inner_of(self), size);
}
void ORT_API_CALL borrowed_free(OrtAllocator* self, void* block) { inner_of(self)->Free(inner_of(self), block); }
const OrtMemoryInfo* ORT_API_CALL borrowed_info(const OrtAllocator* self) {
  return inner_of(self)->Info(inner_of(self));
}
void* ORT_API_CALL borrowed_reserve(OrtAllocator* self, size_t size) {
  OrtAllocator* inner = inner_of(self);
  const bool has = inner->version >= abi_since::kOrtAllocator_Reserve && inner->Reserve != nullptr;
  return has ? inner->Reserve(inner, size) : inner->Alloc(inner, size);
}
OrtStatus* ORT_API_CALL borrowed_stats(const OrtAllocator* self, OrtKeyValuePairs** out) {
  return kOrtApi.AllocatorGetStats(inner_of(self), out);
}

}  // namespace

OrtAllocator* default_allocator() noexcept {
  // Leaked on purpose: programs free tensors from destructors that run after ours.
  static auto* const allocator =
      new DefaultAllocator{.functions = {.version = ORT_API_VERSION,
                                         .Alloc = &default_alloc,
                                         .Free = &default_free,
                                         .Info = &default_info,
                                         .Reserve = &default_alloc,
                                         .GetStats = &default_stats,
                                         .AllocOnStream = nullptr,
                                         .Shrink = nullptr},
                           .info = {.device = {OrtMemoryInfoDeviceType_CPU, OrtDeviceMemoryType_DEFAULT, 0, 0, 0}}};
  return &allocator->functions;
}

Result<void*> allocate(OrtAllocator* allocator, size_t size_bytes) {
  TENON_INVALID_IF(allocator == nullptr, "The allocator is null.");
  // Programs hand in allocators that only allocate, for texts that they free in their own way (onnxruntime-genai does).
  TENON_INVALID_IF(allocator->Alloc == nullptr, "Member Alloc of an OrtAllocator is null.");
  if (size_bytes == 0) return static_cast<void*>(nullptr);
  void* block = nullptr;
  // A program's function may be C++ and throw; it enters here.
  try {
    block = allocator->Alloc(allocator, size_bytes);
  } catch (...) {
    return resource_exhausted("An allocator threw when it was asked for {} bytes.", size_bytes);
  }
  if (block == nullptr) {
    const OrtMemoryInfo* info = allocator->Info != nullptr ? allocator->Info(allocator) : nullptr;
    return resource_exhausted("The allocator \"{}\" gave no memory for {} bytes.",
                              info != nullptr ? info->name : "without a name", size_bytes);
  }
  return block;
}

OrtStatus* copy_text(OrtAllocator* allocator, std::string_view text, char** out) noexcept {
  return guarded([&]() -> OrtStatus* {
    Result<void*> block = allocate(allocator, text.size() + 1);
    if (!block.ok()) return to_ort(block.status());
    *out = static_cast<char*>(*block);
    std::copy(text.begin(), text.end(), *out);
    (*out)[text.size()] = '\0';
    return nullptr;
  });
}

OrtAllocator* borrow_allocator(OrtAllocator* inner, std::shared_ptr<const void> keep_alive) {
  auto* borrowed = new BorrowedAllocator{.functions = {.version = ORT_API_VERSION,
                                                       .Alloc = &borrowed_alloc,
                                                       .Free = &borrowed_free,
                                                       .Info = &borrowed_info,
                                                       .Reserve = &borrowed_reserve,
                                                       .GetStats = &borrowed_stats,
                                                       .AllocOnStream = nullptr,
                                                       .Shrink = nullptr},
                                         .inner = inner,
                                         .keep_alive = std::move(keep_alive)};
  return &borrowed->functions;
}

OrtStatus* ort_api::GetAllocatorWithDefaultOptions(OrtAllocator** out) noexcept {
  if (OrtStatus* bad = check_pointers("GetAllocatorWithDefaultOptions", {{"out", out}})) return bad;
  *out = default_allocator();
  return nullptr;
}

OrtStatus* ort_api::AllocatorAlloc(OrtAllocator* ort_allocator, size_t size, void** out) noexcept {
  clear(out);
  if (OrtStatus* bad = check_pointers("AllocatorAlloc", {{"ort_allocator", ort_allocator}, {"out", out}})) return bad;
  return guarded([&]() -> OrtStatus* {
    Result<void*> block = allocate(ort_allocator, size);
    if (block.ok()) *out = *block;
    return to_ort(block.status());
  });
}

void free_block(OrtAllocator* allocator, void* block) noexcept {
  if (block != nullptr && allocator->Free != nullptr) allocator->Free(allocator, block);
}

OrtStatus* ort_api::AllocatorFree(OrtAllocator* ort_allocator, void* p) noexcept {
  if (OrtStatus* bad = check_pointers("AllocatorFree", {{"ort_allocator", ort_allocator}})) return bad;
  if (p == nullptr) return nullptr;
  if (ort_allocator->Free == nullptr)
    return make_ort_status(ORT_INVALID_ARGUMENT, "Member Free of an OrtAllocator is null.");
  return guarded([&]() -> OrtStatus* {
    ort_allocator->Free(ort_allocator, p);
    return nullptr;
  });
}

OrtStatus* ort_api::AllocatorGetInfo(const OrtAllocator* ort_allocator, const struct OrtMemoryInfo** out) noexcept {
  clear(out);
  if (OrtStatus* bad = check_pointers("AllocatorGetInfo", {{"ort_allocator", ort_allocator}, {"out", out}})) return bad;
  if (ort_allocator->Info == nullptr)
    return make_ort_status(ORT_INVALID_ARGUMENT, "Member Info of an OrtAllocator is null.");
  return guarded([&]() -> OrtStatus* {
    *out = ort_allocator->Info(ort_allocator);
    return nullptr;
  });
}

OrtStatus* ort_api::AllocatorGetStats(const OrtAllocator* ort_allocator, OrtKeyValuePairs** out) noexcept {
  clear(out);
  if (OrtStatus* bad = check_pointers("AllocatorGetStats", {{"ort_allocator", ort_allocator}, {"out", out}}))
    return bad;
  if (ort_allocator->version < abi_since::kOrtAllocator_GetStats || ort_allocator->GetStats == nullptr)
    return ort_error(ORT_NOT_IMPLEMENTED, "The allocator (version {}) has no GetStats.", ort_allocator->version);
  return guarded([&] { return ort_allocator->GetStats(ort_allocator, out); });
}

void ort_api::ReleaseAllocator(OrtAllocator* input) noexcept {
  // The default allocator, and programs' own, are not ours to delete.
  if (input != nullptr && input->Free == &borrowed_free) delete reinterpret_cast<BorrowedAllocator*>(input);
}

}  // namespace tenon::abi
