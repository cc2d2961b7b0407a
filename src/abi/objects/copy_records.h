// Copies as programs of the C ABI get them: a ledger that outlives sessions, because it has its texts itself.
#pragma once

#include <tenon/copy_ledger.h>

#include <memory>
#include <string>
#include <vector>

#include "base/guarded.h"

namespace tenon::abi {

// Threads: any.
class CopyRecords {
 public:
  struct Text {
    std::string name, from, to, reason;
    uint64_t bytes = 0;
    bool once = false;
  };
  void add(const CopyLedger& ledger);
  std::vector<Text> all() const { return *texts_.lock(); }
  void clear() { texts_.lock()->clear(); }

 private:
  Guarded<std::vector<Text>> texts_;
};

}  // namespace tenon::abi
