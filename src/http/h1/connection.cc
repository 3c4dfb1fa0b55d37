#include "http/h1/connection.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "core/next_turn.h"
#include "http/h1/response.h"
#include "http/h2/connection.h"
#include "http/patience.h"

namespace sluice::http::h1 {
namespace {

constexpr std::size_t read_bytes = 16 * 1024;
constexpr std::size_t copied_body_bytes = 16 * 1024;  // up to here one write of copied bytes beats a gathered one
constexpr std::size_t output_bytes = 64 * 1024;       // answers gather up to here
constexpr std::size_t turn_bytes = 512 * 1024;        // of a body that is made as it is sent, in one turn of the loop
// Of shared pieces: a shorter one is copied, which costs the kernel less than one part more of a gathered write.
constexpr std::size_t copied_piece_bytes = 1024;
constexpr std::size_t most_parts = 256;  // of one gathered write
constexpr std::uint64_t drained_body_bytes = 1024 * 1024;
constexpr std::size_t lingering_bytes = 1024 * 1024;
constexpr Duration lingering_time = 2s;
constexpr Duration overloaded_patience = 500ms;  // one connection too many hears of it even if it says nothing

bool has_no_body(int status) { return status == 204 || status == 304; }

}  // namespace

// Watches whether the client is there while something is done for it. A client that is gone (reset), or that has ended
// its side and then waited in vain for the grace period, is told of once. It takes the stream's place for one reader,
// so whoever reads sends it aside meanwhile, and sees himself how the stream ends.
class Connection::Presence : core::Waiter {
 public:
  Presence(const Presence&) = delete;

  void step_aside() noexcept { unlink(); }
  // Tells of nothing before the next turn: what it would cancel may be what calls this.
  void step_back() noexcept { watch(); }

 protected:
  using Gone = void (*)(Presence& self) noexcept;
  Presence(Connection& connection, Gone gone)
      : Waiter(&Presence::changed), connection_(connection), gone_(gone), timer_(&Presence::expired, *this) {}
  ~Presence() {
    unlink();
    if (connection_.presence_ == this) connection_.presence_ = nullptr;
  }
  void begin() noexcept {
    connection_.presence_ = this;
    watch();
  }

 private:
  struct Grace : core::Timer {
    Grace(Callback fire, Presence& owner) : Timer(fire), owner(owner) {}
    Presence& owner;
  };
  static void changed(core::Waiter& waiter) noexcept {
    auto& self = static_cast<Presence&>(waiter);
    const core::Handle& handle = self.connection_.stream_.handle();
    if (handle.failed) return self.tell();
    if (handle.peer_ended && !self.timer_.armed()) self.tell_after(self.connection_.server_.options_.half_close_grace);
  }
  static void expired(core::Timer& timer) noexcept { static_cast<Grace&>(timer).owner.tell(); }
  void watch() noexcept {
    core::Handle& handle = connection_.stream_.handle();
    SLUICE_ASSERT(handle.reader == nullptr);
    handle.reader = this;
    linked_ = true;
    if (handle.failed) {
      tell_after(Duration{});
    } else if (handle.peer_ended) {
      tell_after(connection_.server_.options_.half_close_grace);
    }
  }
  void tell_after(Duration grace) noexcept {
    core::Reactor& reactor = connection_.stream_.reactor();
    reactor.timers().schedule(timer_, reactor.now() + grace);
  }
  void tell() noexcept {
    unlink();
    gone_(*this);
  }
  void unlink() noexcept {
    if (!linked_) return;
    linked_ = false;
    connection_.stream_.handle().reader = nullptr;
    connection_.stream_.reactor().timers().cancel(timer_);
  }

  Connection& connection_;
  const Gone gone_;
  Grace timer_;
  bool linked_ = false;
};

// Awaits a Task while the client is there. Its leaving ends the Task: what that was waiting for is cancelled.
template <class T>
class Connection::WhilePresent : Presence {
 public:
  WhilePresent(Connection& connection, core::Task<T> task)
      : Presence(connection, &WhilePresent::give_up),
        task_(std::move(task)),
        inner_(std::move(task_).operator co_await()) {}

