#include "app/import/checkpoint.h"

#include <cerrno>
#include <charconv>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <iterator>

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

namespace sluice::app::import {
namespace {

constexpr std::string_view first_line = "sluice-import 1";

std::optional<std::uint64_t> take_number(std::string_view& text, std::string_view name, int base) {
  if (!text.starts_with(name)) return std::nullopt;
  text.remove_prefix(name.size());
  std::uint64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number, base);
  if (error != std::errc{} || end == text.data() + text.size() || *end != '\n') return std::nullopt;
  text.remove_prefix(static_cast<std::size_t>(end - text.data()) + 1);
  return number;
}

}  // namespace

void RowsHash::add(std::string_view bytes) {
  for (const char c : bytes) state_ = (state_ ^ static_cast<unsigned char>(c)) * 0x100000001B3U;
}

void RowsHash::add(std::span<const sql::StagedValue> values) {
  for (const sql::StagedValue& value : values) {
    // NULL, a left-out value, and texts of different lengths must hash differently.
    const std::uint64_t size = value.left_out ? UINT64_MAX : value.text ? value.text->size() : UINT64_MAX - 1;
    add({reinterpret_cast<const char*>(&size), sizeof size});
    if (value.text) add(*value.text);
  }
}

std::string Checkpoint::text() const {
  return fmt::format("{}\ntarget {}\nrows {}\nhash {:x}\n", first_line, target, rows, hash);
}

std::optional<Checkpoint> Checkpoint::parse(std::string_view text) {
  Checkpoint found;
  constexpr std::string_view target_name = "target ";
  const auto take_line = [&]() -> std::optional<std::string_view> {
    const auto end = text.find('\n');
    if (end == text.npos) return std::nullopt;
    const std::string_view line = text.substr(0, end);
    text.remove_prefix(end + 1);
    return line;
  };
  if (take_line() != first_line) return std::nullopt;
  const auto target = take_line();
  if (!target || !target->starts_with(target_name)) return std::nullopt;
  found.target = target->substr(target_name.size());
  const auto rows = take_number(text, "rows ", 10);
  const auto hash = rows ? take_number(text, "hash ", 16) : std::nullopt;
  if (!hash || !text.empty()) return std::nullopt;
  found.rows = *rows;
  found.hash = *hash;
  return found;
}

std::expected<std::optional<Checkpoint>, std::string> Checkpoint::load(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) {
    if (errno == ENOENT) return std::nullopt;
    return std::unexpected(fmt::format("{}: {}", path, std::strerror(errno)));
  }
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  auto found = parse(text);
  if (!found) return std::unexpected(path + ": it is not the state of an import; remove it, or say --restart");
  return found;
}

std::expected<void, std::string> Checkpoint::save(const std::string& path) const {
  const std::string fresh = path + ".new";
  const auto failed = [&] {
    std::string why = fmt::format("{}: {}", fresh, std::strerror(errno));
    ::unlink(fresh.c_str());
    return std::unexpected(std::move(why));
  };
  const int file = ::open(fresh.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  if (file < 0) return failed();
  const std::string bytes = text();
  const bool written =
      ::write(file, bytes.data(), bytes.size()) == static_cast<ssize_t>(bytes.size()) && ::fdatasync(file) == 0;
  if (::close(file) != 0 || !written || std::rename(fresh.c_str(), path.c_str()) != 0) return failed();
  return {};
}

}  // namespace sluice::app::import
