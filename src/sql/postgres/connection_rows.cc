#include <algorithm>

#include "sql/postgres/connection.h"
#include "sql/postgres/pool.h"

namespace sluice::sql::postgres {
namespace {

constexpr std::size_t piece_bytes = 64 << 10;  // of wire data, after which a piece is handed out

}  // namespace

Connection::Progress Connection::next_rows(std::span<const Column> columns, Piece& piece, Message& message) {
  piece.rows = 0;
  if (state_ != State::ready) return Progress::broken;
  inbox_.drop();
  std::size_t used = 0;
  std::size_t rows = 0;
  while (inbox_.kept() < piece_bytes && inbox_.has_more() && inbox_.type_of_next() == 'D') {
    Message row;
    const Framing framing = inbox_.take(pool_.options().max_row_bytes, row);
    if (framing == Framing::need_more) break;
    if (framing == Framing::too_large && rows != 0) break;  // those first
    if (framing == Framing::too_large) return Progress::too_large;
    if (fields_.size() < used + columns.size()) fields_.resize(std::max(fields_.size() * 2, used + columns.size()));
    if (framing == Framing::malformed || !cut_row(row.payload, columns.size(), fields_.data() + used)) {
      break_off("the server sent a row that does not fit its description");
      return Progress::broken;
    }
    used += columns.size();
    ++rows;
  }
  if (rows == 0) return next_message(message);
  piece.columns = columns;
  piece.fields = {fields_.data(), used};
  piece.rows = rows;
  piece.bytes = inbox_.kept();
  return Progress::ready;
}

}  // namespace sluice::sql::postgres
