#include <algorithm>
#include <utility>
#include <vector>

#include "api/resident/index.h"
#include "base/assert.h"

namespace sluice::api::resident {
namespace {

bool less(bool fixed, const Key& a, const Key& b) { return fixed ? a.number < b.number : a.bytes < b.bytes; }

}  // namespace

// The values and the rows of both indexes are sorted, so merging them needs no sorting. Only the hash table is rebuilt.
std::unique_ptr<Index> Index::merged(const Index& old, std::span<const std::uint32_t> old_places, const Index& other,
                                     std::span<const std::uint32_t> other_places, std::uint32_t rows) {
  const bool fixed = is_fixed(old.type_.kind);
  auto made = std::make_unique<Index>(old.type_);
  made->row_ = rows;
  std::vector<Key> keys;  // by rank
  keys.reserve(old.values());
  std::vector<std::uint32_t>& starts = made->starts_;
  std::vector<std::uint32_t>& found = made->rows_;
  starts.reserve(std::size_t{old.values()} + other.values() + 1);
  found.reserve(std::max<std::size_t>(rows, old.rows_.size() + other.rows_.size()));
  const auto take = [&](const Postings& from, std::span<const std::uint32_t> places, std::vector<std::uint32_t>& to) {
    for (const std::uint32_t row : from) {
      if (places[row] != Dictionary::none) to.push_back(places[row]);
    }
  };
  std::vector<std::uint32_t> its_rows;
  std::uint32_t mine = 0;
  std::uint32_t its = 0;
  while (mine < old.values() || its < other.values()) {
    const bool has_mine = mine < old.values();
    const bool has_its = its < other.values();
    const Key key = has_mine ? old.values_.at(old.id_of(mine)) : Key{};
    const Key other_key = has_its ? other.values_.at(other.id_of(its)) : Key{};
    const bool takes_mine = has_mine && (!has_its || !less(fixed, other_key, key));
    const bool takes_its = has_its && (!has_mine || !less(fixed, key, other_key));
    const std::size_t begin = found.size();
    if (takes_mine) take(old.rows_of_rank(mine++), old_places, found);
    if (takes_its) {
      its_rows.clear();
      take(other.rows_of_rank(its++), other_places, its_rows);
      std::ranges::sort(its_rows);
      // Merges from the end, where there is room.
      std::size_t from = found.size();
      std::size_t left = its_rows.size();
      found.resize(from + left);
      for (std::size_t to = found.size(); left != 0;) {
        found[--to] = from > begin && found[from - 1] > its_rows[left - 1] ? found[--from] : its_rows[--left];
      }
    }
    if (found.size() == begin) continue;  // no remaining row has the value
    keys.push_back(takes_mine ? key : other_key);
    starts.push_back(static_cast<std::uint32_t>(begin));
  }
  starts.push_back(static_cast<std::uint32_t>(found.size()));
  take({.rows = old.nulls_.data(), .count = static_cast<std::uint32_t>(old.nulls_.size())}, old_places, made->nulls_);
  take({.rows = other.nulls_.data(), .count = static_cast<std::uint32_t>(other.nulls_.size())}, other_places,
       made->nulls_);
  std::ranges::sort(made->nulls_);
  made->nulls_.shrink_to_fit();

  made->unique_ = keys.size() == rows && found.size() == rows && made->nulls_.empty();
  if (made->unique_ && !old.type_.is_single()) {
    // With arrays, one row may have two values and another none.
    std::vector<bool> seen(rows);
    for (const std::uint32_t row : found) seen[row] = true;
    made->unique_ = std::ranges::find(seen, false) == seen.end();
  }
  if (made->unique_) {
    // The id of a value is its row.
    std::vector<Key> by_row(rows);
    for (std::uint32_t rank = 0; rank < rows; ++rank) by_row[found[rank]] = keys[rank];
    keys = std::move(by_row);
    made->order_ = std::move(found);
    starts = std::vector<std::uint32_t>();
    found = std::vector<std::uint32_t>();
  }
  if (!made->values_.fill(keys)) return nullptr;
  starts.shrink_to_fit();
  found.shrink_to_fit();
  made->order_.shrink_to_fit();
  made->rank_rows(std::ranges::is_sorted(made->order_));
  return made;
}

}  // namespace sluice::api::resident
