#pragma once

#include <cstdlib>
#include <expected>
#include <filesystem>
#include <memory>
#include <string>

#include <gtest/gtest.h>
#include <unistd.h>

#include "app/config/load.h"
#include "app/prepare/prepare.h"
#include "sql/sqlite/script.h"

namespace sluice::app {

// An SQLite database for one test, and configurations with one [[resident]] on it.
class ResidentsOfSqlite : public testing::Test {
 protected:
  ResidentsOfSqlite() {
    std::string name = testing::TempDir() + "residents-XXXXXX";
    folder_ = mkdtemp(name.data());
    run("CREATE TABLE users (id INTEGER PRIMARY KEY, name TEXT, roles JSON, at INTEGER, gone BOOLEAN);"
        "INSERT INTO users VALUES (1, 'Ada', '[\"a\"]', 5, false), (2, 'Grace', NULL, 7, false)");
  }
  ~ResidentsOfSqlite() override { std::filesystem::remove_all(folder_); }

  void run(const std::string& script) {
    const auto done = sql::sqlite::run_script(folder_ + "/a.db", script, [] { return false; });
    ASSERT_TRUE(done) << done.error().message;
  }
  // Prepares a resident table called "users" with these keys. The first key is in line 5 of the file.
  [[nodiscard]] std::expected<std::shared_ptr<const Plan>, Refusal> prepared(const std::string& keys) const {
    const std::string text =
        "[database.main]\nurl = \"sqlite:" + folder_ + "/a.db\"\n[[resident]]\nname = \"users\"\n" + keys;
    const auto config =
        config::parse(config::Source("a.toml", text), [](std::string_view) { return std::optional<std::string>(); });
    if (!config) return std::unexpected(Refusal{.text = config.error().text(), .exit_code = 3});
    return prepare(*config, false);
  }

 private:
  std::string folder_;
};

}  // namespace sluice::app
