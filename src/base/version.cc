#include "base/version.h"

namespace tenon {

const char* project_version() { return TENON_VERSION_TEXT; }

}  // namespace tenon
