#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "base/declare.h"
#include "base/time.h"

// How durations, sizes and names are written in the file, and what was meant by one that is not.
namespace sluice::app::config {

// "250ms", "10s", "1h30m": numbers with units, the larger unit first, each at most once. "0" needs none.
[[nodiscard]] std::optional<Duration> parse_duration(std::string_view text);
[[nodiscard]] std::string format_duration(Duration duration);

// "16KiB", "1MiB", "2GiB", "512B", "512".
[[nodiscard]] std::optional<ByteSize> parse_size(std::string_view text);
[[nodiscard]] std::string format_size(ByteSize size);

// The candidate that the text is most likely a slip of; empty where none is near.
[[nodiscard]] std::string_view nearest(std::string_view text, std::span<const std::string_view> candidates);

// `did you mean "cores"?`, or nothing where no candidate is near.
[[nodiscard]] std::string did_you_mean(std::string_view text, std::span<const std::string_view> candidates);

}  // namespace sluice::app::config
