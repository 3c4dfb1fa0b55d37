#include "http/client/connection.h"

#include <algorithm>
#include <new>
#include <utility>
#include <vector>

namespace sluice::http::client {
namespace {

using h1::BodyFraming;
using h1::ChunkedDecoder;
using h1::Parsed;
using h1::Reason;

constexpr std::size_t head_read_bytes = 16 * 1024;
constexpr int most_interim_responses = 64;
constexpr std::size_t body_read_bytes = 64 * 1024;

// The buffers of idle connections, for those with an exchange. All pools of a core share them.
constexpr std::size_t most_spares = 256;
thread_local std::vector<Buffer> spares;

void keep_spare(Buffer& buffer) {
  if (buffer.capacity() == 0) return;
  if (spares.size() == most_spares || buffer.capacity() > head_read_bytes) return buffer.release();
  buffer.clear();
  spares.push_back(std::move(buffer));
}

void take_spare(Buffer& buffer) {
  if (buffer.capacity() != 0 || spares.empty()) return;
  buffer.swap(spares.back());
  spares.pop_back();
}

}  // namespace

Connection::Connection(core::Reactor& reactor, const ConnectionOptions& options)
    : Watch(stream_), options_(options), stream_(reactor), parser_(options.limits) {}

Connection::~Connection() {
  unwatch();
  if (is_done_) stream_.say_goodbye();
}

// ---- The request ----

net::Stream::Write Connection::write() {
  part_ = {output_.data(), output_.size()};
  output_.clear();
  if (until_ == never) return stream_.write({&part_, 1}, options_.write_timeout);
  return stream_.write({&part_, 1},
                       std::clamp<Duration>(until_ - stream_.reactor().now(), 1ms, options_.write_timeout));
}

core::Task<Result<const ResponseHead*>> Connection::ask(RequestHead head, BodyReader* body, Instant until,
                                                        InterimSink* interim) {
  SLUICE_ASSERT(is_done_ && is_sent_ && !watching());
  input_.clear();
  output_.clear();
  take_spare(input_);
  take_spare(output_);
  trailers_.clear();
  parser_.reset();
  reason_ = Reason::none;
  sent_ = {};
  until_ = until;
  body_failed_ = waits_for_body_ = false;
  nothing_came_ = true;
  if (!append_request(output_, head)) co_return fail(Errc::malformed);
  is_done_ = is_sent_ = false;
  core::Reactor& reactor = stream_.reactor();
  const bool may_change_protocol = !head.upgrade.empty();
  const Method method = parse_method(head.method);
  if (body != nullptr) {
    sending_.spawn(send_body(*body, head.body));
    // The head does not wait for the first piece of the body.
    if (waits_for_body_ && !output_.empty()) (void)stream_.try_write(output_);
  } else {
    if (const auto written = co_await write(); !written) co_return std::unexpected(written.error());
    is_sent_ = true;
    sent_at_ = reactor.now();
  }
  auto received = co_await receive_head(method, may_change_protocol, interim);
  sending_.cancel();
  co_return received;
}

core::Task<void> Connection::send_body(BodyReader& body, BodyFraming framing) {
  try {
    co_await send_pieces(body, framing);
  } catch (const std::bad_alloc&) {
    sent_ = fail(Errc::system, ENOMEM);
  }
  if (has_given_up()) stream_.end_read();
}

core::Task<void> Connection::send_pieces(BodyReader& body, BodyFraming framing) {
  const bool chunked = framing.kind == BodyFraming::Kind::chunked;
  // The head is sent with the first piece, if that piece is available at once.
  for (;;) {
    waits_for_body_ = true;
    const auto piece = co_await body.read();
    waits_for_body_ = false;
    const std::size_t size = piece ? piece->size() : 0;
    if (!piece || (!chunked && (size == 0 || size > framing.length))) {
      body_failed_ = true;
      sent_ = piece ? Result<void>(fail(Errc::malformed)) : std::unexpected(piece.error());
      co_return;
    }
    if (!chunked) {
      output_.append(*piece);
      framing.length -= size;
    } else if (size != 0) {
      const std::size_t chunk = h1::begin_chunk(output_);
      output_.append(*piece);
      h1::end_chunk(output_, chunk);
    } else {
      h1::append_last_chunk(output_, body.trailers());
    }
    sent_ = co_await write();
    if (!sent_) co_return;
    if (chunked ? size == 0 : framing.length == 0) {
      is_sent_ = true;
      sent_at_ = stream_.reactor().now();
      co_return;
    }
  }
}

// ---- The response's head ----

core::Task<Result<const ResponseHead*>> Connection::receive_head(Method method, bool may_change_protocol,
                                                                 InterimSink* sink) {
  core::Reactor& reactor = stream_.reactor();
  for (int interim = 0;;) {
    const Parsed parsed = parser_.parse(input_.view(), method);
    if (parsed.state == Parsed::State::refused) {
      reason_ = parsed.reason;
      co_return fail(Errc::malformed);
    }
    if (parsed.state == Parsed::State::done) {
      const ResponseHead& head = parser_.head();
      input_.consume(parsed.head_size);
      if (head.status >= 200) {
        framing_ = head.body;
        is_done_ = framing_.kind == BodyFraming::Kind::none;
        if (framing_.kind == BodyFraming::Kind::chunked) {
          decoder_.reset();
          trailer_lines_.clear();
          chunks_.clear();
          chunks_.append(input_.view());
          input_.clear();
        }
        co_return &head;
      }
      if (head.status == 101 && may_change_protocol && !head.upgrade.empty()) {
        framing_ = {BodyFraming::Kind::until_close};  // no HTTP follows
        co_return &head;
      }
      if (head.status == 101) {  // the request had no Upgrade
        reason_ = Reason::bad_status;
        co_return fail(Errc::malformed);
      }
      if (++interim == most_interim_responses) {
        reason_ = Reason::too_many_interim_responses;
        co_return fail(Errc::malformed);
      }
      if (sink != nullptr && head.status != 100) sink->send_interim(head.status, head.fields);
      parser_.reset();
      continue;
    }
    if (has_given_up()) co_return std::unexpected(sent_.error());
    const Instant deadline = std::min((is_sent_ ? sent_at_ : reactor.now()) + options_.head_timeout, until_);
    const auto got = co_await stream_.read(input_, head_read_bytes, deadline, head_read_bytes);
    if (got && *got != 0) {
      nothing_came_ = false;
      continue;
    }
    if (!sent_) co_return std::unexpected(sent_.error());
    if (got) co_return fail(Errc::closed);
    // The timeout of the head begins when the request has been sent.
    const bool is_late = reactor.now() >= until_ || (is_sent_ && reactor.now() >= sent_at_ + options_.head_timeout);
    if (got.error().code != Errc::timed_out || is_late) co_return std::unexpected(got.error());
  }
}

// ---- The response's body ----

core::Async<Result<Connection::Progress>> Connection::read(Buffer& out) {
  if (is_done_) return Progress::done;
  if (until_ != never && stream_.reactor().now() >= until_) return fail(Errc::timed_out);
  return framing_.kind == BodyFraming::Kind::chunked ? read_chunked(out) : read_plain(out);
}

Result<Connection::Progress> Connection::end() {
  is_done_ = true;
  return Progress::done;
}

Result<Connection::Progress> Connection::take(Result<std::size_t> got) {
  const bool has_length = framing_.kind == BodyFraming::Kind::length;
  if (!got) return std::unexpected(got.error());
  if (*got == 0) {
    if (has_length) return fail(Errc::closed);
    return end();
  }
  if (!has_length) return Progress::more;
  framing_.length -= *got;
  if (framing_.length == 0) return end();
  return Progress::more;
}

Instant Connection::read_deadline() { return std::min(stream_.reactor().now() + options_.idle_timeout, until_); }

std::size_t Connection::most_plain() const {
  if (framing_.kind != BodyFraming::Kind::length) return body_read_bytes;
  return static_cast<std::size_t>(std::min<std::uint64_t>(framing_.length, body_read_bytes));
}

core::Async<Result<Connection::Progress>> Connection::read_plain(Buffer& out) {
  const std::size_t most = most_plain();
  if (!input_.empty()) {
    const std::string_view piece = input_.view().substr(0, most);
    out.append(piece);
    input_.consume(piece.size());
    return take(piece.size());
  }
  net::Stream::Read reading = stream_.read(out, most, never, most);
  if (reading.attempt()) return take(reading.await_resume());
  return read_more(out);
}

core::Task<Result<Connection::Progress>> Connection::read_more(Buffer& out) {
  const std::size_t most = most_plain();
  co_return take(co_await stream_.read(out, most, read_deadline(), most));
}

std::optional<Result<Connection::Progress>> Connection::decode(Buffer& out) {
  const std::size_t before = out.size();
  while (!chunks_.empty()) {
    const ChunkedDecoder::Step step = decoder_.decode(chunks_.view(), &trailer_lines_);
    if (step.state == ChunkedDecoder::Step::State::refused) {
      reason_ = step.reason;
      return fail(Errc::malformed);
    }
    out.append(step.data);
    chunks_.consume(step.consumed);
    if (step.state == ChunkedDecoder::Step::State::done) {
      trailers_ = h1::trailer_fields(trailer_lines_.view());
      return end();
    }
  }
  if (out.size() != before) return Progress::more;
  return std::nullopt;
}

core::Async<Result<Connection::Progress>> Connection::read_chunked(Buffer& out) {
  if (auto decoded = decode(out)) return *decoded;
  net::Stream::Read reading = stream_.read(chunks_, body_read_bytes, never, body_read_bytes);
  if (reading.attempt()) {
    const auto got = reading.await_resume();
    if (!got) return std::unexpected(got.error());
    if (*got == 0) return fail(Errc::closed);
    if (auto decoded = decode(out)) return *decoded;
  }
  return read_more_chunks(out);
}

core::Task<Result<Connection::Progress>> Connection::read_more_chunks(Buffer& out) {
  for (;;) {
    const auto got = co_await stream_.read(chunks_, body_read_bytes, read_deadline(), body_read_bytes);
    if (!got) co_return std::unexpected(got.error());
    if (*got == 0) co_return fail(Errc::closed);
    if (auto decoded = decode(out)) co_return *decoded;
  }
}

net::StreamDuplex Connection::take_over() {
  SLUICE_ASSERT(!is_done_ && is_sent_ && parser_.head().status == 101);
  output_.release();
  return {stream_, std::exchange(input_, Buffer())};
}

// ---- Between exchanges ----

bool Connection::is_reusable() const {
  return is_done_ && is_sent_ && stream_.open() && !nothing_came_ && parser_.head().keep_alive && input_.empty() &&
         chunks_.empty() && !stream_.handle().peer_ended;
}

bool Connection::rest(Keeper& keeper, Instant until) {
  SLUICE_ASSERT(is_reusable());
  keeper_ = &keeper;
  input_.clear();
  if (stream_.may_read() && stream_.read(input_, 1, never).attempt()) return false;
  for (Buffer* buffer : {&output_, &input_, &chunks_, &trailer_lines_}) keep_spare(*buffer);
  return watch(until);
}

void Connection::woken(Woken) { keeper_->ended(*this); }

}  // namespace sluice::http::client
