#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "core/next_turn.h"
#include "http/h1/chunked.h"
#include "http/h1/connection.h"
#include "http/h1/presence.h"
#include "http/h1/response.h"
#include "http/patience.h"

namespace sluice::http::h1 {

// The request's body, pulled by the handler. Its bytes are in the workspace's `body`, so that the views of the head
// stay valid.
class Connection::RequestBody final : public BodyReader, BodyBudget::Share {
 public:
  RequestBody(Connection& connection, const BodyFraming& framing, bool wants_continue)
      : Share(connection.server_.bodies, held_),
        connection_(connection),
        limit_(connection.server_.options.body_limit),
        left_(framing.length),
        chunked_(framing.kind == BodyFraming::Kind::chunked),
        wants_continue_(wants_continue),
        patience_(connection.server_.options.body_timeout, connection.server_.options.slowest_client),
        turn_(connection.stream_.reactor(), read_turn_bytes) {}

  ~RequestBody() override { release(); }

  core::Task<Result<std::string_view>> read() override {
    Buffer& body = connection_.work_->body;
    for (;;) {
      if (auto next = next_arrived()) co_return std::move(*next);
      if (std::exchange(wants_continue_, false)) {
        connection_.work_->output.append(continue_response);
        if (!co_await connection_.flush()) co_return refuse(400);
      }
      const Instant begin = connection_.stream_.reactor().now();
      Presence* const presence = connection_.presence_;
      if (presence != nullptr) presence->step_aside();
      Result<std::size_t> got = 0;
      {
        const Waiting waiting(*this);
        const Instant deadline = std::min(begin + patience_.left(), until_);
        // Many long, fast bodies must not keep the loop from serving other connections.
        if (turn_.is_heavy() && !connection_.stream_.may_read()) {
          (void)co_await connection_.stream_.readable(deadline);
          co_await turn_.next_turn();
        }
        if (!is_cut()) {
          const std::size_t least = comes_fast_ ? read_bytes : 1024;
          got = co_await connection_.stream_.read(body, read_bytes, deadline, least);
        }
      }
      if (presence != nullptr) presence->step_back();
      if (is_cut() || got == no_memory) co_return refuse(503);
      if (!got) co_return refuse(got.error().code == Errc::timed_out ? 408 : 400);
      if (*got == 0) co_return refuse(400);
      comes_fast_ = body.writable() == 0;
      patience_.spend(connection_.stream_.reactor().now() - begin, *got);
      if (turn_.spend(*got)) co_await turn_.next_turn();
    }
  }

  std::span<const Field> trailers() override {
    trailers_ = trailer_fields(trailer_lines_.view());
    return trailers_;
  }

  void allow_more(std::uint64_t bytes) override {
    const ServerOptions& options = connection_.server_.options;
    limit_ = std::min(bound_, std::max(options.body_limit, std::min(options.body_limit + bytes, options.most_body)));
  }

  void limit_to(std::uint64_t bytes) override {
    const ServerOptions& options = connection_.server_.options;
    bound_ = std::min(bound_, bytes);
    limit_ = std::min(bound_, std::max(options.body_limit, options.most_body));
  }

  void hurry(std::uint32_t bytes_per_s) override {
    const ServerOptions& options = connection_.server_.options;
    patience_ = Patience(options.body_timeout, std::max(options.slowest_client, bytes_per_s));
  }

  Result<void> keep(std::size_t bytes) override {
    switch (take(bytes)) {
      case Taken::yes:
        return {};
      case Taken::no:
        return refuse(503);
      case Taken::too_long:
        return refuse(413);
    }
    std::unreachable();
  }
  void abandon() override { is_abandoned_ = true; }
  // Called when the handler has answered and keeps no more bytes.
  using Share::release;

