#include "api/resident/selection.h"

#include <algorithm>
#include <chrono>
#include <compare>
#include <functional>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "api/resident/rows_for_tests.h"

namespace sluice::api::resident {
namespace {

TEST(ResidentSelection, Effort) {
  TestRows rows({column_of("id", sql::Form::number, 23), column_of("seen", sql::Form::boolean, 16)});
  rows.row({"10", "t"}).row({"11", "f"}).row({"12", nullptr}).row({"13", "t"}).row({"14", "f"});
  const auto table = table_of({.key = "id", .index = {"seen"}}, rows);
  const auto effort = [&](std::string_view query) { return effort_of(*table, *parse_query(*table, query)); };
  EXPECT_EQ(effort(""), 0u);
  EXPECT_EQ(effort("limit=1&fields=id"), 0u);
  EXPECT_EQ(effort("sort=id"), 5u);
  EXPECT_EQ(effort("id=10"), 1u);
  EXPECT_EQ(effort("id=99&seen=t"), 0u);
  EXPECT_EQ(effort("seen=t&id=gte.10"), 4u);
  EXPECT_EQ(effort("seen=neq.t"), 5u);
  EXPECT_EQ(effort("or=(id.eq.10,seen.is.null,seen.is.false)"), 8u);   // the rows of the parts, and of the group
  EXPECT_EQ(effort("id=in.(10,11)&or=(seen.is.null,seen.eq.f)"), 6u);  // two rows, and these for each part
}

// ---- Random tables and queries, compared with a check of every row ----

struct Item {
  int storage = 0;  // SQLite's storage class
  std::int64_t number = 0;
  std::string text;
  auto operator<=>(const Item&) const = default;
};
using Cell = std::optional<std::vector<Item>>;  // nullopt for NULL

class Random {
 public:
  explicit Random(std::uint64_t seed) : engine_(seed) {}
  // From 0 to n - 1.
  int below(int n) { return static_cast<int>(engine_() % static_cast<std::uint64_t>(n)); }
  bool one_in(int n) { return below(n) == 0; }
  std::mt19937_64& engine() { return engine_; }

