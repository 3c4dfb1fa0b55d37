#pragma once

#include <cstdint>
#include <expected>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "http/response.h"
#include "rooms/publication.h"

// The messages of docs/formats/rooms.md.
namespace sluice::rooms {

// A message of a client.
struct Command {
  enum class Kind : std::uint8_t { subscribe, unsubscribe, publish };
  Kind kind{};
  std::string room;  // the path as the client writes it; empty: the room at whose path it is connected
  std::string id;    // as JSON; empty: none
  std::optional<Position> position;
  std::string data;  // of publish: JSON
};

inline constexpr std::size_t longest_id = 64;  // bytes

// Reads messages. Keeps its memory from one to the next.
class CommandReader {
 public:
  CommandReader();
  CommandReader(const CommandReader&) = delete;
  ~CommandReader();
  // The error says what is wrong with the message.
  [[nodiscard]] std::expected<Command, std::string> read(std::string_view message);

 private:
  struct Parser;
  std::unique_ptr<Parser> parser_;
};

// `{"type":"publication",...,"data":` without the row and the last brace.
[[nodiscard]] std::string publication_head(std::string_view room, std::uint64_t offset);
// The messages of the server. `id`: of the command, as JSON; empty: none.
[[nodiscard]] std::string subscribed(std::string_view room, const Position& position, bool recovered,
                                     std::string_view id);
[[nodiscard]] std::string reset(std::string_view room, const Position& position, std::string_view reason);
[[nodiscard]] std::string unsubscribed(std::string_view room, int status, std::string_view detail, std::string_view id);
[[nodiscard]] std::string published(std::string_view room, int status, std::string_view id);
// `problem`: the members of the problem (RFC 9457) as JSON, with braces; empty: only the status is known.
// `retry_after`: seconds; empty: none.
[[nodiscard]] std::string refused(std::string_view room, int status, std::string_view problem,
                                  std::string_view retry_after, std::string_view id);
inline constexpr std::string_view ping = R"({"type":"ping"})";

// Events of a stream.
[[nodiscard]] std::string subscribed_event(std::string_view room, const Position& position, bool recovered);
[[nodiscard]] std::string reset_event(std::string_view room, const Position& position, std::string_view reason);
void append_event(Buffer& out, const Position& position, std::string_view data);

}  // namespace sluice::rooms
