// Reading and calling the members of an OrtCustomOp, whose version stands where other structs have theirs.
#pragma once

#include <string>

#include "ep/host/plugin_member.h"

// TENON_CUSTOM_OP_MEMBER(op, GetName)
#define TENON_CUSTOM_OP_MEMBER(op, member) TENON_MEMBER_OF_(op, (op)->version, OrtCustomOp, member)

namespace tenon::abi {

Result<std::string> custom_op_name(const OrtCustomOp* op);

}  // namespace tenon::abi
