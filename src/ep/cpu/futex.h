// Sleeping on a 32-bit word of this process: the two calls that the thread pool parks with.
#pragma once

#include <atomic>
#include <cstdint>

namespace tenon::cpu {

// Sleeps while `word` holds `expected`. May return early without a reason.
void futex_wait(std::atomic<uint32_t>& word, uint32_t expected);
// Wakes at most `count` threads that sleep on `word`.
void futex_wake(std::atomic<uint32_t>& word, int count);

}  // namespace tenon::cpu
