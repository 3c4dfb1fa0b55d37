#pragma once

#include <cstdint>
#include <string>
#include <string_view>

// How logs write text that peers have sent.
namespace sluice::app {

// Appends a JSON string with its quotes, on one line. It is valid JSON whatever bytes the text has.
void append_log_string(std::string& out, std::string_view text);

// "2026-11-22T10:00:00.123Z"
void append_log_time(std::string& out, std::int64_t unix_ns);

}  // namespace sluice::app
