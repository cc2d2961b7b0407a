// Packing weights and compiling kernels on several threads, while a session is made.
#pragma once

#include <cstddef>
#include <functional>

namespace tenon::cuda {

// Calls `work` for 0 to count - 1, in this order, on threads of its own and the caller's; `work` throws nothing.
// Fewer threads do the same work where the system has none.
void run_parallel(size_t count, const std::function<void(size_t)>& work, size_t most_threads = 16);

}  // namespace tenon::cuda
