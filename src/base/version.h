// The project's version, which CMakeLists.txt states once: everything else derives its number from there.
#pragma once

namespace tenon {

// "MAJOR.MINOR.PATCH", for the library, the command-line tool and the plugins alike.
const char* project_version();

}  // namespace tenon
