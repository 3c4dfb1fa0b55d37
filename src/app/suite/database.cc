#include "app/suite/database.h"

#include <array>
#include <filesystem>
#include <optional>
#include <system_error>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <sys/random.h>

#include "app/config/load.h"
#include "core/blocking_pool.h"
#include "core/mailbox.h"
#include "core/run_to_end.h"
#include "sql/encode/encoder.h"
#include "sql/open.h"
#include "sql/parameters.h"
#include "sql/postgres/url.h"
#include "sql/script.h"
#include "sql/transaction.h"

namespace sluice::app::suite {
namespace {

constexpr Duration patience = 30s;          // for CREATE DATABASE and DROP DATABASE
constexpr std::size_t most_rows = 100'000;  // of one statement

sql::Error interrupted() { return {sql::Failure::timed_out, {}, "interrupted by a signal", 0}; }

// Runs one coroutine to its end. If `signals` is given, stops at the first signal.
template <class T>
sql::Result<T> run(core::Reactor& reactor, core::Mailbox* mailbox, Signals* signals, core::Task<sql::Result<T>> task) {
  const auto gives_up = [&] { return signals != nullptr && signals->interrupted(); };
  auto result = core::run_unless(gives_up, reactor, mailbox, std::move(task));
  if (!result) return std::unexpected(interrupted());
  return std::move(*result);
}

std::string random_name() {
  std::array<unsigned char, 8> bytes{};
  if (::getrandom(bytes.data(), bytes.size(), 0) != static_cast<ssize_t>(bytes.size())) {
    throw std::system_error(errno, std::generic_category(), "getrandom");
  }
  std::string name = "sluice_test_";
  for (const unsigned char byte : bytes) name += fmt::format("{:02x}", byte);
  return name;
}

sql::DatabaseOptions options_for(std::string url) {
  sql::DatabaseOptions options;
  options.url.value = std::move(url);
  options.pool = 1;
  options.wait = 10s;
  return options;
}

sql::ParameterType type_of(const Json& value) {
  switch (value.kind) {
    case Json::Kind::boolean:
      return sql::ParameterType::boolean;
    case Json::Kind::number:
      return sql::fits(sql::ParameterType::integer, value.text) ? sql::ParameterType::integer
                                                                : sql::ParameterType::real;
    default:
      return sql::ParameterType::text;
  }
}

core::Task<sql::Result<Json>> run_query(sql::Database& database, std::string_view text, const Variables& variables,
                                        Instant deadline) {
  // Declares the types of the variables, for parameters whose type the database does not know (`SELECT :id`).
  std::vector<sql::Parameter> declared;
  for (const auto& [name, value] : variables.values) declared.push_back({name, type_of(value)});
  const auto statement = co_await database.prepare_writing(text, declared);
  if (!statement) co_return std::unexpected(statement.error());
  std::vector<std::optional<std::string>> texts;
  std::vector<sql::Argument> arguments;
  for (const sql::Parameter& parameter : statement->parameters) {
    const auto value = variables.find(parameter.name);
    if (!value) {
      co_return std::unexpected(sql::Error{
          sql::Failure::statement, {}, fmt::format(":{} has no value: no step before has set it", parameter.name), 0});
    }
    texts.push_back(value->kind == Json::Kind::null ? std::nullopt : std::optional(text_of(*value)));
    arguments.push_back({.text = {}, .type = type_of(*value)});
  }
  for (std::size_t i = 0; i < texts.size(); ++i) {
    if (texts[i]) arguments[i].text = *texts[i];
  }
  sql::TransactionOptions options;
  options.deadline = deadline;
  const auto transaction = database.begin(options);
  const auto written = co_await transaction->finish(*statement, arguments, most_rows);
  if (!written) co_return std::unexpected(written.error());
  if (written->rows.columns.empty()) co_return Json::array();
  sql::Encoder encoder(sql::Format::json, written->rows.columns);
  Buffer json;
  encoder.begin(json);
  encoder.rows(written->rows, json);
  encoder.end(json);
  auto rows = parse_json(json.view());
  if (rows) co_return std::move(*rows);
  co_return std::unexpected(
      sql::Error{sql::Failure::statement, {}, "a column is not valid JSON: " + rows.error().message, 0});
}

}  // namespace

std::expected<Target, std::string> parse_target(std::string_view text) {
  if (text == "sqlite") return Target{};
  if (text.starts_with("postgres://") || text.starts_with("postgresql://")) {
    const auto url = sql::postgres::parse_url(text);
    if (!url) return std::unexpected(url.error());
    return Target{DatabaseKind::postgres, std::string(text)};
  }
  return std::unexpected("a database is \"sqlite\", or \"postgres://user:password@host:port/name\"");
}

std::expected<std::unique_ptr<Database>, std::string> Database::create(const Target& target, const std::string& folder,
                                                                       core::Reactor& reactor, Signals& signals) {
  std::unique_ptr<Database> database(new Database(target, reactor, signals));
  const std::string name = random_name();
  sql::Result<void> made;
  if (target.kind == DatabaseKind::sqlite) {
    database->name_ = fmt::format("{}/{}.db", folder, name);
    database->options_ = options_for("sqlite:" + database->name_);
    made = run(reactor, nullptr, nullptr, sql::run_script(database->options_, reactor, "", reactor.clock() + patience));
  } else {
    database->name_ = name;
    // The last of several `dbname` parameters counts, as in libpq.
    database->options_ = options_for(target.url + (target.url.contains('?') ? "&" : "?") + "dbname=" + name);
    const sql::DatabaseOptions server = options_for(target.url);
    const std::string statement = fmt::format("CREATE DATABASE \"{}\"", name);
    // Not interrupted by signals, because a database that is still being created cannot be dropped.
    made = run(reactor, nullptr, nullptr, sql::run_script(server, reactor, statement, reactor.clock() + patience));
  }
  if (!made) return std::unexpected("the database cannot be created: " + made.error().message);
  return database;
}

Database::~Database() { (void)drop(); }

std::expected<void, std::string> Database::drop() {
  if (std::exchange(dropped_, true) || name_.empty()) return {};
  if (target_.kind == DatabaseKind::sqlite) {
    std::error_code ignored;
    for (const char* end : {"", "-wal", "-shm", "-journal"}) std::filesystem::remove(name_ + end, ignored);
    return {};
  }
  const sql::DatabaseOptions server = options_for(target_.url);
  const std::string statement = fmt::format("DROP DATABASE IF EXISTS \"{}\" WITH (FORCE)", name_);
  auto done =
      run(reactor_, nullptr, nullptr, sql::run_script(server, reactor_, statement, reactor_.clock() + patience));
  if (done) return {};
  return std::unexpected(fmt::format("the database {} cannot be dropped: {}", name_, done.error().message));
}

std::expected<void, std::string> Database::run_file(const std::string& path, Instant deadline) {
  const auto source = config::read_source(path);
  if (!source) return std::unexpected(source.error().text());
  const auto done = run(reactor_, nullptr, &signals_, sql::run_script(options_, reactor_, source->text(), deadline));
  if (done) return {};
  const sql::Error& error = done.error();
  config::Diagnostic diagnostic{
      .position = {},
      .message = error.sqlstate.empty() ? error.message : fmt::format("{} ({})", error.message, error.sqlstate)};
  if (error.position != 0) {
    diagnostic.position = {1, 1};
    const std::size_t offset = sql::byte_offset(source->text(), error.position);
    for (const char c : std::string_view(source->text()).substr(0, offset)) {
      if (c == '\n') {
        ++diagnostic.position.line;
        diagnostic.position.column = 1;
      } else if ((static_cast<unsigned char>(c) & 0xc0) != 0x80) {
        ++diagnostic.position.column;
      }
    }
  }
  return std::unexpected(source->render(diagnostic));
}

sql::Result<Json> Database::query(std::string_view statement, const Variables& variables, Instant deadline) {
  core::Mailbox mailbox(reactor_);
  core::BlockingPool threads(1, 16);
  auto shared = sql::open_shared(options_);
  if (!shared) return std::unexpected(std::move(shared.error()));
  auto opened = sql::open_database(options_, reactor_, mailbox, threads, shared->get());
  if (!opened) return std::unexpected(std::move(opened.error()));
  return run(reactor_, &mailbox, &signals_, run_query(**opened, statement, variables, deadline));
}

}  // namespace sluice::app::suite
