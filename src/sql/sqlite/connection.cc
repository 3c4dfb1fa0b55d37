#include "sql/sqlite/connection.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <ranges>
#include <utility>

#include <fmt/format.h>
#include <sqlite3.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/assert.h"
#include "sql/parameters.h"
#include "sql/set/constraints.h"
#include "sql/sqlite/column_lists.h"
#include "sql/sqlite/json_results.h"
#include "sql/sqlite/words.h"

namespace sluice::sql::sqlite {
namespace {

// No deadline ends the call of a function. LIKE takes time proportional to the product of the lengths of text and
// pattern: 1 MB of text with a pattern of this length takes a fifth of a second.
constexpr int longest_pattern = 1'000;

Error make_error(Failure failure, std::string message) { return Error{failure, {}, std::move(message)}; }

Failure failure_of(int code) {
  switch (code & 0xFF) {
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
    case SQLITE_NOMEM:
    case SQLITE_CANTOPEN:
    case SQLITE_FULL:
      return Failure::unavailable;
    case SQLITE_INTERRUPT:
      return Failure::timed_out;
    case SQLITE_MISMATCH:
    case SQLITE_TOOBIG:
      return Failure::bad_argument;
    default:
      return code == SQLITE_CONSTRAINT_DATATYPE ? Failure::bad_argument : Failure::statement;
  }
}

constexpr std::string_view syntax_error = "42601";  // PostgreSQL's code for a malformed tsquery
constexpr std::string_view no_column = "no such column: ";

// The SQLSTATE if a message is about a value that an operator or a function was given; otherwise empty. These are the
// messages of FTS5 and FTS4, where a name before a colon is a column, of the JSON functions, and of abs() and sum().
std::string_view sqlstate_of_value(std::string_view message) {
  constexpr std::array expressions{std::string_view("fts5: "),
                                   std::string_view("unterminated string"),
                                   no_column,
                                   std::string_view("unknown special query: "),
                                   std::string_view("malformed MATCH expression: "),
                                   std::string_view("JSON path error near "),
                                   std::string_view("bad JSON path: ")};
  const auto begins = [&](std::string_view one) { return message.starts_with(one); };
  if (std::ranges::any_of(expressions, begins)) return syntax_error;
  if (begins("malformed JSON") || begins("JSON cannot hold BLOB values")) return "22032";
  if (message == "integer overflow") return "22003";
  if (begins("ESCAPE expression must be a single character")) return "22019";
  return {};
}

// Parses "UNIQUE constraint failed: films.slug, films.year", "CHECK constraint failed: " and a name or the expression,
// "cannot store TEXT value in INTEGER column films.id".
std::shared_ptr<const BrokenRule> rule_of(const Error& error) {
  const std::string_view text = error.message;
  BrokenRule rule;
  const auto add_column = [&](std::string_view column) {
    const auto dot = column.rfind('.');
    rule.table = column.substr(0, dot == column.npos ? 0 : dot);
    rule.columns.emplace_back(column.substr(dot == column.npos ? 0 : dot + 1));
  };
  constexpr std::string_view before_column = " column ";
  constexpr std::string_view before_index = "index '";
  if (const auto at = text.rfind(before_column); error.failure == Failure::bad_argument && at != text.npos) {
    add_column(text.substr(at + before_column.size()));
    return std::make_shared<const BrokenRule>(std::move(rule));
  }
  const auto colon = text.find(": ");
  if (colon == text.npos || !error.sqlstate.starts_with("23")) return nullptr;
  const std::string_view about = text.substr(colon + 2);
  if (error.sqlstate == "23514") {
    rule.columns = names_in(about);
    const bool is_name = rule.columns.size() == 1 && rule.columns[0] == about;
    if (is_name) rule.constraint = *std::exchange(rule.columns, {}).begin();
  } else if (about.starts_with(before_index)) {
    rule.constraint = about.substr(before_index.size(), about.rfind('\'') - before_index.size());
  } else {
    for (const auto column : std::views::split(about, std::string_view(", ")))
      add_column({column.begin(), column.end()});
    if (error.sqlstate == "23505") rule.constraint = about;
  }
  return std::make_shared<const BrokenRule>(std::move(rule));
}

// Maps SQLite's code to PostgreSQL's, so that answers depend on one list of codes.
std::string_view sqlstate_of(int code) {
  switch (code) {
    case SQLITE_CONSTRAINT_UNIQUE:
    case SQLITE_CONSTRAINT_PRIMARYKEY:
    case SQLITE_CONSTRAINT_ROWID:
      return "23505";
    case SQLITE_CONSTRAINT_FOREIGNKEY:
      return "23503";
    case SQLITE_CONSTRAINT_NOTNULL:
      return "23502";
    case SQLITE_CONSTRAINT_CHECK:
      return "23514";
    case SQLITE_CONSTRAINT_TRIGGER:
      return "P0001";
    case SQLITE_CONSTRAINT_DATATYPE:
      return "22000";
    default:
      break;
  }
  switch (code & 0xFF) {
    case SQLITE_CONSTRAINT:
      return "23000";
    case SQLITE_MISMATCH:
      return "22000";
    case SQLITE_TOOBIG:
      return "22001";
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
      return "55P03";
    case SQLITE_FULL:
      return "53100";
    case SQLITE_READONLY:
      return "25006";
    default:
      return {};
  }
}

// SQLite's memory statistics would take a process-wide lock at every allocation of every core.
void configure_library() {
  static std::once_flag once;
  std::call_once(once, [] { sqlite3_config(SQLITE_CONFIG_MEMSTATUS, 0); });
}

// Pragmas that only report about their argument and change nothing.
bool is_telling_pragma(const char* name) {
  static constexpr const char* telling[] = {"table_info", "table_xinfo", "table_list",      "index_list",
                                            "index_info", "index_xinfo", "foreign_key_list"};
  return std::any_of(std::begin(telling), std::end(telling),
                     [&](const char* t) { return sqlite3_stricmp(t, name) == 0; });
}

// sluice_collation(table, column): the column's collation, which SQL cannot query otherwise. NULL: unknown column.
void collation_of(sqlite3_context* context, int, sqlite3_value** arguments) {
  const auto* const table = reinterpret_cast<const char*>(sqlite3_value_text(arguments[0]));
  const auto* const column = reinterpret_cast<const char*>(sqlite3_value_text(arguments[1]));
  const char* collation = nullptr;
  if (table == nullptr || column == nullptr ||
      sqlite3_table_column_metadata(sqlite3_context_db_handle(context), nullptr, table, column, nullptr, &collation,
                                    nullptr, nullptr, nullptr) != SQLITE_OK) {
    return;
  }
  sqlite3_result_text(context, collation, -1, SQLITE_TRANSIENT);
}

class OwnStatement {
 public:
  explicit OwnStatement(bool& flag) : flag_(flag) { flag_ = true; }
  OwnStatement(const OwnStatement&) = delete;
  ~OwnStatement() { flag_ = false; }

