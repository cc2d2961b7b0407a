// The page behind a SharedTimeline, as docs/reference/shared-timeline.md describes it. Both sides may write it at any
// time: every field is read once, checked, and accessed atomically.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace tenon {

inline constexpr uint64_t kSharedTimelineMagic = 0x314C54'4E4F4E4554;  // "TENONTL1" in memory order
inline constexpr uint32_t kSharedTimelineVersion = 1;
inline constexpr size_t kSharedTimelineBytes = 4096;
inline constexpr size_t kPoisonTextBytes = 1024;

// A process that has the timeline open.
struct SharedTimelinePeer {
  uint64_t process;        // 0: not yet; all ones: it has closed the timeline; else ProcessId::packed
  uint32_t pid_namespace;  // inode of its pid namespace; 0: unknown
  uint32_t reserved;
};

struct SharedTimelinePage {
  uint64_t magic;
  uint32_t version;
  uint32_t size_bytes;
  uint64_t value;
  uint32_t wake;                // futex: counts the changes of value
  uint32_t waiters;             // a hint: 0 saves the wake-up call
  SharedTimelinePeer peers[2];  // creator, opener
  uint32_t poison_state;        // 0 none, 1 being written, 2 complete
  uint32_t poison_code;
  uint64_t poison_from;
  uint32_t poison_text_bytes;
  uint32_t reserved;
  char poison_text[kPoisonTextBytes];
};

static_assert(offsetof(SharedTimelinePage, value) == 16);
static_assert(offsetof(SharedTimelinePage, wake) == 24);
static_assert(offsetof(SharedTimelinePage, peers) == 32);
static_assert(offsetof(SharedTimelinePage, poison_state) == 64);
static_assert(offsetof(SharedTimelinePage, poison_text) == 88);
static_assert(sizeof(SharedTimelinePage) <= kSharedTimelineBytes);
static_assert(std::atomic_ref<uint64_t>::is_always_lock_free && std::atomic_ref<uint32_t>::is_always_lock_free);

}  // namespace tenon
