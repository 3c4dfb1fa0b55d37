#include "api/resident/query.h"

#include <algorithm>
#include <bit>
#include <charconv>
#include <optional>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "api/query_string.h"

namespace sluice::api::resident {
namespace {

constexpr std::size_t most_echoed = 64;  // bytes of a parameter's name in an answer

struct Operator {
  std::string_view name;
  enum class Kind : std::uint8_t { eq, in, gt, gte, lt, lte, is } kind;
};
constexpr Operator operators[] = {
    {"eq", Operator::Kind::eq}, {"in", Operator::Kind::in},   {"gt", Operator::Kind::gt}, {"gte", Operator::Kind::gte},
    {"lt", Operator::Kind::lt}, {"lte", Operator::Kind::lte}, {"is", Operator::Kind::is}};

// The operator that the text begins with, which is taken off; equality where there is none.
Operator::Kind take_operator(std::string_view& text) {
  const std::size_t dot = text.find('.');
  if (dot == text.npos || dot > 3) return Operator::Kind::eq;
  for (const Operator& one : operators) {
    if (text.substr(0, dot) != one.name) continue;
    text.remove_prefix(dot + 1);
    return one.kind;
  }
  return Operator::Kind::eq;
}

bool is_range(Operator::Kind kind) { return kind >= Operator::Kind::gt && kind <= Operator::Kind::lte; }

class Parser {
 public:
  Parser(const Table& table, std::string_view query) : table_(table), text_(query) {}

  std::expected<Query, Refused> run() {
    while (!text_.empty()) {
      const std::size_t end = std::min(text_.find('&'), text_.size());
      std::string_view pair = text_.substr(0, end);
      text_.remove_prefix(std::min(end + 1, text_.size()));
      if (pair.empty()) continue;
      const std::size_t equals = pair.find('=');
      if (!decode(pair.substr(0, equals), name_)) {
        return refuse(std::string(pair.substr(0, std::min(equals, most_echoed))), "its name has a broken escape");
      }
      if (equals == pair.npos) return refuse(name_, "it has no value");
      if (!decode(pair.substr(equals + 1), value_)) return refuse(name_, "its value has a broken escape");
      if (!take()) return std::unexpected(std::move(*refused_));
    }
    return std::move(query_);
  }

 private:
  std::unexpected<Refused> refuse(std::string parameter, std::string detail) {
    if (parameter.size() > most_echoed) parameter.resize(most_echoed);
    return std::unexpected(Refused{.parameter = std::move(parameter), .detail = std::move(detail)});
  }
  bool fail(std::string detail) {
    refused_ = refuse(name_, std::move(detail)).error();
    return false;
  }

  static bool decode(std::string_view raw, std::string& out) {
    out.clear();
    return append_decoded(raw, out);
  }

  bool take() {
    if (name_ == "limit") return take_count(query_.limit);
    if (name_ == "offset") return take_count(query_.offset);
    if (name_ == "sort") return take_sort();
    if (name_ == "fields") return take_fields();
    return take_condition();
  }

  // Those that rows can be found by.
  template <class Is>
  std::string columns_that(Is is) const {
    std::vector<std::string_view> names;
    for (std::size_t i = 0; i < table_.columns().size(); ++i) {
      if (is(i)) names.push_back(table_.columns()[i].name);
    }
    return names.empty() ? "none" : fmt::format("{}", fmt::join(names, ", "));
  }
  std::string indexed() const {
    return columns_that([&](std::size_t i) { return table_.index_of(i) != nullptr; });
  }
  std::string sortable() const {
    return columns_that([&](std::size_t i) { return table_.index_of(i) && table_.index_of(i)->type().orders(); });
  }

  bool take_count(std::uint64_t& count) {
    const char* const end = value_.data() + value_.size();
    const auto [stop, error] = std::from_chars(value_.data(), end, count);
    if (error == std::errc{} && stop == end && !value_.empty()) return true;
    return fail("a whole number from 0 on is possible");
  }

