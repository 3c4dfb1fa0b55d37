#include "rooms/publication.h"

#include <algorithm>
#include <charconv>

#include "rooms/protocol.h"

namespace sluice::rooms {

Publication::Publication(std::string_view room, std::uint64_t at, std::string_view row) : offset(at) {
  message_ = publication_head(room, at);
  data_ = message_.size();
  message_.append(row).push_back('}');
  message_.shrink_to_fit();
}

std::string id_of(const Position& position) {
  return std::to_string(position.epoch) + '-' + std::to_string(position.offset);
}

std::optional<std::uint64_t> parse_number(std::string_view text) {
  std::uint64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return number;
}

std::optional<Position> parse_id(std::string_view text) {
  const std::size_t dash = text.find('-');
  if (dash == text.npos) return std::nullopt;
  const auto epoch = parse_number(text.substr(0, dash));
  const auto offset = parse_number(text.substr(dash + 1));
  if (!epoch || !offset) return std::nullopt;
  return Position{.epoch = *epoch, .offset = *offset};
}

void Kept::begin(std::uint64_t of_epoch, std::uint64_t at) {
  epoch = of_epoch;
  from = last = at;
  all.clear();
  bytes = 0;
}

void Kept::append(const Publications& added, std::uint64_t up_to) {
  for (const SharedPublication& one : added) {
    all.push_back(one);
    bytes += one->bytes();
  }
  last = std::max(last, up_to);
}

void Kept::trim(const KeepLimits& limits, std::size_t factor) {
  while (all.size() > 1 && (all.size() > limits.count * factor || bytes > limits.bytes * factor)) {
    from = all.front()->offset;
    bytes -= all.front()->bytes();
    all.pop_front();
  }
}

const SharedPublication* Kept::after(std::uint64_t offset) const {
  if (all.empty() || all.back()->offset <= offset) return nullptr;
  const auto next = std::ranges::upper_bound(all, offset, {}, [](const SharedPublication& one) { return one->offset; });
  return &*next;
}

bool Kept::is_whole_after(std::uint64_t offset) const {
  const auto next = std::ranges::upper_bound(all, offset, {}, [](const SharedPublication& one) { return one->offset; });
  return static_cast<std::uint64_t>(all.end() - next) == last - offset;
}

}  // namespace sluice::rooms
