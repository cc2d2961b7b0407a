// Lower and upper case of UTF-8 text.
#pragma once

#include <string>
#include <string_view>

#include "ops/text.h"

namespace tenon::cpu::ref {

// Each code point becomes its lower or upper case one, as far as the C library's table of Unicode has it; without that
// table only those of ASCII. Bytes that are no UTF-8 stay. `result` is written over; its memory is used again.
void change_case(std::string_view text, CaseChange change, std::string& result);

}  // namespace tenon::cpu::ref