 private:
  std::mt19937_64 engine_;
};

// A kind of column: its values and their notations in a database and in a request.
struct ColumnKind {
  sql::Column column;
  bool several = false;
  std::function<Item(Random&, int variety)> make;
  std::function<std::string(Random&, const Item&)> client;
  std::function<TestValue(Random&, const std::vector<Item>&)> database;
};

// A number of thousandths in a random decimal notation.
std::string decimal(Random& random, std::int64_t thousandths) {
  const std::int64_t size = std::abs(thousandths);
  std::string text = thousandths < 0 ? "-" : "";
  switch (random.below(4)) {
    case 0:
      return text + fmt::format("{}.{:03}", size / 1000, size % 1000);
    case 1:
      return text + fmt::format("{}e-3", size);
    case 2:
      return text + fmt::format("00{}.{:03}00", size / 1000, size % 1000);
    default:
      return text + fmt::format("{}.{}E1", size / 10'000, fmt::format("{:04}", size % 10'000));
  }
}

std::string date(std::int64_t days) {
  const std::chrono::year_month_day day{std::chrono::sys_days{std::chrono::days{days}}};
  return fmt::format("{:04}-{:02}-{:02}", static_cast<int>(day.year()), static_cast<unsigned>(day.month()),
                     static_cast<unsigned>(day.day()));
}

// A time in whole seconds, in a random zone.
std::string moment(Random& random, std::int64_t seconds, char between) {
  const int hours = random.below(25) - 12;
  const std::int64_t local = seconds + hours * 3600;
  const std::int64_t days = (local >= 0 ? local : local - 86'399) / 86'400;
  const std::int64_t rest = local - days * 86'400;
  return fmt::format("{}{}{:02}:{:02}:{:02}{}{:02}{}", date(days), between, rest / 3600, rest / 60 % 60, rest % 60,
                     hours < 0 ? '-' : '+', std::abs(hours), random.one_in(2) ? ":00" : "");
}

const std::vector<std::string> words = {
    "",    "a",     "b",      "ab",        "B",       "a,b",  "\"q\"",    "back\\slash",
    "nul", "null",  "gte.10", "in.(1)",    "is.null", "x y ", "\xc3\xa4", "\xf0\x9f\x98\x80",
    "{}",  "[1,2]", "50%",    "a&b=c+d;e", "\n",      "NULL", "(",        "a\"b\\c"};

Item word(Random& random, int variety) {
  Item item;
  item.text = words[static_cast<std::size_t>(random.below(static_cast<int>(words.size())))];
  if (variety > 20) item.text += std::to_string(random.below(variety));
  return item;
}

std::string in_quotes(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    out += c;
  }
  return out + '"';
}

// An array as PostgreSQL writes it, or in another valid notation.
std::string array_text(Random& random, const std::vector<Item>& items, bool numbers) {
  std::string out = random.one_in(5) && !items.empty() ? fmt::format("[0:{}]={{", items.size() - 1) : "{";
  for (std::size_t i = 0; i < items.size(); ++i) {
    if (i != 0) out += ',';
    out += numbers ? std::to_string(items[i].number) : in_quotes(items[i].text);
    if (random.one_in(6)) out += ",NULL";
  }
  return out + '}';
}

std::string json_text(Random& random, const std::vector<Item>& items) {
  std::string out = "[";
  for (std::size_t i = 0; i < items.size(); ++i) {
    if (i != 0) out += random.one_in(2) ? ", " : ",";
    out += '"';
    for (const char c : items[i].text) {
      if (c == '"' || c == '\\') out += '\\';
      if (c == '\n') {
        out += random.one_in(2) ? "\\n" : "\\u000a";
      } else {
        out += c;
      }
    }
    out += '"';
    if (random.one_in(6)) out += ",null, {\"a\": [\"b\"]}";
  }
  return out + ']';
}

std::vector<ColumnKind> column_kinds() {
  const auto number = [](Random& random, int variety) { return Item{0, random.below(variety) - variety / 3, {}}; };
  const auto plain = [](Random&, const Item& item) { return std::to_string(item.number); };
  const auto text = [](Random&, const Item& item) { return item.text; };
  std::vector<ColumnKind> kinds;
  kinds.push_back({column_of("n", sql::Form::number, 23), false, number, plain,
                   [plain](Random& random, const auto& items) { return TestValue(plain(random, items[0])); }});
  const auto spell = [](Random& random, const Item& item) { return decimal(random, item.number); };
  kinds.push_back({column_of("d", sql::Form::number, 1700), false,
                   [](Random& random, int variety) {
                     return Item{0, static_cast<std::int64_t>(random.below(variety) - variety / 2) * 137, {}};
                   },
                   spell, [spell](Random& random, const auto& items) { return TestValue(spell(random, items[0])); }});
  kinds.push_back({column_of("t", sql::Form::text, 25), false, word, text,
                   [](Random&, const auto& items) { return TestValue(items[0].text); }});
  kinds.push_back({column_of("b", sql::Form::boolean, 16), false,
                   [](Random& random, int) { return Item{0, random.below(2), {}}; },
                   [](Random& random, const Item& item) {
                     static constexpr const char* spelled[2][3] = {{"f", "false", "0"}, {"t", "true", "1"}};
                     return std::string(spelled[item.number][random.below(3)]);
                   },
                   [](Random&, const auto& items) { return TestValue(items[0].number == 1 ? "t" : "f"); }});
  kinds.push_back({column_of("day", sql::Form::text, 1082), false,
                   [](Random& random, int variety) { return Item{0, random.below(variety) * 97 - 3000, {}}; },
                   [](Random&, const Item& item) { return date(item.number); },
                   [](Random&, const auto& items) { return TestValue(date(items[0].number)); }});
  kinds.push_back({column_of("at", sql::Form::timestamp_tz, 1184), false,
                   [](Random& random, int variety) {
                     return Item{0, static_cast<std::int64_t>(random.below(variety)) * 1'234'567 - 50'000'000, {}};
                   },
                   [](Random& random, const Item& item) { return moment(random, item.number, 'T'); },
                   [](Random& random, const auto& items) { return TestValue(moment(random, items[0].number, ' ')); }});
  kinds.push_back({sqlite_column("any", ""), false,
                   [](Random& random, int variety) {
                     // A text in SQLite that looks like a number cannot be requested.
                     if (random.one_in(2)) return Item{1, random.below(variety) - 3, {}};
                     return Item{2, 0, "w" + std::to_string(random.below(variety))};
                   },
                   [](Random& random, const Item& item) {
                     return item.storage == 1 ? decimal(random, item.number * 1000) : item.text;
                   },
                   [](Random& random, const auto& items) {
                     if (items[0].storage == 2) return TestValue(items[0].text, sql::Form::text);
                     return TestValue(decimal(random, items[0].number * 1000), sql::Form::number);
                   }});
  kinds.push_back({array_of("tags", sql::Form::text), true, word, text,
                   [](Random& random, const auto& items) { return TestValue(array_text(random, items, false)); }});
  kinds.push_back({array_of("nums", sql::Form::number), true, number, plain,
                   [](Random& random, const auto& items) { return TestValue(array_text(random, items, true)); }});
  kinds.push_back({column_of("js", sql::Form::json, 3802), true, word, text,
                   [](Random& random, const auto& items) { return TestValue(json_text(random, items)); }});
  return kinds;
}

class Differential {
 public:
  explicit Differential(std::uint64_t seed) : random_(seed) {}

