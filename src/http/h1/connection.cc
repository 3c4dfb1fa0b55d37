#include "http/h1/connection.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "http/client_address.h"
#include "http/h1/early_bytes.h"
#include "http/h1/presence.h"
#include "http/h1/request_body.h"
#include "http/h1/response.h"
#include "http/h2/connection.h"
#include "http/proxy_header.h"
#include "net/stream_duplex.h"

namespace sluice::http::h1 {
namespace {

constexpr std::uint64_t dropped_body_bytes = 1024 * 1024;  // most bytes of a body that are dropped for the next request
constexpr Duration dropping_time = 30s;                    // most time for that after the response
constexpr Duration lingering_time = 2s;
constexpr Duration draining_patience = 1s;  // for the first bytes of a new connection: they may be on their way
constexpr Duration overloaded_patience =
    500ms;  // a connection beyond the limit gets its 503 after this time even if it sends nothing

}  // namespace

// Counts a request while its handler runs. A request that is answered at once needs no counting: nobody can read the
// counter in between.
class Connection::Active {
 public:
  Active(ServerState& server, Method method, bool secure)
      : count_(server.counters.active[secure ? 1 : 0][static_cast<std::size_t>(method)]) {
    ++count_;
  }
  Active(const Active&) = delete;
  ~Active() { --count_; }

