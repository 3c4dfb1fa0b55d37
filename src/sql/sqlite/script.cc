#include "sql/sqlite/script.h"

#include <memory>

#include <sqlite3.h>

#include "sql/parameters.h"

namespace sluice::sql::sqlite {
namespace {

constexpr int steps_between_looks = 4096;

struct Close {
  void operator()(sqlite3* database) const { sqlite3_close(database); }
  void operator()(sqlite3_stmt* statement) const { sqlite3_finalize(statement); }
};

int should_stop(void* stop) { return (*static_cast<const std::function<bool()>*>(stop))() ? 1 : 0; }

}  // namespace

Result<void> run_script(const std::string& path, std::string_view script, const std::function<bool()>& stop) {
  sqlite3* opened = nullptr;
  int code = sqlite3_open_v2(path.c_str(), &opened, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE, nullptr);
  const std::unique_ptr<sqlite3, Close> database(opened);
  const auto refused = [&](int of, std::size_t offset) {
    const int inside = sqlite3_error_offset(opened);
    if (inside > 0) offset += static_cast<std::size_t>(inside);
    const bool stopped = (of & 0xff) == SQLITE_INTERRUPT;
    return std::unexpected(Error{stopped ? Failure::timed_out : Failure::statement,
                                 {},
                                 sqlite3_errmsg(opened),
                                 character_position(script, offset)});
  };
  if (code != SQLITE_OK)
    return std::unexpected(Error{Failure::unavailable, {}, path + ": " + sqlite3_errmsg(opened), 0});
  sqlite3_busy_timeout(opened, 5'000);
  sqlite3_progress_handler(opened, steps_between_looks, should_stop, const_cast<std::function<bool()>*>(&stop));
  sqlite3_exec(opened, "PRAGMA foreign_keys = 1", nullptr, nullptr, nullptr);

  const std::string text(script);  // NUL-terminated
  for (const char* at = text.c_str(); *at != '\0';) {
    // Skip to the statement's first byte, for errors that have no position.
    while (*at == ' ' || *at == '\n' || *at == '\r' || *at == '\t') ++at;
    const auto begin = static_cast<std::size_t>(at - text.c_str());
    sqlite3_stmt* prepared = nullptr;
    code = sqlite3_prepare_v2(opened, at, static_cast<int>(text.size() - begin), &prepared, &at);
    const std::unique_ptr<sqlite3_stmt, Close> statement(prepared);
    if (code != SQLITE_OK) return refused(code, begin);
    if (!statement) continue;  // a comment
    do {
      if (stop())
        return std::unexpected(Error{Failure::timed_out, {}, "interrupted", character_position(script, begin)});
      code = sqlite3_step(prepared);
    } while (code == SQLITE_ROW);
    if (code != SQLITE_DONE) return refused(code, begin);
  }
  if (sqlite3_get_autocommit(opened) == 0) {
    return std::unexpected(Error{Failure::statement, {}, "the script ends inside of a transaction", 0});
  }
  return {};
}

}  // namespace sluice::sql::sqlite