  bool await_ready() const noexcept { return false; }
  std::coroutine_handle<> await_suspend(std::coroutine_handle<> caller) noexcept {
    caller_ = caller;
    begin();
    return inner_.await_suspend(caller);
  }
  // Nothing: the client has gone.
  std::optional<T> await_resume() {
    step_aside();
    if (gone_) return std::nullopt;
    return inner_.await_resume();
  }

 private:
  static void give_up(Presence& presence) noexcept {
    auto& self = static_cast<WhilePresent&>(presence);
    self.gone_ = true;
    self.task_ = {};
    self.caller_.resume();
  }

  core::Task<T> task_;
  decltype(std::declval<core::Task<T>>().operator co_await()) inner_;
  std::coroutine_handle<> caller_;
  bool gone_ = false;
};

// Counts a request while it is waited for. What is answered at once is never seen by whoever reads the counter.
class Connection::Active {
 public:
  Active(Server& server, Method method, bool secure)
      : count_(server.counters_.active[secure ? 1 : 0][static_cast<std::size_t>(method)]) {
    ++count_;
  }
  Active(const Active&) = delete;
  ~Active() { --count_; }

 private:
  std::uint32_t& count_;
};

// The request's body as the handler pulls it. Its bytes lie in the workspace's `body`, so that the head's views stay
// where they are.
class Connection::RequestBody final : public BodyReader {
 public:
  RequestBody(Connection& connection, const BodyFraming& framing, bool wants_continue)
      : connection_(connection),
        limit_(connection.server_.options_.body_limit),
        left_(framing.length),
        chunked_(framing.kind == BodyFraming::Kind::chunked),
        wants_continue_(wants_continue),
        patience_(connection.server_.options_.body_timeout, connection.server_.options_.slowest_client) {}

  core::Task<Result<std::string_view>> read() override {
    Buffer& body = connection_.work_->body;
    body.consume(std::exchange(given_, 0));
    for (;;) {
      if (done()) co_return std::string_view{};
      if (refusal_ != 0) co_return fail(Errc::malformed);
      if (left_ > limit_) co_return refuse(413);  // it only shrinks: of the first call
      if (chunked_) {
        const ChunkedDecoder::Step step = decoder_.decode(body.view());
        if (step.state == ChunkedDecoder::Step::State::refused) co_return refuse(status_of(step.reason));
        received_ += step.data.size();
        if (received_ + decoder_.announced() > limit_) co_return refuse(413);
        if (step.state == ChunkedDecoder::Step::State::data) {
          given_ = step.consumed;
          co_return step.data;
        }
        body.consume(step.consumed);
        if (step.state == ChunkedDecoder::Step::State::done) {
          chunked_done_ = true;
          co_return std::string_view{};
        }
      } else if (!body.empty()) {
        given_ = static_cast<std::size_t>(std::min<std::uint64_t>(left_, body.size()));
        left_ -= given_;
        co_return body.view().substr(0, given_);
      }
      if (std::exchange(wants_continue_, false)) {
        connection_.work_->output.append(continue_response);
        if (!co_await connection_.flush()) co_return refuse(400);
      }
      const Instant begin = connection_.stream_.reactor().now();
      Presence* const presence = connection_.presence_;
      if (presence != nullptr) presence->step_aside();
      auto got = co_await connection_.stream_.read(body, read_bytes, begin + patience_.left());
      if (presence != nullptr) presence->step_back();
      if (!got) co_return refuse(got.error().code == Errc::timed_out ? 408 : 400);
      if (*got == 0) co_return refuse(400);
      patience_.spend(connection_.stream_.reactor().now() - begin, *got);
    }
  }

  void allow_more(std::uint64_t bytes) override {
    const ServerOptions& options = connection_.server_.options_;
    limit_ = std::max(options.body_limit, std::min(options.body_limit + bytes, options.most_body));
  }