  void make_table() {
    const int size = random_.below(4) == 0 ? random_.below(1500) : random_.below(60);
    std::vector<sql::Column> columns = {column_of("id", sql::Form::number, 20)};
    for (const ColumnKind& kind : kinds_) columns.push_back(kind.column);
    TestRows rows(columns);
    std::vector<int> ids(static_cast<std::size_t>(size));
    std::iota(ids.begin(), ids.end(), -5);
    if (random_.one_in(2)) std::ranges::shuffle(ids, random_.engine());
    // Each column has its own number of distinct values and its own share of NULL.
    std::vector<int> variety;
    std::vector<int> nulls;
    for (std::size_t i = 0; i < kinds_.size(); ++i) {
      variety.push_back(1 + random_.below(random_.one_in(2) ? 8 : 700));
      nulls.push_back(random_.below(4));
    }
    for (const int id : ids) {
      std::vector<TestValue> values = {std::to_string(id)};
      std::vector<Cell> cells = {Cell{{Item{0, id, {}}}}};
      for (std::size_t i = 0; i < kinds_.size(); ++i) {
        if (random_.below(10) < nulls[i]) {
          cells.emplace_back();
          values.emplace_back(nullptr);
          continue;
        }
        std::vector<Item> items;
        for (int count = kinds_[i].several ? random_.below(5) : 1; count > 0; --count) {
          items.push_back(kinds_[i].make(random_, variety[i]));
        }
        values.push_back(kinds_[i].database(random_, items));
        cells.emplace_back(std::move(items));
      }
      rows.row(values);
      cells_.push_back(std::move(cells));
    }
    TableShape shape{.key = "id"};
    for (const ColumnKind& kind : kinds_) shape.index.push_back(kind.column.name);
    table_ = table_of(shape, rows);
    variety_ = variety;
  }

  void ask() {
    query_.clear();
    tests_.clear();
    order_.clear();
    for (int count = random_.below(4); count > 0; --count) add_conditions();
    std::string sort;
    for (int count = random_.below(4); count > 0; --count) add_order(sort);
    if (!sort.empty()) add("sort", sort);
    std::uint64_t limit = UINT64_MAX;
    std::uint64_t offset = 0;
    if (random_.one_in(2)) add("limit", std::to_string(limit = static_cast<std::uint64_t>(random_.below(20))));
    if (random_.one_in(3)) add("offset", std::to_string(offset = static_cast<std::uint64_t>(random_.below(20))));

    std::vector<std::uint32_t> expected;
    for (std::uint32_t row = 0; row < cells_.size(); ++row) {
      if (std::ranges::all_of(tests_, [&](const auto& test) { return test(cells_[row]) == true; }))
        expected.push_back(row);
    }
    std::ranges::sort(expected, [&](std::uint32_t a, std::uint32_t b) {
      for (const auto& [column, descending] : order_) {
        const Cell& left = cells_[a][column];
        const Cell& right = cells_[b][column];
        // NULL is the greatest value.
        const auto order = left && right ? left->front() <=> right->front() : !left <=> !right;
        if (order != 0) return descending ? order > 0 : order < 0;
      }
      return a < b;
    });
    const std::uint64_t total = expected.size();
    expected.erase(expected.begin(), expected.begin() + static_cast<std::ptrdiff_t>(std::min(offset, total)));
    if (expected.size() > limit) expected.resize(limit);

    const auto query = parse_query(*table_, query_);
    ASSERT_TRUE(query) << query_ << ": " << query.error().parameter << ": " << query.error().detail;
    const Selection selection = select(*table_, *query);
    ASSERT_EQ(selection.total, total) << query_;
    ASSERT_EQ(selection.size(), expected.size()) << query_;
    ASSERT_EQ(rows_of(selection), expected) << query_;
    matched_ += expected.size();
  }

  [[nodiscard]] std::uint64_t matched() const { return matched_; }

