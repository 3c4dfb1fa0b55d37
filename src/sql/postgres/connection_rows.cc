// During a lease: splits the received bytes into rows and messages.
#include <algorithm>

#include "sql/postgres/connection.h"

namespace sluice::sql::postgres {
namespace {

constexpr std::size_t piece_bytes = 64 << 10;  // a piece is returned once its wire data has this size

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
    if (framing == Framing::too_large && rows != 0) break;  // return these rows first
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

Connection::Progress Connection::scan(Piece& piece) {
  piece.rows = piece.bytes = 0;
  piece.fields = {};
  piece.error = nullptr;
  piece.columns = {};
  piece.finished = piece.stale = piece.unusable = false;
  if (state_ != State::ready) return Progress::broken;
  inbox_.drop();
  inbox_.shrink();
  bool has_columns = false;
  std::size_t columns = 0;
  std::size_t used = 0;
  while (state_ == State::ready && !lease_.is_finished && inbox_.kept() < piece_bytes) {
    Message message;
    const Framing framing = inbox_.take(pool_.options().max_row_bytes, message);
    if (framing != Framing::complete && message.size > longest_message && inbox_.type_of_next() != 'D') {
      break_off("the server sent a message that is too long");
      break;
    }
    if (framing == Framing::need_more) break;
    if (framing == Framing::malformed) {
      break_off("the server sent a malformed message");
      break;
    }
    if (framing == Framing::too_large) {
      if (piece.rows != 0) break;  // return these rows first
      return Progress::too_large;
    }
    if (message.type == 'D' && is_own_command()) {
      drop_own_row();
    } else if (message.type == 'D') {
      if (!has_columns) {
        const bool is_expected = flight_size_ != 0 && foremost().statement != nullptr;
        const Described known = is_expected ? described(foremost()) : Described{};
        if (known.kind != Described::Kind::usable) answer_.unusable = true;
        lease_.columns = {};
        if (is_expected) lease_.columns = known.list != nullptr ? *known.list : foremost().statement->columns;
        columns = lease_.columns.size();
        has_columns = true;
      }
      if (fields_.size() < used + columns) fields_.resize(std::max(fields_.size() * 2, used + columns));
      if (!answer_.unusable && cut_row(message.payload, columns, fields_.data() + used)) {
        used += columns;
        ++piece.rows;
        continue;
      }
      answer_.unusable = true;  // becomes an error when the answer has ended
    } else {
      handle(message);
      if (answer_.described.kind == Described::Kind::unknown && !lease_.is_finished) {
        inbox_.drop();
        return Progress::unknown;
      }
    }
    if (piece.rows == 0) inbox_.drop();
  }
  if (state_ != State::ready && piece.rows == 0) return Progress::broken;
  piece.columns = lease_.columns;
  piece.fields = {fields_.data(), used};
  piece.bytes = inbox_.kept();
  piece.failing = answer_.error != nullptr;
  if (lease_.is_finished) {
    piece.finished = true;
    piece.error = std::move(answer_.error);
    piece.stale = lease_.is_stale;
    piece.unusable = answer_.unusable;
    answer_ = {};
  } else if (piece.rows == 0) {
    return Progress::need_more;
  }
  return Progress::ready;
}

Connection::Progress Connection::next_message(Message& message) {
  if (state_ != State::ready) return Progress::broken;
  for (;;) {
    inbox_.drop();
    switch (inbox_.take(std::max(longest_message, pool_.options().max_row_bytes), message)) {
      case Framing::need_more:
        return Progress::need_more;
      case Framing::malformed:
      case Framing::too_large:
        break_off("the server sent a malformed message");
        return Progress::broken;
      case Framing::complete:
        break;
    }
    const bool is_of_setting = flight_size_ != 0 && foremost().kind == InFlight::Kind::setting;
    const bool is_unreplicated = ServerError::if_unreplicated(message).has_value();
    if (is_of_setting || message.type == 'S' || (message.type == 'N' && !is_unreplicated) || message.type == 'A') {
      handle(message);
      if (state_ != State::ready) return Progress::broken;
      continue;
    }
    if (message.type == 'Z') {
      handle(message);
      answer_ = {};
      if (state_ != State::ready) return Progress::broken;
    }
    return Progress::ready;
  }
}

}  // namespace sluice::sql::postgres
