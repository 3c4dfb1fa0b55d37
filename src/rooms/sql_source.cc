#include "rooms/sql_source.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "base/buffer.h"
#include "rooms/tables.h"

namespace sluice::rooms {
namespace {

sql::Error wrong_history(std::string message) {
  return {.failure = sql::Failure::statement, .sqlstate = {}, .message = std::move(message)};
}

}  // namespace

core::Task<sql::Result<Counters>> SqlSource::counters(std::vector<SharedName> rooms) {
  std::vector<std::string> keys;
  for (const SharedName& room : rooms) keys.push_back(room->key);
  const std::string list = list_of(keys, history_->dialect);
  const sql::Argument argument{.text = list, .type = sql::ParameterType::texts};
  const auto cursor =
      co_await database_->query(history_->counters, {&argument, 1}, {.deadline = reactor_.now() + patience});
  if (!cursor) co_return std::unexpected(cursor.error());
  Counters counters;
  bool has_epoch = false;
  for (bool last = false; !last;) {
    const auto block = co_await (*cursor)->next();
    if (!block) co_return std::unexpected(block.error());
    last = block->last;
    for (std::size_t i = 0; i < block->rows; ++i) {
      const auto row = block->row(i);
      const auto number = parse_number(row[1].view());
      if (!number) co_return std::unexpected(wrong_history("a counter of sluice_rooms is no positive number"));
      if (row[0].is_null()) {
        counters.epoch = *number;
        has_epoch = true;
      } else {
        counters.of_rooms.emplace_back(row[0].view(), *number);
      }
    }
  }
  if (!has_epoch) {
    co_return std::unexpected(
        wrong_history("sluice_rooms has no epoch; `sluice rooms sql --apply` makes what is missing"));
  }
  co_return counters;
}

core::Task<sql::Result<Publications>> SqlSource::after(SharedName room, std::uint64_t offset) {
  const std::string from = std::to_string(offset);
  std::vector<sql::Argument> arguments;
  for (std::size_t i = 0; i < history_->arguments.size(); ++i) {
    const auto& value = history_->arguments[i];
    arguments.push_back({.text = value ? room->values[*value] : from, .type = history_->types[i]});
  }
  const auto cursor = co_await database_->query(history_->query, arguments, {.deadline = reactor_.now() + patience});
  if (!cursor) co_return std::unexpected(cursor.error());
  Publications found;
  std::optional<sql::Layout> layout;
  const sql::Column* columns = nullptr;
  std::size_t seq = 0;
  Buffer json;
  std::size_t bytes = 0;
  for (bool last = false; !last;) {
    const auto block = co_await (*cursor)->next();
    if (!block) co_return std::unexpected(block.error());
    last = block->last;
    if (block->rows == 0) continue;
    if (columns != block->columns.data()) {
      columns = block->columns.data();
      layout.emplace(sql::Format::ndjson, block->columns);
      const auto place = std::ranges::find(block->columns, "seq", &sql::Column::name);
      if (place == block->columns.end()) co_return std::unexpected(wrong_history("the history has no column \"seq\""));
      seq = static_cast<std::size_t>(place - block->columns.begin());
    }
    for (std::size_t i = 0; i < block->rows; ++i) {
      const auto row = block->row(i);
      const auto number = row[seq].is_null() ? std::nullopt : parse_number(row[seq].view());
      if (!number || *number <= offset) {
        co_return std::unexpected(wrong_history(
            fmt::format("the history of {} has the seq {} after {}: it must be ordered by seq and begin after :after",
                        room->path, row[seq].is_null() ? "NULL" : row[seq].view(), offset)));
      }
      offset = *number;
      json.clear();
      sql::Encoder encoder(*layout);
      encoder.rows({.columns = block->columns, .fields = row, .rows = 1, .last = false}, json);
      std::string_view text = json.view();
      while (text.ends_with('\n')) text.remove_suffix(1);
      found.push_back(std::make_shared<const Publication>(room->path, offset, text));
      bytes += found.back()->bytes();
      if (found.size() == most_rows || bytes >= most_bytes) co_return found;
    }
  }
  co_return found;
}

}  // namespace sluice::rooms
