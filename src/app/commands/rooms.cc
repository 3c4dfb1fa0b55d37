#include "app/commands/rooms.h"

#include <string>
#include <vector>

#include <fmt/format.h>

#include "app/commands/exit_code.h"
#include "app/prepare/loop.h"
#include "app/prepare/opened_database.h"
#include "app/routes/room/published.h"
#include "app/routes/room/sql_text.h"
#include "base/contains.h"
#include "rooms/tables.h"
#include "sql/script.h"
#include "sql/set/table.h"

namespace sluice::app {
namespace {

constexpr Duration patience = 10min;  // numbering the rows of a large table takes its time

}  // namespace

int room_tables(const config::Config& config, bool apply, std::FILE* out, std::FILE* errors) {
  const Options& options = config.options;
  const auto fail = [&](const std::string& why) {
    fmt::print(errors, "sluice: {}\n", why);
    return exit_failure;
  };
  if (options.room_tables.empty()) return fail("the configuration has no [[room]]");
  for (const auto& database : options.databases) {
    const sql::Dialect dialect = database.value.dialect();
    std::vector<rooms::Published> all;
    std::vector<std::string> members;
    for (const RoomOptions& room : options.room_tables) {
      if (room.database.value != database.name.value) continue;
      auto published = published_of(room, dialect);
      if (!published) return fail(fmt::format("room {}: {}", room.path.value, published.error()));
      if (!contains(all, *published)) all.push_back(std::move(*published));
      for (std::string& table : members_of(room)) {
        if (!contains(members, table)) members.push_back(std::move(table));
      }
    }
    if (all.empty()) continue;
    Loop loop;
    auto opened = open_database(loop, options, database);
    if (!opened) return fail(describe(opened.error()));
    std::vector<std::string> statements;
    if (dialect == sql::Dialect::postgres) {
      const auto schema = loop.run(texts_of(*opened->database, std::string(rooms::current_schema)));
      if (!schema) return fail(describe(schema.error()));
      for (rooms::Published& published : all) published.schema = schema->empty() ? "" : schema->front();
    }
    for (const rooms::Published& published : all) {
      const auto table = loop.run(sql::describe_table(*opened->database, dialect, published.table));
      if (!table) return fail(describe(table.error()));
      for (auto& one : rooms::statements_of(published, table->find("seq") != nullptr)) {
        statements.push_back(std::move(one));
      }
    }
    // SQLite's own commits and its file tell of every change.
    for (const std::string& table : members) {
      if (dialect == sql::Dialect::sqlite) break;
      for (auto& one : rooms::statements_of_members(table)) statements.push_back(std::move(one));
    }
    std::string script;
    for (const std::string& statement : statements) script += statement + ";\n";
    if (!apply) {
      fmt::print(out, "{}", script);
      continue;
    }
    if (dialect == sql::Dialect::sqlite) script = "BEGIN IMMEDIATE;\n" + script + "COMMIT;\n";
    const auto done = loop.run(sql::run_script(database.value, *loop.reactor, script, loop.reactor->now() + patience));
    if (!done) return fail(describe(done.error()));
    for (const rooms::Published& published : all) {
      fmt::print(out, "The rows of {} have numbers, and their commits are heard of.\n", published.table);
    }
  }
  return exit_ok;
}

}  // namespace sluice::app
