#pragma once

#include <memory>
#include <optional>
#include <string>

#include "base/buffer.h"
#include "core/task.h"
#include "http/h1/chunked.h"
#include "http/h1/parser.h"
#include "http/h1/workspace.h"
#include "http/server_state.h"
#include "net/stream.h"

namespace sluice::http::h2 {
class Connection;
}  // namespace sluice::http::h2

namespace sluice::http::h1 {

inline constexpr std::size_t read_bytes = 16 * 1024;
inline constexpr std::size_t read_turn_bytes = 16 * 1024;  // most bytes of a body per turn of the loop
inline constexpr std::uint64_t lingering_bytes = 256 * 1024;
inline constexpr std::size_t output_bytes = 64 * 1024;  // responses are collected up to this size before a write

// One HTTP/1.1 connection (RFC 9112). It reads requests, passes them to the server's dispatcher one at a time, and
// answers them in order. Responses to pipelined requests are sent in one write.
//
// run() ends when there is nothing more to do: an idle connection has no coroutine and consists only of this object.
class Connection final : public core::SlabAllocated, net::Stream::Watch, InterimSink {
 public:
  explicit Connection(ServerState& server);
  Connection(const Connection&) = delete;
  ~Connection();

  [[nodiscard]] core::Handle& handle() { return stream_.handle(); }
  // Called after its socket has been accepted.
  void begin(const core::Address& peer);
  // Refuses every request with 503, because the server has reached its limit of connections.
  void refuse_all() { overloaded_ = unusual_ = true; }

  // The connection must begin with a PROXY protocol header, before any bytes from the client.
  void begin_with_proxy_header() { wants_proxy_header_ = true; }
  // The connection begins with a TLS handshake.
  void begin_with_tls(std::shared_ptr<const net::tls::ServerContext> context) { tls_context_ = std::move(context); }

  // The next step after run(). It returns first, so that its large coroutine frame is freed.
  enum class Next : std::uint8_t {
    end,
    idle,     // wait_for_request(): the server is notified when to call run() again
    upgrade,  // run_upgrade(): the last response switched the protocol
    http2,    // run_http2()
  };
  core::Task<Next> run();
  // Returns false if there are already bytes to read, so that run() can be called at once.
  [[nodiscard]] bool wait_for_request();
  core::Task<void> run_upgrade();
  [[nodiscard]] bool is_upgraded() const { return upgrade_ != nullptr; }
  core::Task<void> run_http2();
  // True between wait_for_request() and the call of serve().
  [[nodiscard]] bool is_idle() const { return watching(); }
  // True unless the connection is idle or is reading the head of a request.
  [[nodiscard]] bool awaits_answer() const;
  // The server is shutting down: an idle connection closes at once, a busy one after its response, and a new one after
  // its first response or a short time.
  void drain();
  // Called when the server's options have changed. `new_limits`: the limits of request heads have changed too.
  void follow_options(bool new_limits);
  // Ends the connection in a way that its client can detect.
  void cut();
  // Cuts the connection (in HTTP/2: the streams) if it is sending a response body that `owner` keeps alive.
  void cut_answers_of(const void* owner);
  // Cuts the connection (in HTTP/2: the streams) if its exchange holds a pin on `pinned`.
  void cut_pinned(const Pinned& pinned);

  // Belongs to the server.
  struct Listed {
    Connection* next = nullptr;  // in the list of open connections
    Connection* previous = nullptr;
    core::TaskGroup::Member* task = nullptr;  // runs the connection unless it is idle
    bool awaits_drain = false;
  };
  Listed listed;

 private:
  class Active;
  class RequestBody;
  class Presence;
  // Marks a body that is not sent at once, for cut_answers_of().
  class Sending {
   public:
    Sending(Workspace& work, const Body& body) : work_(work) { work.sending = &body; }
    Sending(const Sending&) = delete;
    ~Sending() { work_.sending = nullptr; }

   private:
    Workspace& work_;
  };
  class AnswerShare;
  class EarlyBytes;
  template <class T>
  class WhilePresent;
  struct Cut;

  enum class Sent : bool { no, yes };
  enum class Left : std::uint8_t { nothing, body, upgrade };

