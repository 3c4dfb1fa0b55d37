#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "base/declare.h"
#include "base/time.h"

// The syntax of durations, sizes, strings and names in the file, and suggestions for misspelled names.
namespace sluice::app::config {

// "250ms", "10s", "1h30m": numbers with units, larger units first, each unit at most once. "0" needs no unit.
[[nodiscard]] std::optional<Duration> parse_duration(std::string_view text);
[[nodiscard]] std::string format_duration(Duration duration);

// "16KiB", "1MiB", "2GiB", "512B", "512".
[[nodiscard]] std::optional<ByteSize> parse_size(std::string_view text);
[[nodiscard]] std::string format_size(ByteSize size);

// Quotes a string of TOML. Precondition: the text has no control characters.
[[nodiscard]] std::string quote(std::string_view text);

// The candidate that the text is most likely a misspelling of; empty if none is similar.
[[nodiscard]] std::string_view nearest(std::string_view text, std::span<const std::string_view> candidates);

// `did you mean "cores"?`; empty if no candidate is similar.
[[nodiscard]] std::string did_you_mean(std::string_view text, std::span<const std::string_view> candidates);

}  // namespace sluice::app::config
