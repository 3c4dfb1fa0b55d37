#include "api/changes/event.h"

#include <charconv>

#include "base/utf8.h"

namespace sluice::api::changes {
namespace {

constexpr std::string_view replacement = "\xEF\xBF\xBD";

// The size of the well-formed character at the beginning of the text; 0 if absent (Unicode, table 3-7).
std::size_t character_size(std::string_view text) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const auto follows = [&](std::size_t i, unsigned low = 0x80, unsigned high = 0xBF) {
    return i < text.size() && byte(i) >= low && byte(i) <= high;
  };
  const unsigned first = byte(0);
  if (first < 0x80) return 1;
  if (first >= 0xC2 && first <= 0xDF) return follows(1) ? 2 : 0;
  if (first >= 0xE0 && first <= 0xEF) {
    const unsigned low = first == 0xE0 ? 0xA0 : 0x80;
    const unsigned high = first == 0xED ? 0x9F : 0xBF;
    return follows(1, low, high) && follows(2) ? 3 : 0;
  }
  if (first >= 0xF0 && first <= 0xF4) {
    const unsigned low = first == 0xF0 ? 0x90 : 0x80;
    const unsigned high = first == 0xF4 ? 0x8F : 0xBF;
    return follows(1, low, high) && follows(2) && follows(3) ? 4 : 0;
  }
  return 0;
}

std::string valid_utf8(std::string_view text) {
  std::string valid;
  while (!text.empty()) {
    const std::size_t size = character_size(text);
    valid += size == 0 ? replacement : text.substr(0, size);
    text.remove_prefix(size == 0 ? 1 : size);
  }
  return valid;
}

void append_line(std::string& out, std::string_view field, std::string_view value) {
  out += field;
  out += ": ";  // one space, which clients remove
  out += value;
  out += '\n';
}

}  // namespace

std::string event_id(std::string_view boot, std::uint64_t number) {
  return std::string(boot) + '-' + std::to_string(number);
}

std::optional<std::uint64_t> number_of(std::string_view id, std::string_view boot) {
  if (!id.starts_with(boot) || id.size() <= boot.size() + 1 || id[boot.size()] != '-') return std::nullopt;
  id.remove_prefix(boot.size() + 1);
  std::uint64_t number = 0;
  const auto [end, error] = std::from_chars(id.data(), id.data() + id.size(), number);
  if (error != std::errc() || end != id.data() + id.size()) return std::nullopt;
  return number;
}

void append_event(std::string& out, std::string_view id, std::string_view name, std::string_view data) {
  std::string replaced;
  if (!is_utf8(data)) {
    replaced = valid_utf8(data);
    data = replaced;
  }
  append_line(out, "id", id);
  if (!name.empty()) append_line(out, "event", name);
  // Clients ignore an event without a data line.
  for (;;) {
    const std::size_t end = data.find_first_of("\r\n");
    append_line(out, "data", data.substr(0, end));
    if (end == data.npos) break;
    data.remove_prefix(end + (data.substr(end).starts_with("\r\n") ? 2 : 1));
  }
  out += '\n';
}

std::string reset_frame(std::string_view id, std::string_view reason) {
  std::string frame;
  append_event(frame, id, "reset", R"({"reason":")" + std::string(reason) + R"("})");
  return frame;
}

}  // namespace sluice::api::changes