  [[nodiscard]] bool secure() const { return stream_.tls() != nullptr; }
  // The functions that run() rarely awaits are not inlined. Otherwise the compiler would merge their frames into that
  // of run() and triple its size.

  // Both return false if the connection has failed.
  [[gnu::noinline]] core::Task<bool> read_proxy_header();
  [[gnu::noinline]] core::Task<bool> shake_hands();
  void woken(Woken why) override;
  void send_interim(int status, std::span<const Field> fields) override;

  // Fills in the members of the parsed request that describe this connection, for the handler.
  [[nodiscard]] Exchange& present_request();
  // Passes the response through the filters, and answers with it as far as that needs no waiting. Returns what is left:
  // send() for the body, or run_upgrade().
  [[nodiscard]] Left begin_answer(Response& response, std::size_t head_size, bool keep);
  // Whether append_whole() would append it.
  [[nodiscard]] static bool fits_output(const Response& response, bool head_only);
  // Appends the whole response to the output, if that needs neither waiting nor copying a large body.
  [[nodiscard]] bool append_whole(Response& response, bool head_only, bool keep);
  BodyFraming append_head(const Response& response, std::optional<std::uint64_t> size, bool keep);
  [[gnu::noinline]] bool append_spans(const SharedSpans& spans, Response& response, bool bodiless, bool keep);
  core::Task<Sent> send(Response& response, bool head_only, bool keep);
  // Sends the output, and then the pieces.
  [[gnu::noinline]] core::Task<Result<void>> send_spans(const SharedSpans& spans);
  // `share` counts the memory that the source holds; null if it holds none.
  [[gnu::noinline]] core::Task<Sent> send_stream(Response& response, bool keep, AnswerShare* share);
  // Sends a response that keeps `whole` bytes in memory until its client has read it.
  [[gnu::noinline]] core::Task<Sent> send_held(Response& response, bool keep, std::size_t whole);
  [[gnu::noinline]] core::Task<Sent> answer_with_body(const Parsed& parsed);
  // Answers with 101. run_upgrade() continues from there.
  void change_protocol(Response response, std::size_t head_size);
  // `request`: the refused request if its head was complete, otherwise null.
  [[gnu::noinline]] core::Task<void> refuse(int status, std::string_view detail, const Request* request = nullptr);
  // Lets the client read the last response before the connection closes. Closing with unread bytes would reset the
  // connection.
  enum class Goodbye : bool { no, yes };  // over TLS: whether to send close_notify
  // `most`: bytes that are read and dropped.
  [[gnu::noinline]] core::Task<void> linger(Goodbye goodbye = Goodbye::yes, std::uint64_t most = lingering_bytes);
  [[nodiscard]] net::Stream::Write flush();
  void renew_workspace();
  // Ends the exchange, except for its attributes and its pin. `body`: of the response, which has been sent or never
  // will be; null if absent.
  void end_exchange(int status, Body* body, std::uint64_t body_bytes, bool broken);
  // `exchange`: null if the received bytes were not a valid request.
  void notify_observer(const Exchange* exchange, int status, std::uint64_t body_bytes, bool broken);

  ServerState& server_;
  net::Stream stream_;
  std::unique_ptr<Workspace> work_;
  std::shared_ptr<const net::tls::ServerContext> tls_context_;  // until the handshake is complete
  std::string peer_;
  Presence* presence_ = nullptr;        // while the connection waits for a handler or a stream
  std::unique_ptr<Exchange> upgraded_;  // ends with upgrade_; null if no filter waits for its end
  std::unique_ptr<Upgrade> upgrade_;    // the protocol that runs on the connection after a 101
  h2::Connection* http2_ = nullptr;     // set once the connection runs HTTP/2
  Woken woken_ = Woken::readable;       // why run() was started
  bool wants_proxy_header_ = false;
  bool overloaded_ = false;
  bool drops_body_ = false;    // the rest of a request's body is read after the response
  bool unusual_ = false;       // `overloaded_` is set, or the workspace may be outdated
  bool may_be_http2_ = false;  // all received bytes are a prefix of the HTTP/2 preface
  Instant began_{};            // when the head of the latest request was complete
  Instant deadline_{};         // of the head being read
  Instant idle_until_{};
};

}  // namespace sluice::http::h1
