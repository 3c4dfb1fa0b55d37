#pragma once

#include <string_view>

namespace sluice {

// Of the build: cmake/version.cmake writes their definitions. The program's version is the project's in CMakeLists.txt.
extern const std::string_view version;   // 0.2.0
extern const std::string_view commit;    // the first 12 digits, with -dirty if files had changed; empty outside of a repository
extern const std::string_view compiler;  // its name and version

}  // namespace sluice
