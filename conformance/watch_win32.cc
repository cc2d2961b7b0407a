#include "conformance/watch.h"

namespace tenon::conformance {

Result<std::unique_ptr<Watch>> Watch::create(const std::string&) {
  return unsupported("Host objects are not counted on this system.");
}

std::vector<Watch::LiveObjects> Watch::live() const { return {}; }

OrtEpFactory* Watch::factory(const std::string&) const { return nullptr; }

}  // namespace tenon::conformance
