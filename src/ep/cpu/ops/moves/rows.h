// Data movement for every type with whole bytes: Transpose, Slice, Split, Concat, Expand, Gather, LookupOrDefault.
#pragma once

#include "ep/api/kernel.h"

namespace tenon::cpu::nn {

Status match_move(const KernelNode& node);  // plain layouts, output sizes known
Result<std::unique_ptr<Kernel>> create_transpose(const KernelNode& node);
Result<std::unique_ptr<Kernel>> create_expand(const KernelNode& node);
Result<std::unique_ptr<Kernel>> create_split(const KernelNode& node);
Result<std::unique_ptr<Kernel>> create_concat(const KernelNode& node);
Status match_slice(const KernelNode& node);  // constant bounds
Result<std::unique_ptr<Kernel>> create_slice(const KernelNode& node);
Status match_gather(const KernelNode& node);
Result<std::unique_ptr<Kernel>> create_gather(const KernelNode& node);
Result<std::unique_ptr<Kernel>> create_lookup_or_default(const KernelNode& node);

}  // namespace tenon::cpu::nn
