// Interprets the server's messages and passes them to their requests.
#include "sql/postgres/connection.h"
#include "sql/postgres/session_reset.h"

namespace sluice::sql::postgres {
namespace {

constexpr std::size_t turn_bytes = 4 << 20;  // limit for one read before other connections run

std::span<const Column> list_of(const ColumnLists::List* changed, const Statement& statement) {
  return changed != nullptr ? *changed : statement.columns;
}

}  // namespace

// Handles received bytes of shared answers and abandoned conversations; a lease's owner reads its answer itself.
void Connection::pump() {
  std::size_t turn = 0;
  for (;;) {
    while (state_ == State::ready && leased_ == nullptr) {
      Message message;
      const Framing framing = inbox_.take(pool_.options().max_row_bytes, message);
      if (framing == Framing::complete) {
        if (message.type == 'D' && is_own_command()) {
          drop_own_row();
        } else if (message.type == 'D' && flight_size_ != 0) {
          ++answer_.rows;
          if (inbox_.kept() > most_bytes()) answer_.discard = true;
          if (answer_.discard) inbox_.drop();
        } else {
          handle(message);
        }
        continue;
      }
      if (framing == Framing::malformed) {
        break_off("the server sent a malformed message");
        return;
      }
      if (message.size != 0 && overflow(message.size)) continue;
      break;
    }
    if (state_ != State::ready || leased_ != nullptr) return;
    inbox_.shrink();
    if (turn > turn_bytes) {
      watch(pool_.reactor().now());  // continue after other connections have run
      return;
    }
    if (receive(turn) != Received::bytes) return;
  }
}

// Handles an incomplete message of `message_size` bytes. If it would take too much memory, its bytes are dropped as
// they arrive, and the function returns true. Otherwise the caller waits for the rest.
bool Connection::overflow(std::size_t message_size) {
  const bool is_row = inbox_.type_of_next() == 'D' && flight_size_ != 0;
  if (!is_row) {
    if (message_size <= longest_message) return false;
    break_off("the server sent a message that is too long");
    return true;
  }
  const std::size_t most =
      std::min(pool_.options().max_row_bytes, most_bytes() - std::min(most_bytes(), inbox_.kept()));
  if (!answer_.discard && message_size <= most) return false;
  answer_.discard = true;
  ++answer_.rows;
  inbox_.skip_next(message_size);
  return true;
}

// For a conversation that its owner has abandoned: only its end matters. Returns true if the message is to be ignored.
bool Connection::pass_over(const Message& message) {
  if (leased_ != nullptr || flight_size_ == 0 || foremost().kind != InFlight::Kind::conversation) return false;
  switch (message.type) {
    case 'G':  // the server waits for COPY data, and ignores cancels meanwhile
      write_copy_fail(out_, "abandoned");
      flush_soon();
      return true;
    case 'E': {
      const auto notice = parse_notice(message.payload);
      return notice && notice->severity != "FATAL" && notice->severity != "PANIC";
    }
    case '1':
    case '2':
    case '3':
    case 'C':
    case 'D':
    case 'I':
    case 'T':
    case 'c':
    case 'd':
    case 'n':
    case 's':
    case 't':
      return true;
    default:
      return false;
  }
}

void Connection::handle(const Message& message) {
  if (pass_over(message)) {
    inbox_.drop();
    return;
  }
  switch (message.type) {
    case '1':  // ParseComplete
    case '3':  // CloseComplete
    case 't':  // ParameterDescription
      break;
    case 'C':  // CommandComplete
    case 'I':  // EmptyQueryResponse
    case 's':  // PortalSuspended
      finish_command(message);
      break;
    case '2':
      if (is_own_command()) break;
      if (answer_.bound) {
        break_off("the server sent a message that is out of place");
        return;
      }
      answer_.bound = true;
      break;
    case 'T':
    case 'n':
      take_description(message);
      break;
    case 'Z':
      handle_ready(message);
      return;
    case 'E':
      handle_error(message);
      break;
    case 'N':
      take_notice(message);
      break;
    case 'A':
      if (parse_notification(message.payload)) ++pool_.counters().notifications;
      break;
    case 'H':  // COPY ... TO STDOUT: has no result rows, and is not supported
    case 'd':
    case 'c':
      answer_.unusable = answer_.discard = true;
      break;
    case 'S':
      break;  // ParameterStatus: no parameter that we rely on changes unexpectedly
    default:
      break_off("the server sent a message that is out of place");
      return;
  }
  if (leased_ != nullptr) return;  // scan() drops what it has processed
  if (flight_size_ == 0 || answer_.discard) inbox_.drop();
}

void Connection::handle_error(const Message& message) {
  const auto notice = parse_notice(message.payload);
  if (!notice) {
    break_off("the server sent a malformed error");
    return;
  }
  if (flight_size_ == 0 || notice->severity == "FATAL" || notice->severity == "PANIC") {
    ServerError error(*notice);
    break_off({Failure::unavailable, std::move(error.sqlstate), std::move(error.message), 0});
    return;
  }
  if (skipping_) {
    break_off("the server sent a message that is out of place");
    return;
  }
  answer_.error = std::make_unique<ServerError>(*notice);
  using At = ServerError::At;
  At& at = answer_.error->at;
  if (!answer_.bound && !is_own_command()) at = At::bind;
  if (answer_.end != Answer::End::none && foremost().kind == InFlight::Kind::write) at = At::commit;
  const InFlight& entry = foremost();
  if (is_own_command()) plans_.own_command_failed(*answer_.error);
  if (entry.sets_role && answer_.commands + (entry.checks_types ? 2 : 1) == entry.before) at = At::role;
  if (entry.checks_types && answer_.commands + 1 == entry.before && notice->sqlstate == "22012") {
    at = At::type_check;
    answer_.described = {Described::Kind::unknown};
    if (entry.exchange != nullptr) plans_.types_changed(*entry.statement, entry.plan.role);
  }
  if (foremost().synced) return;
  complete_foremost();
  skipping_ = true;
}

// A commit that was to wait for a standby and no longer does: the server reports success, and warns that the commit may
// be lost with this server.
void Connection::take_notice(const Message& message) {
  ++pool_.counters().notices;
  if (flight_size_ == 0 || foremost().kind != InFlight::Kind::write) return;
  auto error = ServerError::if_unreplicated(message);
  if (!error) return;
  answer_.error = std::make_unique<ServerError>(std::move(*error));
}

// Each connection prepares the statement itself, and the table may have changed since the program's start.
void Connection::take_description(const Message& message) {
  if (flight_size_ == 0 || !foremost().prepares || foremost().exchange == nullptr) return;
  std::vector<FieldDescription> fields;
  if (message.type == 'T') {
    auto parsed = parse_row_description(message.payload);
    if (!parsed) {
      break_off("the server sent a malformed row description");
      return;
    }
    fields = std::move(*parsed);
  }
  answer_.described = plans_.take(*foremost().statement, foremost().plan.role, fields, PlanCache::For::query);
}

// For the request that is first in flight, or has just been completed.
Connection::Described Connection::described(const InFlight& entry) {
  if (entry.prepares) return answer_.described;
  return plans_.description_of(entry.plan);
}

// In a batch an answer ends with its CommandComplete, otherwise with ReadyForQuery.
void Connection::finish_command(const Message& message) {
  if (is_own_command() && !skipping_) {
    const InFlight& entry = foremost();
    if (answer_.error || ++answer_.commands > entry.before + 1 + entry.after) {
      break_off("the server sent a message that is out of place");
    }
    return;
  }
  if (flight_size_ == 0 || skipping_ || answer_.end != Answer::End::none ||
      (!answer_.bound && foremost().kind != InFlight::Kind::setting)) {
    break_off("the server sent a message that is out of place");
    return;
  }
  ++answer_.commands;
  answer_.end = message.type == 's' ? Answer::End::suspended : Answer::End::complete;
  if (foremost().kind == InFlight::Kind::write) answer_.changes = changes_of(message.payload);
  answer_.complete_rows = answer_.rows;
  if (!foremost().synced) complete_foremost();
}

// Drops the row of set_config(). Commands after the statement return no rows; dropping one there would lose the
// statement's rows.
void Connection::drop_own_row() {
  if (answer_.commands > foremost().before) {
    break_off("the server sent a message that is out of place");
  } else {
    inbox_.drop();
  }
}

void Connection::handle_ready(const Message& message) {
  const auto status = parse_ready(message.payload);
  const auto whole = [this, &status] {
    const InFlight& entry = foremost();
    if (entry.kind == InFlight::Kind::write && *status != 'I') return false;
    return entry.synced && (answer_.error || entry.kind == InFlight::Kind::conversation || answer_.unusable ||
                            (answer_.end != Answer::End::none && answer_.complete_rows == answer_.rows &&
                             answer_.commands == entry.before + 1 + entry.after));
  };
  if (!status || flight_size_ == 0 || (!skipping_ && !whole())) {
    break_off("the server sent a message that is out of place");
    return;
  }
  // A transaction that was sent after a setting has not begun yet.
  const bool precedes_transaction = foremost().kind == InFlight::Kind::setting && flight_size_ > 1;
  skipping_ ? drop_skipped() : complete_foremost();
  if (*status == 'I') {
    if (!precedes_transaction) condition_.end_transaction();
  } else if (!condition_.in_transaction()) {
    break_off("a statement left a transaction open");
  }
  if (leased_ == nullptr) {
    inbox_.drop();
    if (!condition_.is_clean() && flight_size_ == 0 && state_ == State::ready) {
      serves_writes_ ? watch(foremost_since_ + reset_pause) : clean_up();
    }
    if (flight_size_ == 0) idle_since_ = foremost_since_;
    end_drain();
    if (pool_.somebody_waits()) pool_.serve_soon();
  }
}

void Connection::drop_skipped() {
  skipping_ = batch_.is_slow = false;
  dispatching_ = true;
  for (bool last = false; !last;) {
    answer_ = {};  // one that is sent again may destroy the next, which is then first
    const InFlight entry = pop();
    last = entry.synced;
    if (entry.prepares) plans_.skipped(entry.plan);
    if (entry.exchange != nullptr) entry.exchange->again(Exchange::Again::skipped, nullptr);
  }
  dispatching_ = false;
}

void Connection::complete_foremost() {
  const bool was_slow = leased_ == nullptr && (batch_.is_slow || pool_.reactor().now() - foremost_since_ >= slow_);
  const bool hit = answer_.error && hit_by_our_cancel(*answer_.error);
  using Kind = Described::Kind;
  const InFlight entry = pop();
  batch_.is_slow = was_slow && !entry.synced;
  const Described columns = described(entry);
  const bool is_setting = entry.kind == InFlight::Kind::setting;
  if (was_slow && !is_setting) pool_.was_slow(entry.plan.id);
  Answer answer = std::move(answer_);
  answer_ = {};
  // A failed statement's settings are rolled back, but its session locks stay.
  if (entry.kind == InFlight::Kind::query && entry.after >= reset_commands) {
    condition_.set_unreset(answer.error != nullptr);
  }

  // If Describe was sent, refuse a result that arrives without a description, or after a description without columns.
  if (!answer.error && (columns.kind == Kind::unusable || (entry.prepares && columns.kind == Kind::nothing))) {
    answer.unusable = true;
  }
  bool stale = plans_.ended(entry.plan, entry.prepares, columns, answer.error.get());
  if (entry.kind == InFlight::Kind::write) stale &= answer.error != nullptr;  // never sent again if it is committed

  if (is_setting) {
    if (answer.error) break_off({Failure::unavailable, answer.error->sqlstate, answer.error->message, 0});
  } else if (entry.exchange != nullptr && entry.exchange == leased_) {
    lease_.is_finished = true;
    lease_.is_stale = stale;
    if (entry.statement != nullptr) lease_.columns = list_of(columns.list, *entry.statement);
    answer_ = std::move(answer);  // for scan()
  } else if (entry.exchange != nullptr) {
    dispatching_ = true;
    give(entry, answer, stale, hit, columns);
    dispatching_ = false;
  }
  if (leased_ == nullptr) {
    inbox_.drop();
  }
}

void Connection::give(const InFlight& entry, Answer& answer, bool stale, bool hit, const Described& columns) {
  using Again = Exchange::Again;
  Exchange& exchange = *entry.exchange;
  if (stale) {
    exchange.again(Again::stale_plan, nullptr);
  } else if (hit) {
    exchange.again(Again::cancelled, answer.error.get());
  } else if (answer.error && answer.error->at != ServerError::At::type_check) {
    exchange.refused(*answer.error);
  } else if (answer.unusable) {
    exchange.unusable();
  } else if (columns.kind == Described::Kind::unknown) {
    exchange.again(Again::unknown_columns, nullptr);
  } else if (answer.discard || (answer.end == Answer::End::suspended && !entry.statement->one_row)) {
    exchange.again(Again::too_large, nullptr);
  } else {
    deliver(exchange, answer, list_of(columns.list, *entry.statement));
  }
}

void Connection::deliver(Exchange& exchange, const Answer& answer, std::span<const Column> columns) {
  if (!cut_answer(answer.rows, columns.size())) {
    exchange.unusable();
    break_off("the server sent a row that does not fit its description");
    return;
  }
  delivering_ = &exchange;
  const Block rows{columns, {fields_.data(), answer.rows * columns.size()}, answer.rows, true};
  exchange.answer(rows, answer.changes);
  // An exchange that does not take the rows at once gets its own copy, because the next answer reuses the buffer.
  if (delivering_ != nullptr) delivering_->keep();
  delivering_ = nullptr;
}

bool Connection::cut_answer(std::size_t rows, std::size_t columns) {
  if (rows * (7 + 4 * columns) > inbox_.kept()) return false;  // the minimum size of this many rows
  if (fields_.size() < rows * columns) fields_.resize(rows * columns);
  Field* into = fields_.data();
  const char* at = inbox_.data();
  for (std::size_t left = rows; left != 0;) {
    Message message;
    if (frame(at, inbox_.kept(), inbox_.kept(), message) != Framing::complete) return false;
    at += message.size;
    if (message.type != 'D') continue;
    if (!cut_row(message.payload, columns, into)) return false;
    into += columns;
    --left;
  }
  return true;
}

}  // namespace sluice::sql::postgres
