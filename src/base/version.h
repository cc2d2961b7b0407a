// The project's version, from project() in CMakeLists.txt.
#pragma once

namespace tenon {

// "MAJOR.MINOR.PATCH", for the library, the command-line tool and the plugins alike.
const char* project_version();

}  // namespace tenon
