#pragma once

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <gtest/gtest.h>
#include <sqlite3.h>
#include <unistd.h>

#include "core/blocking_pool.h"
#include "core/mailbox.h"
#include "core/reactor.h"
#include "core/task.h"
#include "sql/database.h"
#include "sql/sqlite/options.h"

// For the tests of this folder: a temporary database file, and the event loop of one core, which the test turns.
namespace sluice::sql::sqlite::testing {

class TempFile {
 public:
  explicit TempFile(std::string_view schema = "") {
    std::string pattern = (std::filesystem::temp_directory_path() / "sluice-sqlite-XXXXXX").string();
    directory_ = mkdtemp(pattern.data());
    options.path = (directory_ / "test.db").string();
    execute("BEGIN;" + std::string(schema) + ";COMMIT");
  }
  TempFile(const TempFile&) = delete;
  ~TempFile() { std::filesystem::remove_all(directory_); }

  // Uses a separate connection, like another program.
  void execute(std::string_view sql) {
    sqlite3* database = nullptr;
    ASSERT_EQ(sqlite3_open(options.path.c_str(), &database), SQLITE_OK);
    sqlite3_busy_timeout(database, 5'000);
    EXPECT_EQ(sqlite3_exec(database, "PRAGMA synchronous = OFF", nullptr, nullptr, nullptr), SQLITE_OK);
    char* message = nullptr;
    EXPECT_EQ(sqlite3_exec(database, std::string(sql).c_str(), nullptr, nullptr, &message), SQLITE_OK)
        << (message ? message : "");
    sqlite3_free(message);
    sqlite3_close(database);
  }
  [[nodiscard]] std::filesystem::path directory() const { return directory_; }

  SqliteOptions options;

 private:
  std::filesystem::path directory_;
};

class Loop {
 public:
  template <class T>
  T run(core::Task<T> task) {
    std::optional<T> result;
    core::TaskGroup group;
    group.spawn(store(std::move(task), result));
    while (!result) turn();
    return std::move(*result);
  }
  template <class T>
  T run(core::Async<T> async) {
    return run(await(std::move(async)));
  }
  void turn(Duration wait = std::chrono::seconds(5)) {
    reactor->turn(reactor->now() + wait);
    mailbox.deliver();
  }
  template <class Done>
  void until(Done done) {
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    while (!done() && std::chrono::steady_clock::now() < end) turn(std::chrono::milliseconds(5));
    EXPECT_TRUE(done());
  }

  std::unique_ptr<core::Reactor> reactor = core::make_epoll_reactor();
  core::Mailbox mailbox{*reactor};
  core::BlockingPool threads{2, 256};

 private:
  template <class T>
  static core::Task<void> store(core::Task<T> task, std::optional<T>& result) {
    result.emplace(co_await std::move(task));
  }
  template <class T>
  static core::Task<T> await(core::Async<T> async) {
    co_return co_await std::move(async);
  }
};

// Rows as text, in the form in which each field is written; NULL is "null".
using Rows = std::vector<std::vector<std::string>>;

inline std::string show(const Field& field) {
  if (field.is_null()) return "null";
  const std::string text(field.view());
  switch (field.form) {
    case Form::text:
      return "'" + text + "'";
    case Form::number:
      return text;
    case Form::boolean:
      return text == "t" ? "true" : text == "f" ? "false" : "broken";
    case Form::json:
      return "json " + text;
    case Form::bytes:
      return "bytes " + text;
    default:
      return "unexpected form";
  }
}

inline void add_rows(Rows& rows, const Block& block) {
  for (std::size_t i = 0; i < block.rows; ++i) {
    auto& row = rows.emplace_back();
    for (const Field& field : block.row(i)) row.push_back(show(field));
  }
}

inline std::vector<Argument> texts(std::initializer_list<std::string_view> values) {
  std::vector<Argument> arguments;
  for (const auto value : values) arguments.push_back({value, ParameterType::text});
  return arguments;
}

}  // namespace sluice::sql::sqlite::testing