 private:
  using Test = std::function<std::optional<bool>(const std::vector<Cell>&)>;  // nullopt for unknown

  // Percent-encodes the characters that require it, and some others.
  void add(std::string_view name, std::string_view value) {
    if (!query_.empty() || random_.one_in(10)) query_ += '&';
    query_.append(name).push_back('=');
    for (const char c : value) {
      if (c == ' ' && random_.one_in(2)) {
        query_ += '+';
      } else if (c == '&' || c == '%' || c == '+' || c == ' ' || static_cast<unsigned char>(c) < 0x20 ||
                 random_.one_in(12)) {
        query_ += fmt::format("%{:02X}", static_cast<unsigned char>(c));
      } else {
        query_ += c;
      }
    }
  }

  // A value of some row, or one that perhaps no row has.
  Item item_of(std::size_t kind) {
    if (!cells_.empty() && random_.below(4) != 0) {
      const auto& cell = cells_[static_cast<std::size_t>(random_.below(static_cast<int>(cells_.size())))][kind + 1];
      if (cell && !cell->empty())
        return (*cell)[static_cast<std::size_t>(random_.below(static_cast<int>(cell->size())))];
    }
    return kinds_[kind].make(random_, variety_[kind] * 2);
  }

  void add_conditions() {
    if (random_.one_in(3)) {
      const bool any = random_.one_in(2);
      auto [text, test] = make_group(any, 1);
      const bool negated = random_.one_in(3);
      add(fmt::format("{}{}", negated ? "not." : "", any ? "or" : "and"), text);
      tests_.push_back(negated ? opposite(test) : test);
      return;
    }
    const auto kind = static_cast<std::size_t>(random_.below(static_cast<int>(kinds_.size())));
    auto [text, test] = make_condition(kind, false);
    // Without an operator if the value does not begin like one.
    if (text.starts_with("eq.") && !text.substr(3).contains('.') && random_.one_in(2)) text.erase(0, 3);
    add(kinds_[kind].column.name, text);
    tests_.push_back(std::move(test));
  }

  static Test opposite(Test test) {
    return [test = std::move(test)](const auto& row) {
      auto met = test(row);
      if (met) met = !*met;
      return met;
    };
  }

  // The parts of a group within parentheses. A query has up to 27 conditions.
  std::pair<std::string, Test> make_group(bool any, int depth) {
    std::string text = "(";
    std::vector<Test> parts;
    for (int count = 1 + random_.below(3); count > 0; --count) {
      if (!parts.empty()) text += ',';
      if (depth < 2 && random_.one_in(3)) {
        const bool any_within = random_.one_in(2);
        const bool negated = random_.one_in(3);
        auto [within, test] = make_group(any_within, depth + 1);
        text += fmt::format("{}{}{}", negated ? "not." : "", any_within ? "or" : "and", within);
        parts.push_back(negated ? opposite(test) : test);
      } else {
        const auto kind = static_cast<std::size_t>(random_.below(static_cast<int>(kinds_.size())));
        auto [condition, test] = make_condition(kind, true);
        text.append(kinds_[kind].column.name).append(".").append(condition);
        parts.push_back(std::move(test));
      }
    }
    return {text + ')', [parts, any](const auto& row) -> std::optional<bool> {
              std::optional<bool> met = !any;
              for (const Test& part : parts) {
                const auto its = part(row);
                if (its == any) return any;
                if (!its) met.reset();
              }
              return met;
            }};
  }

  // The operator and value of a condition. Within a group, each value is in quotes.
  std::pair<std::string, Test> make_condition(std::size_t kind, bool in_group) {
    const bool negated = random_.one_in(4);
    auto [text, test] = make_comparison(kind, in_group);
    if (!negated) return {text, test};
    return {"not." + text, opposite(test)};
  }

  std::pair<std::string, Test> make_comparison(std::size_t kind, bool in_group) {
    const std::size_t column = kind + 1;
    const ColumnKind& its = kinds_[kind];
    const auto quoted = [in_group](const std::string& text) { return in_group ? in_quotes(text) : text; };
    switch (const int what = random_.below(its.several ? 8 : 12)) {
      case 0:
        return {"is.null", [column](const auto& row) { return !row[column]; }};
      case 1:
        return {"is.not_null", [column](const auto& row) { return row[column].has_value(); }};
      case 2:
      case 3:
        return make_equality(kind, quoted);
      case 4:
      case 5:
        return make_list(kind);
      case 6:
      case 7:
        return its.column.name == "t" || its.column.name == "tags" || its.column.name == "js"
                   ? make_pattern(kind, quoted)
                   : make_equality(kind, quoted);
      default: {
        const Item item = item_of(kind);
        static constexpr const char* names[] = {"gt.", "gte.", "lt.", "lte."};
        return {names[what - 8] + quoted(its.client(random_, item)),
                [column, item, what](const auto& row) -> std::optional<bool> {
                  if (!row[column]) return std::nullopt;
                  const auto order = row[column]->front() <=> item;
                  return what == 8 ? order > 0 : what == 9 ? order >= 0 : what == 10 ? order < 0 : order <= 0;
                }};
      }
    }
  }

