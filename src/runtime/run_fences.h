// The fences of a run (RunOptions::waits and signals): the host waits for them and signals them, or hands them to the
// EP that runs the whole plan.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string_view>

#include <tenon/session.h>

#include "base/deadline.h"
#include "device/device.h"
#include "runtime/plan_cache.h"

namespace tenon {

// Errors: kInvalidArgument for a fence without a timeline. `kind` names the list.
Status check_fences(std::span<const Fence> fences, std::string_view kind);
// On the host, for all of them together in `timeout_ns`, and before `run_deadline`. Errors: kTimeout when the time is
// over, the failure of a fence that is poisoned.
Status wait_for_fences(std::span<const Fence> fences, int64_t timeout_ns, const Deadline& run_deadline);
// All of them, also after a failure. Errors: the first failure.
Status signal_fences(std::span<const Fence> fences);
void poison_fences(std::span<const Fence> fences, const Status& why);

// Waits on the host for all that is on `stream` now.
Status wait_for_stream(DeviceStream& stream);

// The EP whose stream carries out the whole plan, so that what the EP orders is the whole run; 0 when the host, a copy
// or another EP takes part. `active`: the EPs of the session that have work.
EpId only_provider(const PlanRuntime& runtime, std::span<const EpId> active);

// The fences of a run that an EP takes: all waits or none, all signals or none. The others are the host's.
struct HandedFences {
  std::span<const Fence> waits, signals;
};
// `takes`: whether the EP takes a fence. `ep_knows_deadline`: the EP ends its waits when the run is to end.
HandedFences hand_fences(const RunOptions& options, bool ep_knows_deadline,
                         const std::function<bool(const Fence&)>& takes);

}  // namespace tenon
