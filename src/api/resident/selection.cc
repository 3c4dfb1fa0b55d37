#include "api/resident/selection.h"

#include <algorithm>
#include <bit>
#include <cstddef>
#include <span>
#include <utility>

namespace sluice::api::resident {
namespace {

class Bitmap {
 public:
  explicit Bitmap(std::uint32_t rows) : words_((std::size_t{rows} + 63) / 64) {}
  void set(std::uint32_t row) { words_[row / 64] |= std::uint64_t{1} << row % 64; }
  [[nodiscard]] bool has(std::uint32_t row) const { return (words_[row / 64] >> row % 64 & 1) != 0; }
  // Precondition: it has been made for so many rows.
  void invert(std::uint32_t rows) {
    for (std::uint64_t& word : words_) word = ~word;
    if (rows % 64 != 0) words_.back() &= (std::uint64_t{1} << rows % 64) - 1;
  }
  void append_to(std::vector<std::uint32_t>& rows) const {
    for (std::size_t i = 0; i < words_.size(); ++i) {
      for (std::uint64_t word = words_[i]; word != 0; word &= word - 1) {
        rows.push_back(static_cast<std::uint32_t>(i * 64 + static_cast<std::size_t>(std::countr_zero(word))));
      }
    }
  }

 private:
  std::vector<std::uint64_t> words_;
};

// An upper bound of how many rows meet the condition.
std::uint64_t count_of(const Table& table, const Condition& condition) {
  const Index* const index = condition.index;
  std::uint64_t sum = 0;
  switch (condition.kind) {
    case Condition::Kind::values:
      for (const std::uint32_t id : condition.values) sum += index->rows_of(id).size();
      if (condition.negated) return table.size() - index->nulls().size() - (index->type().is_single() ? sum : 0);
      return sum;
    case Condition::Kind::range:
    case Condition::Kind::like:
      return condition.negated ? table.size() - index->nulls().size() : index->count(condition.range);
    case Condition::Kind::null:
      return index->nulls().size();
    case Condition::Kind::all:
      sum = table.size();
      for (const Condition& part : condition.parts) sum = std::min(sum, count_of(table, part));
      return sum;
    case Condition::Kind::any:
      for (const Condition& part : condition.parts) sum += count_of(table, part);
      return std::min<std::uint64_t>(sum, table.size());
  }
  return sum;
}

Postings postings_of(const std::vector<std::uint32_t>& rows) {
  if (rows.empty()) return {};
  return {.rows = rows.data(), .count = static_cast<std::uint32_t>(rows.size()), .single = 0};
}

std::vector<std::uint32_t> rows_of(const Table& table, const Condition& condition, std::uint64_t count);

bool matches(const Condition& condition, std::uint32_t id) {
  return condition.pattern.matches(condition.index->value(id).bytes);
}

// Calls `each` with lists of the rows that meet the condition, or its opposite if it is negated. Each list is sorted.
template <class Each>
void each_list(const Table& table, const Condition& condition, Each each) {
  const Index* const index = condition.index;
  switch (condition.kind) {
    case Condition::Kind::values:
      for (const std::uint32_t id : condition.values) each(index->rows_of(id));
      break;
    case Condition::Kind::range:
      for (std::uint32_t rank = condition.range.first; rank < condition.range.last; ++rank) {
        each(index->rows_of_rank(rank));
      }
      break;
    case Condition::Kind::like:
      for (std::uint32_t rank = condition.range.first; rank < condition.range.last; ++rank) {
        const std::uint32_t id = index->id_of(rank);
        if (matches(condition, id)) each(index->rows_of(id));
      }
      break;
    case Condition::Kind::null:
      each(postings_of(index->nulls()));
      break;
    case Condition::Kind::all:
      break;  // never needed: see rows_of()
    case Condition::Kind::any:
      for (const Condition& part : condition.parts) {
        const std::vector<std::uint32_t> rows = rows_of(table, part, count_of(table, part));
        each(postings_of(rows));
      }
      break;
  }
}

std::vector<std::uint32_t> rows_of_all(const Table& table, std::span<const Condition> conditions);

// The condition's rows, sorted. `count`: their maximum number.
std::vector<std::uint32_t> rows_of(const Table& table, const Condition& condition, std::uint64_t count) {
  if (condition.kind == Condition::Kind::all) return rows_of_all(table, condition.parts);
  std::vector<std::uint32_t> rows;
  rows.reserve(std::min<std::uint64_t>(count, table.size()));
  if (condition.negated || count > table.size() / 32) {
    Bitmap bitmap(table.size());
    const auto set = [&](const Postings& postings) {
      for (const std::uint32_t row : postings) bitmap.set(row);
    };
    each_list(table, condition, set);
    if (condition.negated) {
      set(postings_of(condition.index->nulls()));
      bitmap.invert(table.size());
    }
    bitmap.append_to(rows);
    return rows;
  }
  std::size_t lists = 0;
  each_list(table, condition, [&](const Postings& postings) {
    rows.insert(rows.end(), postings.begin(), postings.end());
    ++lists;
  });
  if (lists > 1) {
    std::ranges::sort(rows);
    rows.erase(std::ranges::unique(rows).begin(), rows.end());  // an array may contain several of the values
  }
  return rows;
}

enum class Keep : std::uint8_t { listed, others };

// Removes from `rows` the rows that are not in `list`, or those that are. Both are sorted. Searches the list in
// doubling steps.
void filter(std::vector<std::uint32_t>& rows, const Postings& list, Keep which) {
  const std::uint32_t* at = list.begin();
  const std::uint32_t* const end = list.end();
  std::size_t kept = 0;
  for (const std::uint32_t row : rows) {
    std::ptrdiff_t step = 1;
    while (end - at > step && at[step] < row) step *= 2;
    at = std::lower_bound(at + std::min(step / 2, end - at), at + std::min(step + 1, end - at), row);
    if (at == end && which == Keep::listed) break;
    const bool is_listed = at != end && *at == row;
    if (is_listed == (which == Keep::listed)) rows[kept++] = row;
  }
  rows.resize(kept);
}

// Whether the lists of a condition with several values are searched for each row, instead of being joined.
bool searches_lists(const Condition& condition, std::uint64_t rows, std::uint64_t count) {
  constexpr std::uint64_t steps = 16;  // of a search, about
  return condition.kind == Condition::Kind::values && rows * condition.values.size() * steps < count;
}

// Whether the values that match are found first, instead of comparing the value of each row.
bool scans_values(const Condition& condition, std::uint64_t rows) {
  return condition.kind == Condition::Kind::like &&
         (!condition.index->type().is_single() || rows > condition.range.last - condition.range.first);
}

// For columns with at most one value in a row.
void keep_by_value(std::vector<std::uint32_t>& rows, const Condition& condition) {
  const Index& index = *condition.index;
  std::vector<std::uint32_t> ids = condition.values;
  std::ranges::sort(ids);
  const auto is_in_range = [&](std::uint32_t rank) {
    return rank >= condition.range.first && rank < condition.range.last;
  };
  const auto meets = [&](std::uint32_t row) {
    const std::uint32_t rank = index.rank_of_row(row);
    if (rank == index.values()) return condition.kind == Condition::Kind::null;
    switch (condition.kind) {
      case Condition::Kind::values:
        return std::ranges::binary_search(ids, index.id_of(rank)) != condition.negated;
      case Condition::Kind::range:
        return is_in_range(rank) != condition.negated;
      case Condition::Kind::like:
        return (is_in_range(rank) && matches(condition, index.id_of(rank))) != condition.negated;
      case Condition::Kind::null:
      case Condition::Kind::all:
      case Condition::Kind::any:
        break;
    }
    return false;
  };
  std::erase_if(rows, [&](std::uint32_t row) { return !meets(row); });
}

void keep(const Table& table, std::vector<std::uint32_t>& rows, const Condition& condition, std::uint64_t count);

void keep_any(const Table& table, std::vector<std::uint32_t>& rows, std::span<const Condition> parts) {
  std::vector<std::uint32_t> others = rows;
  for (const Condition& part : parts) {
    std::vector<std::uint32_t> met = others;
    keep(table, met, part, count_of(table, part));
    filter(others, postings_of(met), Keep::others);
  }
  filter(rows, postings_of(others), Keep::others);
}

void keep(const Table& table, std::vector<std::uint32_t>& rows, const Condition& condition, std::uint64_t count) {
  if (condition.kind == Condition::Kind::any) return keep_any(table, rows, condition.parts);
  if (condition.kind == Condition::Kind::all) {
    for (const Condition& part : condition.parts) keep(table, rows, part, count_of(table, part));
    return;
  }
  const Index& index = *condition.index;
  const bool has_one_value = condition.kind == Condition::Kind::values && condition.values.size() == 1;
  if (has_one_value && !condition.negated) {
    return filter(rows, index.rows_of(condition.values.front()), Keep::listed);
  }
  if (index.type().is_single() && !scans_values(condition, rows.size())) return keep_by_value(rows, condition);
  if (condition.negated) {
    Condition opposite = condition;
    opposite.negated = false;
    std::vector<std::uint32_t> others = rows;
    keep(table, others, opposite, count_of(table, opposite));
    filter(rows, postings_of(others), Keep::others);
    return filter(rows, postings_of(index.nulls()), Keep::others);
  }
  if (searches_lists(condition, rows.size(), count)) {
    std::erase_if(rows, [&](std::uint32_t row) {
      return std::ranges::none_of(condition.values, [&](std::uint32_t id) {
        const Postings list = index.rows_of(id);
        return std::binary_search(list.begin(), list.end(), row);
      });
    });
    return;
  }
  filter(rows, postings_of(rows_of(table, condition, count)), Keep::listed);
}

using Counted = std::pair<std::uint64_t, const Condition*>;

// The condition that fewest rows meet comes first.
std::vector<Counted> by_count(const Table& table, std::span<const Condition> conditions) {
  std::vector<Counted> counted;
  counted.reserve(conditions.size());
  for (const Condition& condition : conditions) counted.emplace_back(count_of(table, condition), &condition);
  std::ranges::sort(counted);
  return counted;
}

// The rows that meet all conditions, sorted. Precondition: there is one.
std::vector<std::uint32_t> rows_of_all(const Table& table, std::span<const Condition> conditions) {
  const std::vector<Counted> counted = by_count(table, conditions);
  std::vector<std::uint32_t> rows = rows_of(table, *counted.front().second, counted.front().first);
  for (std::size_t i = 1; i < counted.size() && !rows.empty(); ++i) {
    keep(table, rows, *counted[i].second, counted[i].first);
  }
  return rows;
}

// Walks the whole table in the order of one index, rank by rank.
std::vector<std::uint32_t> walk(const Table& table, const Order& order, std::uint64_t offset, std::uint64_t limit) {
  std::vector<std::uint32_t> rows;
  rows.reserve(std::min<std::uint64_t>(limit, table.size() - std::min<std::uint64_t>(offset, table.size())));
  const auto take = [&](const std::uint32_t* begin, const std::uint32_t* end) {
    for (; begin != end && rows.size() < limit; ++begin) {
      if (offset != 0) {
        --offset;
      } else {
        rows.push_back(*begin);
      }
    }
  };
  const auto nulls = [&] {
    const auto& list = order.index->nulls();
    take(list.data(), list.data() + list.size());
  };
  if (order.descending) nulls();
  const std::uint32_t count = order.index->values();
  for (std::uint32_t i = 0; i < count && rows.size() < limit; ++i) {
    const Postings postings = order.index->rows_of_rank(order.descending ? count - 1 - i : i);
    take(postings.begin(), postings.end());
  }
  if (!order.descending) nulls();
  return rows;
}

void sort(std::vector<std::uint32_t>& rows, const std::vector<Order>& order, std::uint64_t needed) {
  const auto sort_by = [&](auto less) {
    if (needed < rows.size() / 8) {
      std::ranges::partial_sort(rows, rows.begin() + static_cast<std::ptrdiff_t>(needed), less);
    } else {
      std::ranges::sort(rows, less);
    }
  };
  // Rows of equal rank keep the order of the table.
  sort_by([&](std::uint32_t a, std::uint32_t b) {
    for (const Order& one : order) {
      const std::uint32_t rank_a = one.index->rank_of_row(a);
      const std::uint32_t rank_b = one.index->rank_of_row(b);
      if (rank_a != rank_b) return one.descending ? rank_a > rank_b : rank_a < rank_b;
    }
    return a < b;
  });
}

void cut_out(Selection& selection, const Query& query) {
  auto& rows = selection.rows;
  const auto first = static_cast<std::ptrdiff_t>(std::min<std::uint64_t>(query.offset, rows.size()));
  rows.erase(rows.begin(), rows.begin() + first);
  if (rows.size() > query.limit) rows.resize(query.limit);
}

// Lists whose lengths are added up.
std::uint64_t lists_of(const Condition& condition) {
  std::uint64_t sum = condition.values.size() + condition.range.last - condition.range.first;
  for (const Condition& part : condition.parts) sum += lists_of(part);
  return sum;
}

std::uint64_t effort_to_find_all(const Table& table, std::span<const Condition> conditions);

// How many rows and values rows_of() looks at.
std::uint64_t effort_to_find(const Table& table, const Condition& condition, std::uint64_t count) {
  if (condition.kind == Condition::Kind::all) return effort_to_find_all(table, condition.parts);
  std::uint64_t effort = condition.negated ? table.size() : count;
  if (condition.kind == Condition::Kind::like) effort += condition.range.last - condition.range.first;
  for (const Condition& part : condition.parts) effort += effort_to_find(table, part, count_of(table, part));
  return effort;
}

// The same for keep(), with this number of rows.
std::uint64_t effort_to_keep(const Table& table, const Condition& condition, std::uint64_t rows, std::uint64_t count) {
  if (!condition.parts.empty()) {
    std::uint64_t effort = 0;
    for (const Condition& part : condition.parts) effort += effort_to_keep(table, part, rows, count_of(table, part));
    return effort;
  }
  if (scans_values(condition, rows)) return rows + effort_to_find(table, condition, count);
  const bool joins = !condition.index->type().is_single() && !searches_lists(condition, rows, count);
  return joins && condition.values.size() != 1 ? count : rows;
}

std::uint64_t effort_to_find_all(const Table& table, std::span<const Condition> conditions) {
  const std::vector<Counted> counted = by_count(table, conditions);
  const auto [least, first] = counted.front();
  std::uint64_t effort = effort_to_find(table, *first, least);
  for (const auto& [count, condition] : std::span(counted).subspan(1)) {
    effort += effort_to_keep(table, *condition, least, count);
  }
  return effort;
}

}  // namespace

Selection select(const Table& table, const Query& query) {
  Selection selection;
  if (query.conditions.empty()) {
    selection.total = table.size();
    if (query.order.empty()) {
      selection.is_range = true;
      selection.first = static_cast<std::uint32_t>(std::min<std::uint64_t>(query.offset, table.size()));
      selection.last = selection.first +
                       static_cast<std::uint32_t>(std::min<std::uint64_t>(query.limit, table.size() - selection.first));
      return selection;
    }
    if (query.order.size() == 1) {
      selection.rows = walk(table, query.order.front(), query.offset, query.limit);
      return selection;
    }
    selection.rows.resize(table.size());
    for (std::uint32_t row = 0; row < table.size(); ++row) selection.rows[row] = row;
  } else {
    selection.rows = rows_of_all(table, query.conditions);
    selection.total = selection.rows.size();
  }
  if (!query.order.empty()) {
    const std::uint64_t most = selection.rows.size();
    const std::uint64_t needed = query.limit > most ? most : std::min(most, query.offset + query.limit);
    sort(selection.rows, query.order, needed);
  }
  cut_out(selection, query);
  return selection;
}

std::uint64_t effort_of(const Table& table, const Query& query) {
  if (query.conditions.empty()) return query.order.empty() ? 0 : table.size();
  std::uint64_t lists = 0;
  for (const Condition& condition : query.conditions) lists += lists_of(condition);
  return lists / 8 + effort_to_find_all(table, query.conditions);
}

}  // namespace sluice::api::resident
