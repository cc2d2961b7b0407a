#include <tenon/fence.h>

#include "base/status.h"

namespace tenon {

Status Fence::wait(int64_t timeout_ns) const {
  TENON_INVALID_IF(!defined(), "A fence without a timeline cannot be waited for.");
  return timeline->wait(value, timeout_ns);
}

Status Fence::signal() const {
  TENON_INVALID_IF(!defined(), "A fence without a timeline cannot be signalled.");
  return timeline->signal(value);
}

Status Fence::status() const {
  TENON_INVALID_IF(!defined(), "A fence without a timeline has no status.");
  return timeline->status();
}

}  // namespace tenon
