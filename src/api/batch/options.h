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
  Located<std::string> database;  // once loaded, the name of one that exists
  std::uint32_t calls = 100;
  ByteSize answer_limit = 4_MiB;
  std::uint32_t concurrency = 16;
  std::optional<Duration> timeout;  // nullopt: the database's statement_timeout
  sql::Isolation isolation = sql::Isolation::standard;
  Located<std::uint32_t> retries = 3;
  std::vector<Located<std::string>> use;
  Position position;

  template <class Visitor>
  static void declare(Visitor& v) {
    v.field("path", &Options::path, "Where batches are sent, by POST. It has no parameters.");
    v.field("database", &Options::database,
            "The database whose endpoints can be called. Where there is only one, it is the default.");
    v.field("calls", &Options::calls, "How many calls a batch may have.", {.min = 1, .max = 10000});
    v.field("answer_limit", &Options::answer_limit,
            "How long the answers of a batch may be together; one with longer ones does nothing and is answered 422.",
            {.min = 1_KiB, .max = 1_GiB});
    v.field("concurrency", &Options::concurrency, "How many batches a core runs at once; one more is answered 503.",
            {.min = 1, .max = 1000});
    v.field(
        "timeout", &Options::timeout,
        "How long the transaction may take; the `timeout` of the endpoints does not count in a batch. Without it "
        "the database's `statement_timeout` holds: PostgreSQL's for each statement, SQLite's for the whole. A batch "
        "that writes to SQLite is also ended where about 5 s pass between two of its statements.",
        {.min = 1ms, .max = 24h});
    v.field("isolation", &Options::isolation, "Of the transaction. SQLite's transactions are always serializable.");
    v.field("retries", &Options::retries,
            "PostgreSQL: how often the batch is tried again where another transaction was in its way.", {.max = 100});
    v.field("use", &Options::use,
            "The names of the policies that a batch must pass; those of the endpoints that it calls are asked too.");
    v.position(&Options::position);
  }
};

}  // namespace sluice::api::batch