  // Whether a value of the row is such.
  template <class Is>
  static Test any_of(std::size_t column, Is is) {
    return [column, is](const auto& row) -> std::optional<bool> {
      if (!row[column]) return std::nullopt;
      return std::ranges::any_of(*row[column], is);
    };
  }

  template <class Quoted>
  std::pair<std::string, Test> make_equality(std::size_t kind, Quoted quoted) {
    const Item item = item_of(kind);
    const std::string spelled = quoted(kinds_[kind].client(random_, item));
    Test test = any_of(kind + 1, [item](const Item& one) { return one == item; });
    if (random_.one_in(3)) return {"neq." + spelled, opposite(test)};
    return {"eq." + spelled, test};
  }

  std::pair<std::string, Test> make_list(std::size_t kind) {
    std::vector<Item> items;
    std::string list = "in.(";
    for (int count = random_.below(random_.one_in(5) ? 100 : 5); count > 0; --count) {
      items.push_back(item_of(kind));
      const std::string spelled = kinds_[kind].client(random_, items.back());
      if (items.size() > 1) list += ',';
      const bool bare = !spelled.empty() && spelled.front() != '"' && spelled.find_first_of(",)") == spelled.npos;
      list += bare && random_.one_in(2) ? spelled : in_quotes(spelled);
    }
    return {list + ")",
            any_of(kind + 1, [items](const Item& one) { return std::ranges::find(items, one) != items.end(); })};
  }

  template <class Quoted>
  std::pair<std::string, Test> make_pattern(std::size_t kind, Quoted quoted) {
    const std::string whole = item_of(kind).text;
    const auto begin = static_cast<std::size_t>(random_.below(static_cast<int>(whole.size()) + 1));
    const std::string part = whole.substr(begin, static_cast<std::size_t>(random_.below(4)));
    std::string pattern;
    for (const char c : part) {
      if (c == '*' || c == '\\') pattern += '\\';
      pattern += c;
    }
    const int form = random_.below(3);
    pattern = (form == 0 ? "" : "*") + pattern + (form == 1 ? "" : "*");
    return {"like." + quoted(pattern), any_of(kind + 1, [part, form](const Item& one) {
              return form == 0   ? one.text.starts_with(part)
                     : form == 1 ? one.text.ends_with(part)
                                 : one.text.contains(part);
            })};
  }

  void add_order(std::string& sort) {
    const auto column = static_cast<std::size_t>(random_.below(static_cast<int>(kinds_.size()) + 1));
    if (column != 0 && kinds_[column - 1].several) return;
    if (std::ranges::find(order_, column, &std::pair<std::size_t, bool>::first) != order_.end()) return;
    const bool descending = random_.one_in(2);
    if (!sort.empty()) sort += ',';
    sort.append(descending ? "-" : "").append(column == 0 ? "id" : kinds_[column - 1].column.name);
    order_.emplace_back(column, descending);
  }

  Random random_;
  const std::vector<ColumnKind> kinds_ = column_kinds();
  std::vector<int> variety_;
  std::vector<std::vector<Cell>> cells_;
  std::shared_ptr<const Table> table_;
  std::string query_;
  std::vector<Test> tests_;
  std::vector<std::pair<std::size_t, bool>> order_;
  std::uint64_t matched_ = 0;
};

TEST(ResidentSelection, FindsWhatALookAtEveryRowFinds) {
  std::uint64_t matched = 0;
  for (std::uint64_t seed = 1; seed <= 50; ++seed) {
    SCOPED_TRACE(seed);
    Differential differential(seed);
    differential.make_table();
    for (int i = 0; i < 40; ++i) {
      differential.ask();
      if (HasFatalFailure()) return;
    }
    matched += differential.matched();
  }
  EXPECT_GT(matched, 20'000u);  // otherwise the conditions match hardly any row
}

}  // namespace
}  // namespace sluice::api::resident
