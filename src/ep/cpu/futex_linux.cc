#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "ep/cpu/futex.h"

namespace tenon::cpu {

static_assert(sizeof(std::atomic<uint32_t>) == sizeof(uint32_t), "the kernel compares the bare word");

void futex_wait(std::atomic<uint32_t>& word, uint32_t expected) {
  syscall(SYS_futex, &word, FUTEX_WAIT_PRIVATE, expected, nullptr, nullptr, 0);
}

void futex_wake(std::atomic<uint32_t>& word, int count) {
  syscall(SYS_futex, &word, FUTEX_WAKE_PRIVATE, count, nullptr, nullptr, 0);
}

}  // namespace tenon::cpu
