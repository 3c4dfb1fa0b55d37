// Any bytes as the payload of an event, and as the Last-Event-ID of a client that reconnects.
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "api/changes/event.h"
#include "fuzzing.h"

namespace {

using namespace sluice::api::changes;
using sluice::fuzz::require;

struct Heard {
  std::size_t events = 0;
  std::string id;
  std::string name;
  std::string data;
};

// Reads a stream whose lines all end with a line feed as the HTML standard has clients do (9.2.6).
Heard hear(std::string_view stream) {
  Heard heard;
  while (!stream.empty()) {
    const std::size_t end = stream.find('\n');
    require(end != stream.npos);
    const std::string_view line = stream.substr(0, end);
    stream.remove_prefix(end + 1);
    require(line.find('\r') == line.npos);
    if (line.empty()) {
      ++heard.events;
      continue;
    }
    const std::size_t colon = line.find(':');
    require(colon != line.npos && line.substr(colon).starts_with(": "));
    const std::string_view field = line.substr(0, colon);
    const std::string_view value = line.substr(colon + 2);
    if (field == "id") {
      heard.id = value;
    } else if (field == "event") {
      heard.name = value;
    } else {
      require(field == "data");
      heard.data += value;
      heard.data += '\n';
    }
  }
  require(heard.data.ends_with('\n'));
  heard.data.pop_back();
  return heard;
}

std::string with_line_feeds(std::string_view text) {
  std::string result;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '\r') {
      result += text[i];
    } else if (i + 1 == text.size() || text[i + 1] != '\n') {
      result += '\n';
    }
  }
  return result;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  std::string frame;
  append_event(frame, "boot-7", "reset", text);
  const Heard heard = hear(frame);
  require(heard.events == 1 && heard.id == "boot-7" && heard.name == "reset");
  // The data is valid UTF-8 with line feeds now, so formatting it again gives the same frame.
  std::string again;
  append_event(again, "boot-7", "reset", heard.data);
  require(again == frame);
  bool plain = true;
  for (const char c : text) plain = plain && static_cast<unsigned char>(c) < 0x80;
  if (plain) require(heard.data == with_line_feeds(text));

  if (const auto number = number_of(text, "b")) {
    require(text.starts_with("b-") && number_of(event_id("b", *number), "b") == number);
  }
  return 0;
}
