#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
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
#include "net/stream_duplex.h"

namespace sluice::http::client {

struct ConnectionOptions {
  ResponseLimits limits{};
  Duration write_timeout = 30s;  // within which the server must read some of the request
  Duration head_timeout = 60s;   // from the end of the request to the end of the response's head
  Duration idle_timeout = 60s;   // until the next bytes of a response's body
};

// One HTTP/1.1 connection to a server (RFC 9112). Its exchanges run one after the other.
//
//   connection.connect(...)
//   head = co_await connection.ask(request, body);   then read() until it is done;   if is_reusable(), ask() again
//
// Destroying the connection, or the coroutine that awaits one of its tasks, ends the exchange and closes the
// connection.
class Connection final : public core::SlabAllocated, net::Stream::Watch {
 public:
  using Progress = BodySource::Progress;

  // Owns idle connections.
  class Keeper {
   public:
    // Called when the server has closed the idle connection or sent unexpected bytes, or when `until` is reached. May
    // destroy the connection.
    virtual void ended(Connection& idle) = 0;

   protected:
    ~Keeper() = default;
  };

  // `options` outlives the connection.
  Connection(core::Reactor& reactor, const ConnectionOptions& options);
  ~Connection();

  [[nodiscard]] core::Task<Result<void>> connect(const core::Address& address, Instant deadline) {
    return stream_.connect(address, deadline);
  }
  // Called after connect() if the server uses TLS. All arguments except the context outlive the connection.
  [[nodiscard]] core::Task<Result<void>> connect_tls(std::shared_ptr<const net::tls::ClientContext> context,
                                                     const std::string& host, net::tls::CoreState& core,
                                                     Instant deadline, net::tls::Resumption* resumption) {
    return stream_.connect_tls(std::move(context), host, core, deadline, resumption);
  }
  [[nodiscard]] bool tls_resumed() const { return stream_.tls()->resumed(); }
  // Why TLS failed; empty if it did not fail.
  [[nodiscard]] std::string_view tls_failure() const {
    return stream_.tls() != nullptr ? std::string_view(stream_.tls()->failure_text()) : std::string_view();
  }

  // Sends a request and returns the head of its final response. The data that `head` refers to must live until the task
  // first suspends. The views in the result are valid until the next ask() or take_over().
  // Status 101 is returned only if `head.upgrade` was set.
  //
  // `body`: the request's body; null if it has none or has length 0. It outlives the exchange. Its bytes are sent as
  // they become available, and its trailers after a chunked body. If the response begins before the body is complete,
  // the response is accepted and the rest of the body is not sent.
  //
  // `until`: when the whole exchange must be over, including the response's body.
  //
  // `interim`: gets the interim responses, except those with status 100; null: they are skipped. It outlives the task.
  //
  // Errors: Errc::malformed if the response is invalid (see reason()), or if the request is invalid (then nothing was
  // sent); Errc::timed_out; Errc::closed if the server closed the connection (if nothing_came(), it may not have seen
  // the request). An error of `body` is returned as it is, and body_failed() is then true.
  [[nodiscard]] core::Task<Result<const ResponseHead*>> ask(RequestHead head, BodyReader* body, Instant until = never,
                                                            InterimSink* interim = nullptr);
  // Whether `until` has come.
  [[nodiscard]] bool is_overdue() { return stream_.reactor().now() >= until_; }
  // The response may take as long as it likes.
  void lift_deadline() { until_ = never; }
  // Appends the next bytes of the response's body to `out`, at least one unless the body is done. Errc::closed: the
  // body ended too early.
  [[nodiscard]] core::Async<Result<Progress>> read(Buffer& out);
  // The trailer fields, once the body is done. The views are valid until the next ask().
  [[nodiscard]] std::span<const Field> trailers() const { return trailers_; }

  // After a 101: hands the connection over to the new protocol, together with the bytes received after the head.
  [[nodiscard]] net::StreamDuplex take_over();

  // The response was received completely, and another request may follow.
  [[nodiscard]] bool is_reusable() const;
  // The last exchange ended while the connection was waiting for the next bytes of the request's body.
  [[nodiscard]] bool waited_for_body() const { return waits_for_body_; }
  [[nodiscard]] bool nothing_came() const { return nothing_came_; }
  [[nodiscard]] bool body_failed() const { return body_failed_; }
  [[nodiscard]] h1::Reason reason() const { return reason_; }

  // Makes the connection idle and gives up its buffers. Returns false if the server has closed it. Precondition:
  // is_reusable().
  [[nodiscard]] bool rest(Keeper& keeper, Instant until);
  // Ends the idle state. Must be called before the next ask().
  void wake() { unwatch(); }

 private:
  [[nodiscard]] core::Task<void> send_body(BodyReader& body, h1::BodyFraming framing);
  [[nodiscard]] core::Task<void> send_pieces(BodyReader& body, h1::BodyFraming framing);
  // The request will not be sent completely. If only the server has closed, its response is still read because it may
  // have answered before closing.
  [[nodiscard]] bool has_given_up() const { return body_failed_ || (!sent_ && sent_.error().code != Errc::closed); }
  [[nodiscard]] core::Task<Result<const ResponseHead*>> receive_head(Method method, bool may_change_protocol,
                                                                     InterimSink* sink);
  [[nodiscard]] Instant read_deadline();  // of the response's body
  // The most bytes that one read takes of a body without chunks.
  [[nodiscard]] std::size_t most_plain() const;
  [[nodiscard]] core::Async<Result<Progress>> read_plain(Buffer& out);
  [[nodiscard]] core::Task<Result<Progress>> read_more(Buffer& out);
  [[nodiscard]] Result<Progress> take(Result<std::size_t> got);
  [[nodiscard]] core::Async<Result<Progress>> read_chunked(Buffer& out);
  [[nodiscard]] core::Task<Result<Progress>> read_more_chunks(Buffer& out);
  // Appends the received part of the body's chunks. Returns nothing if more bytes are needed.
  [[nodiscard]] std::optional<Result<Progress>> decode(Buffer& out);
  [[nodiscard]] Result<Progress> end();
  [[nodiscard]] net::Stream::Write write();
  void woken(Woken why) override;

  const ConnectionOptions& options_;
  net::Stream stream_;
  Keeper* keeper_ = nullptr;
  Buffer output_;  // the unsent part of the request
  Buffer input_;   // the response's head and bytes received with it; unchanged while the head's views are needed
  Buffer chunks_;  // bytes of a chunked body that have not been decoded
  iovec part_{};   // the buffer that is being written
  ResponseParser parser_;
  h1::BodyFraming framing_{};  // of the response; `length` is the number of bytes not yet received
  h1::ChunkedDecoder decoder_{h1::ChunkedDecoder::Reading::tolerant};
  Buffer trailer_lines_;
  std::vector<Field> trailers_;
  h1::Reason reason_ = h1::Reason::none;
  Instant until_ = never;  // when the exchange must be over
  Result<void> sent_;      // result of sending a request with a body
  Instant sent_at_{};      // when the whole request had been sent
  bool is_done_ = true;    // the response has been received completely
  bool is_sent_ = true;    // the request has been sent completely
  bool waits_for_body_ = false;
  bool nothing_came_ = true;
  bool body_failed_ = false;
  core::TaskGroup sending_;  // sends the request's body
};

}  // namespace sluice::http::client
