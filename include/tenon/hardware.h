// Devices described as text, for options and command lines.
#pragma once

#include <string>

#include "tenon/ep.h"

namespace tenon {

// "type=cpu,vendor=0x8086,device=3,name=Intel". Only the type is required. For EpLibraryOptions::offer.
// Errors: kInvalidArgument names the text and the mistake.
TENON_API Result<HardwareDevice> parse_hardware_device(const std::string& text);

}  // namespace tenon
