#include <tenon/fence.h>

#include "base/status.h"

namespace tenon {

// docs/reference/shared-timeline.md lays out a page with a futex, which this system does not have.
Result<std::shared_ptr<SharedTimeline>> SharedTimeline::create(std::string name, uint64_t) {
  return unsupported("The shared timeline \"{}\" cannot be made: it needs a futex, which this system does not have.",
                     name);
}

Result<std::shared_ptr<SharedTimeline>> SharedTimeline::open(std::string name, int fd) {
  return unsupported(
      "File descriptor {} of \"{}\" is no shared timeline: those need a futex, which this system does not have.", fd,
      name);
}

}  // namespace tenon
