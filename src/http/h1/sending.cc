// The part of Connection that sends responses.
#include <optional>
#include <utility>

#include "core/next_turn.h"
#include "http/h1/connection.h"
#include "http/h1/early_bytes.h"
#include "http/h1/presence.h"
#include "http/h1/response.h"

namespace sluice::http::h1 {
namespace {

constexpr std::size_t copied_body_bytes = 16 * 1024;  // up to this size, copying is faster than a gathered write
constexpr std::size_t turn_bytes = 512 * 1024;        // most bytes of a streamed body per turn of the loop
// A shorter shared piece is copied, which is cheaper than one more part in a gathered write.
constexpr std::size_t copied_piece_bytes = 1024;
constexpr std::size_t held_piece_bytes = 64 * 1024;  // most bytes of a response in memory per write
constexpr std::size_t most_parts = 256;              // most parts of one gathered write

}  // namespace

BodyFraming Connection::append_head(const Response& response, std::optional<std::uint64_t> size, bool keep) {
  const Version version = work_->parser.request().version;
  const BodyFraming framing = frame_body(response.status, version, size);
  ResponseHead head = server_.start_head(work_->exchange, response, secure());
  head.connection = keep && framing.kind != BodyFraming::Kind::until_close ? ResponseHead::Connection::keep_alive
                                                                           : ResponseHead::Connection::close;
  head.framing = framing;
  h1::append_head(work_->output, head);
  return framing;
}

// Sends only if no other output waits for the client. A part that the socket does not accept is sent with the response.
void Connection::send_interim(int status, std::span<const Field> fields) {
  Buffer& output = work_->output;
  if (!output.empty() || stream_.handle().writer != nullptr || stream_.has_unsent() || stream_.is_cut()) return;
  h1::append_head(output, {.status = status, .fields = fields});
  (void)stream_.try_write(output);
}

bool Connection::fits_output(const Response& response, bool head_only) {
  const Body& body = response.body;
  if (std::holds_alternative<FileRange>(body) || std::holds_alternative<std::unique_ptr<BodySource>>(body))
    return false;
  return head_only || has_no_body(response.status) || size_of(body).value_or(0) <= copied_body_bytes;
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
  end_exchange(response.status, &response.body, bodiless ? 0 : bytes.size(), false);
  return true;
}

bool Connection::append_spans(const SharedSpans& spans, Response& response, bool bodiless, bool keep) {
  const auto size = static_cast<std::size_t>(spans.size());
  if (!bodiless && size > copied_body_bytes) return false;
  append_head(response, size, keep);
  if (!bodiless) {
    Buffer& output = work_->output;
    char* const to = output.reserve(size);
    output.commit(SpanReader(spans.pieces()).copy(to, size));
  }
  end_exchange(response.status, &response.body, bodiless ? 0 : size, false);
  return true;
}

core::Task<Connection::Sent> Connection::send(Response& response, bool head_only, bool keep) {
  const bool bodiless = head_only || has_no_body(response.status);
  const std::size_t held = bodiless ? 0 : whole_bytes_of(response.body);
  if (held > BodyBudget::small_answer_bytes) co_return co_await send_held(response, keep, held);
  if (std::holds_alternative<std::unique_ptr<BodySource>>(response.body)) {
    if (!bodiless) co_return co_await send_stream(response, keep, nullptr);
    append_head(response, size_of(response.body), keep);
    end_exchange(response.status, &response.body, 0, false);
    co_return Sent::yes;
  }

  const std::uint64_t size = size_of(response.body).value_or(0);
  append_head(response, size, keep);
  if (bodiless) {
    end_exchange(response.status, &response.body, 0, false);
    co_return Sent::yes;
  }
  Result<void> written;
  const Sending sending(*work_, response.body);
  if (const auto* file = std::get_if<FileRange>(&response.body)) {
    const std::string_view head = work_->output.view();
    written = co_await stream_.send_file(head, file->fd, file->offset, file->size, server_.options.write_timeout);
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
    written = co_await stream_.write(work_->parts, server_.options.write_timeout);
  }
  // If the stream was cut after the last write, the bytes in the socket's buffer are lost.
  const bool whole = written && !stream_.is_cut();
  end_exchange(response.status, &response.body, whole ? size : 0, !whole);
  co_return whole ? Sent::yes : Sent::no;
}

// The share of a response in memory in the core's BodyBudget.
class Connection::AnswerShare final : public BodyBudget::Share {
 public:
  explicit AnswerShare(Connection& connection) : Share(connection.server_.bodies, held_), connection_(connection) {}
  ~AnswerShare() { release(); }

 private:
  void cut() override { connection_.cut(); }

