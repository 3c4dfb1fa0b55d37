#include "api/resident/load.h"

#include <algorithm>
#include <new>
#include <optional>
#include <string>
#include <utility>

#include "api/resident/delta.h"
#include "api/resident/row_feed.h"

namespace sluice::api::resident {
namespace {

std::unexpected<LoadError> failed(const sql::Error& error) {
  return std::unexpected(
      LoadError{.text = error.sqlstate.empty() ? error.message : error.message + " (" + error.sqlstate + ")",
                .may_pass = error.failure != sql::Failure::statement});
}

std::unexpected<LoadError> failed(std::string text) { return std::unexpected(LoadError{.text = std::move(text)}); }

// Runs on a thread of the pool.
template <class Make>
core::Task<std::expected<std::shared_ptr<const Table>, LoadError>> make_table(Make make, core::Mailbox& mailbox,
                                                                              core::BlockingPool& threads) {
  using Made = std::expected<std::shared_ptr<const Table>, std::string>;
  auto work = [make = std::move(make)]() -> Made {
    try {
      return make();
    } catch (const std::bad_alloc&) {
      return std::unexpected("there is not enough memory");
    }
  };
  auto made = co_await threads.run(mailbox, std::move(work));
  if (!made) co_return std::unexpected(LoadError{.text = "the server is busy", .may_pass = true});
  if (!*made) co_return failed(std::move(made->error()));
  co_return std::move(**made);
}

// Notes the versions of a block's rows; `column` contains them.
std::expected<void, std::string> note(Since& since, const sql::Block& block, std::size_t column) {
  const auto type = ValueType::of(block.columns[column]);
  if (!type || !type->orders()) return std::unexpected("the version's type has changed");
  for (std::size_t i = 0; i < block.rows; ++i) {
    const sql::Field& field = block.row(i)[column];
    if (!since.note(*type, field)) {
      return std::unexpected("\"" + std::string(field.view().substr(0, 100)) + "\" is no version");
    }
  }
  return {};
}

}  // namespace

core::Task<std::expected<Loaded, LoadError>> load(const Plan& plan, sql::Database& database, core::Reactor& reactor,
                                                  core::Mailbox& mailbox, core::BlockingPool& threads) {
  auto cursor = co_await database.query(plan.statement, {}, {.deadline = reactor.now() + plan.timeout});
  if (!cursor) co_return failed(cursor.error());
  std::shared_ptr<TableBuilder> builder;
  std::optional<RowFeed> feed;
  Since since;
  std::size_t version = 0;
  try {
    for (bool last = false; !last;) {
      const auto block = co_await (*cursor)->next();
      if (!block) co_return failed(block.error());
      if (!builder) {
        if (std::string wrong = check_shape(plan.shape, block->columns); !wrong.empty())
          co_return failed(std::move(wrong));
        builder = std::make_shared<TableBuilder>(plan.shape, block->columns);
        auto add = [builder](const sql::Block& rows) { return builder->add(rows); };
        feed.emplace(std::move(add), reactor, mailbox, threads);
        if (plan.changes) {
          const auto found = std::ranges::find(block->columns, plan.changes->shape.version, &sql::Column::name);
          if (found == block->columns.end()) co_return failed("the version is no longer a column of the query");
          version = static_cast<std::size_t>(found - block->columns.begin());
        }
      }
      if (plan.changes) {
        if (auto noted = note(since, *block, version); !noted) co_return failed(std::move(noted.error()));
      }
      last = block->last;
      if (auto given = co_await feed->give(*block); !given) co_return failed(std::move(given.error()));
    }
  } catch (const std::bad_alloc&) {
    co_return failed("there is not enough memory");
  }
  cursor->reset();  // frees the connection before the indexes are built
  if (auto fed = co_await feed->finish(); !fed) co_return failed(std::move(fed.error()));
  auto make = [builder] { return builder->finish(); };
  auto made = co_await make_table(std::move(make), mailbox, threads);
  if (!made) co_return std::unexpected(std::move(made.error()));
  co_return Loaded{.table = std::move(*made), .since = std::move(since)};
}

core::Task<std::expected<Loaded, LoadError>> load_changes(const Plan& plan, std::shared_ptr<const Table> old,
                                                          Since since, sql::Database& database, core::Reactor& reactor,
                                                          core::Mailbox& mailbox, core::BlockingPool& threads) {
  const Changes& changes = *plan.changes;
  const sql::Argument argument = since.argument();
  auto cursor = co_await database.query(changes.statement, {&argument, 1}, {.deadline = reactor.now() + plan.timeout});
  if (!cursor) co_return failed(cursor.error());
  // Filled on a thread of the pool.
  struct Changed {
    Delta delta;
    Since since;
  };
  std::shared_ptr<Changed> changed;
  std::optional<RowFeed> feed;
  try {
    for (bool last = false; !last;) {
      const auto block = co_await (*cursor)->next();
      if (!block) co_return failed(block.error());
      if (!changed && block->rows != 0) {
        if (std::string wrong = check_changes(plan.shape, changes.shape, old->columns(), block->columns);
            !wrong.empty()) {
          co_return failed(std::move(wrong));
        }
        changed = std::make_shared<Changed>(Delta(plan.shape, changes.shape, old, block->columns), since);
        auto add = [changed](const sql::Block& rows) { return changed->delta.add(rows, changed->since); };
        feed.emplace(std::move(add), reactor, mailbox, threads);
      }
      last = block->last;
      if (block->rows == 0) continue;
      if (auto given = co_await feed->give(*block); !given) co_return failed(std::move(given.error()));
    }
  } catch (const std::bad_alloc&) {
    co_return failed("there is not enough memory");
  }
  cursor->reset();
  if (!changed) co_return Loaded{.table = std::move(old), .since = std::move(since)};
  if (auto fed = co_await feed->finish(); !fed) co_return failed(std::move(fed.error()));
  auto make = [changed] { return changed->delta.apply(); };
  auto made = co_await make_table(std::move(make), mailbox, threads);
  if (!made) co_return std::unexpected(std::move(made.error()));
  co_return Loaded{.table = std::move(*made), .since = std::move(changed->since)};
}

}  // namespace sluice::api::resident
