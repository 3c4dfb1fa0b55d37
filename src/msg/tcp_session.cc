#include "msg/tcp_session.h"

#include <algorithm>
#include <array>
#include <new>
#include <utility>

#include "base/assert.h"
#include "core/next_turn.h"
#include "core/sleep.h"
#include "msg/sessions.h"

namespace sluice::msg {
namespace {

constexpr std::size_t short_rest_bytes = 16 * 1024;  // a longer rest of a frame stays in the buffer that it came in
constexpr std::size_t turn_bytes = 256 * 1024;       // of frames of one session in a turn of the loop
constexpr std::size_t parts_per_write = 64;
constexpr std::uint32_t longest_token = 64 * 1024;
constexpr Duration half_close_grace = 1s;
constexpr Duration lingering_time = 2s;
constexpr std::size_t lingering_bytes = 256 * 1024;

}  // namespace

TcpSession::TcpSession(Sessions& sessions, std::shared_ptr<net::tls::CoreState> tls)
    : Session(sessions, sessions.next_id()), Watch(stream_), tls_(std::move(tls)), stream_(sessions.reactor()) {}

TcpSession::~TcpSession() { SLUICE_ASSERT(!watching() && reading_ == nullptr && writing_ == nullptr); }

void TcpSession::begin(std::string peer, std::shared_ptr<const net::tls::ServerContext> context,
                       std::shared_ptr<Door> door) {
  peer_ = std::move(peer);
  tls_context_ = std::move(context);
  door_ = std::move(door);
  stream_.set_slowest(sessions_.options().slowest_client);
  heard_ = sessions_.reactor().now();
  sessions_.add(*this);
  serve();
}

void TcpSession::refuse() {
  Buffer bytes;
  append_error(bytes, 0, std::nullopt, ErrorCode::overloaded, "There are too many sessions.");
  (void)stream_.try_write(bytes);
}

void TcpSession::serve() {
  spawn([this] { return run(); }, reading_);
}

void TcpSession::woken(Woken why) {
  const SessionOptions& options = sessions_.options();
  const Instant now = sessions_.reactor().now();
  if (why != Woken::late) return serve();
  if (state() == State::opening) {
    return deny(Frame{.id = token_id}, ErrorCode::unauthorized, "No token came in time.");
  }
  if (now - heard_ >= options.idle_timeout) return close(Ended::idle);
  if (!std::exchange(pinged_, true)) send(Frame{.id = ping_id});
  if (!watch(heard_ + options.idle_timeout)) serve();
}

Instant TcpSession::next_look() const {
  const SessionOptions& options = sessions_.options();
  if (state() == State::opening) return heard_ + options.handshake_timeout;
  return heard_ + std::min(options.heartbeat, options.idle_timeout);
}

core::Task<void> TcpSession::run() {
  const Place place{reading_};
  const SessionRef self(*this);
  try {
    if (state() == State::opening) {
      if (tls_context_ && !co_await shake_hands()) co_return;
      if (state() == State::opening && door_ == nullptr) {
        sessions_.set_open(*this);
      } else if (state() == State::opening && !door_->wants_token() && !co_await enter(nullptr)) {
        co_return;
      }
    }
    // Watching fails if bytes have arrived meanwhile.
    while (co_await read_frames()) {
      if (watch(next_look())) co_return;
    }
  } catch (const std::bad_alloc&) {
    ++sessions_.counting().out_of_memory;
    cut(Ended::lost);
  }
  if (!open()) mark();  // the session may have waited for this
}

core::Task<bool> TcpSession::shake_hands() {
  const Instant deadline = sessions_.reactor().now() + sessions_.options().handshake_timeout;
  const auto done = co_await stream_.accept_tls(std::move(tls_context_), *tls_, deadline);
  if (done) co_return true;
  if (stream_.tls()->has_received()) ++sessions_.counting().failed_handshakes;
  if (stream_.tls()->failure() == net::tls::Failure::certificate) {
    tls_->refusals.refused(peer_, stream_.tls()->failure_text(), sessions_.reactor().now());
  }
  cut(Ended::lost);
  co_return false;
}

core::Task<bool> TcpSession::enter(const Frame* first) {
  const auto flags = static_cast<std::uint8_t>(first != nullptr ? first->flags & correlated_flag : 0);
  const Frame about{.id = token_id, .flags = flags, .correlation = first != nullptr ? first->correlation : 0};
  if (first != nullptr && (first->id != token_id || first->is_error())) {
    deny(about, ErrorCode::unauthorized, "The first frame must be a token.");
    co_return false;
  }
  const std::string token(first != nullptr ? text_of(first->body) : std::string_view{});
  const net::tls::Session* const tls = stream_.tls();
  const Caller caller{.peer = peer_,
                      .secure = tls != nullptr,
                      .certificate = tls != nullptr ? tls->peer_certificate() : nullptr,
                      .token = token};
  auto admission = co_await door_->admit(caller);
  if (state() != State::opening) co_return false;
  if (!admission) {
    deny(about, admission.error().code, admission.error().text);
    co_return false;
  }
  admission_ = std::make_unique<Admission>(std::move(*admission));
  door_.reset();  // and with it the policies, which a reload may replace
  sessions_.set_open(*this, about.is_correlated() ? &about : nullptr);
  if (admission_->standing) spawn([this] { return watch_credentials(); }, watching_credentials_);
  co_return open();
}

core::Task<void> TcpSession::watch_credentials() {
  const Place place{watching_credentials_};
  const SessionRef self(*this);
  co_await std::move(admission_->standing);
  if (!open()) co_return;
  send_error(Frame{.id = token_id}, ErrorCode::unauthorized, "The credentials have expired, or were revoked.");
  drops_handler_ = true;  // one that waits; not here, because this may run within reading_
  close(Ended::unauthorized);
}

core::Task<bool> TcpSession::read_frames() {
  core::Reactor& reactor = sessions_.reactor();
  Sessions::Counters& counters = sessions_.counting();
  struct Input {
    TcpSession& session;
    Buffer buffer = session.sessions_.take_input();
    ~Input() {
      session.sessions_.give_back_input(std::move(buffer));
      (void)session.hold_input(0);
    }
  } input{*this};
  const std::uint32_t most_body = sessions_.options().most_body;
  FrameDecoder decoder(open() ? most_body : std::min(most_body, longest_token));
  core::TurnShare turn(reactor, turn_bytes);
  Instant deadline = never;  // of an incomplete frame
  while (open() || state() == State::opening) {
    const auto next = decoder.next(input.buffer);
    if (!next) {
      ++counters.bad_frames;
      const ErrorCode code = next.error().code == Errc::limit ? ErrorCode::too_large : ErrorCode::bad_frame;
      if (state() == State::opening) {
        deny(Frame{.id = token_id}, code, decoder.refusal().text());
        break;
      }
      send_error(Frame{.id = decoder.refusal().id}, code, decoder.refusal().text());
      close(Ended::refused);
      break;
    }
    if (*next) {
      deadline = never;
      if (!open()) [[unlikely]] {
        if (!co_await enter(&**next)) break;
        decoder.set_most_body(most_body);
        continue;
      }
      const std::size_t size = header_size + (*next)->body.size();
      if (auto waits = pass(**next)) co_await std::move(waits);
      co_await Room(*this);
      if (sessions_.sends_wait()) [[unlikely]]
        co_await sessions_.sent();
      if (turn.spend(size)) co_await turn.next_turn();
      continue;
    }
    if (input.buffer.empty()) {
      deadline = never;
    } else if (deadline == never) {
      deadline = reactor.now() + sessions_.options().frame_timeout;
    }
    // The buffer grows with what has arrived, and not to the size that a header claims.
    const std::size_t least = std::min(decoder.needed(), std::max(input.buffer.size(), Sessions::input_bytes));
    net::Stream::Read reading = stream_.read(input.buffer, std::max(Sessions::input_bytes, least), deadline, least);
    if (!reading.attempt()) {
      if (input.buffer.empty()) co_return true;
      if (input.buffer.size() <= short_rest_bytes && input.buffer.capacity() >= Sessions::input_bytes) {
        Buffer rest(input.buffer.size() + std::min(decoder.needed(), short_rest_bytes));
        rest.append(input.buffer.view());
        sessions_.give_back_input(std::exchange(input.buffer, std::move(rest)));
      }
      (void)co_await reading;
    }
    const auto got = reading.await_resume();
    if (!got) {
      const bool late = got.error().code == Errc::timed_out;
      if (late && open()) ++counters.bad_frames;
      cut(late ? Ended::refused : Ended::lost);
      break;
    }
    if (*got == 0) {
      close(input.buffer.empty() ? Ended::by_peer : Ended::lost);
      break;
    }
    counters.bytes_in += *got;
    heard_ = reactor.now();
    pinged_ = false;
    if (input.buffer.capacity() > Sessions::input_bytes && !hold_input(input.buffer.size())) break;
  }
  co_return false;
}

// A client that has ended its side may still read: it has a moment for the answer.
core::Task<void> TcpSession::watch_client() {
  (void)co_await stream_.ended(never);
  if (stream_.handle().failed || stream_.is_cut()) co_return cut(Ended::lost);
  co_await core::Sleep(sessions_.reactor(), sessions_.reactor().now() + half_close_grace);
  drops_handler_ = true;
  close(Ended::by_peer);
  mark();  // also if it was ending already
}

void TcpSession::turn_end() {
  if (state() == State::ended || (state() == State::ending && (!handling_ || drops_handler_))) {
    unwatch();
    if (reading_ != nullptr) core::TaskGroup::cancel(*reading_);
    if (watching_credentials_ != nullptr) core::TaskGroup::cancel(*watching_credentials_);
  }
  if (state() == State::ended) {
    if (writing_ != nullptr) core::TaskGroup::cancel(*writing_);
    if (admission_ != nullptr) admission_->held.reset();
    stream_.close();
    return;
  }
  if (writing_ != nullptr || (outbox_.empty() && !finishes())) return;
  spawn([this] { return write(); }, writing_);
}

core::Task<void> TcpSession::write() {
  const Place place{writing_};
  const SessionRef self(*this);
  std::array<iovec, parts_per_write> parts;
  while (!outbox_.empty()) {
    Outbox now = take_outbox();
    Outbox::Position at;
    for (auto some = now.gather(at, parts); !some.empty(); some = now.gather(at, parts)) {
      const auto done = co_await stream_.write(some, sessions_.options().write_timeout);
      if (!done) {
        cut(done.error().code == Errc::timed_out ? Ended::slow : Ended::lost);
        co_return;
      }
    }
    sessions_.give_back(std::move(now.bytes()));
    written();
  }
  if (finishes()) co_await finish();
}

core::Task<void> TcpSession::finish() {
  if (co_await stream_.end(sessions_.options().write_timeout)) {
    const Instant deadline = sessions_.reactor().now() + lingering_time;
    Buffer dropped;
    for (std::size_t bytes = 0; bytes < lingering_bytes;) {
      dropped.clear();
      const auto got = co_await stream_.read(dropped, lingering_bytes / 16, deadline);
      if (!got || *got == 0) break;
      bytes += *got;
    }
  }
  cut(why_ended());
}

}  // namespace sluice::msg
