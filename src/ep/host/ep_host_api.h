// The host's side of ep/api/ep_host_api.h.
#pragma once

#include "ep/api/ep_host_api.h"

namespace tenon::abi {

// The table; null for version 0. Threads: any.
const EpHostApi* ORT_API_CALL ep_host_api(uint32_t version) noexcept;

}  // namespace tenon::abi
