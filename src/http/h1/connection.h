#pragma once

#include <memory>
#include <optional>
#include <string>

#include "base/buffer.h"
#include "core/task.h"
#include "http/h1/chunked.h"
#include "http/h1/parser.h"
#include "http/server.h"
#include "net/stream.h"

namespace sluice::http::h2 {
class Connection;
}  // namespace sluice::http::h2

namespace sluice::http::h1 {

// What a connection needs only while a request is on its way: lent by the server, given back when it is idle.
struct Workspace {
  explicit Workspace(const RequestLimits& limits) : parser(exchange.request, limits) {}

  void forget_request() {
    if (parser.in_request()) exchange.reset();  // else it was reset before, and no request has come since
    parser.reset();
  }

  Buffer input;    // received: the current request's head, then what follows it
  Buffer body;     // received: what follows the head of a request that has a body
  Buffer output;   // answers that have not been written yet
  iovec parts[2];  // of what is being written
  Exchange exchange;
  RequestParser parser;
  const Body* sending = nullptr;  // by itself, because it is long
  bool outdated = false;          // the server's limits are others now
};

inline constexpr std::size_t read_bytes = 16 * 1024;
inline constexpr std::size_t read_turn_bytes = 16 * 1024;  // of a body, in one turn of the loop
inline constexpr std::size_t output_bytes = 64 * 1024;     // answers gather up to here

// One HTTP/1.1 connection (RFC 9112): requests are read, handed to the server's handler one after the other, and
// answered in their order. Answers to pipelined requests leave in one write.
//
// It runs as long as there is something to do, and then has no coroutine: an idle connection is this object alone.
class Connection final : public core::SlabAllocated, net::Stream::Watch {
 public:
  explicit Connection(Server& server);
  Connection(const Connection&) = delete;
  ~Connection();

  [[nodiscard]] core::Handle& handle() { return stream_.handle(); }
  // Its socket has been accepted.
  void begin(const core::Address& peer);
  // Every request is refused with 503: the server has as many connections as it may.
  void refuse_all() { overloaded_ = unusual_ = true; }

  // It begins with a handshake.
  void begin_with_tls(std::shared_ptr<const net::tls::ServerContext> context) { tls_context_ = std::move(context); }

  // What comes after run(), whose frame is large and not needed any more.
  enum class Next : std::uint8_t {
    end,
    idle,     // wait_for_request(): the server will be told when run() is to go on
    upgrade,  // run_upgrade(): the last answer has changed the protocol
    http2,    // run_http2()
  };
  core::Task<Next> run();
  // False: there is something to read already, and run() may go on.
  [[nodiscard]] bool wait_for_request();
  core::Task<void> run_upgrade();
  core::Task<void> run_http2();
  // Not idle, and not within a request's head.
  [[nodiscard]] bool awaits_answer() const;
  // The server is ending: an idle connection closes, another one closes after its answer.
  void drain();
  // The server's options are others now; `new_limits`: those of heads too.
  void follow_options(bool new_limits);
  // The connection, or of HTTP/2 the streams, whose answer's body `owner` keeps alive and that is being sent.
  void cut_answers_of(const void* owner);
  // The connection, or of HTTP/2 the streams, whose request holds it.
  void cut_pinned(const Pinned& pinned);

 private:
  friend class http::Server;
  class Active;
  class RequestBody;
  class Presence;
  // For cut_answers_of(): from when there is an answer that does not leave at once.
  class Sending {
   public:
    Sending(Workspace& work, const Body& body) : work_(work) { work.sending = &body; }
    Sending(const Sending&) = delete;
    ~Sending() { work_.sending = nullptr; }

   private:
    Workspace& work_;
  };
  class Tunnel;
  template <class T>
  class WhilePresent;
  struct Cut;

  enum class Sent : bool { no, yes };

  void cut();

  [[nodiscard]] bool secure() const { return stream_.tls() != nullptr; }
  // What run() rarely awaits is not inlined: the compiler would lay those frames into that one, three times its size.

  // False: there is no connection.
  [[gnu::noinline]] core::Task<bool> shake_hands();
  void woken(Woken why) override;

  // What the parser has found goes to the handler; sets up the request's view of this connection.
  [[nodiscard]] Exchange& present_request();
  // Writes the whole answer to the output, if that needs no waiting and no copying of much.
  [[nodiscard]] bool append_whole(Response& response, bool head_only, bool keep);
  BodyFraming append_head(const Response& response, std::optional<std::uint64_t> size, bool keep);
  [[gnu::noinline]] bool append_spans(const SharedSpans& spans, const Response& response, bool bodiless, bool keep);
  core::Task<Sent> send(Response response, bool head_only, bool keep);
  // What is in the output, and then the pieces.
  [[gnu::noinline]] core::Task<Result<void>> send_spans(const SharedSpans& spans);
  [[gnu::noinline]] core::Task<Sent> send_stream(Response response, bool keep);
  [[gnu::noinline]] core::Task<Sent> answer_with_body(const Parsed& parsed);
  // Answers with 101; run_upgrade() goes on.
  void change_protocol(Response response, std::size_t head_size);
  // `request`: what is refused, where its head was whole.
  [[gnu::noinline]] core::Task<void> refuse(int status, std::string_view detail, const Request* request = nullptr);
  // Lets the client read the last answer before the connection goes: closing with bytes unread would reset it.
  enum class Goodbye : bool { no, yes };  // over TLS: whether the client is to take the end for one
  [[gnu::noinline]] core::Task<void> linger(Goodbye goodbye = Goodbye::yes);
  [[nodiscard]] net::Stream::Write flush();
  void renew_workspace();
  void report(const Request* request, int status, std::uint64_t body_bytes, bool broken);

  Server& server_;
  net::Stream stream_;
  std::unique_ptr<Workspace> work_;
  std::shared_ptr<const net::tls::ServerContext> tls_context_;  // until it has shaken hands
  std::string peer_;
  Presence* presence_ = nullptr;      // while a handler or a stream is waited for
  std::unique_ptr<Upgrade> upgrade_;  // whom it has been handed over to
  Connection* next_ = nullptr;        // the server's list, once it is open
  Connection* previous_ = nullptr;
  h2::Connection* http2_ = nullptr;  // what this connection has become
  Woken woken_ = Woken::readable;    // why run() runs
  bool overloaded_ = false;
  bool unusual_ = false;       // it is overloaded, or the workspace may be outdated
  bool may_be_http2_ = false;  // nothing has come yet that HTTP/2 would not begin with
  Instant began_{};            // the request that is being answered
  Instant deadline_{};         // of the head that is being read
  Instant idle_until_{};
  // What runs it, where it is not idle.
  core::TaskGroup::Member* task_ = nullptr;
};

}  // namespace sluice::http::h1
