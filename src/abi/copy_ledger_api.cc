// The table of tenon/copy_ledger_api.h: the records of copies for programs of the C ABI.
#include <map>
#include <utility>

#include "abi/objects/copy_records.h"
#include "abi/objects/env.h"
#include "abi/objects/memory_info.h"
#include "abi/objects/run_options.h"
#include "abi/objects/status.h"
#include "abi/own_tables.h"
#include "abi/session.h"

struct TenonCopyLedger {
  std::shared_ptr<tenon::abi::CopyRecords> records = std::make_shared<tenon::abi::CopyRecords>();
  // The records that GetRecords returned.
  std::vector<tenon::abi::CopyRecords::Text> texts;
  std::vector<TenonCopyRecord> shown;
};

namespace tenon::abi {

namespace {

std::shared_ptr<CopyRecords> records_of(TenonCopyLedger* ledger) {
  return ledger != nullptr ? ledger->records : nullptr;
}

OrtStatus* TENON_COPY_LEDGER_CALL create_ledger(TenonCopyLedger** out) noexcept {
  clear(out);
  if (OrtStatus* bad = check_pointers("CreateLedger", {{"out", out}})) return bad;
  return guarded([&]() -> OrtStatus* {
    *out = new TenonCopyLedger;
    return nullptr;
  });
}

void TENON_COPY_LEDGER_CALL release_ledger(TenonCopyLedger* ledger) noexcept { delete ledger; }

OrtStatus* TENON_COPY_LEDGER_CALL set_run_ledger(OrtRunOptions* options, TenonCopyLedger* ledger) noexcept {
  if (OrtStatus* bad = check_pointers("SetRunLedger", {{"options", options}})) return bad;
  options->copies = records_of(ledger);
  return nullptr;
}

OrtStatus* TENON_COPY_LEDGER_CALL set_caller_ledger(const OrtEnv* env, TenonCopyLedger* ledger) noexcept {
  if (OrtStatus* bad = check_pointers("SetCallerLedger", {{"env", env}})) return bad;
  return guarded([&]() -> OrtStatus* {
    const std::shared_ptr<OrtEnv> current = current_env();
    if (current.get() != env) return make_ort_status(ORT_INVALID_ARGUMENT, "The env was released.");
    *current->copies.lock() = records_of(ledger);
    return nullptr;
  });
}

OrtStatus* TENON_COPY_LEDGER_CALL get_records(TenonCopyLedger* ledger, const TenonCopyRecord** records,
                                              size_t* count) noexcept {
  clear(records);
  clear(count);
  if (OrtStatus* bad = check_pointers("GetRecords", {{"ledger", ledger}, {"records", records}, {"count", count}}))
    return bad;
  return guarded([&]() -> OrtStatus* {
    ledger->shown.clear();
    ledger->texts = ledger->records->all();
    for (const CopyRecords::Text& text : ledger->texts) {
      ledger->shown.push_back({.name = text.name.c_str(),
                               .from = text.from.c_str(),
                               .to = text.to.c_str(),
                               .reason = text.reason.c_str(),
                               .bytes = text.bytes,
                               .once = text.once ? 1U : 0U,
                               .reserved = 0});
    }
    *records = ledger->shown.data();
    *count = ledger->shown.size();
    return nullptr;
  });
}

OrtStatus* TENON_COPY_LEDGER_CALL clear_ledger(TenonCopyLedger* ledger) noexcept {
  if (OrtStatus* bad = check_pointers("ClearLedger", {{"ledger", ledger}})) return bad;
  ledger->shown.clear();
  ledger->texts.clear();
  ledger->records->clear();
  return nullptr;
}

OrtStatus* TENON_COPY_LEDGER_CALL explain_copies(OrtSession* session, const TenonPlacement* placements,
                                                 size_t placement_count, TenonCopyLedger* ledger,
                                                 size_t* open) noexcept {
  clear(open);
  if (OrtStatus* bad = check_pointers("ExplainCopies", {{"session", session}, {"ledger", ledger}})) return bad;
  if (placement_count > 0 && placements == nullptr)
    return make_ort_status(ORT_INVALID_ARGUMENT, "ExplainCopies has a count of placements, and no placements.");
  return guarded([&]() -> OrtStatus* {
    std::map<std::string, Shape> shapes;
    std::map<std::string, MemorySpace> spaces;
    for (size_t i = 0; i < placement_count; ++i) {
      const TenonPlacement& one = placements[i];
      if (one.name == nullptr) return ort_error(ORT_INVALID_ARGUMENT, "Placement {} of ExplainCopies has no name.", i);
      if (one.alignment > UINT32_MAX)
        return ort_error(ORT_INVALID_ARGUMENT, "The alignment {} of \"{}\" is too large.", one.alignment, one.name);
      if (one.dims != nullptr || one.rank > 0) {
        if (one.dims == nullptr || one.rank > Shape::kMaxRank)
          return ort_error(ORT_INVALID_ARGUMENT, "The shape of \"{}\" has no dimensions, or more than {}.", one.name,
                           Shape::kMaxRank);
        shapes[one.name] = Shape(std::span(one.dims, one.rank));
      }
      MemorySpace& space = spaces[one.name];
      if (one.memory != nullptr) space = to_memory_space(*one.memory);
      space.alignment = static_cast<uint32_t>(one.alignment);
    }
    Result<ExplainedCopies> explained = session->main->core->explain_copies(shapes, spaces);
    if (!explained.ok()) return to_ort(explained.status());
    ledger->records->add(explained->ledger);
    if (open != nullptr) *open = explained->open.size();
    return nullptr;
  });
}

}  // namespace

const TenonCopyLedgerApi* TENON_COPY_LEDGER_CALL copy_ledger_api(uint32_t version) noexcept {
  static constexpr TenonCopyLedgerApi kApi = {.version = TENON_COPY_LEDGER_API_VERSION,
                                              .reserved = 0,
                                              .CreateLedger = &create_ledger,
                                              .ReleaseLedger = &release_ledger,
                                              .SetRunLedger = &set_run_ledger,
                                              .SetCallerLedger = &set_caller_ledger,
                                              .GetRecords = &get_records,
                                              .ClearLedger = &clear_ledger,
                                              .ExplainCopies = &explain_copies};
  return version == 0 ? nullptr : &kApi;
}

}  // namespace tenon::abi
