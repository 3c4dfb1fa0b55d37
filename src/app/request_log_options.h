#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/declare.h"

namespace sluice::app {

// [request_log]
struct RequestLogOptions {
  Located<std::string> database;  // once loaded, the name of one that exists
  Located<std::string> table;
  Duration every = 1s;
  std::uint32_t queue = 10'000;
  std::vector<std::string> redact;
  Position position;

  template <class Visitor>
  static void declare(Visitor& v) {
    using Self = RequestLogOptions;
    v.field("database", &Self::database, "Where the table is. Where there is only one database, it is the default.");
    v.field("table", &Self::table,
            "The table. Of each request it gets what it has columns for: `time`, `client`, `method`, `target`, `path`, "
            "`query`, `route` (the path as it is configured), `host`, `user_agent`, `headers` (JSON), `subject` (the "
            "token's `sub`), `status`, `bytes`, `duration_us`, `broken`.",
            {.required = true});
    v.field("every", &Self::every, "How often what has gathered is written.", {.min = 10ms, .max = 1h});
    v.field("queue", &Self::queue,
            "How many requests of a core wait while the database is away; further ones are not written, and counted.",
            {.min = 1, .max = 1'000'000});
    v.field("redact", &Self::redact,
            "Names of headers and of query parameters whose values neither this log nor the access log shows, beside "
            "those of credentials, which are never shown.");
    v.position(&Self::position);
  }
};

}  // namespace sluice::app
