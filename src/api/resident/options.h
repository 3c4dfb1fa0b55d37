#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/declare.h"

namespace sluice::api::resident {

// [[resident]].refresh
struct RefreshOptions {
  static constexpr Duration least_every = 10ms;

  Located<Duration> every{};  // 0: never; else not below `least_every`
  Located<std::string> notify;
  Located<std::string> changes;
  Located<std::string> version;
  Located<std::string> deleted;
  Located<Duration> full{1h};   // 0: never
  Located<Duration> hold{10s};  // 0: for ever
  Position position;

  template <class Visitor>
  static void declare(Visitor& v) {
    v.field("every", &RefreshOptions::every,
            "How often the query is run again, every `10ms` at most. `0`: only when `notify` says so.",
            {.max = 365 * 24h});
    v.field("notify", &RefreshOptions::notify,
            "PostgreSQL: the channel of NOTIFY. A notification lets the query run again.");
    v.field("changes", &RefreshOptions::changes,
            "Instead of the query: the statement whose rows are new or other since the version `:since`. It has the "
            "columns of the query, and that of `deleted`; others do not matter. The table needs a `key`.");
    v.field("version", &RefreshOptions::version,
            "The column of both statements whose greatest value so far is `:since`: a version, or the time of the "
            "last change.");
    v.field("deleted", &RefreshOptions::deleted,
            "The column of `changes` that says of a row that it goes: true, a number other than 0, or anything else "
            "that is not NULL, such as a time.");
    v.field("full", &RefreshOptions::full,
            "After so long the query is run all the same, with `changes` and with SQLite, where else it is run only "
            "after a commit. `0`: never.",
            {.max = 365 * 24h});
    v.field(
        "hold", &RefreshOptions::hold,
        "How long answers of rows that are served no more may still be read while four versions of such rows keep the "
        "next one waiting: then those of the oldest are cut. `0`: as long as they take.",
        {.max = 365 * 24h});
    v.position(&RefreshOptions::position);
  }
};

// When rows become JSON.
enum class Encode : std::uint8_t { load, on_demand };
inline NameOf<Encode> names_of(Encode) { return {{"load", Encode::load}, {"on-demand", Encode::on_demand}}; }

// [[resident]]
struct ResidentOptions {
  Located<std::string> name;
  Located<std::string> database;
  Located<std::string> query;
  Located<std::string> key;
  std::vector<Located<std::string>> index;
  Encode encode = Encode::load;
  bool csv = false;
  std::optional<RefreshOptions> refresh;
  Located<Duration> stale_after{};
  Duration timeout = 60s;
  ByteSize memory = 1_GiB;
  ByteSize cache = 16_MiB;
  std::optional<Located<std::string>> cache_control;
  std::vector<Located<std::string>> use;
  Position position;

  static std::string check_name(std::string_view text) {
    if (text.empty()) return "must not be empty";
    for (const char c : text) {
      const bool is_plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
                            c == '-' || c == '/';
      if (!is_plain) return "takes letters, digits, '_', '-', and '/' between them";
    }
    if (text.front() == '/' || text.back() == '/' || text.contains("//"))
      return "takes '/' between other characters only";
    return {};
  }

  template <class Visitor>
  static void declare(Visitor& v) {
    v.field("name", &ResidentOptions::name,
            "It is served at `/NAME`, and each row at `/NAME/KEY`. The path's end chooses the format, as Accept does.",
            {.required = true, .check = check_name});
    v.field("database", &ResidentOptions::database,
            "The name of the database that it is loaded from. Where there is only one, it is the default.");
    v.field("query", &ResidentOptions::query,
            "The statement whose rows are kept in memory. They are answered in its order. It has no parameters.",
            {.required = true});
    v.field("key", &ResidentOptions::key,
            "The column that tells one row from all others: not NULL, and different in each. Rows are found by it, at "
            "`/NAME/KEY` and as by `index`.");
    v.field("index", &ResidentOptions::index,
            "The columns that rows are found by (`?roles=admin`, `?popularity=gte.10`) and sorted by "
            "(`?sort=-popularity`). Of an array, rows are found by each of its elements.");
    v.field("encode", &ResidentOptions::encode,
            "`load`: rows are encoded once, when they are loaded, and answers are made of them without copying. "
            "`on-demand`: rows are kept as values, in about half the memory, and encoded for each answer; for large "
            "tables.");
    v.field(
        "csv", &ResidentOptions::csv,
        "Whether it is also answered as CSV, for which rows are kept a second time, unless they are encoded on demand. "
        "JSON, NDJSON and CSJ are there anyway.");
    v.field("refresh", &ResidentOptions::refresh,
            "When the query is run again, in the background. Without it the rows stay as they are until the program "
            "starts again.");
    v.field("stale_after", &ResidentOptions::stale_after,
            "After so long without a successful refresh it is answered 503. `0`: what there is, however old it is, "
            "with an Age.",
            {.max = 365 * 24h});
    v.field("timeout", &ResidentOptions::timeout, "How long the database may take for the first rows of the query.",
            {.min = 1ms, .max = 24h});
    v.field("memory", &ResidentOptions::memory,
            "The most memory that the rows and indexes of one version may take; while one is loaded there are two. A "
            "load that takes more fails.",
            {.min = 64_KiB, .max = 1024_GiB});
    v.field("cache", &ResidentOptions::cache,
            "The most memory, of each core: half of it for whole answers to queries that come again, half for rows as "
            "answers have them "
            "that are not there so anyway (`fields`, CSV, on demand). `0`: none.",
            {.max = 64_GiB});
    v.field("cache_control", &ResidentOptions::cache_control, "The Cache-Control of successful answers.");
    v.field("use", &ResidentOptions::use,
            "The names of the policies ([policy.NAME]) that a request must pass, in this order.");
    v.position(&ResidentOptions::position);
  }
};

}  // namespace sluice::api::resident