  std::uint64_t held_ = 0;  // bytes held by the connection, which sends one response at a time
  Connection& connection_;
};

core::Task<Connection::Sent> Connection::send_held(Response& response, bool keep, std::size_t whole) {
  const Request& request = work_->parser.request();
  AnswerShare share(*this);
  if (!share.hold_answer(whole)) response = answer_without_room(is_safe(request.method));
  if (std::holds_alternative<std::unique_ptr<BodySource>>(response.body)) {
    co_return co_await send_stream(response, keep, &share);
  }
  const std::string_view bytes = std::get<Buffer>(response.body).view();
  append_head(response, bytes.size(), keep);
  const Sending sending(*work_, response.body);
  Buffer& output = work_->output;
  std::string_view head = output.view();
  output.clear();
  std::size_t sent = 0;
  Result<void> written;
  // Written in pieces, so that the share is notified of the client's progress.
  while (sent < bytes.size() && written && !stream_.is_cut()) {
    const std::string_view piece = bytes.substr(sent, held_piece_bytes);
    work_->parts[0] = {const_cast<char*>(head.data()), head.size()};
    work_->parts[1] = {const_cast<char*>(piece.data()), piece.size()};
    head = {};
    written = co_await stream_.write(work_->parts, server_.options.write_timeout);
    if (written) sent += piece.size();
    share.took(piece.size());
  }
  const bool all = written && !stream_.is_cut();
  end_exchange(response.status, &response.body, all ? bytes.size() : 0, !all);
  co_return all ? Sent::yes : Sent::no;
}

core::Task<Result<void>> Connection::send_spans(const SharedSpans& spans) {
  Buffer& output = work_->output;
  iovec parts[most_parts];
  for (SpanReader reader(spans.pieces()); !reader.at_end();) {
    (void)output.reserve(output_bytes);  // the buffer must not move, because the parts point into it
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
    if (const auto written = co_await stream_.write({parts, count}, server_.options.write_timeout); !written) {
      co_return written;
    }
  }
  co_return Result<void>{};
}

// For an HTTP/1.0 client the end of the connection is the end of the body. If the body is cut, the client must
// therefore see a reset.
struct Connection::Cut {
  net::Stream& stream;
  bool is_cut;
  ~Cut() {
    if (is_cut) stream.reactor().reset_on_close(stream.handle());
  }
};

core::Task<Connection::Sent> Connection::send_stream(Response& response, bool keep, AnswerShare* share) {
  BodySource& source = *std::get<std::unique_ptr<BodySource>>(response.body);
  Buffer& output = work_->output;
  const BodyFraming framing = append_head(response, source.size(), keep);
  const bool chunked = framing.kind == BodyFraming::Kind::chunked;
  // For an HTTP/1.0 client the body may end with the connection, which is then closed.
  const bool until_close = framing.kind == BodyFraming::Kind::until_close;
  Cut cut{stream_, until_close};
  const Sending sending(*work_, response.body);
  core::TurnShare turn(stream_.reactor(), turn_bytes);
  std::uint64_t sent = 0;
  for (;;) {
    const std::size_t complete = output.size();
    const std::size_t chunk = chunked ? begin_chunk(output) : output.size();
    const std::size_t before = output.size();
    Result<BodySource::Progress> progress = BodySource::Progress::done;
    std::size_t left_early = 0;
    core::Async<Result<BodySource::Progress>> pulling = source.pull(output);
    if (pulling.ready()) {
      progress = pulling.take();
    } else {
      EarlyBytes early(stream_, output.view().substr(0, complete));
      auto pulled = co_await WhilePresent<Result<BodySource::Progress>>(*this, pulling.take_task());
      progress = pulled ? std::move(*pulled) : Result<BodySource::Progress>(fail(Errc::closed));
      left_early = early.end();
    }
    if (stream_.is_cut()) {
      end_exchange(response.status, &response.body, sent, true);
      co_return Sent::no;
    }
    if (!progress) {
      // Without a last chunk or an orderly close, the client can detect that the body is incomplete. It still receives
      // complete earlier responses.
      output.truncate(complete);
      output.consume(left_early);
      const bool flushed = (co_await flush()).has_value();
      end_exchange(response.status, &response.body, sent, true);
      // The client's TLS close_notify may be unread, and closing with unread bytes would reset the connection before
      // the client has received everything.
      if (flushed && !until_close && secure()) co_await linger(Goodbye::no);
      co_return Sent::no;
    }
    sent += output.size() - before;
    if (chunked) end_chunk(output, chunk);
    output.consume(left_early);
    const bool done = *progress == BodySource::Progress::done;
    if (done && chunked) append_last_chunk(output, source.trailers());
    if (done && output.size() < output_bytes) break;  // sent together with the following response
    const std::size_t leaving = output.size();
    const bool turn_is_over = turn.spend(leaving);
    if (!co_await flush()) {
      end_exchange(response.status, &response.body, sent, true);
      co_return Sent::no;
    }
    if (share != nullptr) share->took(leaving);
    if (done) break;
    if (turn_is_over) co_await turn.next_turn();
  }
  if (until_close) cut.is_cut = !co_await flush();
  cut.is_cut |= stream_.is_cut();
  end_exchange(response.status, &response.body, sent, cut.is_cut);
  if (until_close && !cut.is_cut) co_await linger();
  co_return !until_close && !cut.is_cut ? Sent::yes : Sent::no;
}

}  // namespace sluice::http::h1
