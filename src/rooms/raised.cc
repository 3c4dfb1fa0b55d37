#include "rooms/raised.h"

#include "rooms/publication.h"

namespace sluice::rooms {

Raised::Raised(std::shared_ptr<sql::Database> database, const Published& published, core::Reactor& reactor)
    : database_(std::move(database)),
      reactor_(reactor),
      newest_{.text = newest_of(published), .statement = {}},
      raised_{.text = raised_of(published), .statement = {}} {}

core::Task<sql::Result<Raised::Rows>> Raised::rows_of(Query& query, std::vector<sql::Argument> arguments) {
  if (!query.statement) {
    auto made = co_await database_->prepare(query.text, {});
    if (!made) co_return std::unexpected(made.error());
    query.statement = std::move(*made);
  }
  const auto cursor = co_await database_->query(*query.statement, arguments, {.deadline = reactor_.now() + patience});
  if (!cursor) co_return std::unexpected(cursor.error());
  Rows rows;
  for (bool last = false; !last;) {
    const auto block = co_await (*cursor)->next();
    if (!block) co_return std::unexpected(block.error());
    last = block->last;
    for (std::size_t i = 0; i < block->rows; ++i) {
      auto& row = rows.emplace_back();
      for (const sql::Field& field : block->row(i)) row.emplace_back(field.is_null() ? "" : field.view());
    }
  }
  co_return rows;
}

core::Task<sql::Result<Raised::Found>> Raised::read() {
  const auto newest_row = co_await rows_of(newest_, {});
  if (!newest_row) co_return std::unexpected(newest_row.error());
  const auto epoch = parse_number(newest_row->front()[0]);
  const std::uint64_t newest = parse_number(newest_row->front()[1]).value_or(0);
  if (epoch != epoch_ || !epoch || newest < last_) {
    epoch_ = epoch;
    last_ = newest;
    co_return Found{.counters = {}, .is_unsure = true};
  }
  Found found;
  if (newest == last_) co_return found;
  const std::string since = std::to_string(last_);
  auto rows = co_await rows_of(raised_, {{.text = since}});
  if (!rows) co_return std::unexpected(rows.error());
  for (auto& row : *rows) {
    const auto seq = parse_number(row[1]);
    const auto change = parse_number(row[2]);
    if (!seq || !change) {
      co_return std::unexpected(sql::Error{.failure = sql::Failure::statement,
                                           .sqlstate = {},
                                           .message = "a counter of sluice_rooms is no positive number"});
    }
    found.counters.emplace_back(std::move(row[0]), *seq);
    last_ = *change;
  }
  found.is_all = rows->size() < raised_rooms;
  co_return found;
}

}  // namespace sluice::rooms
