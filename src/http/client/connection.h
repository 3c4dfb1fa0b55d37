#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "base/buffer.h"
#include "base/result.h"
#include "base/time.h"
#include "core/reactor.h"
#include "core/task.h"
#include "http/client/request_writer.h"
#include "http/client/response_parser.h"
#include "http/h1/chunked.h"
#include "http/request.h"
#include "http/response.h"
#include "net/stream.h"

namespace sluice::http::client {

struct ConnectionOptions {
  ResponseLimits limits{};
  Duration write_timeout = 30s;  // in which the server must take some of a request
  Duration head_timeout = 60s;   // from the end of the request to the end of the response's head
  Duration idle_timeout = 60s;   // for the next bytes of a response's body
};

// One HTTP/1.1 connection to a server (RFC 9112): one exchange after the other.
//
//   connection.connect(...)
//   head = co_await connection.ask(request, body);   then read() until it is done;   if is_reusable(), ask() again
//
// Destroying it, or whoever awaits one of its tasks, ends the exchange and closes the connection.
class Connection final : public core::SlabAllocated, net::Stream::Watch {
 public:
  using Progress = BodySource::Progress;

  // Who keeps connections that are idle.
  class Keeper {
   public:
    // The server has ended it, has sent something that nobody asked for, or `until` has come. It may destroy it.
    virtual void ended(Connection& idle) = 0;

    Buffer spare;  // empty: memory for the next response

   protected:
    ~Keeper() = default;
  };

  // `options` outlives it.
  Connection(core::Reactor& reactor, const ConnectionOptions& options);
  ~Connection() { unwatch(); }

  [[nodiscard]] core::Task<Result<void>> connect(const core::Address& address, Instant deadline) {
    return stream_.connect(address, deadline);
  }

  // Sends a request and gives the head of its final response; interim ones are passed over. What `head` refers to is
  // needed until the task waits for the first time. The views of the result last until the next ask().
  //
  // `body`: of a request that has one (not of one of length 0); it outlives the exchange. It is sent while it comes. A
  // response that begins before its end is taken, and no more of it is sent.
  //
  // Errors: Errc::malformed: the response, and then reason() says why, or the request, of which nothing was sent.
  // Errc::timed_out. Errc::closed: the server has closed; nothing_came() says whether it may not have seen the request.
  // What is wrong with the request's body is `body`'s own error, and body_failed().
  [[nodiscard]] core::Task<Result<const ResponseHead*>> ask(RequestHead head, BodyReader* body);
  // The next bytes of the response's body, behind what `out` holds; at least one, unless it is done. Errc::closed: it
  // ended too early.
  [[nodiscard]] core::Async<Result<Progress>> read(Buffer& out);
  // When the body is done: what came behind it. Views last until the next ask().
  [[nodiscard]] std::span<const Field> trailers() const { return trailers_; }

  // The response has come whole, and another request may follow.
  [[nodiscard]] bool is_reusable() const;
  [[nodiscard]] bool nothing_came() const { return nothing_came_; }
  [[nodiscard]] bool body_failed() const { return body_failed_; }
  [[nodiscard]] h1::Reason reason() const { return reason_; }

  // Waits without a request, and without memory for one. False: it has ended. Precondition: is_reusable().
  [[nodiscard]] bool rest(Keeper& keeper, Instant until);
  // Ends the wait. Before the next ask().
  void wake() { unwatch(); }

 private:
  [[nodiscard]] core::Task<void> send_body(BodyReader& body, h1::BodyFraming framing);
  // The request will not be sent whole. A server that has closed may have answered before, so it is still heard.
  [[nodiscard]] bool has_given_up() const { return body_failed_ || (!sent_ && sent_.error().code != Errc::closed); }
  [[nodiscard]] core::Task<Result<const ResponseHead*>> receive_head(Method method);
  // Of a body without chunks, the bytes of one read.
  [[nodiscard]] std::size_t most_plain() const;
  [[nodiscard]] core::Async<Result<Progress>> read_plain(Buffer& out);
  [[nodiscard]] core::Task<Result<Progress>> read_more(Buffer& out);
  [[nodiscard]] Result<Progress> take(Result<std::size_t> got);
  [[nodiscard]] core::Async<Result<Progress>> read_chunked(Buffer& out);
  [[nodiscard]] core::Task<Result<Progress>> read_more_chunks(Buffer& out);
  // Appends what has come of the body's chunks. Nothing: more must come.
  [[nodiscard]] std::optional<Result<Progress>> decode(Buffer& out);
  [[nodiscard]] Result<Progress> end();
  [[nodiscard]] net::Stream::Write write();
  void woken(Woken why) override;

  const ConnectionOptions& options_;
  net::Stream stream_;
  Keeper* keeper_ = nullptr;
  Buffer output_;  // of the request, what has not been sent
  Buffer input_;   // the response's head, and what came with it; not touched while the head's views are needed
  Buffer chunks_;  // of a chunked body, what has not been decoded
  iovec part_{};   // of what is being written
  ResponseParser parser_;
  h1::BodyFraming framing_{};  // of the response; its length: what has not come yet
  h1::ChunkedDecoder decoder_;
  Buffer trailer_lines_;
  std::vector<Field> trailers_;
  h1::Reason reason_ = h1::Reason::none;
  Result<void> sent_;    // of a request with a body
  Instant sent_at_{};    // the whole request
  bool is_done_ = true;  // the response has come whole
  bool is_sent_ = true;  // the request has been sent whole
  bool nothing_came_ = true;
  bool body_failed_ = false;
  core::TaskGroup sending_;  // the request's body
};

}  // namespace sluice::http::client
