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

std::uint64_t count_of(const Table& table, const Condition& condition) {
  switch (condition.kind) {
    case Condition::Kind::values: {
      std::uint64_t sum = 0;
      for (const std::uint32_t id : condition.values) sum += condition.index->rows_of(id).size();
      return sum;
    }
    case Condition::Kind::range:
      return condition.index->count(condition.range);
    case Condition::Kind::null:
      return condition.index->nulls().size();
    case Condition::Kind::not_null:
      return table.size() - condition.index->nulls().size();
  }
  return 0;
}

// Calls `each` with lists of the condition's rows. Each list is sorted.
template <class Each>
void each_list(const Condition& condition, Each each) {
  const auto all = [&](const std::vector<std::uint32_t>& rows) {
    each(Postings{.rows = rows.data(), .count = static_cast<std::uint32_t>(rows.size()), .single = 0});
  };
  switch (condition.kind) {
    case Condition::Kind::values:
      for (const std::uint32_t id : condition.values) each(condition.index->rows_of(id));
      break;
    case Condition::Kind::range:
      for (std::uint32_t rank = condition.range.first; rank < condition.range.last; ++rank) {
        each(condition.index->rows_of_rank(rank));
      }
      break;
    case Condition::Kind::null:
      if (!condition.index->nulls().empty()) all(condition.index->nulls());
      break;
    case Condition::Kind::not_null:
      break;  // never needed: see rows_of()
  }
}

// The condition's rows, sorted. `count`: their maximum number.
std::vector<std::uint32_t> rows_of(const Table& table, const Condition& condition, std::uint64_t count) {
  std::vector<std::uint32_t> rows;
  if (condition.kind == Condition::Kind::not_null) {
    rows.reserve(count);
    auto null = condition.index->nulls().begin();
    for (std::uint32_t row = 0; row < table.size(); ++row) {
      if (null != condition.index->nulls().end() && *null == row) {
        ++null;
      } else {
        rows.push_back(row);
      }
    }
    return rows;
  }
  std::size_t lists = 0;
  if (count > table.size() / 32) {
    Bitmap bitmap(table.size());
    each_list(condition, [&](const Postings& postings) {
      for (const std::uint32_t row : postings) bitmap.set(row);
    });
    rows.reserve(std::min<std::uint64_t>(count, table.size()));
    bitmap.append_to(rows);
    return rows;
  }
  rows.reserve(count);
  each_list(condition, [&](const Postings& postings) {
    rows.insert(rows.end(), postings.begin(), postings.end());
    ++lists;
  });
  if (lists > 1) {
    std::ranges::sort(rows);
    rows.erase(std::ranges::unique(rows).begin(), rows.end());  // an array may contain several of the values
  }
  return rows;
}

// Removes from `rows` the rows that are not in `list`. Both are sorted. Searches the longer one in doubling steps.
void intersect(std::vector<std::uint32_t>& rows, const Postings& list) {
  const std::uint32_t* at = list.begin();
  const std::uint32_t* const end = list.end();
  std::size_t kept = 0;
  for (const std::uint32_t row : rows) {
    std::ptrdiff_t step = 1;
    while (end - at > step && at[step] < row) step *= 2;
    at = std::lower_bound(at + std::min(step / 2, end - at), at + std::min(step + 1, end - at), row);
    if (at == end) break;
    if (*at == row) rows[kept++] = row;
  }
  rows.resize(kept);
}

// Whether the lists of a condition with several values are searched for each row, instead of being joined.
bool searches_lists(const Condition& condition, std::uint64_t rows, std::uint64_t count) {
  constexpr std::uint64_t steps = 16;  // of a search, about
  return condition.kind == Condition::Kind::values && rows * condition.values.size() * steps < count;
}

void keep(const Table& table, std::vector<std::uint32_t>& rows, const Condition& condition, std::uint64_t count) {
  const Index& index = *condition.index;
  const bool has_values = condition.kind == Condition::Kind::values;
  if (has_values && condition.values.size() == 1) return intersect(rows, index.rows_of(condition.values.front()));
  if (index.type().is_single()) {
    std::vector<std::uint32_t> ids = condition.values;
    std::ranges::sort(ids);
    const auto has = [&](std::uint32_t row) {
      if (has_values) return std::ranges::binary_search(ids, index.id_of_row(row));
      const std::uint32_t rank = index.rank_of_row(row);
      switch (condition.kind) {
        case Condition::Kind::range:
          return rank >= condition.range.first && rank < condition.range.last;
        case Condition::Kind::null:
          return rank == index.values();
        case Condition::Kind::not_null:
          return rank != index.values();
        case Condition::Kind::values:
          break;
      }
      return false;
    };
    std::erase_if(rows, [&](std::uint32_t row) { return !has(row); });
    return;
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
  const std::vector<std::uint32_t> others = rows_of(table, condition, count);
  intersect(rows, {.rows = others.data(), .count = static_cast<std::uint32_t>(others.size()), .single = 0});
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
    // Starts with the condition that matches the fewest rows.
    std::vector<std::pair<std::uint64_t, const Condition*>> conditions;
    for (const Condition& condition : query.conditions) conditions.emplace_back(count_of(table, condition), &condition);
    std::ranges::sort(conditions);
    selection.rows = rows_of(table, *conditions.front().second, conditions.front().first);
    for (std::size_t i = 1; i < conditions.size() && !selection.rows.empty(); ++i) {
      keep(table, selection.rows, *conditions[i].second, conditions[i].first);
    }
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
  std::vector<std::pair<std::uint64_t, const Condition*>> conditions;
  std::uint64_t counted = 0;  // lists whose lengths are added up
  for (const Condition& condition : query.conditions) {
    conditions.emplace_back(count_of(table, condition), &condition);
    counted += condition.values.size();
    if (condition.kind == Condition::Kind::range) counted += condition.range.last - condition.range.first;
  }
  std::ranges::sort(conditions);
  // The rows of the rarest condition, and the work of keep() for the others.
  const std::uint64_t least = conditions.front().first;
  std::uint64_t effort = counted / 8 + least;
  for (const auto& [count, condition] : std::span(conditions).subspan(1)) {
    const bool joins = !condition->index->type().is_single() && !searches_lists(*condition, least, count);
    effort += joins && condition->values.size() != 1 ? count : least;
  }
  return effort;
}

}  // namespace sluice::api::resident
