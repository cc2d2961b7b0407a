// OrtThreadingOptions: the threads that sessions of an env share.
#pragma once

#include <tenon/onnxruntime_c_api.h>
#include <tenon/thread_pool.h>

#include <string>

struct OrtThreadingOptions {
  int intra_op_threads = 0;  // 0: the machine's; 1: the caller's thread alone
  int inter_op_threads = 0;  // taken and kept; Tenon runs one operator at a time
  bool allow_spinning = true;
  // Hints that the reference has and Tenon has no use for: they are kept, and nothing reads them.
  bool denormal_as_zero = false;
  std::string affinity;
  OrtCustomCreateThreadFn create_thread = nullptr;
  void* thread_creation_options = nullptr;
  OrtCustomJoinThreadFn join_thread = nullptr;
};