  bool take_sort() {
    std::string_view rest = value_;
    while (!rest.empty()) {
      const std::size_t comma = std::min(rest.find(','), rest.size());
      std::string_view name = rest.substr(0, comma);
      rest.remove_prefix(std::min(comma + 1, rest.size()));
      Order order;
      order.descending = name.starts_with('-');
      if (order.descending) name.remove_prefix(1);
      const auto column = table_.find_column(name);
      order.index = column ? table_.index_of(*column) : nullptr;
      if (order.index == nullptr || !order.index->type().orders()) {
        return fail(fmt::format("{}; sorted can be by: {}",
                                !column ? fmt::format("there is no field \"{}\"", name.substr(0, most_echoed))
                                        : fmt::format("\"{}\" cannot be sorted by", name),
                                sortable()));
      }
      if (std::ranges::find(query_.order, order.index, &Order::index) != query_.order.end()) {
        return fail(fmt::format("\"{}\" comes twice", name));
      }
      query_.order.push_back(order);
    }
    if (query_.order.empty()) return fail("it names no field; sorted can be by: " + sortable());
    return true;
  }

  bool take_fields() {
    std::string_view rest = value_;
    while (!rest.empty()) {
      const std::size_t comma = std::min(rest.find(','), rest.size());
      const std::string_view name = rest.substr(0, comma);
      rest.remove_prefix(std::min(comma + 1, rest.size()));
      const auto column = table_.find_column(name);
      if (!column) {
        return fail(fmt::format("there is no field \"{}\"; there are: {}", name.substr(0, most_echoed),
                                columns_that([](std::size_t) { return true; })));
      }
      const auto index = static_cast<std::uint32_t>(*column);
      if (std::ranges::find(query_.fields, index) != query_.fields.end()) {
        return fail(fmt::format("\"{}\" comes twice", name));
      }
      query_.fields.push_back(index);
    }
    if (query_.fields.empty()) {
      return fail("it names no field; there are: " + columns_that([](std::size_t) { return true; }));
    }
    return true;
  }

  bool take_condition() {
    const auto column = table_.find_column(name_);
    const Index* const index = column ? table_.index_of(*column) : nullptr;
    if (index == nullptr) {
      return fail(fmt::format("{}; possible are: {}, sort, limit, offset, fields",
                              column ? "rows are not found by this field" : "there is no such parameter", indexed()));
    }
    if (query_.conditions.size() == most_conditions) return fail("there are too many conditions");
    Condition condition{.index = index, .kind = Condition::Kind::values, .values = {}, .range = {}};
    std::string_view text = value_;
    const Operator::Kind kind = take_operator(text);
    if (kind == Operator::Kind::is) {
      if (text != "null" && text != "not_null") return fail("possible are: is.null, is.not_null");
      condition.kind = text == "null" ? Condition::Kind::null : Condition::Kind::not_null;
    } else if (kind == Operator::Kind::in) {
      if (!take_list(*index, text, condition)) return false;
    } else if (is_range(kind)) {
      if (!index->type().orders()) return fail("a field of several values has no order; possible are: eq, in, is");
      Key key;
      if (!key_of(*index, text, key)) return false;
      condition.kind = Condition::Kind::range;
      const bool above = kind == Operator::Kind::gt || kind == Operator::Kind::lte;
      const std::uint32_t rank = index->rank(key, above);
      const bool upwards = kind == Operator::Kind::gt || kind == Operator::Kind::gte;
      condition.range = upwards ? Index::Range{rank, index->values()} : Index::Range{0, rank};
    } else {
      if (!add_value(*index, text, condition)) return false;
    }
    query_.conditions.push_back(std::move(condition));
    return true;
  }