 private:
  std::uint32_t& count_;
};

Connection::Connection(ServerState& server) : Watch(stream_), server_(server), stream_(server.reactor) {}

Connection::~Connection() {
  unwatch();
  if (work_) server_.give_back(std::move(work_));
}

void Connection::drain() {
  if (http2_ != nullptr) return http2_->drain();
  if (watching()) return recall();
  if (upgrade_ != nullptr) return upgrade_->drain();
  if (wants_proxy_header_ || drops_body_) return stream_.end_read();
  stream_.hurry_handshake(stream_.reactor().now() + draining_patience);
}

void Connection::begin(const core::Address& peer) {
  peer_ = peer.ip();
  may_be_http2_ = server_.options.http2;
  stream_.set_slowest(server_.options.slowest_client);
}

void Connection::follow_options(bool new_limits) {
  const ServerOptions& options = server_.options;
  stream_.set_slowest(options.slowest_client);
  if (new_limits && work_) work_->outdated = unusual_ = true;
  if (http2_ != nullptr) http2_->follow_options();
  if (options.http2) return;
  may_be_http2_ = false;
  if (http2_ != nullptr) http2_->go_away();
}

// Parses the received bytes again from the beginning, with the current limits.
void Connection::renew_workspace() {
  auto fresh = server_.take_workspace();
  fresh->input.swap(work_->input);
  fresh->output.swap(work_->output);
  fresh->parser.set_secure(secure());
  work_ = std::move(fresh);
}

bool Connection::awaits_answer() const {
  return presence_ != nullptr || upgrade_ != nullptr || (work_ && work_->sending != nullptr) ||
         (http2_ != nullptr && http2_->has_streams());
}

bool Connection::wait_for_request() {
  woken_ = Woken::readable;
  return watch(idle_until_);
}

void Connection::woken(Woken why) {
  woken_ = why;
  server_.runner.serve(*this);
}

core::Task<Connection::Next> Connection::run() {
  core::Reactor& reactor = stream_.reactor();
  const ServerOptions& options = server_.options;
  if (idle_until_ == Instant{}) {  // the connection was just accepted
    if (wants_proxy_header_ && !co_await read_proxy_header()) co_return Next::end;
    if (tls_context_) {
      if (!co_await shake_hands()) co_return Next::end;
      if (stream_.tls()->protocol() == "h2") co_return Next::http2;
      if (options.http1) may_be_http2_ = false;  // prior knowledge is only for connections without ALPN (RFC 9113, 3.3)
    }
    idle_until_ = reactor.now() + (overloaded_ ? overloaded_patience : options.header_timeout);
  }
  const bool silent = woken_ == Woken::late;
  if (silent && !overloaded_) {
    stream_.say_goodbye();
    co_return Next::end;
  }
  work_ = server_.take_workspace();
  if (silent) {
    co_await refuse(503, "The server has as many connections as it may.");
    co_return Next::end;
  }
  work_->parser.set_secure(secure());
  deadline_ = reactor.now() + options.header_timeout;
  // While the server drains, a request that has already arrived, if only in part, is still served.
  if (server_.draining) stream_.handle().may_read = true;

  bool goes_on = true;
  while (goes_on) {
    if (may_be_http2_) {
      const std::string_view input = work_->input.view();
      if (input.starts_with(h2::client_preface) || (!options.http1 && !input.empty())) co_return Next::http2;
      may_be_http2_ = h2::client_preface.starts_with(input);
    }
    // Bytes that may become the HTTP/2 preface are not parsed yet.
    const Parsed parsed = may_be_http2_ ? Parsed{} : work_->parser.parse(work_->input.view());
    if (parsed.state == Parsed::State::need_more) {
      if (!work_->output.empty()) {
        if (!co_await flush()) co_return Next::end;
        deadline_ = reactor.now() + options.header_timeout;  // sending the response may have taken long
      }
      net::Stream::Read reading = stream_.read(work_->input, read_bytes, deadline_);
      if (!reading.attempt()) {
        if (!work_->input.empty()) {
          (void)co_await reading;
        } else {
          const bool is_new = began_ == Instant{};
          if (server_.draining && is_new) idle_until_ = std::min(idle_until_, reactor.now() + draining_patience);
          if (server_.draining && !is_new) {
            // The previous response may still fill the socket.
            if (secure()) (void)co_await stream_.end(options.write_timeout);
            co_return Next::end;
          }
          server_.give_back(std::move(work_));
          co_return Next::idle;
        }
      }
      const auto got = reading.await_resume();
      if (got && *got != 0) continue;
      // A timeout or the end of the stream within a head is an error; between requests it is an orderly close.
      if (!work_->input.empty() && !got && got.error().code == Errc::timed_out) {
        co_await refuse(408, "The request's header did not arrive in time.");
      } else if (!work_->input.empty() && got) {
        co_await refuse(400, "The connection ended within the request's header.");
      } else if (got && secure()) {
        (void)co_await stream_.end(options.write_timeout);
      }
      co_return Next::end;
    }
    if (parsed.state == Parsed::State::refused) {
      co_await refuse(status_of(parsed.reason), describe(parsed.reason));
      co_return Next::end;
    }
    if (unusual_) [[unlikely]] {
      if (overloaded_) {
        co_await refuse(503, "The server has as many connections as it may.");
        co_return Next::end;
      }
      unusual_ = false;
      if (work_->outdated) {
        renew_workspace();
        continue;
      }
    }

    began_ = reactor.now();
    Exchange& exchange = present_request();
    const Request& request = exchange.request;
    if (work_->parser.body().kind == BodyFraming::Kind::none) [[likely]] {
      core::Async<Response> answer = server_.dispatcher.handle(exchange);
      if (answer.ready()) [[likely]] {
        Response& response = answer.get();
        goes_on = work_->parser.keep_alive() && !server_.draining;
        const Left left = begin_answer(response, parsed.head_size, goes_on);
        if (left == Left::upgrade) [[unlikely]]
          co_return Next::upgrade;
        if (left == Left::body) {
          const Active active(server_, request.method, secure());
          if (co_await send(response, request.method == Method::head, goes_on) == Sent::no) co_return Next::end;
        }
      } else {
        const Active active(server_, request.method, secure());
        // Do not delay the responses to earlier requests while this one is waiting.
        if (!work_->output.empty() && !co_await flush()) co_return Next::end;
        auto response = co_await WhilePresent<Response>(*this, answer.take_task());
        if (!response) {
          end_exchange(499, nullptr, 0, true);
          co_return Next::end;
        }
        goes_on = work_->parser.keep_alive() && !server_.draining;
        const Left left = begin_answer(*response, parsed.head_size, goes_on);
        if (left == Left::upgrade) co_return Next::upgrade;
        if (left == Left::body && co_await send(*response, request.method == Method::head, goes_on) == Sent::no) {
          co_return Next::end;
        }
      }
      work_->input.consume(parsed.head_size);
    } else {
      if (co_await answer_with_body(parsed) == Sent::no) co_return Next::end;
      goes_on = work_->parser.keep_alive() && !server_.draining;
    }
    work_->forget_request();
    deadline_ = reactor.now() + options.header_timeout;
    idle_until_ = reactor.now() + options.idle_timeout;
    if (work_->output.size() >= output_bytes && !co_await flush()) co_return Next::end;
  }
  if (!work_->output.empty() && !co_await flush()) co_return Next::end;
  co_await linger();
  co_return Next::end;
}

// Reads exactly the bytes of the header, because a TLS handshake may follow.
core::Task<bool> Connection::read_proxy_header() {
  const Instant deadline = stream_.reactor().now() + server_.options.header_timeout;
  Buffer received;
  ProxyHeader header = ProxyHeader::parse({});
  while (header.state == ProxyHeader::State::need_more) {
    const auto read = co_await stream_.read(received, header.wanted, deadline);
    if (!read || *read == 0) {
      if (!received.empty()) ++server_.counters.bad_proxy_headers;
      co_return false;
    }
    header = ProxyHeader::parse(received.view());
  }
  wants_proxy_header_ = false;
  if (header.state == ProxyHeader::State::wrong) {
    ++server_.counters.bad_proxy_headers;
    co_return false;
  }
  if (!header.client.empty()) peer_ = std::move(header.client);
  co_return true;
}

core::Task<bool> Connection::shake_hands() {
  ServerCounters::Tls& counters = server_.counters.tls;
  const Instant deadline = stream_.reactor().now() + server_.options.header_timeout;
  const auto done = co_await stream_.accept_tls(std::move(tls_context_), server_.tls, deadline);
  if (done) {
    ++counters.handshakes;
    if (stream_.tls()->resumed()) ++counters.resumed;
    co_return true;
  }
  if (done.error().code == Errc::timed_out) {
    ++counters.timed_out;
  } else if (!stream_.tls()->has_received()) {
    // Not a failure: the connection ended before the client sent anything.
  } else if (stream_.tls()->failure() == net::tls::Failure::plain_http) {
    ++counters.plain_http;
    stream_.drop_tls();
    work_ = server_.take_workspace();
    co_await refuse(400, "This port takes HTTPS only, and the request came without TLS.");
  } else {
    ++counters.failed;
    if (stream_.tls()->failure() == net::tls::Failure::certificate) {
      server_.tls.refusals.refused(peer_, stream_.tls()->failure_text(), stream_.reactor().now());
    }
  }
  co_return false;
}

void Connection::cut_answers_of(const void* owner) {
  if (http2_ != nullptr) return http2_->cut_answers_of(owner);
  if (work_ && work_->sending != nullptr && owner_of(*work_->sending) == owner) cut();
}

void Connection::cut_pinned(const Pinned& pinned) {
  if (http2_ != nullptr) return http2_->cut_pinned(pinned);
  if (work_ && work_->exchange.pin.holds(pinned)) cut();
}

void Connection::cut() {
  stream_.cut();
  if (presence_ != nullptr) presence_->end();
}

core::Task<void> Connection::run_http2() {
  Buffer received;
  if (work_) {
    received.swap(work_->input);
    server_.give_back(std::move(work_));
  }
  h2::Connection connection(server_.http2(), stream_, peer_, secure());
  struct Becomes {
    h2::Connection*& place;
    ~Becomes() { place = nullptr; }
  } becomes{http2_};
  http2_ = &connection;
  if (server_.draining) connection.drain();
  if (!server_.options.http2) connection.go_away();  // the client chose it before the option was changed
  if (overloaded_) {
    co_await connection.refuse(std::move(received));
  } else {
    co_await connection.run(std::move(received));
  }
}

Exchange& Connection::present_request() {
  Request& request = work_->exchange.request;
  set_client(work_->exchange, peer_, secure(), server_.options.trusted_proxies.get());
  request.certificate = secure() ? stream_.tls()->peer_certificate() : nullptr;
  request.upgrade = work_->parser.body().kind == BodyFraming::Kind::none ? work_->parser.upgrade() : std::string_view{};
  request.interim = request.version == Version::http11 ? this : nullptr;
  return work_->exchange;
}

net::Stream::Write Connection::flush() {
  // The buffer is emptied now, but its memory stays unchanged until the workspace's next response.
  Buffer& output = work_->output;
  work_->parts[0] = {output.data(), output.size()};
  output.clear();
  return stream_.write({work_->parts, 1}, server_.options.write_timeout);
}

core::Task<Connection::Sent> Connection::answer_with_body(const Parsed& parsed) {
  const BodyFraming framing = work_->parser.body();
  const std::uint64_t most = std::max(server_.options.body_limit, server_.options.most_body);
  if (framing.kind == BodyFraming::Kind::length && framing.length > most) {
    co_await refuse(413, "The request's body is longer than the server takes.", &work_->parser.request());
    co_return Sent::no;
  }
  // Moves the bytes after the head to the body's own buffer, which can grow while the views of the head stay valid.
  work_->body.clear();
  work_->body.append(work_->input.view().substr(parsed.head_size));
  work_->input.truncate(parsed.head_size);
  const Active active(server_, work_->parser.method(), secure());
  RequestBody body(*this, framing, work_->parser.expects_continue());
  Request& request = work_->parser.request();
  request.body = &body;
  if (!work_->output.empty() && !co_await flush()) co_return Sent::no;

  core::Async<Response> answer = server_.dispatcher.handle(work_->exchange);
  Response response;
  if (answer.ready()) {
    response = answer.take();
  } else {
    auto waited = co_await WhilePresent<Response>(*this, answer.take_task());
    if (!waited) {
      end_exchange(499, nullptr, 0, true);
      co_return Sent::no;
    }
    response = std::move(*waited);
  }
  // The client cannot receive the handler's response to a body that was cut.
  if (stream_.is_cut()) {
    end_exchange(499, &response.body, 0, true);
    co_return Sent::no;
  }
  body.release();
  if (body.refusal() != 0) {
    co_await refuse(body.refusal(), describe_body_refusal(body.refusal()), &request);
    co_return Sent::no;
  }
  // The rest of the body precedes the next request. A short rest is read and dropped; a longer one closes the
  // connection. An error does not wait for the rest. Another response waits, so that an invalid request is refused.
  const std::uint64_t most_dropped = std::min(server_.options.body_limit, dropped_body_bytes);
  const bool head_only = request.method == Method::head;
  const bool early = response.status >= 400;
  bool keep = work_->parser.keep_alive() && !server_.draining && !body.unasked() && !body.abandoned() &&
              body.left_at_least() <= most_dropped;
  if (keep && early) {
    body.drop_arrived(most_dropped);
  } else if (keep) {
    const Sending sending(*work_, response.body);
    keep = co_await body.drop(most_dropped, never);
  }
  if (stream_.is_cut()) {
    end_exchange(response.status, &response.body, 0, true);
    co_return Sent::no;
  }
  if (body.refusal() != 0) {
    response.body.emplace<std::monostate>();
    co_await refuse(body.refusal(), describe_body_refusal(body.refusal()), &request);
    co_return Sent::no;
  }
  work_->exchange.filter(response);
  // A response that is more than one write cannot be followed by the rest of the body: a client that reads only after
  // it has sent everything would never do so.
  keep = keep && (body.done() || fits_output(response, head_only));
  if (!append_whole(response, head_only, keep) && co_await send(response, head_only, keep) == Sent::no) {
    co_return Sent::no;
  }
  if (keep && !body.done()) {
    {
      EarlyBytes sent(stream_, work_->output.view());
      drops_body_ = true;
      keep = co_await body.drop(most_dropped, stream_.reactor().now() + dropping_time);
      drops_body_ = false;
      work_->output.consume(sent.end());
    }
    if (stream_.has_unsent() && !co_await flush()) co_return Sent::no;
  }
  body.finish();
  request.body = nullptr;
  if (!keep) {
    if (co_await flush()) co_await linger(Goodbye::yes, early ? dropped_body_bytes : lingering_bytes);
    co_return Sent::no;
  }
  work_->input.clear();
  work_->input.swap(work_->body);
  co_return Sent::yes;
}

Connection::Left Connection::begin_answer(Response& response, std::size_t head_size, bool keep) {
  work_->exchange.filter(response);
  if (response.upgrade) [[unlikely]] {
    change_protocol(std::move(response), head_size);
    return Left::upgrade;
  }
  return append_whole(response, work_->parser.method() == Method::head, keep) ? Left::nothing : Left::body;
}

void Connection::change_protocol(Response response, std::size_t head_size) {
  SLUICE_ASSERT(!work_->parser.request().upgrade.empty() && std::holds_alternative<std::monostate>(response.body));
  ResponseHead head = server_.start_head(work_->exchange, response, secure());
  head.connection = ResponseHead::Connection::upgrade;
  h1::append_head(work_->output, head);
  upgraded_ = work_->exchange.continue_upgraded();
  notify_observer(&work_->exchange, response.status, 0, false);
  work_->input.consume(head_size);
  upgrade_ = std::move(response.upgrade);
}

core::Task<void> Connection::run_upgrade() {
  if (!co_await flush()) co_return;
  Buffer received;
  received.append(work_->input.view());
  server_.give_back(std::move(work_));  // an idle upgraded connection must not hold a workspace
  net::StreamDuplex duplex(stream_, std::move(received));
  if (server_.draining) upgrade_->drain();
  std::uint64_t held = 0;
  co_await upgrade_->run(duplex, server_.bodies, held);
  upgrade_.reset();
  if (upgraded_ != nullptr) upgraded_->end({.status = 101, .broken = false});
  upgraded_.reset();
  if (stream_.is_cut()) co_return;
  work_ = server_.take_workspace();
  co_await linger();
}

core::Task<void> Connection::refuse(int status, std::string_view detail, const Request* request) {
  Response response = problem(status, detail);
  if (status == 503) response.fields.add("Retry-After", "1");
  const bool head_only = work_->parser.method() == Method::head;  // RFC 9110, 9.3.2
  if (request != nullptr) {
    if (begin_answer(response, 0, false) == Left::body && co_await send(response, head_only, false) == Sent::no) {
      co_return;
    }
  } else {
    const auto& body = std::get<Buffer>(response.body);
    append_head(response, body.size(), false);
    if (!head_only) work_->output.append(body.view());
    notify_observer(nullptr, status, head_only ? 0 : body.size(), false);
  }
  if (work_->output.empty() || co_await flush()) co_await linger();
}

core::Task<void> Connection::linger(Goodbye goodbye, std::uint64_t most) {
  core::Reactor& reactor = stream_.reactor();
  if (goodbye == Goodbye::no) {
    reactor.shutdown_write(stream_.handle());
  } else if (!co_await stream_.end(server_.options.write_timeout)) {
    co_return;
  }
  const Instant deadline = reactor.now() + lingering_time;
  Buffer& input = work_->input;
  core::TurnShare turn(reactor, read_turn_bytes);
  for (std::uint64_t dropped = 0; dropped < most;) {
    input.clear();
    const auto got = co_await stream_.read(input, read_bytes, deadline);
    if (!got || *got == 0) co_return;
    dropped += *got;
    if (turn.spend(*got)) co_await turn.next_turn();
  }
  // The rest is not read. Closing now would reset the connection, and the response might be lost, so wait for the
  // client to close.
  (void)co_await stream_.ended(deadline);
}

void Connection::end_exchange(int status, Body* body, std::uint64_t body_bytes, bool broken) {
  if (body != nullptr) body->emplace<std::monostate>();
  work_->exchange.end({.status = status, .broken = broken});
  notify_observer(&work_->exchange, status, body_bytes, broken);
}

void Connection::notify_observer(const Exchange* exchange, int status, std::uint64_t body_bytes, bool broken) {
  if (server_.observer == nullptr) return;
  const Instant now = stream_.reactor().clock();
  server_.observer->completed({.exchange = exchange,
                               .method = work_->parser.method(),
                               .secure = secure(),
                               .peer = exchange != nullptr ? exchange->request.peer : peer_,
                               .status = status,
                               .body_bytes = body_bytes,
                               .duration = exchange != nullptr ? std::max(now - began_, Duration{}) : Duration{},
                               .broken = broken});
}

}  // namespace sluice::http::h1
