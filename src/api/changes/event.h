#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

// Server-Sent Events, as the HTML standard has them (9.2): fields in lines, an empty line behind each event, UTF-8.
namespace sluice::api::changes {

// One event as it goes out to everybody. Immutable, shared by all cores.
struct Event {
  std::uint64_t number = 0;  // 1, 2, 3 ... in one process
  bool gap = false;          // before it something may be missing: it is a reset
  std::string frame;
};

// "<boot>-<number>": `boot` tells the numbers of this process from those of others.
[[nodiscard]] std::string event_id(std::string_view boot, std::uint64_t number);
// Nothing: it is none of this boot.
[[nodiscard]] std::optional<std::uint64_t> number_of(std::string_view id, std::string_view boot);

// Appends one event. `name`: empty for a "message". Every line of the data, however it ends, becomes a line of its own,
// and what is not UTF-8 becomes U+FFFD: nothing that the data holds can be taken for a field.
void append_event(std::string& out, std::string_view id, std::string_view name, std::string_view data);

// The client is to read the resource anew.
[[nodiscard]] std::string reset_frame(std::string_view id, std::string_view reason);

}  // namespace sluice::api::changes
