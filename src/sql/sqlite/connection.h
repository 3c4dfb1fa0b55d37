#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "sql/database.h"
#include "sql/sqlite/options.h"
#include "sql/sqlite/planner.h"
#include "sql/sqlite/value.h"

struct sqlite3;
struct sqlite3_stmt;

namespace sluice::sql::sqlite {

// A connection's purpose decides its flags, its memory mapping and how long it waits for locks.
enum class Purpose : std::uint8_t {
  look_up,  // on a core: never waits for a lock, maps the file, refuses values larger than look_up_max_bytes
  scan,     // in the blocking pool
  write,
};

// A look-up keeps its whole result in memory; the blocking pool streams larger results.
inline constexpr std::size_t look_up_max_bytes = 256 * 1024;
inline constexpr std::size_t look_up_max_rows = 256;

// The message of the error for a statement that writes, where `purpose` is not `write`.
inline constexpr std::string_view statement_writes = "the statement writes, where only reading is allowed";

// SQLite VM steps between two checks of whether to stop. It is small, because a step may call a slow function.
inline constexpr int stop_interval = 50;

// A prepared statement of one connection.
struct Prepared {
  Prepared() = default;
  Prepared(const Prepared&) = delete;
  ~Prepared();

  std::string text;
  sqlite3_stmt* handle = nullptr;
  std::vector<ColumnKind> columns;
  std::vector<std::string> names;   // of the columns
  std::vector<std::string> writes;  // tables of the file that it may write, also through triggers and foreign keys
  Plan plan;
  int recompiled = 0;      // the statement's recompilation count when the members above were read
  std::uint32_t uses = 0;  // look-ups on the core; `overflows` of them were too large for it
  std::uint32_t overflows = 0;

  // The list that look-ups' blocks refer to if the columns differ from those of the statement with serial `listed_for`.
  std::span<const Column> other_list;
  std::uint64_t listed_for = 0;
};

// One sqlite3 connection with its cache of prepared statements. Used by one thread at a time.
class Connection {
 public:
  [[nodiscard]] static Result<std::unique_ptr<Connection>> open(const SqliteOptions& options, Purpose purpose);
  Connection(const Connection&) = delete;
  ~Connection();

  [[nodiscard]] sqlite3* get() const { return database_; }
  [[nodiscard]] const SqliteFile& file() const { return file_; }
  // Fails if the file was removed from its path, or replaced by another.
  [[nodiscard]] Result<void> check_file() const;

  // Returns the slot's statement from the cache if its text is the same; otherwise prepares it.
  [[nodiscard]] Result<Prepared*> prepared(std::uint32_t slot, std::string_view text) {
    if (slot < cache_.size() && cache_[slot] && cache_[slot]->text == text) [[likely]]
      return cache_[slot].get();
    return prepare_cached(slot, text);
  }
  // Describes again a statement that SQLite has recompiled because the schema has changed.
  void refresh(Prepared& prepared);

  // Parses and checks a statement whose placeholders are :name, and describes it for all cores.
  [[nodiscard]] Result<Statement> describe(std::string_view text, std::span<const Parameter> declared);

  // Runs one of Sluice's own statements (BEGIN, a pragma). The rules for the configuration's statements do not apply.
  [[nodiscard]] Result<void> run(const char* sql);
  // Begins a transaction that holds the write lock. Fails if the file was removed from its path, because its rows would
  // be lost.
  [[nodiscard]] Result<void> begin_writing();
  [[nodiscard]] sqlite3_stmt* prepare_own(const char* sql);  // null on failure; the caller finalizes it
  [[nodiscard]] int step_own(sqlite3_stmt* statement);       // steps once and resets

  // `running`: the statement whose step has failed, if one of its text values may be the cause.
  [[nodiscard]] Error error(int code, std::string_view running = {});

 private:
  Connection(SqliteFile file, Purpose purpose, bool may_write)
      : file_(std::move(file)), purpose_(purpose), may_write_(may_write) {}
  [[nodiscard]] Result<void> set_up(const SqliteOptions& options);
  [[nodiscard]] Result<std::unique_ptr<Prepared>> prepare(std::string_view text, bool persistent, int* error_offset);
  [[nodiscard]] Result<Prepared*> prepare_cached(std::uint32_t slot, std::string_view text);
  [[nodiscard]] bool compiles(std::string_view text);
  [[nodiscard]] bool lacks_name_of_schema(std::string_view statement);
  void take_quoted_texts(bool takes);
  void read_shape(Prepared& prepared);
  static int authorize(void* self, int action, const char* first, const char* second, const char* database,
                       const char*);
  void note_write(const char* table);

  const SqliteFile file_;
  sqlite3* database_ = nullptr;
  Purpose purpose_;
  const bool may_write_;
  // Whether SQLite treats a double-quoted "name" that matches no column as a string. Off at first, because otherwise a
  // statement would silently use a string after its column was renamed. On from the first statement whose triggers or
  // views need it. Changing it recompiles all statements.
  bool takes_quoted_texts_ = false;
  bool own_statement_ = false;                    // the authorizer permits everything
  const char* forbidden_ = nullptr;               // what the authorizer has refused, for the error's message
  std::vector<std::string> compiled_writes_;      // tables that the most recently compiled statement writes
  std::vector<std::unique_ptr<Prepared>> cache_;  // by StatementId::slot
};

// The error for rows that are longer than TransactionOptions::result_bytes.
[[nodiscard]] Error over_limit(std::size_t result_bytes);

// Checks that the file exists and is a database, and switches it to WAL mode if it may be written. Called once, before
// any core opens connections.
[[nodiscard]] Result<void> prepare_file(const SqliteOptions& options);

}  // namespace sluice::sql::sqlite
