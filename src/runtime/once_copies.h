// Copies that a session makes once: constants that go to an EP's memory, at load or when a plan first needs them there.
#pragma once

#include <span>

#include <tenon/copy_ledger.h>

#include "base/guarded.h"

namespace tenon {

// Each copy is listed once, in the ledger of the next run that has one. Threads: any, once the session is loaded.
class OnceCopies {
 public:
  // At load.
  void add_at_load(CopyRecord record) {
    record.once = true;
    at_load_.records.push_back(record);
    pending_.lock()->records.push_back(record);
  }
  void add(std::span<const CopyRecord> records) {
    auto pending = pending_.lock();
    for (CopyRecord record : records) {
      record.once = true;
      pending->records.push_back(record);
    }
  }
  const CopyLedger& at_load() const { return at_load_; }
  // Moves those that no ledger has yet to the end of `ledger`.
  void take(CopyLedger& ledger) {
    auto pending = pending_.lock();
    ledger.records.insert(ledger.records.end(), pending->records.begin(), pending->records.end());
    pending->records.clear();
  }

 private:
  CopyLedger at_load_;
  Guarded<CopyLedger> pending_;
};

}  // namespace tenon
