#include "app/commands/query.h"

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <expected>
#include <memory>
#include <optional>
#include <string_view>
#include <system_error>
#include <utility>

#include <fmt/format.h>
#include <unistd.h>

#include "app/commands/exit_code.h"
#include "app/commands/query_output.h"
#include "app/commands/start.h"
#include "app/prepare/loop.h"
#include "app/prepare/opened_database.h"
#include "base/grouped.h"
#include "sql/encode/encoder.h"
#include "sql/options.h"
#include "sql/parameters.h"
#include "sql/postgres/database.h"
#include "sql/postgres/url.h"
#include "sql/sqlite/database.h"

namespace sluice::app {
namespace {

constexpr Duration progress_interval = 250ms;
constexpr Duration cancel_patience = 3s;
constexpr std::uint32_t longest_row = 900 << 20;  // the most that SQLite can be set to

volatile std::sig_atomic_t stopped_by = 0;  // the signal that ends the command

// A second signal ends the program at once. Signals that the caller ignores, as nohup does, stay ignored.
void take_signals() {
  std::signal(SIGPIPE, SIG_IGN);
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) {
    struct sigaction action{};
    if (::sigaction(signal, nullptr, &action) != 0 || action.sa_handler == SIG_IGN) continue;
    action = {};
    action.sa_handler = [](int number) { stopped_by = number; };
    action.sa_flags = SA_RESETHAND;
    ::sigaction(signal, &action, nullptr);
  }
}

bool is_of_postgres(std::string_view url) { return url.starts_with("postgres://") || url.starts_with("postgresql://"); }

class QueryRun {
 public:
  QueryRun(const QueryCommand& command, std::FILE* errors) : command_(command), errors_(errors) {}

  int run() {
    take_signals();
    auto done = prepare();
    if (done) done = stream();
    clear_progress();
    if (done) return exit_ok;
    if (stopped_by != 0) return 128 + stopped_by;
    if (!done.error().text.empty()) fmt::print(errors_, "sluice: {}\n", one_line(done.error().text));
    return done.error().code;
  }

 private:
  // An error that ends the command: a message, which may be empty, and the exit code.
  struct Ending {
    std::string text;
    int code = exit_failure;
  };
  using Done = std::expected<void, Ending>;

  static std::unexpected<Ending> ending(std::string text, int code = exit_failure) {
    return std::unexpected(Ending{std::move(text), code});
  }
  static std::string one_line(std::string text) {
    std::ranges::replace(text, '\n', ' ');
    return text;
  }

  std::unexpected<Ending> refused(const sql::Error& error) const {
    std::string text = describe(error);
    if (error.position != 0) text += fmt::format(", at character {}", error.position);
    const bool writes = error.sqlstate == "25006" || error.message == sql::sqlite::statement_writes;
    return ending(text + (writes && !command_.writes ? "; --write allows that" : ""));
  }
  std::unexpected<Ending> unwritten(int error) {
    is_cut_ = true;
    if (error == EPIPE && command_.output.empty()) return ending("", 128 + SIGPIPE);
    return ending(fmt::format("cannot write to {}: {}", command_.output.empty() ? "standard output" : command_.output,
                              std::generic_category().message(error)));
  }

  Done prepare() {
    const auto url = database_url(command_.database);
    if (!url) return ending(url.error());
    is_sqlite_ = !is_of_postgres(*url);
    if (auto read = read_parameters(); !read) return read;
    if (const int error = output_.open(command_.output); error != 0) return unwritten(error);
    shows_progress_ = ::isatty(::fileno(errors_)) == 1 && !output_.is_terminal();
    return is_sqlite_ ? open_sqlite(url->substr(url->find(':') + 1)) : open_postgres(*url);
  }

  // Fills `arguments_`, in the order of the statement's parameters.
  Done read_parameters() {
    using Style = sql::PlaceholderStyle;
    const auto parsed = sql::parse_parameters(command_.statement, is_sqlite_ ? Style::question : Style::dollar);
    if (!parsed) return refused(parsed.error());
    arguments_.resize(parsed->names.size());
    for (const std::string_view text : command_.parameters) {
      const std::string_view name = text.substr(0, text.find('='));
      const auto found = std::ranges::find(parsed->names, name);
      if (found == parsed->names.end())
        return ending(fmt::format("the statement has no parameter :{}", name), exit_usage);
      sql::Argument& argument = arguments_[static_cast<std::size_t>(found - parsed->names.begin())];
      if (argument.text) return ending(fmt::format("--param {} comes twice", name), exit_usage);
      argument.text = text.substr(name.size() + 1);
    }
    for (std::size_t i = 0; i < arguments_.size(); ++i) {
      if (arguments_[i].text) continue;
      return ending(fmt::format("the parameter :{0} has no value; --param {0}=VALUE gives one", parsed->names[i]),
                    exit_usage);
    }
    return {};
  }

  Done open_sqlite(std::string file) {
    sql::SqliteOptions options;
    options.path = std::move(file);
    options.read_only = !command_.writes;
    options.statement_timeout_ms = 0;
    options.row_bytes = longest_row;
    if (command_.writes) {
      auto writer = sql::SqliteWriter::open(options);
      if (!writer) return refused(writer.error());
      writer_ = std::move(*writer);
    }
    auto opened = sql::SqliteDatabase::open(options, *loop_.reactor, loop_.mailbox, loop_.threads, writer_.get());
    if (!opened) return refused(opened.error());
    database_ = std::move(*opened);
    return {};
  }

