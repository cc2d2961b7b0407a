// The numbers of a session's EPs and memory spaces.
#pragma once

#include "base/strong_id.h"

namespace tenon {

// An EP of a session. Its own CPU EP is kCpuEp; the others follow in the order of SessionOptions::eps, then their host
// companions. A stream and a data transfer have the id of their EP; kCpuEp there means that the host does the work.
using EpId = StrongId<struct EpTag>;
inline constexpr EpId kCpuEp{0};

// One entry for each EP that is not the session's CPU EP.
template <typename T>
using PerDeviceEp = IdVector<EpId, T, 1>;

// A memory space of a session (SpaceTable). Plain host memory is kHostSpace.
using SpaceId = StrongId<struct SpaceTag>;
inline constexpr SpaceId kHostSpace{0};

template <typename T>
using PerSpace = IdVector<SpaceId, T>;

// A point of an EP's stream that others wait for, counted from 0 in each plan and on each stream.
using PointId = StrongId<struct PointTag>;

// One of an EP's allocators (DeviceProvider::allocators); none() is plain host memory.
using AllocatorId = StrongId<struct AllocatorTag>;

}  // namespace tenon
