// Symbol visibility: libtenon exports the declarations that are marked TENON_API, and hides all others.
#pragma once

#if __cplusplus < 202002L
#error "Tenon's C++ headers are C++20: compile with -std=c++20 or a newer standard (its C headers are C99)."
#endif

#define TENON_API [[gnu::visibility("default")]]
