// In wheels alone. condition_variable::wait of g++ 12 has a version that libstdc++ of glibc 2.34's time does not have;
// the linker sends its callers here (--wrap). It does what both versions do.
#include <pthread.h>

#include <condition_variable>
#include <mutex>

extern "C" void __wrap__ZNSt18condition_variable4waitERSt11unique_lockISt5mutexE(std::condition_variable* condition,
                                                                                 std::unique_lock<std::mutex>* lock) {
  (void)pthread_cond_wait(condition->native_handle(), lock->mutex()->native_handle());
}
