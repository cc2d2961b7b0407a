// A node that an OrtCustomOp runs, as a region of its EP.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "ep/host/plugin_regions.h"

namespace tenon::abi {

// The EP that the operator's kernel is for: "" for host memory (also where the operator names the CPU EP).
Result<std::string> custom_op_ep(const OrtCustomOp* op);

// Where the operator wants the node's input `index`; the default when it does not say.
Result<OrtMemType> custom_op_input_memory(const OrtCustomOp* op, size_t index);

// Creates the kernel. `spaces` is where the region's tensors are wanted; empty: all in plain host memory.
// Errors: a kernel that is null, or an operator that throws or fails, names operator and domain. `keep` is held as long
// as the kernel: what the operator is part of.
Result<std::shared_ptr<PluginRegion>> make_custom_op_region(const OrtCustomOp* op, const Region& region,
                                                            std::shared_ptr<const KernelHost> host, SpaceChoice spaces,
                                                            std::shared_ptr<const void> keep = nullptr);

}  // namespace tenon::abi
