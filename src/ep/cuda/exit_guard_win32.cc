#include "ep/cuda/exit_guard.h"

namespace tenon::cuda {

void ask_at_exit(const std::shared_ptr<const Waiters>&) {}
void guard_exit() {}

}  // namespace tenon::cuda
