#pragma once

#include <string_view>

namespace sluice {

// A line for the operator, on standard error. Who asks for errors chooses their rate, so each thread writes at most
// 20 lines a second and then says how many it kept back.
void log_error(std::string_view line);

}  // namespace sluice
