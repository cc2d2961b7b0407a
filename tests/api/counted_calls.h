// Counts of what a run in real time must not do: malloc and its kin and the functions of pthreads that may wait are
// replaced for the whole program, and system calls are seen by a parent process.
#pragma once

#include <functional>
#include <optional>
#include <vector>

namespace tenon::api_testing {

// Since the program began, on all threads.
int allocations();
int locks();  // mutexes, read-write locks and condition variables that were taken, waited for or signalled

// The numbers of the system calls that `work` makes in a child process, which goes on from the caller's state with the
// calling thread alone. nullopt where a process may not watch another one (PTRACE_TRACEME, PTRACE_GET_SYSCALL_INFO) or
// `work` has returned false.
std::optional<std::vector<int>> system_calls(const std::function<bool()>& work);

}  // namespace tenon::api_testing
