// Messages of rooms' clients, positions, and payloads of NOTIFY.

#include <cstdint>
#include <string>
#include <string_view>

#include "base/buffer.h"
#include "fuzzing.h"
#include "rooms/protocol.h"
#include "rooms/tables.h"

using namespace sluice::rooms;
using sluice::fuzz::require;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  CommandReader reader;
  if (const auto command = reader.read(text)) {
    // The id is JSON: a string has its quotes.
    require(command->id.size() <= longest_id + (command->id.starts_with('"') ? 2 : 0), "a long id");
    require((command->kind == Command::Kind::publish) == !command->data.empty(), "data without publish");
    // An answer is one JSON object again.
    CommandReader other;
    require(other.read(refused(command->room, 400, command->data, "7", command->id)).error() != "it is no JSON object",
            "the answer is no JSON");
  }
  if (const auto position = parse_id(text)) require(parse_id(id_of(*position)) == position, "another position");
  (void)parse_notice(text);
  sluice::Buffer out;
  append_event(out, {.epoch = 1, .offset = 2}, text);
  require(out.view().find("\n\n") == out.size() - 2, "an event within an event");
  return 0;
}
