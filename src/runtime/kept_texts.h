// Texts that live as long as a session: names in copy ledgers and plans.
#pragma once

#include <set>
#include <string>

#include "base/guarded.h"

namespace tenon {

// Threads: any.
class KeptTexts {
 public:
  // The same text, one copy of each, until this object ends.
  const char* keep(const std::string& text) { return texts_.lock()->insert(text).first->c_str(); }

 private:
  Guarded<std::set<std::string>> texts_;
};

}  // namespace tenon
