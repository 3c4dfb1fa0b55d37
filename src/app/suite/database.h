#pragma once

#include <expected>
#include <memory>
#include <string>
#include <string_view>

#include "app/suite/json.h"
#include "app/suite/options.h"
#include "app/suite/signals.h"
#include "app/suite/variables.h"
#include "base/time.h"
#include "core/reactor.h"
#include "sql/database.h"
#include "sql/options.h"

namespace sluice::app::suite {

// Where databases are made.
struct Target {
  DatabaseKind kind = DatabaseKind::sqlite;
  std::string url;  // of PostgreSQL: a server, and a database on it from which others can be created
};

// "sqlite", or a URL of PostgreSQL. An error is a sentence.
[[nodiscard]] std::expected<Target, std::string> parse_target(std::string_view text);

// A new and empty database, which goes with it.
class Database {
 public:
  // `folder`: where SQLite's file is put. An error is a sentence.
  [[nodiscard]] static std::expected<std::unique_ptr<Database>, std::string> create(const Target& target,
                                                                                    const std::string& folder,
                                                                                    core::Reactor& reactor,
                                                                                    Signals& signals);
  Database(const Database&) = delete;
  ~Database();  // drop()

  // Its name on the server, or its file.
  [[nodiscard]] const std::string& name() const { return name_; }
  [[nodiscard]] const std::string& url() const { return options_.url.value; }

  // A file of SQL. An error is text as a compiler prints it, with the place in the file.
  [[nodiscard]] std::expected<void, std::string> run_file(const std::string& path, Instant deadline);
  // One statement in a transaction of its own, its rows as the API would give them. Its parameters are variables. What
  // it takes is bounded by `deadline`; a signal ends it as Failure::timed_out.
  [[nodiscard]] sql::Result<Json> query(std::string_view statement, const Variables& variables, Instant deadline);

  // Also where others still use it. An error is a sentence; then it is left behind, and not tried again.
  [[nodiscard]] std::expected<void, std::string> drop();
  void keep() { dropped_ = true; }

 private:
  Database(const Target& target, core::Reactor& reactor, Signals& signals)
      : target_(target), reactor_(reactor), signals_(signals) {}

  Target target_;
  core::Reactor& reactor_;
  Signals& signals_;
  std::string name_;
  sql::DatabaseOptions options_;
  bool dropped_ = false;
};

}  // namespace sluice::app::suite