  Done open_postgres(const std::string& url) {
    auto options = sql::postgres::options_from_url(url);
    if (!options) return ending(options.error());
    options->mailbox = &loop_.mailbox;
    options->pool_size = 1;
    options->wait_ms = options->connect_timeout_ms + 500;  // so that the reason is known
    options->statement_timeout_ms = 0;
    options->read_only = !command_.writes;
    database_ = std::make_unique<sql::postgres::Database>(*loop_.reactor, std::move(*options));
    return {};
  }

  Done stream() {
    const auto stops = [this] {
      show_progress();
      return stopped_by != 0;
    };
    const auto done = core::run_unless(stops, *loop_.reactor, &loop_.mailbox, rows());
    // The writer of SQLite would end its statement first. It is rolled back when the file is opened the next time.
    if (!done && writer_ && is_running_) {
      clear_progress();
      output_.discard();
      std::_Exit(128 + stopped_by);
    }
    // The cursor is gone, which cancels the statement. The connection is free again when the server has done so.
    if (is_running_ && (!done || is_cut_)) {
      (void)core::run_to_end(*loop_.reactor, &loop_.mailbox, database_->ping(loop_.reactor->clock() + cancel_patience));
    }
    return done.value_or(ending(""));
  }

  core::Task<Done> rows() {
    // Statements of PostgreSQL that write are streamed, too. SQLite itself keeps the rows of RETURNING until it has
    // changed the last row.
    const bool writes = command_.writes;
    auto statement = co_await (writes && !is_sqlite_ ? database_->prepare_writing(command_.statement, {})
                                                     : database_->prepare(command_.statement, {}));
    const bool is_whole = writes && (!statement || statement->columns.empty());
    if (is_whole && is_sqlite_) statement = co_await database_->prepare_writing(command_.statement, {});
    if (!statement) co_return refused(statement.error());
    if (is_whole) co_return co_await transact(*statement);
    if (statement->columns.empty()) {
      co_return ending("the statement returns no rows; --write allows statements that change the database");
    }
    is_running_ = true;
    const auto cursor = co_await database_->query(*statement, arguments_, {});
    if (!cursor) co_return refused(cursor.error());
    for (bool last = false; !last;) {
      const auto block = co_await (*cursor)->next();
      if (!block) co_return refused(block.error());
      last = block->last;
      if (auto put = take(*block); !put) co_return put;
    }
    co_return finish();
  }

  core::Task<Done> transact(const sql::Statement& statement) {
    const auto transaction = database_->begin({.result_bytes = SIZE_MAX});
    is_running_ = true;
    const auto written = co_await transaction->finish(statement, arguments_, SIZE_MAX);
    is_running_ = false;
    if (!written) co_return refused(written.error());
    if (!statement.columns.empty()) {
      if (auto put = take(written->rows); !put) co_return put;
    }
    co_return finish();
  }

  Done take(const sql::Block& block) {
    if (!encoder_) {
      encoder_.emplace(command_.format, block.columns);
      encoder_->begin(out_);
    }
    encoder_->rows(block, out_);
    if (block.last) encoder_->end(out_);
    if (const int error = stopped_by != 0 ? EINTR : output_.write(out_.view()); error != 0) return unwritten(error);
    bytes_ += out_.size();
    out_.clear();
    show_progress();
    return {};
  }

  Done finish() {
    is_running_ = false;
    if (const int error = output_.finish(); error != 0) return unwritten(error);
    return {};
  }

  void show_progress() {
    if (!shows_progress_) return;
    const Instant now = loop_.reactor->clock();
    if (now - shown_at_ < progress_interval) return;
    shown_at_ = now;
    const std::uint64_t rows = encoder_ ? encoder_->row_count() : 0;
    const double seconds = std::chrono::duration<double>(now - began_).count();
    fmt::print(errors_, "\r\x1b[K{} rows, {:.1f} MB, {} rows/s", grouped(rows), static_cast<double>(bytes_) / 1e6,
               grouped(static_cast<std::uint64_t>(static_cast<double>(rows) / seconds)));
    std::fflush(errors_);
    line_open_ = true;
  }
  void clear_progress() {
    if (!std::exchange(line_open_, false)) return;
    std::fputs("\r\x1b[K", errors_);
    std::fflush(errors_);
  }

  const QueryCommand& command_;
  std::FILE* const errors_;
  Loop loop_;
  std::vector<sql::Argument> arguments_;
  QueryOutput output_{[] { return stopped_by != 0; }};
  bool is_sqlite_ = false;
  std::unique_ptr<sql::SqliteWriter> writer_;
  std::unique_ptr<sql::Database> database_;
  std::optional<sql::Encoder> encoder_;
  Buffer out_;
  std::uint64_t bytes_ = 0;  // written
  bool is_running_ = false;  // the database has the statement, and may not have ended it
  bool is_cut_ = false;      // the output cannot be written
  bool shows_progress_ = false;
  bool line_open_ = false;
  const Instant began_ = loop_.reactor->clock();
  Instant shown_at_ = began_;
};

}  // namespace

std::string check_query_database(const std::string& database) {
  if (is_of_postgres(database)) {
    const auto url = sql::postgres::parse_url(database);
    return url ? "" : url.error();
  }
  return database.contains("://") ? sql::DatabaseOptions::check_url(database) : "";
}

int run_query(const QueryCommand& command, std::FILE* errors) { return QueryRun(command, errors).run(); }

}  // namespace sluice::app