 private:
  bool& flag_;
};

bool is_there(const std::string& path) {
  struct stat file{};
  return ::stat(path.c_str(), &file) == 0;
}

Error no_file(const std::string& path) {
  return make_error(Failure::unavailable,
                    errno == ENOENT ? "no such file: " + path : path + ": " + std::strerror(errno));
}

Result<void> check_file_of(const SqliteFile& file) {
  struct stat now{};
  if (::stat(file.path.c_str(), &now) != 0) return std::unexpected(no_file(file.path));
  if (now.st_dev == file.device && now.st_ino == file.inode) return {};
  return std::unexpected(make_error(Failure::unavailable, file.path + ": has been replaced by another file"));
}

// Writes the -wal of a file that this process no longer has open into the file, and removes it. SQLite does so only if
// the last connection could write. A -wal that stays would destroy another file that is moved to the path.
void write_back(const SqliteFile& file) {
  if (!is_there(file.path + "-wal") || !check_file_of(file)) return;
  sqlite3* database = nullptr;
  if (sqlite3_open_v2(file.path.c_str(), &database, SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX, nullptr) == SQLITE_OK)
    sqlite3_exec(database, "SELECT count(*) FROM sqlite_schema", nullptr, nullptr, nullptr);
  sqlite3_close(database);
}

// The files that this process has open, by path. If another file has been moved to the path of an open one, the -wal
// and -shm files at that path still belong to the first. SQLite would use them for the new file and destroy it.
class OpenFiles {
 public:
  [[nodiscard]] bool add(const SqliteFile& file) {
    const std::lock_guard lock(mutex_);
    auto& files = files_[file.path];
    auto found = std::ranges::find(files, file, &Open::file);
    if (found == files.end()) {
      if (!files.empty() && (is_there(file.path + "-wal") || is_there(file.path + "-shm"))) return false;
      found = files.insert(found, {.file = file});
    }
    ++found->connections;
    return true;
  }
  // `may_write`: the file may be written to.
  void remove(const SqliteFile& file, bool may_write) {
    const std::lock_guard lock(mutex_);
    auto& files = files_[file.path];
    const auto found = std::ranges::find(files, file, &Open::file);
    if (--found->connections == 0) {
      if (may_write) write_back(file);
      files.erase(found);
    }
    if (files.empty()) files_.erase(file.path);
  }

