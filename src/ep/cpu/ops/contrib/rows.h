// The reference rows of operators of com.microsoft, by file.
#pragma once

#include <span>

#include "ep/api/kernel.h"

namespace tenon::cpu::ref {

std::span<const KernelEntry> expert_rows();
std::span<const KernelEntry> hash_rows();
std::span<const KernelEntry> decoding_rows();
std::span<const KernelEntry> search_rows();
std::span<const KernelEntry> token_rows();
std::span<const KernelEntry> tokenizer_rows();

}  // namespace tenon::cpu::ref
