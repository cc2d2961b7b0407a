// MurmurHash3: 32 bits of numbers and texts.
#include <bit>
#include <cstring>

#include "ep/cpu/ops/contrib/rows.h"
#include "ep/cpu/ops/sequence/objects.h"
#include "ops/attributes.h"

namespace tenon::cpu::ref {

namespace {

constexpr std::string_view kDomain = "com.microsoft";

// MurmurHash3's form of 32 bits, by Austin Appleby's published definition.
uint32_t murmur(const uint8_t* bytes, size_t count, uint32_t seed) {
  const auto mixed = [](uint32_t word) { return std::rotl(word * 0xcc9e2d51U, 15) * 0x1b873593U; };
  uint32_t hash = seed;
  size_t at = 0;
  for (; at + 4 <= count; at += 4) {
    uint32_t word = 0;
    std::memcpy(&word, bytes + at, sizeof(word));
    hash = std::rotl(hash ^ mixed(word), 13) * 5 + 0xe6546b64U;
  }
  uint32_t tail = 0;
  for (size_t i = at; i < count; ++i) tail |= uint32_t{bytes[i]} << (8 * (i - at));
  hash ^= mixed(tail);
  hash ^= static_cast<uint32_t>(count);
  hash = (hash ^ hash >> 16) * 0x85ebca6bU;
  hash = (hash ^ hash >> 13) * 0xc2b2ae35U;
  return hash ^ hash >> 16;
}

Result<RefImpl> make_murmur(RefNode& node) {
  TENON_TRY(require_inputs(node, 1));
  TENON_TRY(require_output(node, 0, node.inputs[0].shape));
  const auto seed = static_cast<uint32_t>(Attributes(*node.node).integer("seed"));
  const int64_t count = node.inputs[0].shape.element_count();
  const size_t each = data_type_size(node.inputs[0].type);
  RefImpl impl;
  impl.run = [seed, count, each, texts = node.inputs[0].type == DataType::kString](KernelContext& context) -> Status {
    auto* const y = context.output<uint32_t>(0);
    context.pool->parallel_for(count, 1024, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        if (texts) {
          const std::string_view text = text_of(context.input<TextAddress>(0)[i]);
          y[i] = murmur(reinterpret_cast<const uint8_t*>(text.data()), text.size(), seed);
        } else {
          y[i] = murmur(context.input<uint8_t>(0) + i * static_cast<int64_t>(each), each, seed);
        }
      }
    });
    return {};
  };
  return impl;
}

constexpr TypeSet kHashed = type_set(TypeList<int32_t, uint32_t, int64_t, uint64_t, float, double>()) | kStringSet;

constexpr KernelEntry kRows[] = {
    ref_row<kHashed, &make_murmur>("MurmurHash3", 1, kAnyVersion, kDomain),
};

}  // namespace

std::span<const KernelEntry> hash_rows() { return kRows; }

}  // namespace tenon::cpu::ref
