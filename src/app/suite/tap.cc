#include "app/suite/tap.h"

#include <algorithm>

#include <fmt/format.h>

#include "base/buffer.h"
#include "base/json.h"

namespace sluice::app::suite {
namespace {

bool is_control(char c) { return (static_cast<unsigned char>(c) < 0x20 && c != '\n') || c == 0x7f; }

}  // namespace

std::string tap_description(std::string_view text) {
  std::string result;
  for (const char c : text) {
    if (c == '#' || c == '\\') result += '\\';
    result += is_control(c) || c == '\n' ? ' ' : c;
  }
  // A leading number would be read as the number of the test point.
  if (!result.empty() && result[0] >= '0' && result[0] <= '9') result.insert(0, "- ");
  return result;
}

std::string yaml_entry(std::string_view key, std::string_view value) {
  // A blank at the beginning of the first line would be read as indentation.
  const bool block = value.contains('\n') && std::ranges::none_of(value, is_control) && value[0] != ' ';
  if (!block) {
    Buffer escaped;
    append_json_escaped(escaped, value);
    return fmt::format("  {}: \"{}\"\n", key, escaped.view());
  }
  std::string result = fmt::format("  {}: |\n", key);
  while (value.ends_with('\n')) value.remove_suffix(1);
  for (;;) {
    const std::size_t end = std::min(value.find('\n'), value.size());
    result += "    ";  // also before empty lines: for prove, a line without it ends the block
    result += value.substr(0, end);
    result += '\n';
    if (end == value.size()) return result;
    value.remove_prefix(end + 1);
  }
}

Tap::Tap(std::FILE* out) : out_(out) { write("TAP version 13\n"); }

void Tap::ok(std::string_view name) { write(fmt::format("ok {} - {}\n", ++count_, tap_description(name))); }

void Tap::skip(std::string_view name, std::string_view why) {
  write(fmt::format("ok {} - {} # SKIP {}\n", ++count_, tap_description(name), why));
}

void Tap::not_ok(std::string_view name, const Details& details) {
  ++failed_;
  std::string text = fmt::format("not ok {} - {}\n  ---\n", ++count_, tap_description(name));
  for (const auto& [key, value] : details) text += yaml_entry(key, value);
  write(text + "  ...\n");
}

void Tap::comment(std::string_view text) {
  std::string lines;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    lines += "# ";
    lines += text.substr(0, end);
    lines += '\n';
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  write(lines);
}

void Tap::bail_out(std::string_view why) { write(fmt::format("Bail out! {}\n", tap_description(why))); }

void Tap::plan() { write(fmt::format("1..{}\n", count_)); }

void Tap::write(std::string_view text) {
  std::fwrite(text.data(), 1, text.size(), out_);
  std::fflush(out_);
}

}  // namespace sluice::app::suite
