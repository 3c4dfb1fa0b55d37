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

// Where test databases are created.
struct Target {
  DatabaseKind kind = DatabaseKind::sqlite;
  std::string url;  // PostgreSQL: a server, and a database on it to connect to for CREATE DATABASE
};

// "sqlite", or a PostgreSQL URL. An error is a sentence.
[[nodiscard]] std::expected<Target, std::string> parse_target(std::string_view text);

// A new, empty database. It is removed with this object.
class Database {
 public:
  // `folder`: for the file of SQLite. An error is a sentence.
  [[nodiscard]] static std::expected<std::unique_ptr<Database>, std::string> create(const Target& target,
                                                                                    const std::string& folder,
                                                                                    core::Reactor& reactor,
                                                                                    Signals& signals);
  Database(const Database&) = delete;
  ~Database();  // drop()

  // Its name on the server, or the path of its file.
  [[nodiscard]] const std::string& name() const { return name_; }
  [[nodiscard]] const std::string& url() const { return options_.url.value; }

  // Runs a file of SQL. An error is text in the style of a compiler, with the place in the file.
  [[nodiscard]] std::expected<void, std::string> run_file(const std::string& path, Instant deadline);
  // Runs one statement in its own transaction and returns its rows as the API would. Its parameters are variables.
  // Fails with Failure::timed_out at `deadline` or after a signal.
  [[nodiscard]] sql::Result<Json> query(std::string_view statement, const Variables& variables, Instant deadline);

  // Removes the database even if others still use it. An error is a sentence; then the database is left behind, and
  // drop() does not try again.
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
