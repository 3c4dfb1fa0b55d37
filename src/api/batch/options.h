#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/declare.h"
#include "sql/transaction.h"

namespace sluice::api::batch {

// [batch]
struct Options {
  Located<std::string> path = {"/batch"};
  Located<std::string> database;  // once loaded, the name of an existing database
  std::uint32_t calls = 100;
  ByteSize answer_limit = 4_MiB;
  std::uint32_t concurrency = 16;
  std::optional<Duration> timeout;  // nullopt for the database's statement_timeout
  sql::Isolation isolation = sql::Isolation::standard;
  Located<std::uint32_t> retries = 3;
  std::vector<Located<std::string>> use;
  Located<bool> is_public;
  bool access_log = true;
  Position position;

  template <class Visitor>
  static void declare(Visitor& v) {
    v.field("path", &Options::path, "The path that batches are sent to, by POST. It has no parameters.");
    v.field("database", &Options::database,
            "The database of the endpoints that batches may call. If there is only one database, it is the default.");
    v.field("calls", &Options::calls, "The most calls in a batch.", {.min = 1, .max = 10000});
    v.field("answer_limit", &Options::answer_limit,
            "The most bytes that the answers of one batch may have together. A batch with longer answers has no "
            "effect and is answered 422.",
            {.min = 1_KiB, .max = 1_GiB});
    v.field("concurrency", &Options::concurrency,
            "How many batches each core runs at once. Further ones are answered 503.", {.min = 1, .max = 1000});
    v.field("timeout", &Options::timeout,
            "How long the transaction may take. The `timeout` of the called endpoints is not used in a batch. "
            "Without it, the database's `statement_timeout` applies: with PostgreSQL to each statement, with SQLite "
            "to the whole batch. A batch that writes to SQLite is also ended if about 5 s pass between two of its "
            "statements.",
            {.min = 1ms, .max = 24h});
    v.field("isolation", &Options::isolation,
            "The isolation level of the transaction. SQLite's transactions are always serializable.");
    v.field("retries", &Options::retries,
            "PostgreSQL: how often the batch is retried after a conflict with another transaction.", {.max = 100});
    v.field("use", &Options::use,
            "The names of the policies that apply to a batch. The policies of the endpoints that it calls apply too.");
    v.field("public", &Options::is_public, "`true`: the policies of [defaults] do not apply here.");
    v.field("access_log", &Options::access_log, "`false`: the access log has no lines for these requests.");
    v.position(&Options::position);
  }
};

}  // namespace sluice::api::batch
