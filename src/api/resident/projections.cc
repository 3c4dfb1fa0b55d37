#include "api/resident/projections.h"

#include <algorithm>
#include <cstring>
#include <utility>
#include <vector>

#include <xxhash.h>

namespace sluice::api::resident {
namespace {

constexpr std::size_t block_bytes = 16 * 1024;
constexpr std::size_t most_entries = 64;
constexpr std::size_t most_left = 2;  // each takes up to half of the limit

bool is_objects(sql::Format format) { return format == sql::Format::json || format == sql::Format::ndjson; }

// The key of the cached rows. JSON and NDJSON share them.
std::string key_of(const RowWriter::Wanted& wanted) {
  std::string key(1, is_objects(wanted.format) ? 'o' : static_cast<char>('0' + static_cast<int>(wanted.format)));
  key += wanted.header == sql::Header::present || is_objects(wanted.format) ? 'h' : '-';
  for (const std::uint32_t field : wanted.fields) key += std::to_string(field) + ",";
  return key;
}

}  // namespace

// Encoded rows, which never move in memory.
class Projections::Rows {
 public:
  explicit Rows(std::shared_ptr<const void> tags) : tags_(std::move(tags)) {}

  // Returns an empty view if the row is not there.
  [[nodiscard]] std::string_view find(std::uint32_t row) const {
    if (places_.empty()) return {};
    const Place& place = places_[slot_of(row)];
    return {place.text, place.size};
  }
  // Precondition: the row is not there, and the text is not empty.
  std::string_view add(std::uint32_t row, std::string_view text) {
    if (room_ < text.size()) {
      room_ = std::max(block_bytes, text.size());
      blocks_.push_back(std::make_unique_for_overwrite<char[]>(room_));
      end_ = blocks_.back().get();
      kept_ += room_;
    }
    if (count_ * 3 >= places_.size() * 2) grow();
    std::memcpy(end_, text.data(), text.size());
    places_[slot_of(row)] = {.text = end_, .size = static_cast<std::uint32_t>(text.size()), .row = row};
    ++count_;
    const std::string_view kept(end_, text.size());
    end_ += text.size();
    room_ -= text.size();
    return kept;
  }
  [[nodiscard]] std::size_t memory() const { return kept_ + places_.size() * sizeof(Place); }

  std::string head{};  // the beginning of CSV and CSJ

 private:
  struct Place {
    const char* text = nullptr;  // null if the place is empty
    std::uint32_t size = 0;
    std::uint32_t row = 0;
  };

  // The place of the row, or the place to insert it.
  [[nodiscard]] std::size_t slot_of(std::uint32_t row) const {
    const std::size_t mask = places_.size() - 1;
    std::size_t slot = row * 0x9e3779b97f4a7c15U >> 32 & mask;
    while (places_[slot].text != nullptr && places_[slot].row != row) slot = (slot + 1) & mask;
    return slot;
  }
  void grow() {
    std::vector<Place> old(std::max<std::size_t>(places_.size() * 2, 256));
    old.swap(places_);
    for (const Place& place : old) {
      if (place.text != nullptr) places_[slot_of(place.row)] = place;
    }
  }

  const std::shared_ptr<const void> tags_;
  std::vector<Place> places_;  // linear probing; the size is a power of two
  std::size_t count_ = 0;
  std::vector<std::unique_ptr<char[]>> blocks_;
  std::size_t kept_ = 0;  // total size of the blocks
  std::size_t room_ = 0;  // free bytes in the last block
  char* end_ = nullptr;
};

Projections::~Projections() = default;

Projections::Rows* Projections::find(std::string_view key, const std::shared_ptr<const void>& tags) {
  const auto found = std::ranges::find(entries_, key, &Entry::key);
  if (found != entries_.end()) {
    entries_.splice(entries_.begin(), entries_, found);
  } else {
    const std::uint64_t hash = XXH3_64bits(key.data(), key.size());
    if (std::exchange(seen_[hash % seen_.size()], hash) != hash) return nullptr;
    entries_.push_front({.key = std::string(key), .rows = std::make_shared<Rows>(tags)});
  }
  Entry& entry = entries_.front();
  if (entry.rows->memory() > limit_ / 2) {
    leave(entry);
    entry.rows = std::make_shared<Rows>(tags);
  }
  return entry.rows.get();
}

// Removes the entry. Answers that are being sent keep its rows.
void Projections::leave(Entry& entry) {
  bytes_ -= entry.rows->memory();
  if (entry.rows.use_count() > 1) left_.push_back(entry.rows);
}

bool Projections::much_is_left() {
  std::erase_if(left_, [](const auto& rows) { return rows.expired(); });
  return left_.size() >= most_left;
}

void Projections::make_room() {
  while (bytes_ > limit_ || entries_.size() > most_entries) {
    leave(entries_.back());
    entries_.pop_back();
  }
}

std::optional<http::SharedSpans> Projections::answer(const std::shared_ptr<const void>& tags, const Table& table,
                                                     const Selection& selection, const RowWriter::Wanted& wanted,
                                                     std::size_t most_bytes) {
  if (limit_ == 0 || much_is_left()) return std::nullopt;
  Rows* const rows = find(key_of(wanted), tags);
  if (rows == nullptr) return std::nullopt;
  const bool objects = is_objects(wanted.format);
  const bool is_array = wanted.format == sql::Format::json;
  const std::size_t before = rows->memory();
  std::optional<RowWriter> writer;
  Buffer text;
  const auto make_writer = [&] {
    if (writer) return;
    RowWriter::Wanted its = wanted;
    if (objects) its.format = sql::Format::ndjson;
    writer.emplace(table, std::move(its));
  };
  if (!objects && rows->head.empty()) {
    make_writer();
    writer->begin(text);
    rows->head = text.view();
  }
  http::SharedSpans spans(entries_.front().rows, selection.size() + 2);
  spans.add(is_array ? "[" : std::string_view(rows->head));
  for (std::uint64_t i = 0; i < selection.size(); ++i) {
    const std::uint32_t row = selection.at(i);
    std::string_view kept = rows->find(row);
    if (kept.empty()) {
      make_writer();
      text.clear();
      if (objects) text.push_back(',');
      writer->row(row, text);
      kept = rows->add(row, text.view());
    }
    spans.add(objects && !(is_array && i != 0) ? kept.substr(1) : kept);
    if (spans.size() > most_bytes) break;
  }
  if (is_array) spans.add("]\n");
  bytes_ += rows->memory() - before;
  make_room();
  if (spans.size() > most_bytes) return std::nullopt;
  return spans;
}

void Projections::clear() {
  entries_.clear();
  bytes_ = 0;
}

}  // namespace sluice::api::resident