  bool key_of(const Index& index, std::string_view text, Key& key) {
    if (index.type().padded) text = text.substr(0, text.find_last_not_of(' ') + 1);
    const Kind kind = index.type().numeric ? Kind::number : index.type().kind;
    if (make_key(kind, text, scratch_, key) &&
        (!index.type().numeric || make_key(index.type().kind, text, scratch_, key))) {
      return true;
    }
    return fail(fmt::format("{} is possible, also behind eq., in.(), gt., gte., lt., lte.; or is.null, is.not_null",
                            describe(kind)));
  }

  bool add_value(const Index& index, std::string_view text, Condition& condition) {
    Key key;
    if (!key_of(index, text, key)) return false;
    const std::uint32_t id = index.find(key);
    if (id != Dictionary::none && std::ranges::find(condition.values, id) == condition.values.end()) {
      condition.values.push_back(id);
    }
    return true;
  }

  // `(1,2,"a,b")`; within quotes a backslash stands before a quote or a backslash.
  bool take_list(const Index& index, std::string_view text, Condition& condition) {
    if (!text.starts_with('(') || !text.ends_with(')') || text.size() < 2) return fail("a list is written in.(1,2,3)");
    text = text.substr(1, text.size() - 2);
    std::string item;
    for (std::size_t count = 0; !text.empty(); ++count) {
      if (count == most_values) return fail(fmt::format("a list of up to {} values is possible", most_values));
      item.clear();
      std::size_t at = 0;
      if (text.front() == '"') {
        for (at = 1; at < text.size() && text[at] != '"'; ++at) {
          if (text[at] == '\\' && at + 1 < text.size()) ++at;
          item.push_back(text[at]);
        }
        if (at++ >= text.size() || (at < text.size() && text[at] != ','))
          return fail("a quote of the list does not end");
      } else {
        at = std::min(text.find(','), text.size());
        item = text.substr(0, at);
      }
      if (!add_value(index, item, condition)) return false;
      if (at + 1 == text.size()) return fail("the list ends with a comma");
      text.remove_prefix(std::min(at + 1, text.size()));
    }
    return true;
  }

  const Table& table_;
  std::string_view text_;
  std::string name_;
  std::string value_;
  std::string scratch_;
  Query query_;
  std::optional<Refused> refused_;
};

// ---- Selection ----

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

// Calls `each` with the condition's rows, list by list; a list is in order.
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
      break;  // never asked for: see rows_of()
  }
}

// The condition's rows in order. `count`: how many there are at most.
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
    rows.erase(std::ranges::unique(rows).begin(), rows.end());  // an array may hold several of the values
  }
  return rows;
}

// Keeps those of `rows` that are in `list` too; both are in order. The longer one is searched ahead in doubling steps.
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

void keep(const Table& table, std::vector<std::uint32_t>& rows, const Condition& condition, std::uint64_t count) {
  const Index& index = *condition.index;
  if (index.type().orders()) {
    const auto has = [&](std::uint32_t row) {
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
    if (condition.kind != Condition::Kind::values) {
      std::erase_if(rows, [&](std::uint32_t row) { return !has(row); });
      return;
    }
  }
  if (condition.kind == Condition::Kind::values && condition.values.size() == 1) {
    return intersect(rows, index.rows_of(condition.values.front()));
  }
  const std::vector<std::uint32_t> others = rows_of(table, condition, count);
  intersect(rows, {.rows = others.data(), .count = static_cast<std::uint32_t>(others.size()), .single = 0});
}

// The whole table in the order of one index: rank by rank.
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
  // Rows of equal ranks stay in the order of the table.
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

std::expected<Query, Refused> parse_query(const Table& table, std::string_view query) {
  return Parser(table, query).run();
}

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
    // From the condition that leaves the fewest on.
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
  std::uint64_t least = table.size();
  std::uint64_t ranges = 0;
  for (const Condition& condition : query.conditions) {
    least = std::min(least, count_of(table, condition));
    if (condition.kind == Condition::Kind::range) ranges += condition.range.last - condition.range.first;
  }
  return least + ranges / 8;
}

}  // namespace sluice::api::resident
