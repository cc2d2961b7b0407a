// Hints for loops over elements.
#pragma once

// Before a loop whose output is one of its inputs at the same index, or none of them: the compiler then needs no check
// for overlap, which would send work in place down the scalar path. Clang has no form of it that may be refused.
#if defined(__GNUC__) && !defined(__clang__)
#define TENON_INDEPENDENT_LOOP _Pragma("GCC ivdep")
#else
#define TENON_INDEPENDENT_LOOP
#endif
