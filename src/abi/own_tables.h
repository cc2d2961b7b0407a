// The tables of Tenon's own functions that programs get by GetExperimentalFunction. Both give null for version 0, and
// the newest table for a version above it.
#pragma once

#include <tenon/copy_ledger_api.h>
#include <tenon/timeline_api.h>

namespace tenon::abi {

const TenonCopyLedgerApi* TENON_COPY_LEDGER_CALL copy_ledger_api(uint32_t version) noexcept;
const TenonTimelineApi* TENON_TIMELINE_CALL timeline_api(uint32_t version) noexcept;

}  // namespace tenon::abi
