#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/declare.h"

namespace sluice::api::list {

// An entry of [endpoint.list].search.
struct SearchOptions {
  Located<std::string> column;
  Located<std::string> fts;
  Located<std::string> key;
  Located<std::string> tsvector;
  std::string config;
  Position position;

  template <class Visitor>
  static void declare(Visitor& v) {
    v.field("column", &SearchOptions::column, "A column of texts in which each word of `?q=` may stand.");
    v.field("fts", &SearchOptions::fts,
            "SQLite: an FTS5 table that is searched instead. The words of `?q=` are whole words of it.");
    v.field("key", &SearchOptions::key,
            "With `fts`: the column of `get` that is the rowid of the FTS5 table. Without it, the column of `order`.");
    v.field("tsvector", &SearchOptions::tsvector,
            "PostgreSQL: a column of `get` of the type tsvector that is searched instead. Answers do not have it.");
    v.field("config", &SearchOptions::config,
            "With `tsvector`: the text search configuration that reads `?q=`, such as `english`. Without it, "
            "default_text_search_config.");
    v.position(&SearchOptions::position);
    v.shorthand("column");
  }
};

// [endpoint.list].limit
struct LimitOptions {
  Located<std::uint32_t> standard{50};
  Located<std::uint32_t> most{200};

  template <class Visitor>
  static void declare(Visitor& v) {
    v.field("default", &LimitOptions::standard, "How many rows an answer has without `?limit=`.",
            {.min = 1, .max = 10'000});
    v.field("max", &LimitOptions::most, "The most rows of one answer. They are in memory together until it is sent.",
            {.min = 1, .max = 10'000});
    v.shorthand("default");
  }
};

// [endpoint.list]: what clients may ask of the rows of `get`.
struct Options {
  std::vector<Located<std::string>> filter;
  OneOrMore<SearchOptions> search;
  std::vector<Located<std::string>> sort;
  Located<std::string> order;
  LimitOptions limit;
  bool count = false;
  bool cursors = true;
  std::uint32_t conditions = 32;
  std::uint32_t values = 200;
  std::uint32_t depth = 4;
  std::uint32_t max_offset = 10'000;
  Position position;

  template <class Visitor>
  static void declare(Visitor& v) {
    v.field("filter", &Options::filter,
            "The columns of `get` that clients can filter by: `?popularity=gte.10&adult=false`.");
    v.field("search", &Options::search,
            "The columns of texts in which each word of `?q=` may stand, without regard to case. Or, for many rows, a "
            "table with `fts` (SQLite) or `tsvector` (PostgreSQL).");
    v.field("sort", &Options::sort, "The columns of `get` that clients can sort by: `?sort=-popularity,name`.");
    v.field(
        "order", &Options::order,
        "The order without `?sort=`, and of rows that `?sort=` leaves equal: columns of `get`, separated by commas, "
        "with `-` before a descending one. It must be total, so it ends with the key: `id`, `-released,id`.",
        {.required = true});
    v.field("limit", &Options::limit, "How many rows an answer has.");
    v.field("count", &Options::count,
            "Whether clients may ask for the number of all rows that meet their conditions: `?count=exact`, "
            "`?count=estimated`.");
    v.field(
        "cursors", &Options::cursors,
        "`false`: pages are by `offset` alone, without `after` and `before`. For rows without a key: cursors pass over "
        "rows that are equal by all columns of `order`, which then has to name all columns.");
    v.field("conditions", &Options::conditions, "The most conditions and words of one request.",
            {.min = 1, .max = 1000});
    v.field("values", &Options::values, "The most values of one `in.(...)`.", {.min = 1, .max = 10'000});
    v.field("depth", &Options::depth, "How deep groups, `or=(...)`, may stand in each other.", {.min = 1, .max = 32});
    v.field(
        "max_offset", &Options::max_offset,
        "The greatest `?offset=`. The database reads all rows in front of it; cursors (`after`) have no such limit.",
        {.max = 1'000'000'000});
    v.position(&Options::position);
  }
};

}  // namespace sluice::api::list