 private:
  struct Open {
    SqliteFile file;
    int connections = 0;
  };
  std::mutex mutex_;
  std::map<std::string, std::vector<Open>> files_;
};

OpenFiles open_files;

Result<SqliteFile> find_file(const std::string& path) {
  const std::unique_ptr<char, decltype(&std::free)> real(::realpath(path.c_str(), nullptr), &std::free);
  struct stat file{};
  if (real == nullptr || ::stat(real.get(), &file) != 0) return std::unexpected(no_file(path));
  return SqliteFile{.path = real.get(), .device = file.st_dev, .inode = file.st_ino};
}

}  // namespace

Prepared::~Prepared() { sqlite3_finalize(handle); }

Connection::~Connection() {
  cache_.clear();
  // The owners of Sluice's own statements finalize them; close_v2 permits that they do so later.
  sqlite3_close_v2(database_);
  open_files.remove(file_, may_write_);
}

Result<std::unique_ptr<Connection>> Connection::open(const SqliteOptions& options, Purpose purpose) {
  configure_library();
  auto file = options.file ? Result<SqliteFile>(*options.file) : find_file(options.path);
  if (!file) return std::unexpected(std::move(file.error()));
  if (auto there = check_file_of(*file); !there) return std::unexpected(std::move(there.error()));
  if (!open_files.add(*file)) {
    return std::unexpected(make_error(
        Failure::unavailable, options.path + ": another file has been moved here in place of the one that is open. The "
                                             "-wal and -shm here belong to that one: put it back, or give the other "
                                             "a path of its own"));
  }
  std::unique_ptr<Connection> connection(new Connection(*std::move(file), purpose, !options.read_only));
  // A connection is used by one thread at a time, so SQLite needs no mutex of its own.
  const int mode = purpose == Purpose::write ? SQLITE_OPEN_READWRITE : SQLITE_OPEN_READONLY;
  const int code =
      sqlite3_open_v2(connection->file_.path.c_str(), &connection->database_, mode | SQLITE_OPEN_NOMUTEX, nullptr);
  if (code != SQLITE_OK) {
    Error error = connection->error(code);
    error.message = options.path + ": " + error.message;
    return std::unexpected(std::move(error));
  }
  if (auto done = connection->set_up(options); !done) {
    done.error().message = options.path + ": " + done.error().message;
    return std::unexpected(std::move(done.error()));
  }
  return connection;
}

Result<void> Connection::check_file() const { return check_file_of(file_); }

Result<void> Connection::begin_writing() {
  if (auto there = check_file(); !there) return there;
  return run("BEGIN IMMEDIATE");
}

Result<void> Connection::set_up(const SqliteOptions& options) {
  sqlite3_extended_result_codes(database_, 1);
  take_quoted_texts(false);
  sqlite3_busy_timeout(database_, static_cast<int>(options.busy_timeout_ms));
  std::string pragmas =
      fmt::format("PRAGMA cache_size = -{}; PRAGMA mmap_size = {}; PRAGMA trusted_schema = {};", options.cache_kib,
                  purpose_ == Purpose::look_up ? options.mmap_bytes : 0, options.untrusted ? 0 : 1);
  if (purpose_ == Purpose::write) {
    pragmas += fmt::format("PRAGMA synchronous = {}; PRAGMA foreign_keys = {};", options.durable ? "FULL" : "NORMAL",
                           options.foreign_keys ? 1 : 0);
  } else {
    pragmas += "PRAGMA query_only = 1;";
  }
  // Read the schema now, so that a file that is not a database is an error at start.
  pragmas += "SELECT count(*) FROM sqlite_schema;";
  if (auto done = run(pragmas.c_str()); !done) return done;
  if (purpose_ == Purpose::look_up) sqlite3_busy_timeout(database_, 0);
  const std::uint64_t longest = purpose_ == Purpose::look_up ? look_up_max_bytes : options.row_bytes;
  sqlite3_limit(database_, SQLITE_LIMIT_LENGTH, static_cast<int>(longest));
  sqlite3_limit(database_, SQLITE_LIMIT_LIKE_PATTERN_LENGTH, longest_pattern);
  int made = sqlite3_create_function_v2(database_, "sluice_collation", 2, SQLITE_UTF8 | SQLITE_DIRECTONLY, nullptr,
                                        collation_of, nullptr, nullptr, nullptr);
  if (made == SQLITE_OK) made = add_word_search(database_);
  if (made != SQLITE_OK) return std::unexpected(error(made));
  sqlite3_set_authorizer(database_, &Connection::authorize, this);
  return {};
}

// The configuration's statements may only read or write rows. Changes to the connection would affect other requests.
int Connection::authorize(void* self, int action, const char* first, const char* second, const char* database,
                          const char*) {
  auto& connection = *static_cast<Connection*>(self);
  if (connection.own_statement_) return SQLITE_OK;
  switch (action) {
    case SQLITE_INSERT:
    case SQLITE_UPDATE:
    case SQLITE_DELETE:
      if (database != nullptr && std::string_view(database) == "main") connection.note_write(first);
      return SQLITE_OK;
    case SQLITE_TRANSACTION:
    case SQLITE_SAVEPOINT:
      connection.forbidden_ = "a statement may not begin or end a transaction";
      return SQLITE_DENY;
    case SQLITE_ATTACH:
    case SQLITE_DETACH:
      connection.forbidden_ = "a statement may not attach or detach a database";
      return SQLITE_DENY;
    case SQLITE_PRAGMA:
      if (second == nullptr || is_telling_pragma(first)) return SQLITE_OK;
      connection.forbidden_ = "a statement may not set a pragma";
      return SQLITE_DENY;
    default:
      return SQLITE_OK;
  }
}

Error Connection::error(int code, std::string_view running) {
  const char* message = database_ == nullptr ? sqlite3_errstr(code) : sqlite3_errmsg(database_);
  Error result = make_error(failure_of(code), message);
  // If the caller passes only the basic code, the connection has the extended one.
  const int extended = database_ != nullptr && code == (code & 0xFF) ? sqlite3_extended_errcode(database_) : code;
  result.sqlstate = sqlstate_of((extended & 0xFF) == (code & 0xFF) ? extended : code);
  if (code == SQLITE_ERROR && result.message == "LIKE or GLOB pattern too complex") {
    result.failure = Failure::bad_argument;
    result.sqlstate = "22023";
  }
  if ((code & 0xFF) == SQLITE_CONSTRAINT) result.rule = rule_of(result);
  // Newer versions of SQLite append to "nope": - should this be a string literal in single-quotes?
  if (result.message.starts_with(no_column) && result.message[no_column.size()] == '"') {
    const auto name = no_column.size() + 1;
    result.message = std::string(no_column) + result.message.substr(name, result.message.find('"', name) - name);
  }
  // SQLite reports "no such column" for a bad argument, such as an FTS5 query, and for a statement that a schema change
  // has broken. If the statement still compiles, the argument is at fault.
  const std::string_view of_value = sqlstate_of_value(result.message);
  if ((code & 0xFF) == SQLITE_ERROR && !running.empty() && !of_value.empty() && compiles(running)) {
    result.failure = Failure::bad_argument;
    result.sqlstate = of_value;
  }
  return result;
}

Result<void> Connection::run(const char* sql) {
  const OwnStatement own(own_statement_);
  const int code = sqlite3_exec(database_, sql, nullptr, nullptr, nullptr);
  if (code != SQLITE_OK) return std::unexpected(error(code));
  return {};
}

sqlite3_stmt* Connection::prepare_own(const char* sql) {
  const OwnStatement own(own_statement_);
  sqlite3_stmt* statement = nullptr;
  sqlite3_prepare_v3(database_, sql, -1, SQLITE_PREPARE_PERSISTENT, &statement, nullptr);
  return statement;
}

int Connection::step_own(sqlite3_stmt* statement) {
  // SQLite may recompile the statement, and then calls the authorizer again.
  const OwnStatement own(own_statement_);
  const int code = sqlite3_step(statement);
  sqlite3_reset(statement);
  return code;
}

// Uses the connection's current rules.
bool Connection::compiles(std::string_view text) {
  sqlite3_stmt* statement = nullptr;
  const int code = sqlite3_prepare_v3(database_, text.data(), static_cast<int>(text.size()), 0, &statement, nullptr);
  sqlite3_finalize(statement);
  return code == SQLITE_OK;
}

void Connection::take_quoted_texts(bool takes) {
  takes_quoted_texts_ = takes;
  sqlite3_db_config(database_, SQLITE_DBCONFIG_DQS_DML, takes ? 1 : 0, nullptr);
}

// Whether compilation failed because of a name that is not in the statement itself, but in a trigger or a view, perhaps
// as a string. SQLite reports the position of a name in the statement, except in ON and RETURNING.
bool Connection::lacks_name_of_schema(std::string_view statement) {
  if (sqlite3_error_offset(database_) >= 0) return false;
  const std::string message = error(sqlite3_errcode(database_)).message;
  return message.starts_with(no_column) && !statement.contains('"' + message.substr(no_column.size()) + '"');
}

Result<std::unique_ptr<Prepared>> Connection::prepare(std::string_view text, bool persistent, int* error_offset) {
  auto prepared = std::make_unique<Prepared>();
  prepared->text = text;
  forbidden_ = nullptr;
  compiled_writes_.clear();
  const auto compile = [&] {
    return sqlite3_prepare_v3(database_, text.data(), static_cast<int>(text.size()),
                              persistent ? SQLITE_PREPARE_PERSISTENT : 0, &prepared->handle, nullptr);
  };
  int code = compile();
  if (code == SQLITE_ERROR && !takes_quoted_texts_ && lacks_name_of_schema(text)) {
    take_quoted_texts(true);
    code = compile();
    if (code != SQLITE_OK) {
      take_quoted_texts(false);
      code = compile();
    }
  }
  if (code != SQLITE_OK) {
    if (error_offset != nullptr) *error_offset = sqlite3_error_offset(database_);
    if (forbidden_ != nullptr) return std::unexpected(make_error(Failure::statement, forbidden_));
    return std::unexpected(error(code));
  }
  if (prepared->handle == nullptr) return std::unexpected(make_error(Failure::statement, "the statement is empty"));
  read_shape(*prepared);
  return prepared;
}

void Connection::note_write(const char* table) {
  if (sqlite3_strnicmp(table, "sqlite_", 7) == 0) return;
  if (std::ranges::find(compiled_writes_, table) == compiled_writes_.end()) compiled_writes_.emplace_back(table);
}

void Connection::read_shape(Prepared& prepared) {
  prepared.writes = std::exchange(compiled_writes_, {});
  const int columns = sqlite3_column_count(prepared.handle);
  prepared.columns.clear();
  prepared.names.clear();
  prepared.listed_for = 0;
  for (int i = 0; i < columns; ++i) {
    const char* const type = sqlite3_column_decltype(prepared.handle, i);
    prepared.columns.push_back(sqlite_column_kind(type == nullptr ? "" : type));
    const char* name = sqlite3_column_name(prepared.handle, i);
    prepared.names.emplace_back(name == nullptr ? "" : name);
  }
  const std::vector<bool> json = json_results(prepared.text, prepared.columns.size());
  for (std::size_t i = 0; i < json.size(); ++i) {
    if (json[i]) prepared.columns[i] = ColumnKind::json;
  }
  if (purpose_ == Purpose::look_up) prepared.plan = plan_of(database_, prepared.text);
  prepared.recompiled = sqlite3_stmt_status(prepared.handle, SQLITE_STMTSTATUS_REPREPARE, 0);
}

void Connection::refresh(Prepared& prepared) {
  if (sqlite3_stmt_status(prepared.handle, SQLITE_STMTSTATUS_REPREPARE, 0) != prepared.recompiled) [[unlikely]] {
    read_shape(prepared);
  }
}

Result<Prepared*> Connection::prepare_cached(std::uint32_t slot, std::string_view text) {
  SLUICE_ASSERT(slot != StatementId::unnamed);
  auto prepared = prepare(text, true, nullptr);
  if (!prepared) return std::unexpected(std::move(prepared.error()));
  if (slot >= cache_.size()) cache_.resize(slot + 1);
  cache_[slot] = *std::move(prepared);
  return cache_[slot].get();
}

Result<Statement> Connection::describe(std::string_view text, std::span<const Parameter> declared) {
  auto parsed = parse_parameters(text, PlaceholderStyle::question);
  if (!parsed) return std::unexpected(std::move(parsed.error()));

  int offset = -1;
  const bool before = takes_quoted_texts_;
  // Other statements may need double-quoted strings. In this statement's own text, double-quoted names must be columns.
  if (before) take_quoted_texts(false);
  auto prepared = prepare(parsed->text, false, &offset);
  if (before) take_quoted_texts(true);
  if (!prepared) {
    if (offset >= 0) {
      prepared.error().position = character_position(text, parsed->source_offset(static_cast<std::uint32_t>(offset)));
    }
    return std::unexpected(std::move(prepared.error()));
  }
  sqlite3_stmt* const handle = (*prepared)->handle;
  if (purpose_ != Purpose::write) {
    if (sqlite3_stmt_readonly(handle) == 0) {
      return std::unexpected(make_error(Failure::statement, std::string(statement_writes)));
    }
    if ((*prepared)->columns.empty()) {
      return std::unexpected(make_error(Failure::statement, "the statement returns no columns"));
    }
  }
  if (static_cast<std::size_t>(sqlite3_bind_parameter_count(handle)) != parsed->names.size()) {
    return std::unexpected(make_error(Failure::statement, "a parameter that is not written :name"));
  }

  Statement statement;
  statement.text = std::move(parsed->text);
  for (std::string& name : parsed->names) {
    const auto known =
        std::find_if(declared.begin(), declared.end(), [&](const Parameter& p) { return p.name == name; });
    statement.parameters.push_back({std::move(name), known == declared.end() ? std::nullopt : known->declared});
  }
  statement.columns = columns_of((*prepared)->names);
  for (std::size_t i = 0; i < statement.columns.size(); ++i) {
    const char* const type = sqlite3_column_decltype(handle, static_cast<int>(i));
    if (type != nullptr) statement.columns[i].declared_type = type;
    if (type == nullptr && (*prepared)->columns[i] == ColumnKind::json) statement.columns[i].declared_type = "JSON";
  }
  return statement;
}

Error over_limit(std::size_t result_bytes) {
  return make_error(Failure::too_large, fmt::format("the rows are longer than {} bytes", result_bytes));
}

Result<void> prepare_file(const SqliteOptions& options) {
  const bool writable = !options.read_only && ::access(options.path.c_str(), W_OK) == 0;
  auto connection = Connection::open(options, writable ? Purpose::write : Purpose::scan);
  if (!connection) return std::unexpected(std::move(connection.error()));
  if (!writable) return {};
  if (auto done = (*connection)->run("PRAGMA journal_mode = WAL"); !done) {
    done.error().message = options.path + ": switching to WAL mode: " + done.error().message;
    return done;
  }
  return {};
}

}  // namespace sluice::sql::sqlite