  // The status for an error of the body itself; 0: no error.
  [[nodiscard]] int refusal() const { return refusal_; }
  // The whole body has been read.
  [[nodiscard]] bool done() const { return chunked_ ? chunked_done_ : left_ == 0; }
  // The client still waits for 100 Continue, so it may or may not send the body.
  [[nodiscard]] bool unasked() const { return wants_continue_ && !done(); }
  [[nodiscard]] bool abandoned() const { return is_abandoned_ && !done(); }
  [[nodiscard]] std::uint64_t left_at_least() const { return chunked_ ? 0 : left_; }
  // Drops the part of the rest that has arrived, at most about `most` bytes of it. Afterwards done() and refusal() say
  // how it ended.
  void drop_arrived(std::uint64_t most) {
    Buffer& body = connection_.work_->body;
    for (std::uint64_t dropped = 0; dropped <= most;) {
      if (const auto next = next_arrived()) {
        if (!*next || (*next)->empty()) return;
        dropped += (*next)->size();
        continue;
      }
      if (!connection_.stream_.may_read()) return;
      char* const room = body.reserve(read_bytes);
      const core::Io io = connection_.stream_.try_read(room, read_bytes);
      if (!io.ok() || io.bytes == 0) return;  // a later read sees an error or the end again
      body.commit(io.bytes);
    }
  }
  // Reads and drops the rest. Returns false if it is longer than `most`, invalid, or not complete at `until`.
  core::Task<bool> drop(std::uint64_t most, Instant until) {
    until_ = until;
    for (std::uint64_t dropped = 0; !done();) {
      const auto piece = co_await read();
      if (!piece) co_return false;
      dropped += piece->size();
      if (dropped > most) co_return false;
    }
    co_return true;
  }
  // Consumes the last piece of the body. The bytes after it belong to the next request.
  void finish() { connection_.work_->body.consume(std::exchange(given_, 0)); }

 private:
  // The next piece of what has arrived, the end, or an error; nothing if more has to arrive first.
  std::optional<Result<std::string_view>> next_arrived() {
    Buffer& body = connection_.work_->body;
    body.consume(std::exchange(given_, 0));
    for (;;) {
      if (done()) return std::string_view{};
      if (refusal_ != 0) return fail(Errc::malformed);
      if (is_cut()) return refuse(503);
      if (left_ > limit_) return refuse(413);  // `left_` only shrinks, so this can happen only in the first call
      if (!chunked_) {
        if (body.empty()) return std::nullopt;
        given_ = static_cast<std::size_t>(std::min<std::uint64_t>(left_, body.size()));
        left_ -= given_;
        return body.view().substr(0, given_);
      }
      const ChunkedDecoder::Step step = decoder_.decode(body.view(), &trailer_lines_);
      if (step.state == ChunkedDecoder::Step::State::refused) return refuse(status_of(step.reason));
      received_ += step.data.size();
      if (received_ + decoder_.announced() > limit_) return refuse(413);
      if (step.state == ChunkedDecoder::Step::State::data) {
        given_ = step.consumed;
        return step.data;
      }
      body.consume(step.consumed);
      if (step.state != ChunkedDecoder::Step::State::done) return std::nullopt;
      chunked_done_ = true;
    }
  }
  std::unexpected<Error> refuse(int status) {
    refusal_ = status;
    if (status == 503) return no_memory;
    return fail(status == 408 ? Errc::timed_out : status == 413 ? Errc::limit : Errc::malformed);
  }
  void cut() override { connection_.stream_.end_read(); }

  std::uint64_t held_ = 0;  // bytes held by the connection, which serves one request at a time
  Connection& connection_;
  ChunkedDecoder decoder_;
  Buffer trailer_lines_;
  std::vector<Field> trailers_;
  std::uint64_t limit_;
  std::uint64_t bound_ = UINT64_MAX;  // upper bound for limit_
  std::uint64_t left_;
  std::uint64_t received_ = 0;
  Instant until_ = never;
  std::size_t given_ = 0;
  int refusal_ = 0;
  bool chunked_;
  bool chunked_done_ = false;
  bool wants_continue_;
  bool is_abandoned_ = false;
  bool comes_fast_ = false;  // the last read filled the buffer, so the next one uses a larger buffer
  Patience patience_;
  core::TurnShare turn_;
};

}  // namespace sluice::http::h1
