# cmake -D SOURCE=folder -D VERSION=0.2.0 -D OUT=file -P version.cmake
#
# Writes the source that defines what base/version.h declares. It is written only if it changes, so a build without a new
# commit compiles nothing.
set(commit "")
execute_process(COMMAND git -C ${SOURCE} describe --always --dirty --abbrev=12 --exclude=* OUTPUT_VARIABLE commit
                OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
file(CONFIGURE OUTPUT ${OUT} @ONLY CONTENT [[
#include "base/version.h"

namespace sluice {

const std::string_view version = "@VERSION@";
const std::string_view commit = "@commit@";
const std::string_view compiler = __VERSION__;

}  // namespace sluice
]])
