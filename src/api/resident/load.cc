#include "api/resident/load.h"

#include <new>
#include <optional>
#include <utility>

namespace sluice::api::resident {
namespace {

std::unexpected<LoadError> failed(const sql::Error& error) {
  return std::unexpected(
      LoadError{.text = error.sqlstate.empty() ? error.message : error.message + " (" + error.sqlstate + ")",
                .may_pass = error.failure != sql::Failure::statement});
}

std::unexpected<LoadError> failed(std::string text) { return std::unexpected(LoadError{.text = std::move(text)}); }

}  // namespace

core::Task<std::expected<std::shared_ptr<const Table>, LoadError>> load(const Plan& plan, sql::Database& database,
                                                                        core::Reactor& reactor, core::Mailbox& mailbox,
                                                                        core::BlockingPool& threads) {
  auto cursor = co_await database.query(plan.statement, {}, {.deadline = reactor.now() + plan.timeout});
  if (!cursor) co_return failed(cursor.error());
  std::shared_ptr<TableBuilder> builder;
  try {
    for (bool last = false; !last;) {
      const auto block = co_await (*cursor)->next();
      if (!block) co_return failed(block.error());
      if (!builder) {
        if (std::string wrong = check_shape(plan.shape, block->columns); !wrong.empty())
          co_return failed(std::move(wrong));
        builder = std::make_shared<TableBuilder>(plan.shape, block->columns);
      }
      if (auto added = builder->add(*block); !added) co_return failed(std::move(added.error()));
      last = block->last;
    }
  } catch (const std::bad_alloc&) {
    co_return failed("there is not enough memory");
  }
  cursor->reset();  // the connection is free while the indexes are made
  using Made = std::expected<std::shared_ptr<const Table>, std::string>;
  auto work = [builder]() -> Made {
    try {
      return builder->finish();
    } catch (const std::bad_alloc&) {
      return std::unexpected("there is not enough memory");
    }
  };
  auto made = co_await threads.run(mailbox, std::move(work));
  if (!made) co_return std::unexpected(LoadError{.text = "the server is busy", .may_pass = true});
  if (!*made) co_return failed(std::move(made->error()));
  co_return std::move(**made);
}

}  // namespace sluice::api::resident
