// Tells a program of the work of a session's threads (SetPerSessionThreadPoolCallbacks).
//
// A work item is a chunk of a parallel region. The thread that opens the region announces all of them, and each then
// starts and stops on the thread that runs it, which may be the opener too. All of them run, so none is abandoned.
#pragma once

#include <tenon/onnxruntime_c_api.h>
#include <tenon/thread_pool.h>

#include <memory>

namespace tenon::abi {

// Ownership: the functions and their context are the program's, which keeps them as long as the pool lives.
std::shared_ptr<ThreadPool> make_observed_pool(std::shared_ptr<ThreadPool> pool,
                                               const OrtThreadPoolCallbacksConfig& callbacks);

}  // namespace tenon::abi
