#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace sluice::rooms {

// One room of a [[room]].
struct Name {
  std::string key;                  // in the table of counters: the values, joined by U+001F
  std::vector<std::string> values;  // of the path's parameters, in its order
  std::string path;                 // as messages name it: the values are escaped
};
using SharedName = std::shared_ptr<const Name>;

// A row that was committed. Immutable, shared by all cores.
class Publication {
 public:
  // `row`: a JSON object.
  Publication(std::string_view room, std::uint64_t at, std::string_view row);
  // The message for WebSockets.
  [[nodiscard]] std::string_view message() const { return message_; }
  // The row.
  [[nodiscard]] std::string_view data() const {
    return std::string_view(message_).substr(data_, message_.size() - data_ - 1);
  }
  [[nodiscard]] std::size_t bytes() const { return sizeof(Publication) + message_.capacity(); }

  const std::uint64_t offset;

 private:
  std::string message_;
  std::size_t data_ = 0;  // where the row begins in message_
};
using SharedPublication = std::shared_ptr<const Publication>;
using Publications = std::vector<SharedPublication>;

// A client has received everything up to this offset.
struct Position {
  bool operator==(const Position&) const = default;

  std::uint64_t epoch = 0;
  std::uint64_t offset = 0;
};
// "48151-12".
[[nodiscard]] std::string id_of(const Position& position);
[[nodiscard]] std::optional<Position> parse_id(std::string_view text);
// Decimal digits.
[[nodiscard]] std::optional<std::uint64_t> parse_number(std::string_view text);

struct KeepLimits {
  std::size_t count = 1000;
  std::size_t bytes = 256 << 10;
};

// The newest publications of a room.
//
//  from < offset of each kept publication <= last;  those after `from` are kept, unless their rows had been deleted
struct Kept {
  std::uint64_t epoch = 0;
  std::uint64_t from = 0;
  std::uint64_t last = 0;  // everything up to this offset has been read
  std::deque<SharedPublication> all;
  std::size_t bytes = 0;

  void begin(std::uint64_t of_epoch, std::uint64_t at);
  // Publications after `last`. `up_to`: the offset up to which everything has been read.
  void append(const Publications& added, std::uint64_t up_to);
  // Forgets the oldest ones above the limits, each times `factor`; the newest stays.
  void trim(const KeepLimits& limits, std::size_t factor = 1);
  // The first one after `offset`; null if it does not exist.
  [[nodiscard]] const SharedPublication* after(std::uint64_t offset) const;
  // Whether `position` can go on here.
  [[nodiscard]] bool covers(const Position& position) const {
    return position.epoch == epoch && position.offset >= from && position.offset <= last;
  }
  // Whether every publication after the offset is kept. Precondition: from <= offset <= last.
  [[nodiscard]] bool is_whole_after(std::uint64_t offset) const;
};

}  // namespace sluice::rooms
