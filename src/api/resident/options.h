#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/declare.h"
#include "base/host.h"

namespace sluice::api::resident {

// [[resident]].refresh
struct RefreshOptions {
  static constexpr Duration least_every = 10ms;

  Located<Duration> every{};  // 0 for never; otherwise at least `least_every`
  Located<std::string> notify;
  Located<std::string> changes;
  Located<std::string> version;
  Located<std::string> deleted;
  Located<Duration> full{1h};   // 0: never
  Located<Duration> hold{10s};  // 0: no limit
  Position position;

  template <class Visitor>
  static void declare(Visitor& v) {
    v.field("every", &RefreshOptions::every,
            "The interval at which the query is run again, at least `10ms`. `0`: it is run again only after a "
            "notification (`notify`).",
            {.max = 365 * 24h});
    v.field("notify", &RefreshOptions::notify,
            "PostgreSQL: the channel of NOTIFY. Each notification causes the query to be run again.");
    v.field("changes", &RefreshOptions::changes,
            "A statement that is run in place of the query: it selects the rows that are new or changed since the "
            "version `:since`. It returns the columns of the query and the column `deleted`; other columns are "
            "ignored. The table needs a `key`.");
    v.field("version", &RefreshOptions::version,
            "The column, of both statements, that holds a row's version or the time of its last change. Its greatest "
            "value so far is `:since`.");
    v.field("deleted", &RefreshOptions::deleted,
            "The column of `changes` that marks a row as deleted: by true, by a number other than 0, or by any other "
            "value that is not NULL, such as a time.");
    v.field("full", &RefreshOptions::full,
            "After this time the whole query is run in any case. This matters with `changes`, and with SQLite, where "
            "the query is otherwise run only after a commit. `0`: never.",
            {.max = 365 * 24h});
    v.field("hold", &RefreshOptions::hold,
            "How long clients may still read answers from a replaced version. This limit applies only while four "
            "replaced versions are in use and the next version has to wait for one of them: then answers from the "
            "oldest version are cut off. `0`: they are never cut off.",
            {.max = 365 * 24h});
    v.position(&RefreshOptions::position);
  }
};

// When rows are encoded as JSON.
enum class Encode : std::uint8_t { load, on_demand };
inline NameOf<Encode> names_of(Encode) { return {{"load", Encode::load}, {"on-demand", Encode::on_demand}}; }

// [[resident]]
struct ResidentOptions {
  Located<std::string> name;
  Located<std::string> host;
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
  Located<bool> is_public;
  bool access_log = true;
  Located<bool> serve{true};
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
            "The name of the table. It is served at `/NAME`, and each row at `/NAME/KEY`. An ending such as `.csv` "
            "chooses the format, as Accept does.",
            {.required = true, .check = check_name});
    v.field("host", &ResidentOptions::host, host_meaning, {.check = check_host});
    v.field("database", &ResidentOptions::database,
            "The name of the database that the rows are loaded from. If there is only one database, it is the "
            "default.");
    v.field("query", &ResidentOptions::query,
            "The statement whose rows are kept in memory and answered in its order. It has no parameters.",
            {.required = true});
    v.field("key", &ResidentOptions::key,
            "The column that identifies a row: not NULL, and different in each row. Clients find a row by it at "
            "`/NAME/KEY`, or with a query parameter as for the columns of `index`.");
    v.field("index", &ResidentOptions::index,
            "The columns that clients can filter by (`?roles=admin`, `?popularity=gte.10`) and sort by "
            "(`?sort=-popularity`). A filter on an array finds the rows in which an element matches.");
    v.field("encode", &ResidentOptions::encode,
            "`load`: rows are encoded once, when they are loaded, and sent without copying. `on-demand`: rows are "
            "kept as values, in about half the memory, and encoded for each answer; for large tables.");
    v.field("csv", &ResidentOptions::csv,
            "Whether the table is also offered as CSV. The rows are then kept a second time, unless they are encoded "
            "on demand. JSON, NDJSON and CSJ are always offered.");
    v.field("refresh", &ResidentOptions::refresh,
            "When the query is run again, in the background. Without it, the rows stay unchanged until the program "
            "is restarted.");
    v.field("stale_after", &ResidentOptions::stale_after,
            "After this time without a successful refresh, requests are answered 503. `0`: they are answered with "
            "the rows in memory, however old, and with an Age field.",
            {.max = 365 * 24h});
    v.field("timeout", &ResidentOptions::timeout,
            "How long the database may take to return the first rows of the query.", {.min = 1ms, .max = 24h});
    v.field("memory", &ResidentOptions::memory,
            "The most memory that the rows and indexes of one version may take; while a new version is loaded, there "
            "are two. A load that takes more fails.",
            {.min = 64_KiB, .max = 1024_GiB});
    v.field("cache", &ResidentOptions::cache,
            "The most memory that each core uses to cache answers: half for whole answers to repeated queries, half "
            "for rows in encodings that are not kept anyway (`fields`, CSV, on demand). `0`: nothing is cached.",
            {.max = 64_GiB});
    v.field("cache_control", &ResidentOptions::cache_control, "The Cache-Control field of successful answers.");
    v.field("use", &ResidentOptions::use,
            "The names of the policies ([policy.NAME]) that apply to a request, in this order.");
    v.field("public", &ResidentOptions::is_public, "`true`: the policies of [defaults] do not apply here.");
    v.field("access_log", &ResidentOptions::access_log, "`false`: the access log has no lines for these requests.");
    v.field("serve", &ResidentOptions::serve, "`false`: the table has no path and is used only by policies.");
    v.position(&ResidentOptions::position);
  }
};

}  // namespace sluice::api::resident
