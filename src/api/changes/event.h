#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

// Server-Sent Events of the HTML standard (9.2): one field per line, an empty line after each event, UTF-8.
namespace sluice::api::changes {

// One event as it is sent to all clients. Immutable, shared by all cores.
struct Event {
  std::uint64_t number = 0;  // 1, 2, 3 ... in one process
  bool gap = false;          // events may be missing before it, so clients need a reset
  std::string frame;
};

// "<boot>-<number>": `boot` distinguishes this process's numbers from those of other processes.
[[nodiscard]] std::string event_id(std::string_view boot, std::uint64_t number);
// Returns nullopt if the id is not from this boot.
[[nodiscard]] std::optional<std::uint64_t> number_of(std::string_view id, std::string_view boot);

// Appends one event. `name`: empty for a "message". Each line of the data, whatever its line end, becomes a data field
// of its own. Bytes that are not UTF-8 become U+FFFD. So nothing in the data can be mistaken for another field.
void append_event(std::string& out, std::string_view id, std::string_view name, std::string_view data);

// Tells the client to read the resource again.
[[nodiscard]] std::string reset_frame(std::string_view id, std::string_view reason);

}  // namespace sluice::api::changes
