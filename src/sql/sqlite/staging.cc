#include "sql/sqlite/staging.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include <sqlite3.h>

#include "sql/set/fault_text.h"

namespace sluice::sql {
namespace {

constexpr std::uint32_t null_size = 0xffffffffU;

// Header of one value in the buffer for a thread; the value's bytes follow.
struct Packed {
  std::uint32_t size = null_size;
  bool left_out = false;
  ParameterType type{};
};

void pack(std::string& into, const StagedValue& value) {
  Packed head{.left_out = value.left_out, .type = value.type};
  if (value.text) head.size = static_cast<std::uint32_t>(value.text->size());
  into.append(reinterpret_cast<const char*>(&head), sizeof head);
  if (value.text) into.append(*value.text);
}

// Returns the column in "cannot store TEXT value in INTEGER column sluice_stage.id".
std::string column_in(std::string_view message) {
  constexpr std::string_view table = "sluice_stage.";
  const auto at = message.find(table);
  return std::string(at == message.npos ? std::string_view{} : message.substr(at + table.size()));
}

// Returns the subject of "UNIQUE constraint failed: films.slug": the column, or the constraint's name. Empty for the
// expression of an unnamed CHECK.
std::string_view subject_of(const Error& error) {
  std::string_view text = error.message;
  const auto colon = text.find(": ");
  if (colon == text.npos || !error.sqlstate.starts_with("23")) return {};
  text.remove_prefix(colon + 2);
  if (const auto dot = text.rfind('.'); dot != text.npos && error.sqlstate != "23514") text.remove_prefix(dot + 1);
  const bool is_name = std::ranges::all_of(text, [](char c) {
    return c == '_' || (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
  });
  return is_name ? text : std::string_view{};
}

Error of_pool(const sluice::Error& error) {
  return {Failure::unavailable, {}, error.code == Errc::limit ? "too much work is waiting" : "the program is ending"};
}

}  // namespace

SqliteStaging::SqliteStaging(const SqliteOptions& options, const SetPlan& plan, core::Reactor& reactor,
                             core::Mailbox& mailbox, core::BlockingPool& threads, SqliteWriter& writer)
    : reactor_(reactor),
      mailbox_(mailbox),
      threads_(threads),
      writer_(writer),
      stage_(std::make_shared<Stage>(options, plan)) {}

SqliteStaging::~SqliteStaging() { stage_->abandoned.store(true, std::memory_order_relaxed); }

SqliteStaging::Stage::~Stage() { sqlite3_finalize(load); }

Result<void> SqliteStaging::Stage::open() {
  if (connection) return {};
  auto opened = sqlite::Connection::open(options, sqlite::Purpose::write);
  if (!opened) return std::unexpected(std::move(opened.error()));
  connection = std::move(*opened);
  sqlite3_progress_handler(
      connection->get(), sqlite::stop_interval,
      [](void* data) {
        const Stage& stage = *static_cast<Stage*>(data);
        const bool stop =
            stage.abandoned.load(std::memory_order_relaxed) || stage.expired.load(std::memory_order_relaxed);
        return stop ? 1 : 0;
      },
      this);
  // Many rows go to a temporary file, which is useless after a crash.
  if (auto set = connection->run("PRAGMA temp_store = FILE; PRAGMA temp.synchronous = OFF;"); !set) return set;
  if (auto made = connection->run(plan.create.c_str()); !made) return made;
  load = connection->prepare_own(plan.load.c_str());
  if (load == nullptr) return std::unexpected(connection->error(sqlite3_errcode(connection->get())));
  return {};
}

// The temporary database belongs to this connection alone: its transactions lock no other connection.
Result<void> SqliteStaging::Stage::insert(std::string_view texts, std::span<const std::uint64_t> lines) {
  if (auto opened = open(); !opened) return opened;
  if (auto begun = connection->run("BEGIN"); !begun) return begun;
  std::vector<Argument> values;
  std::vector<std::string> numbers;
  for (const std::uint64_t line : lines) {
    values.clear();
    numbers.clear();
    numbers.reserve(2);
    for (std::size_t i = 0; i < plan.staged.size(); ++i) {
      Packed head;
      std::memcpy(&head, texts.data(), sizeof head);
      texts.remove_prefix(sizeof head);
      Argument value{.text = std::nullopt, .type = head.type};
      if (head.size != null_size) {
        value.text = texts.substr(0, head.size);
        texts.remove_prefix(head.size);
      }
      values.push_back(value);
      if (plan.optional[i]) values.push_back({.text = head.left_out ? "0" : "1", .type = ParameterType::integer});
    }
    numbers.push_back(std::to_string(line));
    values.push_back({.text = numbers.back(), .type = ParameterType::integer});
    numbers.push_back(std::to_string(rows++));
    values.push_back({.text = numbers.back(), .type = ParameterType::integer});
    if (auto bound = sqlite::bind(load, values); !bound) {
      (void)connection->run("ROLLBACK");
      return bound;
    }
    const int code = connection->step_own(load);
    if (code == SQLITE_CONSTRAINT_DATATYPE) {
      if (outcome.faults.size() < most_staged_faults) {
        outcome.faults.push_back({.line = line,
                                  .row = rows - 1,
                                  .column = column_in(sqlite3_errmsg(connection->get())),
                                  .reason = "is not of the column's type"});
      }
    } else if (code != SQLITE_DONE) {
      Error error = connection->error(code);
      (void)connection->run("ROLLBACK");
      return std::unexpected(std::move(error));
    }
  }
  return connection->run("COMMIT");
}

core::Task<Result<void>> SqliteStaging::add(std::span<const StagedValue> values, std::span<const std::uint64_t> lines) {
  std::string texts;
  for (const StagedValue& value : values) pack(texts, value);
  auto work = [stage = stage_, texts = std::move(texts), lines = std::vector(lines.begin(), lines.end())] {
    return stage->insert(texts, lines);
  };
  auto done = co_await threads_.run(mailbox_, std::move(work));
  if (!done) co_return std::unexpected(of_pool(done.error()));
  co_return std::move(*done);
}

Result<void> SqliteStaging::Stage::find_duplicates() {
  auto distinct = connection->prepared(0, plan.distinct.text);
  if (!distinct) return std::unexpected(std::move(distinct.error()));
  sqlite3_stmt* handle = (*distinct)->handle;
  int code = sqlite3_step(handle);
  const bool all = code == SQLITE_ROW && static_cast<std::uint64_t>(sqlite3_column_int64(handle, 0)) == rows;
  sqlite3_reset(handle);
  if (code != SQLITE_ROW) return std::unexpected(connection->error(code));
  if (all) return {};
  auto duplicates = connection->prepared(1, plan.duplicates.text);
  if (!duplicates) return std::unexpected(std::move(duplicates.error()));
  handle = (*duplicates)->handle;
  for (code = sqlite3_step(handle); code == SQLITE_ROW; code = sqlite3_step(handle)) {
    outcome.faults.push_back({.line = static_cast<std::uint64_t>(sqlite3_column_int64(handle, 0)),
                              .row = static_cast<std::uint64_t>(sqlite3_column_int64(handle, 1)),
                              .column = {},
                              .reason = "has the same key as row " + std::to_string(sqlite3_column_int64(handle, 2)),
                              .twin_line = static_cast<std::uint64_t>(sqlite3_column_int64(handle, 3))});
  }
  sqlite3_reset(handle);
  if (code != SQLITE_DONE) return std::unexpected(connection->error(code));
  return {};
}

Result<sqlite::Prepared*> SqliteStaging::Stage::bound(const Statement& statement, std::span<const Argument> own) {
  auto prepared = connection->prepared(plan.update_rows && &statement == &*plan.update_rows ? 3 : 2, statement.text);
  if (!prepared) return std::unexpected(std::move(prepared.error()));
  std::vector<Argument> chosen;
  for (const Parameter& parameter : statement.parameters) {
    const auto at = std::ranges::find(plan.parameters, parameter.name, &Parameter::name);
    if (at != plan.parameters.end()) {
      chosen.push_back(owned.list[static_cast<std::size_t>(at - plan.parameters.begin())]);
    } else {
      chosen.push_back(own.front());
      own = own.subspan(1);
    }
  }
  if (auto done = sqlite::bind((*prepared)->handle, chosen); !done) {
    return std::unexpected(renumbered(std::move(done.error()), statement, plan));
  }
  return *prepared;
}

Result<void> SqliteStaging::Stage::find_outside() {
  auto prepared = bound(*plan.outside);
  if (!prepared) return std::unexpected(std::move(prepared.error()));
  sqlite3_stmt* const handle = (*prepared)->handle;
  int code = sqlite3_step(handle);
  for (; code == SQLITE_ROW; code = sqlite3_step(handle)) {
    outcome.faults.push_back({.line = static_cast<std::uint64_t>(sqlite3_column_int64(handle, 0)),
                              .row = static_cast<std::uint64_t>(sqlite3_column_int64(handle, 1)),
                              .column = {},
                              .reason = outside_reason});
  }
  sqlite3_reset(handle);
  outcome.outside = !outcome.faults.empty();
  if (code != SQLITE_DONE) return std::unexpected(connection->error(code, (*prepared)->text));
  return {};
}

Result<std::uint64_t> SqliteStaging::Stage::change(const SetStep& step, std::span<const Argument> own) {
  auto prepared = bound(step, own);
  if (!prepared) return std::unexpected(std::move(prepared.error()));
  if (step.each.empty()) return execute(**prepared);
  // If a row is refused, none of the rows has been written, as with a single statement.
  if (auto marked = connection->run("SAVEPOINT sluice_each"); !marked) return std::unexpected(marked.error());
  auto changes = change_each((*prepared)->handle, step.each);
  sqlite3_reset((*prepared)->handle);
  if (sqlite3_get_autocommit(connection->get()) != 0) return changes;  // the statement has ended the transaction
  auto ended = connection->run(changes ? "RELEASE sluice_each" : "ROLLBACK TO sluice_each; RELEASE sluice_each");
  if (changes && !ended) return std::unexpected(std::move(ended.error()));
  return changes;
}

Result<std::uint64_t> SqliteStaging::Stage::change_each(sqlite3_stmt* rows, const std::string& each) {
  auto prepared = connection->prepared(4, each);
  if (!prepared) return std::unexpected(std::move(prepared.error()));
  std::uint64_t changes = 0;
  int code = sqlite3_step(rows);
  for (; code == SQLITE_ROW; code = sqlite3_step(rows)) {
    for (int i = 0; i < sqlite3_bind_parameter_count((*prepared)->handle); ++i) {
      const int bound = sqlite3_bind_value((*prepared)->handle, i + 1, sqlite3_column_value(rows, i));
      if (bound != SQLITE_OK) return std::unexpected(connection->error(bound));
    }
    auto changed_rows = execute(**prepared);
    if (!changed_rows) return changed_rows;
    changes += *changed_rows != 0 ? 1 : 0;
  }
  if (code != SQLITE_DONE) return std::unexpected(connection->error(code));
  return changes;
}

Result<std::uint64_t> SqliteStaging::Stage::execute(sqlite::Prepared& prepared) {
  sqlite3_stmt* const handle = prepared.handle;
  const std::int64_t before = sqlite3_total_changes64(connection->get());
  int code = sqlite3_step(handle);
  while (code == SQLITE_ROW) code = sqlite3_step(handle);
  const bool has_changed = sqlite3_total_changes64(connection->get()) != before;
  for (const std::string& table : prepared.writes) {
    if (has_changed && std::ranges::find(changed, table) == changed.end()) changed.push_back(table);
  }
  const auto changes = static_cast<std::uint64_t>(has_changed ? sqlite3_changes64(connection->get()) : 0);
  if (code != SQLITE_DONE) {
    Error error = connection->error(code, prepared.text);
    sqlite3_reset(handle);
    return std::unexpected(std::move(error));
  }
  sqlite3_reset(handle);
  return changes;
}

// Runs on the writer's thread.
Result<void> SqliteStaging::Stage::write(const ApplyOptions& how) {
  if (abandoned.load(std::memory_order_relaxed)) {
    return std::unexpected(Error{Failure::statement, {}, "nobody waits for it any more"});
  }
  if (!outcome.faults.empty()) return {};
  if (auto opened = open(); !opened) return opened;
  if (!plan.index.empty()) {
    if (auto made = connection->run(plan.index.c_str()); !made) return made;
  }
  if (auto found = find_duplicates(); rows != 0 && !found) return found;
  if (!outcome.faults.empty()) return {};
  if (auto begun = connection->begin_writing(); !begun) return begun;
  Result<void> written;
  if (plan.outside && rows != 0) written = find_outside();
  if (written && !outcome.outside) written = write_opened();
  const bool refused = !outcome.faults.empty() || outcome.taken != 0;
  outcome.too_many_deleted = how.commit && !refused && !how.allow(outcome);
  if (written && how.commit && !refused && !outcome.too_many_deleted) {
    written = connection->run("COMMIT");
    committed = written.has_value();
  }
  if (sqlite3_get_autocommit(connection->get()) == 0) (void)connection->run("ROLLBACK");
  return written;
}

Result<void> SqliteStaging::Stage::add_changes(const SetStep& step, std::uint64_t& to) {
  auto changes = change(step);
  if (!changes) return std::unexpected(std::move(changes.error()));
  to += *changes;
  return {};
}

Result<std::array<std::uint64_t, 2>> SqliteStaging::Stage::counts() {
  auto prepared = bound(*plan.counts);
  if (!prepared) return std::unexpected(std::move(prepared.error()));
  sqlite3_stmt* const handle = (*prepared)->handle;
  const int code = sqlite3_step(handle);
  std::array<std::uint64_t, 2> counts{};
  for (std::size_t i = 0; i < 2; ++i) counts[i] = static_cast<std::uint64_t>(sqlite3_column_int64(handle, i));
  sqlite3_reset(handle);
  if (code != SQLITE_ROW) return std::unexpected(connection->error(code, (*prepared)->text));
  return counts;
}

Result<void> SqliteStaging::Stage::remove() {
  for (const auto* statement : {&plan.remove, &plan.remove_null}) {
    if (!*statement) continue;
    if (auto done = add_changes(**statement, outcome.deleted); !done) return done;
  }
  return {};
}

// If deletions cascade to staged rows, rolls back and updates first: the updated rows may then refer to rows that stay.
Result<void> SqliteStaging::Stage::remove_and_count() {
  if (!plan.counts) return remove();
  const auto before = counts();
  if (!before) return std::unexpected(before.error());
  for (const bool updates_first : {false, true}) {
    if (auto done = connection->run(updates_first ? "ROLLBACK TO sluice_set" : "SAVEPOINT sluice_set"); !done) {
      return done;
    }
    if (updates_first) {
      if (auto done = add_changes(*plan.update, outcome.updated); !done) {
        return find_refused(std::move(done.error()), false);
      }
    }
    outcome.deleted = 0;
    if (auto done = remove(); !done) return done;
    const auto after = counts();
    if (!after) return std::unexpected(after.error());
    // SQLite's own count lacks rows that a cascade had deleted before the statement reached them.
    outcome.deleted = std::max(outcome.deleted, (*before)[1] - std::min((*before)[1], (*after)[1]));
    outcome.taken = (*before)[0] - std::min((*before)[0], (*after)[0]);
    if (outcome.taken == 0 || !plan.update) break;
  }
  return {};
}

Result<void> SqliteStaging::Stage::write_opened() {
  if (auto done = remove_and_count(); !done) return done;
  if (rows == 0 || outcome.taken != 0 || !outcome.faults.empty()) return {};
  if (plan.update) {
    if (auto done = add_changes(*plan.update, outcome.updated); !done) return find_refused(std::move(done.error()));
  }
  if (auto done = add_changes(plan.insert, outcome.inserted); !done) return find_refused(std::move(done.error()));
  outcome.unchanged = rows - std::min(rows, outcome.updated + outcome.inserted);
  return {};
}

Result<void> SqliteStaging::Stage::write_rows(std::uint64_t first, std::uint64_t last, bool inserts) {
  const std::string texts[] = {std::to_string(first), std::to_string(last)};
  const Argument own[] = {{.text = texts[0], .type = ParameterType::integer},
                          {.text = texts[1], .type = ParameterType::integer}};
  if (plan.update_rows) {
    if (auto done = change(*plan.update_rows, own); !done) return std::unexpected(std::move(done.error()));
  }
  if (inserts) {
    if (auto done = change(plan.insert_rows, own); !done) return std::unexpected(std::move(done.error()));
  }
  return {};
}

// Runs in the transaction whose statement was refused and undone: writes a thousand rows at a time, and, if some are
// refused, half as many each time, down to one.
Result<void> SqliteStaging::Stage::find_refused(Error refusal, bool inserts) {
  constexpr std::uint64_t most = 1024;
  const auto refused = [&]() -> Result<void> { return std::unexpected(std::move(refusal)); };
  if (!is_of_a_row(refusal.sqlstate) || sqlite3_get_autocommit(connection->get()) != 0) return refused();
  if (!connection->run("CREATE INDEX temp.sluice_stage_row ON sluice_stage (sluice_row)")) return refused();
  std::uint64_t first = 0;
  std::uint64_t many = most;
  std::uint64_t known = 0;  // the end of a range of rows that is known to contain a refused one
  while (first < rows && outcome.faults.size() < most_staged_faults) {
    if (!connection->run("SAVEPOINT sluice_rows")) return refused();
    const auto done = write_rows(first, first + many - 1, inserts);
    if (!done && (!is_of_a_row(done.error().sqlstate) || sqlite3_get_autocommit(connection->get()) != 0)) {
      return refused();
    }
    if (!connection->run(done ? "RELEASE sluice_rows" : "ROLLBACK TO sluice_rows; RELEASE sluice_rows")) {
      return refused();
    }
    if (done) {
      first += many;
      many = first < known ? std::max<std::uint64_t>((known - first) / 2, 1) : std::min(many * 2, most);
    } else if (many > 1) {
      known = first + many;
      many /= 2;
    } else {
      if (auto noted = note_refused(first, done.error()); !noted) return refused();
      known = ++first;
    }
  }
  if (outcome.faults.empty()) return refused();
  outcome.refusal = std::make_shared<const Error>(std::move(refusal));
  return {};
}

Result<void> SqliteStaging::Stage::note_refused(std::uint64_t row, const Error& why) {
  auto lines = connection->prepared(1, "SELECT sluice_line FROM temp.sluice_stage WHERE sluice_row = ?1");
  if (!lines) return std::unexpected(std::move(lines.error()));
  sqlite3_stmt* const handle = (*lines)->handle;
  sqlite3_bind_int64(handle, 1, static_cast<std::int64_t>(row));
  const bool known = sqlite3_step(handle) == SQLITE_ROW;
  const auto line = static_cast<std::uint64_t>(known ? sqlite3_column_int64(handle, 0) : 0);
  sqlite3_reset(handle);
  const std::string_view about = subject_of(why);
  const bool column = why.sqlstate == "23502";
  outcome.faults.push_back({.line = line,
                            .row = row,
                            .column = column ? std::string(about) : std::string{},
                            .reason = refusal_text(why.sqlstate, column ? "" : about),
                            .rule = why.rule});
  return {};
}

core::Task<Result<SetOutcome>> SqliteStaging::apply(std::span<const Argument> arguments, const ApplyOptions& options) {
  struct Deadline : core::Timer {
    explicit Deadline(Stage& stage) : Timer(fire), stage(stage) {}
    static void fire(core::Timer& timer) noexcept {
      static_cast<Deadline&>(timer).stage.expired.store(true, std::memory_order_relaxed);
    }
    Stage& stage;
  };
  stage_->owned = sqlite::OwnedArguments(arguments);
  Deadline deadline(*stage_);
  const auto timeout = std::chrono::milliseconds(stage_->options.statement_timeout_ms);
  if (options.deadline != never) {
    reactor_.timers().schedule(deadline, options.deadline);
  } else if (timeout != 0ms) {
    reactor_.timers().schedule(deadline, reactor_.now() + timeout);
  }
  auto done = co_await writer_.run(reactor_, mailbox_, [stage = stage_, options, &writer = writer_] {
    auto written = stage->write(options);
    if (stage->committed) writer.observers()->committed(stage->changed);
    return written;
  });
  if (!done) co_return std::unexpected(std::move(done.error()));
  co_return std::move(stage_->outcome);
}

}  // namespace sluice::sql