  // The status that the body's own fault asks for; 0: none.
  [[nodiscard]] int refusal() const { return refusal_; }
  // All has been read and given.
  [[nodiscard]] bool done() const { return chunked_ ? chunked_done_ : left_ == 0; }
  // The client has not been told to send it, so it may or may not come.
  [[nodiscard]] bool unasked() const { return wants_continue_; }
  [[nodiscard]] std::uint64_t left_at_least() const { return chunked_ ? 0 : left_; }
  // Behind the last byte: what follows belongs to the next request.
  void finish() { connection_.work_->body.consume(std::exchange(given_, 0)); }

 private:
  std::unexpected<Error> refuse(int status) {
    refusal_ = status;
    return fail(status == 408 ? Errc::timed_out : status == 413 ? Errc::limit : Errc::malformed);
  }

  Connection& connection_;
  ChunkedDecoder decoder_;
  std::uint64_t limit_;
  std::uint64_t left_;
  std::uint64_t received_ = 0;
  std::size_t given_ = 0;
  int refusal_ = 0;
  bool chunked_;
  bool chunked_done_ = false;
  bool wants_continue_;
  Patience patience_;
};

Connection::Connection(Server& server)
    : Watch(stream_), server_(server), stream_(server.reactor_), may_be_http2_(server.options_.http2) {
  stream_.set_slowest(server.options_.slowest_client);
}

Connection::~Connection() {
  unwatch();
  if (work_) server_.give_back(std::move(work_));
}

void Connection::drain() {
  if (http2_ != nullptr) return http2_->drain();
  if (watching()) return recall();
  if (upgrade_ != nullptr) return upgrade_->drain();
  stream_.give_up_handshake();
}

bool Connection::wait_for_request() {
  woken_ = Woken::readable;
  return watch(idle_until_);
}

void Connection::woken(Woken why) {
  woken_ = why;
  server_.serve(*this);
}

core::Task<Connection::Next> Connection::run() {
  core::Reactor& reactor = stream_.reactor();
  const ServerOptions& options = server_.options_;
  if (idle_until_ == Instant{}) {  // it has only just been accepted
    if (tls_context_) {
      if (!co_await shake_hands()) co_return Next::end;
      if (stream_.tls()->protocol() == "h2") co_return Next::http2;
      if (options.http1) may_be_http2_ = false;  // by prior knowledge only where no TLS could have told (RFC 9113, 3.3)
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
  // While the server drains, a request that is here already still counts as begun.
  if (server_.draining_) {
    stream_.handle().may_read = true;
    // Who has only just shaken hands may still be sending it.
    if (woken_ == Woken::recalled) deadline_ = reactor.now();
  }

  bool goes_on = true;
  while (goes_on) {
    if (may_be_http2_) {
      const std::string_view input = work_->input.view();
      if (input.starts_with(h2::client_preface) || (!options.http1 && !input.empty())) co_return Next::http2;
      may_be_http2_ = h2::client_preface.starts_with(input);
    }
    // What may become HTTP/2's preface is no request's beginning yet.
    const Parsed parsed = may_be_http2_ ? Parsed{} : work_->parser.parse(work_->input.view());
    if (parsed.state == Parsed::State::need_more) {
      if (!work_->output.empty() && !co_await flush()) co_return Next::end;
      net::Stream::Read reading = stream_.read(work_->input, read_bytes, deadline_);
      if (!reading.attempt()) {
        if (!work_->input.empty()) {
          (void)co_await reading;
        } else {
          if (server_.draining_) {
            // The answer before may still fill the socket.
            if (secure()) (void)co_await stream_.end(options.write_timeout);
            co_return Next::end;
          }
          work_->parser.reset();
          server_.give_back(std::move(work_));
          co_return Next::idle;
        }
      }
      const auto got = reading.await_resume();
      if (got && *got != 0) continue;
      // Silence, or the end, in the middle of a head is an error; between requests it is a goodbye.
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
    if (overloaded_) {
      co_await refuse(503, "The server has as many connections as it may.");
      co_return Next::end;
    }

    began_ = reactor.now();
    Request& request = present_request();
    if (work_->parser.body().kind == BodyFraming::Kind::none) [[likely]] {
      core::Async<Response> answer = server_.handler_.handle(request);
      const bool head_only = request.method == Method::head;
      if (answer.ready()) [[likely]] {
        Response& response = answer.get();
        if (response.upgrade) [[unlikely]] {
          change_protocol(std::move(response), parsed.head_size);
          co_return Next::upgrade;
        }
        goes_on = work_->parser.keep_alive() && !server_.draining_;
        if (!append_whole(response, head_only, goes_on)) {
          const Active active(server_, request.method, request.secure);
          if (co_await send(std::move(response), head_only, goes_on) == Sent::no) co_return Next::end;
        }
      } else {
        const Active active(server_, request.method, request.secure);
        // Answers of requests that came before this one have waited long enough.
        if (!work_->output.empty() && !co_await flush()) co_return Next::end;
        auto response = co_await WhilePresent<Response>(*this, answer.take_task());
        if (!response) {
          report(&request, 499, 0, true);
          co_return Next::end;
        }
        if (response->upgrade) {
          change_protocol(std::move(*response), parsed.head_size);
          co_return Next::upgrade;
        }
        goes_on = work_->parser.keep_alive() && !server_.draining_;
        if (!append_whole(*response, head_only, goes_on)) {
          if (co_await send(std::move(*response), head_only, goes_on) == Sent::no) co_return Next::end;
        }
      }
      work_->input.consume(parsed.head_size);
    } else {
      if (co_await answer_with_body(parsed) == Sent::no) co_return Next::end;
      goes_on = work_->parser.keep_alive() && !server_.draining_;
    }
    work_->parser.reset();
    deadline_ = reactor.now() + options.header_timeout;
    idle_until_ = reactor.now() + options.idle_timeout;
    if (work_->output.size() >= output_bytes && !co_await flush()) co_return Next::end;
  }
  if (!work_->output.empty() && !co_await flush()) co_return Next::end;
  co_await linger();
  co_return Next::end;
}

core::Task<bool> Connection::shake_hands() {
  Server::Counters::Tls& counters = server_.counters_.tls;
  const Instant deadline = stream_.reactor().now() + server_.options_.header_timeout;
  const auto done = co_await stream_.accept_tls(std::move(tls_context_), server_.tls_, deadline);
  if (done) {
    ++counters.handshakes;
    if (stream_.tls()->resumed()) ++counters.resumed;
    co_return true;
  }
  if (done.error().code == Errc::timed_out) {
    ++counters.timed_out;
  } else if (!stream_.tls()->has_received()) {
    // Somebody has knocked and left, or was sent away.
  } else if (stream_.tls()->failure() == net::tls::Failure::plain_http) {
    ++counters.plain_http;
    stream_.drop_tls();
    work_ = server_.take_workspace();
    co_await refuse(400, "This port takes HTTPS only, and the request came without TLS.");
  } else {
    ++counters.failed;
  }
  co_return false;
}

void Connection::cut_answers_of(const void* owner) {
  if (http2_ != nullptr) return http2_->cut_answers_of(owner);
  if (!work_ || work_->sending == nullptr || owner_of(*work_->sending) != owner) return;
  stream_.cut_write();
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
  if (server_.draining_) connection.drain();
  if (overloaded_) {
    co_await connection.refuse(std::move(received));
  } else {
    co_await connection.run(std::move(received));
  }
}

Request& Connection::present_request() {
  Request& request = work_->parser.request();
  request.body = nullptr;
  request.peer = peer_;
  request.secure = secure();
  request.upgrade = work_->parser.body().kind == BodyFraming::Kind::none ? work_->parser.upgrade() : std::string_view{};
  request.extension = {};
  request.route = 0;
  return request;
}

net::Stream::Write Connection::flush() {
  // The bytes are used up here and now; the memory stays until the workspace's next answer.
  Buffer& output = work_->output;
  work_->parts[0] = {output.data(), output.size()};
  output.clear();
  return stream_.write({work_->parts, 1}, server_.options_.write_timeout);
}

BodyFraming Connection::append_head(const Response& response, std::optional<std::uint64_t> size, bool keep) {
  const Version version = work_->parser.request().version;
  const BodyFraming framing = frame_body(response.status, version, size);
  h1::append_head(work_->output, {.status = response.status,
                                  .version = version,
                                  .connection = keep && framing.kind != BodyFraming::Kind::until_close
                                                    ? ResponseHead::Connection::keep_alive
                                                    : ResponseHead::Connection::close,
                                  .framing = framing,
                                  .date = server_.date(),
                                  .server = server_.options_.server_name,
                                  .fields = response.fields.items(),
                                  .trusted = response.fields.trusted(),
                                  .common = server_.common_fields(secure()),
                                  .always = server_.configured_fields(secure())});
  return framing;
}

bool Connection::append_whole(Response& response, bool head_only, bool keep) {
  std::string_view bytes;
  if (const auto* own = std::get_if<Buffer>(&response.body)) {
    bytes = own->view();
  } else if (const auto* shared = std::get_if<SharedBytes>(&response.body)) {
    bytes = shared->bytes;
  } else if (!std::holds_alternative<std::monostate>(response.body)) {
    const auto* spans = std::get_if<SharedSpans>(&response.body);
    return spans != nullptr && append_spans(*spans, response, head_only || has_no_body(response.status), keep);
  }
  const bool bodiless = head_only || has_no_body(response.status);
  if (!bodiless && bytes.size() > copied_body_bytes) return false;
  append_head(response, bytes.size(), keep);
  if (!bodiless) work_->output.append(bytes);
  report(&work_->parser.request(), response.status, bodiless ? 0 : bytes.size(), false);
  return true;
}

bool Connection::append_spans(const SharedSpans& spans, const Response& response, bool bodiless, bool keep) {
  const auto size = static_cast<std::size_t>(spans.size());
  if (!bodiless && size > copied_body_bytes) return false;
  append_head(response, size, keep);
  if (!bodiless) {
    Buffer& output = work_->output;
    char* const to = output.reserve(size);
    output.commit(SpanReader(spans.pieces()).copy(to, size));
  }
  report(&work_->parser.request(), response.status, bodiless ? 0 : size, false);
  return true;
}

// For cut_answers_of().
class Connection::Sending {
 public:
  Sending(Workspace& work, const Body& body) : work_(work) { work.sending = &body; }
  Sending(const Sending&) = delete;
  ~Sending() { work_.sending = nullptr; }

 private:
  Workspace& work_;
};

core::Task<Connection::Sent> Connection::send(Response response, bool head_only, bool keep) {
  const Request& request = work_->parser.request();
  if (std::holds_alternative<std::unique_ptr<BodySource>>(response.body)) {
    if (!head_only && !has_no_body(response.status)) co_return co_await send_stream(std::move(response), keep);
    append_head(response, std::nullopt, keep);
    report(&request, response.status, 0, false);
    co_return Sent::yes;
  }

  const std::uint64_t size = size_of(response.body).value_or(0);
  append_head(response, size, keep);
  if (head_only || has_no_body(response.status)) {
    report(&request, response.status, 0, false);
    co_return Sent::yes;
  }
  Result<void> written;
  const Sending sending(*work_, response.body);
  if (const auto* file = std::get_if<FileRange>(&response.body)) {
    const std::string_view head = work_->output.view();
    written = co_await stream_.send_file(head, file->fd, file->offset, file->size, server_.options_.write_timeout);
    work_->output.clear();
  } else if (const auto* spans = std::get_if<SharedSpans>(&response.body)) {
    written = co_await send_spans(*spans);
  } else {
    const auto* shared = std::get_if<SharedBytes>(&response.body);
    const std::string_view bytes = shared != nullptr ? shared->bytes : std::get<Buffer>(response.body).view();
    Buffer& output = work_->output;
    work_->parts[0] = {output.data(), output.size()};
    work_->parts[1] = {const_cast<char*>(bytes.data()), bytes.size()};
    output.clear();
    written = co_await stream_.write(work_->parts, server_.options_.write_timeout);
  }
  report(&request, response.status, written ? size : 0, !written);
  co_return written ? Sent::yes : Sent::no;
}

core::Task<Result<void>> Connection::send_spans(const SharedSpans& spans) {
  Buffer& output = work_->output;
  iovec parts[most_parts];
  for (SpanReader reader(spans.pieces()); !reader.at_end();) {
    (void)output.reserve(output_bytes);  // it does not move from here on: the parts point to it
    std::size_t count = 0;
    const auto add = [&](char* bytes, std::size_t size) {
      if (count != 0 && static_cast<char*>(parts[count - 1].iov_base) + parts[count - 1].iov_len == bytes) {
        parts[count - 1].iov_len += size;
      } else {
        parts[count++] = {bytes, size};
      }
    };
    if (!output.empty()) add(output.data(), output.size());
    while (!reader.at_end() && count != most_parts) {
      const std::string_view piece = reader.front();
      if (piece.size() >= copied_piece_bytes) {
        add(const_cast<char*>(piece.data()), piece.size());
      } else {
        if (output.writable() < piece.size()) break;
        char* const copied = output.data() + output.size();
        output.append(piece);
        add(copied, piece.size());
      }
      reader.skip(piece.size());
    }
    output.clear();
    if (const auto written = co_await stream_.write({parts, count}, server_.options_.write_timeout); !written) {
      co_return written;
    }
  }
  co_return Result<void>{};
}

// To an HTTP/1.0 client the end of the connection is the end of the body: cut in the middle, by whatever, it must see a
// reset instead.
struct Connection::Cut {
  net::Stream& stream;
  bool is_cut;
  ~Cut() {
    if (is_cut) stream.reactor().reset_on_close(stream.handle());
  }
};

core::Task<Connection::Sent> Connection::send_stream(Response response, bool keep) {
  const Request& request = work_->parser.request();
  BodySource& source = *std::get<std::unique_ptr<BodySource>>(response.body);
  Buffer& output = work_->output;
  // To an HTTP/1.0 client the body ends with the connection, so that one closes.
  const bool chunked = append_head(response, std::nullopt, keep).kind == BodyFraming::Kind::chunked;
  Cut cut{stream_, !chunked};
  const Sending sending(*work_, response.body);
  core::TurnShare turn(stream_.reactor(), turn_bytes);
  std::uint64_t sent = 0;
  for (;;) {
    const std::size_t complete = output.size();
    const std::size_t chunk = chunked ? begin_chunk(output) : output.size();
    const std::size_t before = output.size();
    Result<BodySource::Progress> progress = BodySource::Progress::done;
    core::Async<Result<BodySource::Progress>> pulling = source.pull(output);
    if (pulling.ready()) {
      progress = pulling.take();
    } else {
      auto pulled = co_await WhilePresent<Result<BodySource::Progress>>(*this, pulling.take_task());
      progress = pulled ? std::move(*pulled) : Result<BodySource::Progress>(fail(Errc::closed));
    }
    if (stream_.is_cut()) {
      report(&request, response.status, sent, true);
      co_return Sent::no;
    }
    if (!progress) {
      // No last chunk, no orderly end: the client can tell that something is missing. What was complete before, earlier
      // answers among it, it still gets.
      output.truncate(complete);
      const bool flushed = (co_await flush()).has_value();
      report(&request, response.status, sent, true);
      // The goodbye of a client that sends no more lies unread, and closing would reset what it should still get.
      if (flushed && chunked && secure()) co_await linger(Goodbye::no);
      co_return Sent::no;
    }
    sent += output.size() - before;
    if (chunked) end_chunk(output, chunk);
    const bool done = *progress == BodySource::Progress::done;
    if (done && chunked) append_last_chunk(output, source.trailers());
    if (done && output.size() < output_bytes) break;  // leaves with what follows
    const bool turn_is_over = turn.spend(output.size());
    if (!co_await flush()) {
      report(&request, response.status, sent, true);
      co_return Sent::no;
    }
    if (done) break;
    if (turn_is_over) co_await turn.next_turn();
  }
  if (!chunked) cut.is_cut = !co_await flush();
  report(&request, response.status, sent, cut.is_cut);
  if (!chunked) {
    if (!cut.is_cut) co_await linger();
    co_return Sent::no;
  }
  co_return Sent::yes;
}

core::Task<Connection::Sent> Connection::answer_with_body(const Parsed& parsed) {
  const BodyFraming framing = work_->parser.body();
  const std::uint64_t most = std::max(server_.options_.body_limit, server_.options_.most_body);
  if (framing.kind == BodyFraming::Kind::length && framing.length > most) {
    co_await refuse(413, "The request's body is longer than the server takes.", &work_->parser.request());
    co_return Sent::no;
  }
  // What follows the head moves to the body's own buffer: it grows and shrinks while the head's views stay.
  work_->body.clear();
  work_->body.append(work_->input.view().substr(parsed.head_size));
  work_->input.truncate(parsed.head_size);
  const Active active(server_, work_->parser.method(), secure());
  RequestBody body(*this, framing, work_->parser.expects_continue());
  Request& request = work_->parser.request();
  request.body = &body;
  if (!work_->output.empty() && !co_await flush()) co_return Sent::no;

  core::Async<Response> answer = server_.handler_.handle(request);
  Response response;
  if (answer.ready()) {
    response = answer.take();
  } else {
    auto waited = co_await WhilePresent<Response>(*this, answer.take_task());
    if (!waited) {
      report(&request, 499, 0, true);
      co_return Sent::no;
    }
    response = std::move(*waited);
  }
  if (body.refusal() != 0) {
    co_await refuse(body.refusal(), "The request's body could not be read.", &request);
    co_return Sent::no;
  }
  // The rest of the body is in the way of the next request: a little is read and dropped, more closes the connection.
  const std::uint64_t most_dropped = std::min(server_.options_.body_limit, drained_body_bytes);
  bool keep =
      work_->parser.keep_alive() && !server_.draining_ && !body.unasked() && body.left_at_least() <= most_dropped;
  for (std::uint64_t dropped = 0; keep && !body.done();) {
    auto piece = co_await body.read();
    dropped += piece ? piece->size() : 0;
    keep = piece && dropped <= most_dropped;
  }
  if (body.refusal() != 0) {
    co_await refuse(body.refusal(), "The request's body could not be read.", &request);
    co_return Sent::no;
  }
  body.finish();
  const bool head_only = request.method == Method::head;
  if (!append_whole(response, head_only, keep)) {
    if (co_await send(std::move(response), head_only, keep) == Sent::no) co_return Sent::no;
  }
  request.body = nullptr;
  if (!keep) {
    if (co_await flush()) co_await linger();
    co_return Sent::no;
  }
  work_->input.clear();
  work_->input.swap(work_->body);
  co_return Sent::yes;
}

// The connection as its bytes, for whoever has been handed it. What came behind the request's head is read first.
class Connection::Tunnel final : public Duplex {
 public:
  Tunnel(net::Stream& stream, Buffer received) : stream_(stream), received_(std::move(received)) {}

  core::Reactor& reactor() override { return stream_.reactor(); }

  std::optional<Result<std::size_t>> try_read(Buffer& into, std::size_t most) override {
    if (!received_.empty()) [[unlikely]] {
      const std::size_t size = std::min(most, received_.size());
      into.append(received_.view().substr(0, size));
      received_.consume(size);
      if (received_.empty()) received_.release();
      return size;
    }
    net::Stream::Read reading = stream_.read(into, most, never);
    if (!reading.attempt()) return std::nullopt;
    return reading.await_resume();
  }

  core::Task<Result<void>> readable(Instant deadline) override {
    if (!received_.empty()) co_return Result<void>{};
    net::Stream::Wait wait = stream_.readable(deadline);
    struct Place {
      Tunnel& tunnel;
      ~Place() { tunnel.waiting_ = nullptr; }
    } place{*this};
    waiting_ = &wait;
    const auto waited = co_await wait;
    // Errc::closed is what interrupt() ends the wait with.
    if (!waited && waited.error().code == Errc::timed_out) co_return waited;
    co_return Result<void>{};
  }

  void interrupt() override {
    if (waiting_ != nullptr) waiting_->cancel();
  }

  core::Task<Result<void>> write(std::span<iovec> parts, Duration progress) override {
    co_return co_await stream_.write(parts, progress);
  }

 private:
  net::Stream& stream_;
  Buffer received_;
  net::Stream::Wait* waiting_ = nullptr;
};

void Connection::change_protocol(Response response, std::size_t head_size) {
  const Request& request = work_->parser.request();
  SLUICE_ASSERT(!request.upgrade.empty() && std::holds_alternative<std::monostate>(response.body));
  h1::append_head(work_->output, {.status = response.status,
                                  .version = request.version,
                                  .connection = ResponseHead::Connection::upgrade,
                                  .date = server_.date(),
                                  .server = server_.options_.server_name,
                                  .fields = response.fields.items(),
                                  .trusted = response.fields.trusted(),
                                  .common = server_.common_fields(secure()),
                                  .always = server_.configured_fields(secure())});
  report(&request, response.status, 0, false);
  work_->input.consume(head_size);
  upgrade_ = std::move(response.upgrade);
}

core::Task<void> Connection::run_upgrade() {
  if (!co_await flush()) co_return;
  Buffer received;
  received.append(work_->input.view());
  server_.give_back(std::move(work_));  // whoever goes on owns nothing of ours while it is idle
  Tunnel tunnel(stream_, std::move(received));
  if (server_.draining_) upgrade_->drain();
  co_await upgrade_->run(tunnel);
  upgrade_.reset();
  work_ = server_.take_workspace();
  co_await linger();
}

core::Task<void> Connection::refuse(int status, std::string_view detail, const Request* request) {
  Response response = problem(status, detail);
  if (status == 503) response.fields.add("Retry-After", "1");
  const auto& body = std::get<Buffer>(response.body);
  append_head(response, body.size(), false);
  const bool head_only = work_->parser.method() == Method::head;  // RFC 9110, 9.3.2
  if (!head_only) work_->output.append(body.view());
  report(request, status, head_only ? 0 : body.size(), false);
  if (co_await flush()) co_await linger();
}

core::Task<void> Connection::linger(Goodbye goodbye) {
  core::Reactor& reactor = stream_.reactor();
  if (goodbye == Goodbye::no) {
    reactor.shutdown_write(stream_.handle());
  } else if (!co_await stream_.end(server_.options_.write_timeout)) {
    co_return;
  }
  const Instant deadline = reactor.now() + lingering_time;
  Buffer& input = work_->input;
  for (std::size_t dropped = 0; dropped < lingering_bytes;) {
    input.clear();
    const auto got = co_await stream_.read(input, read_bytes, deadline);
    if (!got || *got == 0) co_return;
    dropped += *got;
  }
}

void Connection::report(const Request* request, int status, std::uint64_t body_bytes, bool broken) {
  if (server_.observer_ == nullptr) return;
  const Instant now = stream_.reactor().clock();
  server_.observer_->completed({.request = request,
                                .method = work_->parser.method(),
                                .secure = secure(),
                                .peer = peer_,
                                .status = status,
                                .body_bytes = body_bytes,
                                .duration = request != nullptr ? std::max(now - began_, Duration{}) : Duration{},
                                .broken = broken});
}

}  // namespace sluice::http::h1
