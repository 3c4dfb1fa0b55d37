#pragma once

#include <cstdint>
#include <string>
#include <string_view>

// How logs write what peers have sent.
namespace sluice::app {

// A JSON string, with its quotes: valid whatever bytes the text has, and in one line.
void append_log_string(std::string& out, std::string_view text);

// "2026-11-22T10:00:00.123Z"
void append_log_time(std::string& out, std::int64_t unix_ns);

}  // namespace sluice::app
