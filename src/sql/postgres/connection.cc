#include "sql/postgres/connection.h"

#include <algorithm>
#include <bit>
#include <charconv>
#include <optional>

#include "sql/postgres/auth.h"
#include "sql/postgres/pool.h"
#include "sql/postgres/query.h"
#include "sql/postgres/types.h"

namespace sluice::sql::postgres {
namespace {

constexpr std::size_t read_bytes = 64 << 10;      // what one attempt at the socket asks for, at least
constexpr std::size_t block_bytes = 64 << 10;     // of wire data, after which a block is handed out
constexpr std::size_t kept_capacity = 512 << 10;  // a receive buffer that has grown beyond gives its memory back
constexpr std::size_t turn_bytes = 4 << 20;       // read in one go before others have their turn
constexpr std::size_t startup_limit = 64 << 10;   // no message is longer before the connection is ready
constexpr std::size_t message_limit = 1 << 20;    // nor, later, one that is not a row
constexpr Duration drain_patience = 2s;           // for a cancelled answer to end
constexpr Duration grace = 1s;                    // beyond the server's own statement_timeout

// "s" and the id; no NUL inside.
struct StatementName {
  explicit StatementName(std::uint32_t id) {
    text[0] = 's';
    const auto end = std::to_chars(text + 1, text + sizeof text, id).ptr;
    size = static_cast<std::size_t>(end - text);
  }
  [[nodiscard]] std::string_view view() const { return {text, size}; }
  char text[16];
  std::size_t size;
};

std::string sentence_of(const ServerNotice& notice) {
  std::string text(notice.message);
  if (!notice.detail.empty()) text.append(" (").append(notice.detail).append(")");
  if (!notice.hint.empty()) text.append(" hint: ").append(notice.hint);
  return text;
}

bool same_type(const TypePtr& had, std::uint32_t oid) {
  const TypePtr now = builtin_type(oid);
  if (now) return had == now;
  // A type of the database's own has no OID that we kept; what had been built in cannot have become one unnoticed.
  return had != nullptr;
}

}  // namespace

ServerError::ServerError(const ServerNotice& notice)
    : sqlstate(notice.sqlstate), message(sentence_of(notice)), routine(notice.routine), position(notice.position) {}

Connection::Connection(Pool& pool, std::size_t index)
    : pool_(pool),
      index_(index),
      stream_(pool.reactor()),
      reader_(&Connection::on_readable, *this),
      writer_(&Connection::on_writable, *this),
      watchdog_(&Connection::on_timer, *this),
      hook_(&Connection::on_turn_end, *this),
      flight_(std::bit_ceil(pool.options().pipeline + 8)) {}

Connection::~Connection() {
  stream_.handle().reader = nullptr;
  stream_.handle().writer = nullptr;
}

// Waits for whatever run() has to look at: bytes, a turn of the watchdog, the end.
struct Connection::Event {
  Connection& connection;
  explicit Event(Connection& owner) : connection(owner) {}
  Event(const Event&) = delete;
  ~Event() { connection.runner_ = nullptr; }
  bool await_ready() const noexcept { return false; }
  void await_suspend(std::coroutine_handle<> runner) noexcept { connection.runner_ = runner; }
  void await_resume() const noexcept {}
};

core::Task<void> Connection::run(Role role) {
  state_ = State::opening;
  ++life_;
  failure_ = {Failure::unavailable, {}, {}, 0};
  const bool opened = co_await open(role);
  const Instant since = pool_.reactor().now();
  if (opened) {
    state_ = State::ready;
    idle_since_ = since;
    stream_.handle().reader = &reader_;
    pool_.opened();
    watch(pool_.reactor().now() + 1s);
    while (state_ == State::ready || leased_ != nullptr) {
      if (leased_ == nullptr) pump();
      if (state_ != State::ready && leased_ == nullptr) break;
      co_await Event(*this);
    }
  }
  const bool configuration = !opened && (failure_.sqlstate.starts_with("28") || failure_.sqlstate == "3D000");
  close();
  state_ = State::off;
  pool_.closed(opened, pool_.reactor().now() - since, configuration, failure_);
}

core::Task<bool> Connection::open(Role role) {
  const Options& options = pool_.options();
  const Instant deadline = pool_.reactor().now() + std::chrono::milliseconds(options.connect_timeout_ms);
  bool connected = false;
  for (std::size_t i = 0; i < options.addresses.size(); ++i) {
    const core::Address& address = options.addresses[i];
    // An address that swallows packets must not use up the time of those behind it.
    const Instant now = pool_.reactor().now();
    const auto left = static_cast<Duration::rep>(options.addresses.size() - i);
    auto result = co_await stream_.connect(address, now + (deadline - now) / left);
    if (result) {
      address_ = address;
      connected = true;
      break;
    }
    failure_.message = "cannot connect to " + address.text() + ": " + result.error().text();
  }
  if (!connected) co_return false;

  role_ = role;
  const bool has_timeout = options.statement_timeout_ms != 0 && role == Role::shared;
  const std::string timeout = std::to_string(has_timeout ? options.statement_timeout_ms : 0);
  std::vector<StartupParameter> parameters = {{"user", options.user},
                                              {"database", options.database},
                                              {"client_encoding", "UTF8"},
                                              {"application_name", options.application_name},
                                              {"DateStyle", "ISO"}};
  if (options.prepared) {
    // What the encoders rely on, whatever the server, the database or the role has as its default.
    parameters.push_back({"bytea_output", "hex"});
    parameters.push_back({"IntervalStyle", "postgres"});
    parameters.push_back({"extra_float_digits", "1"});
    parameters.push_back({"statement_timeout", timeout});
    if (options.read_only) parameters.push_back({"default_transaction_read_only", "on"});
  }
  Buffer bytes;
  write_startup(bytes, parameters);
  if (!co_await write_startup_bytes(bytes, deadline)) co_return false;
  if (!co_await authenticate(deadline)) co_return false;
  for (;;) {
    Message message;
    if (!co_await read_startup_message(message, deadline)) co_return false;
    if (message.type == 'Z') {
      if (!parse_ready(message.payload)) co_return false;
      in_.consume(message.size);
      co_return true;
    }
    if (message.type == 'K') {
      if (const auto key = parse_backend_key(message.payload)) key_ = *key;
    } else if (message.type == 'E') {
      if (const auto notice = parse_notice(message.payload)) startup_failed(*notice);
      co_return false;
    } else if (message.type != 'S' && message.type != 'N' && message.type != 'v') {
      failure_.message = "the server does not speak PostgreSQL's protocol";
      co_return false;
    }
    in_.consume(message.size);
  }
}

core::Task<bool> Connection::authenticate(Instant deadline) {
  using Kind = AuthenticationRequest::Kind;
  const Options& options = pool_.options();
  std::optional<ScramClient> scram;
  bool server_is_known = false;
  for (;;) {
    Message message;
    if (!co_await read_startup_message(message, deadline)) co_return false;
    if (message.type == 'E') {
      if (const auto notice = parse_notice(message.payload)) startup_failed(*notice);
      co_return false;
    }
    if (message.type == 'N' || message.type == 'v') {
      in_.consume(message.size);
      continue;
    }
    const auto request = message.type == 'R' ? parse_authentication(message.payload) : std::nullopt;
    if (!request) {
      failure_.message = "the server does not speak PostgreSQL's protocol";
      co_return false;
    }
    Buffer reply;
    switch (request->kind) {
      case Kind::ok:
        // A server that skips its half of SCRAM has not shown that it knows the password.
        if (scram && !server_is_known) {
          failure_.message = "the server did not prove that it knows the password";
          co_return false;
        }
        in_.consume(message.size);
        co_return true;
      case Kind::cleartext:
        if (!options.allow_cleartext_password) {
          failure_.message = "the server asks for the password in the clear, which is not allowed";
          failure_.sqlstate = "28000";
          co_return false;
        }
        write_password(reply, options.password);
        break;
      case Kind::md5:
        write_password(reply, md5_password(options.user, options.password, request->data));
        break;
      case Kind::sasl:
        if (!request->offers_scram_sha_256 || scram) {
          failure_.message = "the server offers no SASL mechanism that is supported (SCRAM-SHA-256)";
          co_return false;
        }
        scram.emplace("", options.password, ScramClient::random_nonce());
        write_sasl_initial(reply, "SCRAM-SHA-256", scram->first_message());
        break;
      case Kind::sasl_continue: {
        auto answer = scram ? scram->final_message(request->data)
                            : std::expected<std::string, std::string>(std::unexpected("SCRAM out of order"));
        if (!answer) {
          failure_.message = std::move(answer.error());
          co_return false;
        }
        write_sasl_response(reply, *answer);
        break;
      }
      case Kind::sasl_final:
        server_is_known = scram && scram->verify(request->data);
        if (!server_is_known) {
          failure_.message = "the server did not prove that it knows the password";
          co_return false;
        }
        break;
      case Kind::unsupported:
        failure_.message =
            "the server asks for an authentication that is not supported (code " + std::to_string(request->code) + ")";
        failure_.sqlstate = "28000";
        co_return false;
    }
    in_.consume(message.size);
    if (!reply.empty() && !co_await write_startup_bytes(reply, deadline)) co_return false;
  }
}

core::Task<bool> Connection::write_startup_bytes(Buffer& bytes, Instant deadline) {
  iovec part{bytes.data(), bytes.size()};
  const auto written = co_await stream_.write({&part, 1}, deadline - pool_.reactor().now());
  if (!written) failure_.message = "cannot send to the server: " + written.error().text();
  co_return written.has_value();
}

core::Task<bool> Connection::read_startup_message(Message& message, Instant deadline) {
  for (;;) {
    switch (frame(in_.data(), in_.size(), startup_limit, message)) {
      case Framing::complete:
        co_return true;
      case Framing::need_more:
        break;
      case Framing::malformed:
      case Framing::too_large:
        failure_.message = "the server does not speak PostgreSQL's protocol";
        co_return false;
    }
    const auto got = co_await stream_.read(in_, 4096, deadline);
    if (!got || *got == 0) {
      failure_.message = "the server did not finish the start of the session: " +
                         (got ? std::string("it closed the connection") : got.error().text());
      co_return false;
    }
  }
}

void Connection::startup_failed(const ServerNotice& notice) {
  failure_.sqlstate = notice.sqlstate;
  failure_.message = sentence_of(notice);
}

void Connection::close() {
  if (stream_.open()) {
    if (state_ == State::ready || state_ == State::broken) {
      stream_.handle().reader = nullptr;
      stream_.handle().writer = nullptr;
    }
    stream_.close();
  }
  pool_.reactor().timers().cancel(watchdog_);
  state_ = State::broken;  // for those who ask again when they hear that their answer is lost
  in_.release();
  out_.release();
  scanned_ = needed_ = skip_ = 0;
  draining_ = cancelling_ = skipping_ = batch_slow_ = false;
  batch_ = 0;
  answer_ = {};
  prepared_.clear();
  key_ = {};
  // The waiting ones may ask again at once: elsewhere, as this connection is not ready.
  while (flight_size_ != 0) {
    const InFlight entry = pop();
    if (entry.query != nullptr) entry.query->connection_lost(failure_);
  }
}

void Connection::push(const InFlight& entry) {
  SLUICE_ASSERT(flight_size_ < flight_.size());
  if (flight_size_ == 0) {
    foremost_since_ = pool_.reactor().now();
    if (!watchdog_.armed()) watch(foremost_since_ + 1s);
  }
  flight_[(flight_first_ + flight_size_++) & (flight_.size() - 1)] = entry;
}

Connection::InFlight Connection::pop() {
  const InFlight entry = flight_[flight_first_];
  flight_first_ = (flight_first_ + 1) & (flight_.size() - 1);
  --flight_size_;
  foremost_since_ = pool_.reactor().now();
  return entry;
}

Connection::Prepared& Connection::prepared(std::uint32_t statement) {
  if (statement >= prepared_.size()) prepared_.resize(statement + 1, Prepared::no);
  return prepared_[statement];
}

void Connection::set_role(Role role) {
  if (role_ == role) return;
  role_ = role;
  if (!pool_.options().prepared || pool_.options().statement_timeout_ms == 0) return;
  const std::uint32_t timeout = role == Role::shared ? pool_.options().statement_timeout_ms : 0;
  write_query(out_, "SET statement_timeout = " + std::to_string(timeout));
  push({.setting = true});
}

void Connection::write_statement(Query& query, std::uint32_t row_limit) {
  const Statement& statement = *query.statement_;
  const bool alone = pool_.options().batch == 1 || query.use_ != Query::Use::shared || query.alone_;
  if (alone) end_batch();
  InFlight entry{.query = &query, .statement = statement.id, .deadline = query.first_deadline_};
  entry.named = pool_.options().prepared && statement.id != unnamed_statement;
  if (entry.named) {
    const StatementName name(statement.id);
    Prepared& state = prepared(statement.id);
    if (state != Prepared::yes) {
      if (state == Prepared::stale) write_close_statement(out_, name.view());
      write_parse(out_, name.view(), statement.text);
      write_describe_statement(out_, name.view());
      state = Prepared::yes;
      entry.prepares = true;
    }
    write_bind(out_, name.view(), static_cast<std::uint16_t>(statement.parameters.size()), query.parameters());
  } else {
    write_parse(out_, {}, statement.text);
    write_describe_statement(out_, {});
    entry.prepares = true;
    write_bind(out_, {}, static_cast<std::uint16_t>(statement.parameters.size()), query.parameters());
  }
  write_execute(out_, row_limit);
  entry.synced = alone;
  push(entry);
  if (alone) {
    write_sync(out_);
  } else if (++batch_ == pool_.options().batch) {
    end_batch();
  }
  flush_soon();
}

// Nothing leaves without its Sync: flush() comes here first.
void Connection::end_batch() {
  if (batch_ == 0) return;
  batch_ = 0;
  write_sync(out_);
  flight_[(flight_first_ + flight_size_ - 1) & (flight_.size() - 1)].synced = true;
}

void Connection::send_shared(Query& query) {
  SLUICE_ASSERT(leased_ == nullptr && state_ == State::ready);
  set_role(Role::shared);
  // One row more than the caller can use, or than is kept, tells that there are more.
  write_statement(query, query.statement_->one_row ? 2 : shared_rows);
}

void Connection::forget(Query& query) {
  for (std::size_t i = 0; i < flight_size_; ++i) {
    InFlight& entry = flight_[(flight_first_ + i) & (flight_.size() - 1)];
    if (entry.query == &query) {
      entry.query = nullptr;
      if (i == 0) {
        answer_.discard = true;
        if (pool_.reactor().now() - foremost_since_ >= slow) pool_.was_slow(entry.statement);
      }
      return;
    }
  }
}

void Connection::lease(Query& query, bool changes_role) {
  SLUICE_ASSERT(idle());
  leased_ = &query;
  lease_finished_ = false;
  if (changes_role) set_role(Role::exclusive);
}

void Connection::send_exclusive(Query& query) {
  lease_finished_ = false;
  write_statement(query, query.statement_->one_row ? 2 : 0);
}

void Connection::expect_answer(Query& query) {
  lease_finished_ = false;
  push({.query = &query});
  flush_soon();
}

void Connection::release(Query&) {
  leased_ = nullptr;
  idle_since_ = pool_.reactor().now();
  // Also where the connection is broken: close() tells those who still wait, and this one does not.
  for (std::size_t i = 0; i < flight_size_; ++i) {
    flight_[(flight_first_ + i) & (flight_.size() - 1)].query = nullptr;
  }
  if (state_ == State::ready) {
    in_.consume(scanned_);
    scanned_ = 0;
    if (flight_size_ != 0) {
      answer_.discard = true;
      draining_ = cancelling_ = true;
      drain_deadline_ = pool_.reactor().now() + drain_patience;
      watch(drain_deadline_);
      pool_.cancel(*this, life_, address_, key_);
    } else if (in_.empty() && in_.capacity() > kept_capacity) {
      in_.release();
    }
  }
  pool_.serve_soon();
  flush_soon();  // and the runner looks whether the server has closed meanwhile
}

void Connection::cancel_finished(std::uint64_t life) {
  if (life != life_) return;
  cancelling_ = false;
  end_drain();
}

void Connection::end_drain() {
  if (!draining_ || cancelling_ || flight_size_ != 0) return;
  draining_ = false;
  idle_since_ = pool_.reactor().now();
  pool_.serve_soon();
}

// Everything that has arrived of answers that nobody reads for himself.
void Connection::pump() {
  std::size_t turn = 0;
  for (;;) {
    while (state_ == State::ready && leased_ == nullptr) {
      Message message;
      const Framing framing =
          frame(in_.data() + scanned_, in_.size() - scanned_, pool_.options().max_row_bytes, message);
      if (framing == Framing::complete) {
        scanned_ += message.size;
        if (message.type == 'D' && flight_size_ != 0) {
          ++answer_.rows;
          if (scanned_ > shared_bytes) answer_.discard = true;
          if (answer_.discard) {
            in_.consume(scanned_);
            scanned_ = 0;
          }
        } else {
          handle(message);
        }
        continue;
      }
      if (framing == Framing::malformed) {
        break_off("the server sent a malformed message");
        return;
      }
      needed_ = message.size;
      if (message.size != 0 && overflow(message.size)) continue;
      break;
    }
    if (state_ != State::ready || leased_ != nullptr) return;
    if (in_.empty() && in_.capacity() > kept_capacity) in_.release();
    if (turn > turn_bytes) {
      watch(pool_.reactor().now());  // the rest after others have had their turn
      return;
    }
    const std::size_t before = in_.size();
    if (receive() != Received::bytes) return;
    turn += in_.size() > before ? in_.size() - before : read_bytes;
  }
}

// A message that is not all there, `message_size` long: one that would take too much memory is dropped as it comes.
// True: it is; false: it will be waited for.
bool Connection::overflow(std::size_t message_size) {
  const bool is_row = in_.data()[scanned_] == 'D' && flight_size_ != 0;
  if (!is_row) {
    if (message_size <= message_limit) return false;
    break_off("the server sent a message that is too long");
    return true;
  }
  if (!answer_.discard && scanned_ + message_size <= shared_bytes) return false;
  answer_.discard = true;
  ++answer_.rows;
  skip_ = scanned_ + message_size - in_.size();
  in_.clear();
  scanned_ = needed_ = 0;
  return true;
}

Connection::Received Connection::receive() {
  core::Handle& handle = stream_.handle();
  if (state_ != State::ready) return Received::broken;
  if (!handle.may_read) return Received::nothing;
  const std::size_t wanted = needed_ > in_.size() - scanned_ ? needed_ - (in_.size() - scanned_) : 0;
  char* const room = in_.reserve(std::max(read_bytes, wanted));
  const core::Io io = pool_.reactor().recv(handle, room, in_.writable());
  if (io.would_block()) return Received::nothing;
  if (!io.ok() || io.bytes == 0) {
    break_off(io.ok() ? "the server closed the connection" : "the connection to the server broke");
    return Received::broken;
  }
  in_.commit(io.bytes);
  if (skip_ != 0) {
    const std::size_t dropped = std::min(skip_, in_.size());
    in_.consume(dropped);
    skip_ -= dropped;
  }
  return Received::bytes;
}

void Connection::handle(const Message& message) {
  switch (message.type) {
    case '1':  // ParseComplete
    case '3':  // CloseComplete
    case 't':  // ParameterDescription
      break;
    case 'C':  // CommandComplete
    case 'I':  // EmptyQueryResponse
      finish_command();
      break;
    case '2':
      if (answer_.bound) {
        break_off("the server sent a message that is out of place");
        return;
      }
      answer_.bound = true;
      break;
    case 's':
      answer_.suspended = true;
      finish_command();
      break;
    case 'T':
    case 'n':
      check_columns(message);
      break;
    case 'Z':
      handle_ready(message);
      return;
    case 'E':
      handle_error(message);
      break;
    case 'N':
      ++pool_.counters().notices;
      break;
    case 'A':
      if (parse_notification(message.payload)) ++pool_.counters().notifications;
      break;
    case 'H':  // COPY ... TO STDOUT: no rows, and nothing that could be made of it
    case 'd':
    case 'c':
      answer_.changed = answer_.discard = true;
      break;
    case 'S':
      break;  // ParameterStatus: nothing that we rely on changes behind our back
    default:
      break_off("the server sent a message that is out of place");
      return;
  }
  if (leased_ != nullptr) return;  // scan() gives up what it has seen
  if (flight_size_ == 0 || answer_.discard) {
    in_.consume(scanned_);
    scanned_ = 0;
  }
}

void Connection::handle_error(const Message& message) {
  const auto notice = parse_notice(message.payload);
  if (!notice) {
    break_off("the server sent a malformed error");
    return;
  }
  if (flight_size_ == 0 || notice->severity == "FATAL" || notice->severity == "PANIC") {
    break_off({Failure::unavailable, std::string(notice->sqlstate), sentence_of(*notice), 0});
    return;
  }
  if (skipping_) {
    break_off("the server sent a message that is out of place");
    return;
  }
  answer_.error = std::make_unique<ServerError>(*notice);
  answer_.error->at_bind = !answer_.bound;
  if (foremost().synced) return;
  complete_foremost();
  skipping_ = true;
}

// A statement is prepared anew on every connection, and the table may have changed since the program's start: what JSON
// makes of a column would then be wrong.
void Connection::check_columns(const Message& message) {
  if (flight_size_ == 0 || foremost().setting || foremost().query == nullptr) return;
  const Query& query = *foremost().query;
  if (query.statement_ == nullptr) return;
  const std::vector<Column>& columns = query.statement_->columns;
  answer_.described = true;
  if (message.type == 'n') {
    answer_.changed = !columns.empty();
    return;
  }
  const auto fields = parse_row_description(message.payload);
  if (!fields) {
    break_off("the server sent a malformed row description");
    return;
  }
  answer_.changed = fields->size() != columns.size();
  for (std::size_t i = 0; i < columns.size() && !answer_.changed; ++i) {
    answer_.changed = (*fields)[i].name != columns[i].name || !same_type(columns[i].type, (*fields)[i].type);
  }
}

// In a batch an answer ends with its command, otherwise with ReadyForQuery.
void Connection::finish_command() {
  if (flight_size_ == 0 || skipping_ || answer_.complete || (!answer_.bound && !foremost().setting)) {
    break_off("the server sent a message that is out of place");
    return;
  }
  answer_.complete = true;
  answer_.complete_rows = answer_.rows;
  if (!foremost().synced) complete_foremost();
}

void Connection::handle_ready(const Message& message) {
  const auto status = parse_ready(message.payload);
  const auto whole = [this] {
    const InFlight& entry = foremost();
    const bool conversation = entry.query != nullptr && entry.query->statement_ == nullptr;
    return entry.synced && (answer_.error || conversation || answer_.changed ||
                            (answer_.complete && answer_.complete_rows == answer_.rows));
  };
  if (!status || flight_size_ == 0 || (!skipping_ && !whole())) {
    break_off("the server sent a message that is out of place");
    return;
  }
  skipping_ ? drop_skipped() : complete_foremost();
  if (*status != 'I') break_off("a statement left a transaction open");
  if (leased_ == nullptr) {
    in_.consume(scanned_);
    scanned_ = 0;
    if (flight_size_ == 0) idle_since_ = foremost_since_;
    if (draining_) end_drain();
    if (pool_.somebody_waits()) pool_.serve_soon();
  }
}

void Connection::drop_skipped() {
  skipping_ = batch_slow_ = false;
  answer_ = {};
  dispatching_ = true;
  for (bool last = false; !last;) {
    const InFlight entry = pop();
    last = entry.synced;
    if (entry.named && entry.prepares) prepared(entry.statement) = Prepared::stale;
    if (entry.query != nullptr) entry.query->answer_skipped();
  }
  dispatching_ = false;
}

void Connection::complete_foremost() {
  const bool was_slow = leased_ == nullptr && (batch_slow_ || pool_.reactor().now() - foremost_since_ >= slow);
  const InFlight entry = pop();
  batch_slow_ = was_slow && !entry.synced;
  if (was_slow && !entry.setting) pool_.was_slow(entry.statement);
  Answer answer = std::move(answer_);
  answer_ = {};

  // Asked to describe a statement, a server that gives a result without having done so is not believed.
  if (entry.prepares && entry.query != nullptr && !answer.described && !answer.error) answer.changed = true;
  bool stale = false;
  if (entry.named) {
    Prepared& state = prepared(entry.statement);
    if (entry.prepares && (answer.changed || !answer.described)) {
      // Whether it exists is not known where nobody was left to check its columns, or Parse has failed. Stale is always
      // right: closing what does not exist is no error.
      state = Prepared::stale;
    } else if (answer.error) {
      stale = answer.error->sqlstate == "26000" ||
              (answer.error->sqlstate == "0A000" && answer.error->routine == "RevalidateCachedQuery");
      // The next one may have been parsed meanwhile, by a request that had the same answer before this one.
      if (stale) state = Prepared::stale;
    } else if (state != Prepared::yes && entry.query != nullptr) {
      stale = true;  // sent behind a Parse whose columns turned out to be others
    }
  }

  if (entry.setting) {
    if (answer.error) break_off({Failure::unavailable, answer.error->sqlstate, answer.error->message, 0});
  } else if (entry.query != nullptr && entry.query == leased_) {
    lease_finished_ = true;
    answer_ = std::move(answer);  // for scan()
    lease_entry_ = entry;
    lease_entry_.prepares = stale;
  } else if (entry.query != nullptr) {
    Query& query = *entry.query;
    dispatching_ = true;
    if (stale) {
      query.answer_stale();
    } else if (answer.error) {
      query.answer_failed(*answer.error);
    } else if (answer.changed) {
      query.answer_changed();
    } else if (answer.discard || (answer.suspended && !query.statement_->one_row)) {
      query.answer_overflowed();
    } else {
      deliver(query, answer);
    }
    dispatching_ = false;
  }
  if (leased_ == nullptr) {
    in_.consume(scanned_);
    scanned_ = 0;
  }
}

void Connection::deliver(Query& query, Answer& answer) {
  if (!cut_answer(query, answer.rows)) {
    query.answer_changed();
    break_off("the server sent a row that does not fit its description");
    return;
  }
  delivering_ = &query;
  query.answer({fields_.data(), answer.rows * query.statement_->columns.size()}, answer.rows);
  // Who does not take the rows at once gets a copy of his own: the next answer comes into the same buffer.
  if (delivering_ != nullptr) delivering_->keep();
  delivering_ = nullptr;
}

bool Connection::cut_answer(Query& query, std::size_t rows) {
  const std::size_t columns = query.statement_->columns.size();
  if (rows * (7 + 4 * columns) > scanned_) return false;  // what so many rows take at least
  if (fields_.size() < rows * columns) fields_.resize(rows * columns);
  Field* into = fields_.data();
  const char* at = in_.data();
  for (std::size_t left = rows; left != 0;) {
    Message message;
    if (frame(at, scanned_, scanned_, message) != Framing::complete) return false;
    at += message.size;
    if (message.type != 'D') continue;
    if (!cut_row(message.payload, columns, into)) return false;
    into += columns;
    --left;
  }
  return true;
}

Connection::Progress Connection::scan(Piece& piece) {
  piece.rows = piece.bytes = 0;
  piece.fields = {};
  piece.error = nullptr;
  piece.finished = piece.stale = piece.changed = false;
  if (state_ != State::ready) return Progress::broken;
  in_.consume(scanned_);
  scanned_ = 0;
  if (in_.empty() && in_.capacity() > kept_capacity) in_.release();
  const std::size_t columns = leased_->statement_->columns.size();
  std::size_t used = 0;
  while (state_ == State::ready && !lease_finished_ && scanned_ < block_bytes) {
    Message message;
    const Framing framing = frame(in_.data() + scanned_, in_.size() - scanned_, pool_.options().max_row_bytes, message);
    if (framing != Framing::complete && message.size > message_limit && in_.data()[scanned_] != 'D') {
      break_off("the server sent a message that is too long");
      break;
    }
    if (framing == Framing::need_more) {
      needed_ = message.size;
      break;
    }
    if (framing == Framing::malformed) {
      break_off("the server sent a malformed message");
      break;
    }
    if (framing == Framing::too_large) {
      if (piece.rows != 0) break;  // those first
      return Progress::too_large;
    }
    scanned_ += message.size;
    needed_ = 0;
    if (message.type == 'D') {
      if (fields_.size() < used + columns) fields_.resize(std::max(fields_.size() * 2, used + columns));
      if (!answer_.changed && cut_row(message.payload, columns, fields_.data() + used)) {
        used += columns;
        ++piece.rows;
        continue;
      }
      answer_.changed = true;  // an error once the answer has ended
    } else {
      handle(message);
    }
    if (piece.rows == 0) {
      in_.consume(scanned_);
      scanned_ = 0;
    }
  }
  if (state_ != State::ready && piece.rows == 0) return Progress::broken;
  piece.fields = {fields_.data(), used};
  piece.bytes = scanned_;
  if (lease_finished_) {
    piece.finished = true;
    piece.error = std::move(answer_.error);
    piece.stale = lease_entry_.prepares;
    piece.changed = answer_.changed;
    answer_ = {};
  } else if (piece.rows == 0) {
    return Progress::need_more;
  }
  return Progress::ready;
}

Connection::Progress Connection::next_message(Message& message) {
  if (state_ != State::ready) return Progress::broken;
  for (;;) {
    in_.consume(scanned_);
    scanned_ = 0;
    switch (frame(in_.data(), in_.size(), message_limit, message)) {
      case Framing::need_more:
        needed_ = message.size;
        return Progress::need_more;
      case Framing::malformed:
      case Framing::too_large:
        break_off("the server sent a malformed message");
        return Progress::broken;
      case Framing::complete:
        break;
    }
    scanned_ = message.size;
    needed_ = 0;
    if (message.type == 'S' || message.type == 'N' || message.type == 'A') {
      handle(message);
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

void Connection::break_off(std::string_view why) { break_off({Failure::unavailable, {}, std::string(why), 0}); }

void Connection::break_off(Error why) {
  if (state_ != State::ready) return;
  state_ = State::broken;
  failure_ = std::move(why);
  flush_soon();  // the runner sees to the rest
}

void Connection::flush_soon() { pool_.reactor().at_turn_end(hook_); }

void Connection::flush() {
  end_batch();
  core::Handle& handle = stream_.handle();
  while (state_ == State::ready && !out_.empty()) {
    if (!handle.may_write) {
      handle.writer = &writer_;
      return;
    }
    const iovec part{out_.data(), out_.size()};
    const core::Io io = pool_.reactor().send(handle, {&part, 1});
    if (io.would_block()) continue;
    if (!io.ok()) {
      break_off("the connection to the server broke");
      return;
    }
    out_.consume(io.bytes);
  }
  if (out_.empty() && out_.capacity() > kept_capacity) out_.release();
  handle.writer = nullptr;
}

void Connection::wake_runner() {
  if (runner_) std::exchange(runner_, nullptr).resume();
}

void Connection::watch(Instant when) { pool_.reactor().timers().schedule(watchdog_, when); }

// What only time can tell: an answer that does not come, a cancelled one that does not end, nobody who asks.
void Connection::look_around() {
  const Options& options = pool_.options();
  const Instant now = pool_.reactor().now();
  if (state_ != State::ready) return;
  Instant next = now + 1s;
  if (draining_) {
    if (now >= drain_deadline_) {
      break_off("a cancelled statement did not end");
      return;
    }
    next = std::min(next, drain_deadline_);
  } else if (leased_ == nullptr && flight_size_ != 0) {
    // One that was pipelined is only begun when those before it are done.
    Instant deadline = foremost().deadline;
    if (options.statement_timeout_ms != 0) {
      deadline = std::max(deadline == never ? foremost_since_ : deadline,
                          foremost_since_ + std::chrono::milliseconds(options.statement_timeout_ms));
    }
    if (deadline != never && now >= deadline + grace) {
      break_off("the server did not answer in time");
      return;
    }
  } else if (idle() && options.idle_ms != 0 && pool_.open_connections() > 1 &&
             now >= idle_since_ + std::chrono::milliseconds(options.idle_ms)) {
    write_terminate(out_);
    flush();
    break_off("nobody used the connection");
    return;
  }
  watch(next);
}

void Connection::on_readable(core::Waiter& waiter) noexcept {
  Connection& self = static_cast<ReadWaiter&>(waiter).owner;
  if (self.leased_ != nullptr) {
    self.leased_->readable();
  } else {
    self.wake_runner();
  }
}

void Connection::on_writable(core::Waiter& waiter) noexcept { static_cast<ReadWaiter&>(waiter).owner.flush(); }

void Connection::on_timer(core::Timer& timer) noexcept {
  Connection& self = static_cast<Watchdog&>(timer).owner;
  self.look_around();
  if (self.leased_ == nullptr) self.wake_runner();
}

void Connection::on_turn_end(core::TurnHook& hook) noexcept {
  Connection& self = static_cast<Hook&>(hook).owner;
  self.flush();
  if (self.leased_ != nullptr) {
    if (self.state_ == State::broken) self.leased_->readable();
  } else if (self.state_ == State::broken || self.stream_.handle().may_read) {
    self.wake_runner();
  }
}

}  // namespace sluice::sql::postgres
