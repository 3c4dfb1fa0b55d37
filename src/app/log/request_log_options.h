#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/declare.h"

namespace sluice::app {

// [request_log]
struct RequestLogOptions {
  Located<std::string> database;  // once loaded, the name of an existing database
  Located<std::string> table;
  Duration every = 1s;
  std::uint32_t queue = 10'000;
  std::vector<std::string> redact;
  Position position;

  template <class Visitor>
  static void declare(Visitor& v) {
    using Self = RequestLogOptions;
    v.field("database", &Self::database,
            "The database that has the table. If there is only one database, it is the default.");
    v.field("table", &Self::table,
            "The table. It may have columns for any of these values, and each request adds a row with those it has: "
            "`time`, `client`, `method`, `target`, `path`, `query`, `route` (the path as it is configured), `host`, "
            "`user_agent`, `headers` (JSON), `request_id`, `subject` (the token's `sub`), `status`, `bytes`, "
            "`duration_us`, `broken`; for a request that was passed on `upstream`, `server`, `tries` (how many servers "
            "were "
            "tried) and `server_us` (until the end of the response's header).",
            {.required = true});
    v.field("every", &Self::every, "How often the queued requests are written.", {.min = 10ms, .max = 1h});
    v.field("queue", &Self::queue,
            "How many requests each core queues while the database is unavailable. Further requests are not written, "
            "only counted.",
            {.min = 1, .max = 1'000'000});
    v.field("redact", &Self::redact,
            "Names of headers and query parameters whose values are hidden in this log and in the access log. "
            "Credentials are always hidden.");
    v.position(&Self::position);
  }
};

}  // namespace sluice::app
