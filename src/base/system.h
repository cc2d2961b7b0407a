// System calls that differ between platforms, for this folder and tests: system_posix.cc and system_win32.cc.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace tenon {

// The system's number of the calling thread.
int thread_number();
// The names of the calling thread and of this program, for tools.
std::string thread_name();
std::string program_name();
// A new or emptied file for writing bytes as they are; not inherited by child processes. -1 with errno when that fails:
// EWOULDBLOCK where a file that this function gave, here or in another process, is still open.
int create_locked_file(const std::string& path);
// Of the memory that maps and registrations come in.
size_t page_bytes();
// The most that this process can have, as far as the system says: the machine's memory and swap, the limit of the
// process's control group, or that of its address space, whichever is least. Read once.
size_t memory_bytes();
// Sets an environment variable of this process; null removes it.
void set_environment_variable(const char* name, const char* value);
// The names of all environment variables of this process.
std::vector<std::string> environment_names();
// The file name, without its folder, of the library or program whose code or data lies at `address`; for messages.
// "an unknown library" where the system does not know.
std::string library_at(const void* address);

}  // namespace tenon
