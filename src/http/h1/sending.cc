// How a connection sends answers.
#include <optional>
#include <utility>

#include "core/next_turn.h"
#include "http/h1/connection.h"
#include "http/h1/presence.h"
#include "http/h1/response.h"

namespace sluice::http::h1 {
namespace {

constexpr std::size_t copied_body_bytes = 16 * 1024;  // up to here one write of copied bytes beats a gathered one
constexpr std::size_t turn_bytes = 512 * 1024;        // of a body that is made as it is sent, in one turn of the loop
// Of shared pieces: a shorter one is copied, which costs the kernel less than one part more of a gathered write.
constexpr std::size_t copied_piece_bytes = 1024;
constexpr std::size_t most_parts = 256;  // of one gathered write

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

core::Task<Connection::Sent> Connection::send(Response response, bool head_only, bool keep) {
  const Request& request = work_->parser.request();
  if (std::holds_alternative<std::unique_ptr<BodySource>>(response.body)) {
    if (!head_only && !has_no_body(response.status)) co_return co_await send_stream(std::move(response), keep);
    append_head(response, size_of(response.body), keep);
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
  // Cut when the last of it had just been taken: what is still in the socket's buffer goes with the connection.
  const bool whole = written && !stream_.is_cut();
  report(&request, response.status, whole ? size : 0, !whole);
  co_return whole ? Sent::yes : Sent::no;
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
  const BodyFraming framing = append_head(response, source.size(), keep);
  const bool chunked = framing.kind == BodyFraming::Kind::chunked;
  // To an HTTP/1.0 client the body may end with the connection, so that one closes.
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
      if (flushed && !until_close && secure()) co_await linger(Goodbye::no);
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
  if (until_close) cut.is_cut = !co_await flush();
  cut.is_cut |= stream_.is_cut();
  report(&request, response.status, sent, cut.is_cut);
  // The connection may last longer than what the body keeps alive.
  response.body.emplace<std::monostate>();
  if (until_close && !cut.is_cut) co_await linger();
  co_return !until_close && !cut.is_cut ? Sent::yes : Sent::no;
}

}  // namespace sluice::http::h1
