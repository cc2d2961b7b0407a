#include "abi/objects/copy_records.h"

namespace tenon::abi {

void CopyRecords::add(const CopyLedger& ledger) {
  if (ledger.records.empty()) return;
  auto texts = texts_.lock();
  for (const CopyRecord& record : ledger.records) {
    texts->push_back({.name = record.what,
                      .from = record.source.to_string(),
                      .to = record.target.to_string(),
                      .reason = std::string(copy_reason_name(record.reason)),
                      .bytes = record.bytes,
                      .once = record.once});
  }
}

}  // namespace tenon::abi
