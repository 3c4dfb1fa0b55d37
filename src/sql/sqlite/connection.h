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

// What a connection is for decides its flags, its memory mapping and how long it waits for locks.
enum class Purpose : std::uint8_t {
  look_up,  // on a core: never waits for a lock, maps the file, takes no value beyond look_up_max_bytes
  scan,     // in the blocking pool
  write,
};

// A look-up's whole result lies in memory at once; what is larger is streamed by the blocking pool.
inline constexpr std::size_t look_up_max_bytes = 256 * 1024;
inline constexpr std::size_t look_up_max_rows = 256;

// Steps of a program between two looks at whether it is to stop. A step may be the call of a function that takes long,
// so there are few.
inline constexpr int stop_interval = 50;

// A statement as one connection holds it.
struct Prepared {
  Prepared() = default;
  Prepared(const Prepared&) = delete;
  ~Prepared();

  std::string text;
  sqlite3_stmt* handle = nullptr;
  std::vector<ColumnKind> columns;
  std::vector<std::string> names;   // of the columns
  std::vector<std::string> writes;  // tables of the file that it may write, through triggers and foreign keys too
  Plan plan;
  int recompiled = 0;      // how often SQLite has compiled it anew when all these were read
  std::uint32_t uses = 0;  // look-ups on the core, and those of them that turned out too large for it
  std::uint32_t overflows = 0;

  // The list that a look-up's rows name, where the columns are not those of the statement of this serial number.
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
  // Refuses where it is gone from its path, or another one is there.
  [[nodiscard]] Result<void> check_file() const;

  // The statement of this slot, from the cache if it is there with this very text.
  [[nodiscard]] Result<Prepared*> prepared(std::uint32_t slot, std::string_view text) {
    if (slot < cache_.size() && cache_[slot] && cache_[slot]->text == text) [[likely]]
      return cache_[slot].get();
    return prepare_cached(slot, text);
  }
  // A statement that SQLite has compiled anew (the schema has changed) is described again.
  void refresh(Prepared& prepared);

  // Parses and checks a statement whose placeholders are :name, and says what the callers of all cores need.
  [[nodiscard]] Result<Statement> describe(std::string_view text, std::span<const Parameter> declared);

  // One of our own statements (BEGIN, a pragma), which the rules for the configuration's statements do not bind.
  [[nodiscard]] Result<void> run(const char* sql);
  // A transaction that has the lock already. Not for a file that is gone from its path: its rows would be lost.
  [[nodiscard]] Result<void> begin_writing();
  [[nodiscard]] sqlite3_stmt* prepare_own(const char* sql);  // null on failure; the caller finalizes it
  [[nodiscard]] int step_own(sqlite3_stmt* statement);       // steps once and resets

  // `running`: the statement whose step has failed, where a text that it was given may be what is wrong.
  [[nodiscard]] Error error(int code, std::string_view running = {});

 private:
  Connection(SqliteFile file, Purpose purpose) : file_(std::move(file)), purpose_(purpose) {}
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
  // "name" that is no column is a text. Off, or a statement would go on with a text once its column has another name;
  // on from the first statement whose triggers or views need it. A change compiles all statements anew.
  bool takes_quoted_texts_ = false;
  bool own_statement_ = false;                    // the authorizer lets everything pass
  const char* forbidden_ = nullptr;               // what the authorizer has refused, for the error's text
  std::vector<std::string> compiled_writes_;      // tables that what SQLite compiled last writes
  std::vector<std::unique_ptr<Prepared>> cache_;  // by StatementId::slot
};

// Of rows that are longer than TransactionOptions::result_bytes.
[[nodiscard]] Error over_limit(std::size_t result_bytes);

// The file must exist and be a database; switches it to WAL mode where it may be written. Once, before connections of
// any core are opened.
[[nodiscard]] Result<void> prepare_file(const SqliteOptions& options);

}  // namespace sluice::sql::sqlite
