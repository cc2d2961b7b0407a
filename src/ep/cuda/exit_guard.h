// Lets the process end. While a stream waits for another API's timeline the driver unloads no code, and a library that
// does so in its exit handler (cuBLASLt, whatever has CUDA's runtime in it) would keep `exit` for ever when nobody
// signals. So `exit` waits for such streams for 2 seconds; if one still waits, the rest of the handlers has 3 seconds,
// and then the process ends without them, with the status that it was to end with and a sentence that says why. Where
// no stream waits, nothing of this happens; a signal in time lets everything go its way.
//
// Exit handlers run newest first, so this one has to be newer than theirs: before each wait it is registered once more
// if a library has been loaded since. On Windows there is no such handler: a process's other threads are gone before
// any library's end begins there, and no library is told the status.
// Lifetime: the library that has this code in it stays loaded. Threads: every function from any thread.
#pragma once

#include <memory>
#include <string>

namespace tenon::cuda {

class Waiters {
 public:
  virtual ~Waiters() = default;
  // A sentence about one of those who still wait; "" when nobody does.
  virtual std::string who_waits() const = 0;
};

// `exit` asks them from now on, as long as they are there.
void ask_at_exit(const std::shared_ptr<const Waiters>& waiters);

// Comes before each wait for another API. Costs 0.1 us.
void guard_exit();

}  // namespace tenon::cuda
