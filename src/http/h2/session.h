#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string_view>

#include "base/buffer.h"
#include "core/task.h"
#include "http/h2/engine.h"
#include "http/h2/field_encoder.h"
#include "http/h2/guard.h"
#include "http/h2/head.h"
#include "http/request.h"
#include "http/response.h"

struct nghttp2_session;

namespace sluice::http::h2 {

class Stream;
class Tunnel;

// The most bytes that produce() appends at a time, not counting a header section at the end. A segment for the network
// device has 64 KiB including headers. A few bytes more, such as those of TLS, would cost a second segment for each
// write.
inline constexpr std::size_t output_bytes = 64 * 1024 - 512;

// The server side of one HTTP/2 connection (RFC 9113) without I/O: it takes received bytes, has the handler answer, and
// produces bytes to send. nghttp2 does framing, HPACK, stream states and flow control.
//
// Handlers start in receive(), and sources are pulled in produce(). Both continue when what they wait for is ready.
// Neither runs inside a receiving callback of nghttp2.
class Session {
 public:
  // The object that does the I/O. Its functions are called outside of receive() and produce(), or at the end of
  // receive().
  class Owner {
   public:
    virtual void has_output() = 0;     // produce() has bytes to send
    virtual void upgrade_ended() = 0;  // has_upgrades() may soon become false

   protected:
    ~Owner() = default;
  };

  // `certificate`: the one that the client has shown. All arguments outlive the session.
  Session(Engine& engine, Owner& owner, std::string_view peer, bool secure,
          const net::tls::PeerCertificate* certificate = nullptr);
  Session(const Session&) = delete;
  ~Session();

  // Cancels running handlers and sources. The session receives and produces nothing after that. Upgrades are notified
  // that their streams have closed.
  void end();

  void receive(std::string_view bytes);
  // Appends the bytes to send, up to about `output_bytes`, to an empty buffer.
  void produce(Buffer& out);
  // The session is finished or has failed. The connection ends after the last bytes of produce().
  [[nodiscard]] bool over() const;
  // A timeout may have started that the last expire() did not know of.
  [[nodiscard]] bool is_busy() const { return streams_ != attached_ || owing_; }
  [[nodiscard]] bool has_streams() const { return newest_ != nullptr; }
  // Upgrades are running, possibly after their streams have closed.
  [[nodiscard]] bool has_upgrades() const { return !upgrades_.empty(); }

  // The server is shutting down: notifies the client and the upgrades. Requests already in transit are still answered.
  void drain();
  // Asks the client to send no further requests on this connection.
  void go_away();
  [[nodiscard]] bool is_draining() const { return drain_ != Drain::no; }
  // Resets the streams whose response body `owner` keeps alive, and releases the body.
  void cut_answers_of(const void* owner);
  void cut_pinned(const Pinned& pinned);
  // Refuses all requests, because the server has reached its limit of connections.
  void refuse_all();
  // The shortest of the timeouts that expire() enforces.
  [[nodiscard]] Duration shortest_patience() const;
  // Enforces the timeouts and returns when to call it again at the latest. May leave bytes to send.
  [[nodiscard]] Instant expire(Instant now);

  [[nodiscard]] core::Reactor& reactor() { return engine_.reactor; }
  [[nodiscard]] const ServerOptions& options() const { return engine_.options; }
  [[nodiscard]] Flood flood() const { return guard_.flood(); }

 private:
  friend class Stream;
  friend class Tunnel;
  friend class Engine;
  struct Callbacks;

  static void install(nghttp2_session_callbacks& callbacks);

  void feed(std::string_view bytes);
  void give_up(std::uint32_t error_code);
  void give_up_flood();
  void finish_drain();

  [[nodiscard]] std::uint32_t& active(const Request& request);
  void add_ready(Stream& stream);
  void remove_ready(Stream& stream);
  void run_ready();
  void start(Stream& stream);
  static core::Task<void> answer_later(Session& session, Stream& stream, core::Task<Response> answer);
  void answer_without_memory(Stream& stream);
  void respond(Stream& stream);  // with stream.response
  void refuse(Stream& stream, const Refusal& refusal);
  static core::Task<void> pull_later(Session& session, Stream& stream,
                                     core::Task<Result<BodySource::Progress>> pulling);
  // Pulls once from the response's source. Returns false if that takes time; pull_later() then goes on.
  bool pull(Stream& stream);
  [[nodiscard]] bool window_is_shut(const Stream& stream) const;
  void take_over(Stream& stream);
  void hand_over(Stream& stream);
  void cut(Stream& stream);
  static core::Task<void> run_upgrade(Session& session, Stream& stream, std::unique_ptr<Exchange> upgraded,
                                      std::unique_ptr<Upgrade> upgrade);
  void send_tunnelled(Stream& stream);
  void end_tunnelled(Stream& stream, bool cut);
  void lend_back(Buffer& arrived);
  [[nodiscard]] static int status_of(const Stream& stream);
  void end_exchange(Stream& stream, bool broken);
  void notify_observer(Stream& stream, bool broken);
  void drop_body(Stream& stream);
  void refuse_rest(Stream& stream);
  void consumed(Stream& stream, std::size_t bytes);
  void send_continue(Stream& stream);
  void send_interim(Stream& stream, int status, std::span<const Field> fields);

  // Called by the callbacks of nghttp2.
  int begin_headers(std::int32_t id);
  int got_field(std::string_view name, std::string_view value, bool name_is_known);
  void got_whole_head(Stream& stream, bool ended);
  void got_trailer(std::string_view name, std::string_view value);
  void got_trailers(Stream& stream, bool ended);
  void got_data(Stream& stream, std::string_view bytes);
  void got_end(Stream& stream);
  std::ptrdiff_t next_data(Stream& stream, std::size_t most, std::uint32_t& flags);
  int send_data(Stream& stream, const std::uint8_t* frame_header, std::size_t size);
  [[nodiscard]] bool read_file(const Stream& stream, const FileRange& file, char* to, std::size_t size);
  // Resets a stream whose message is malformed (RFC 9113, 8.1.1).
  void malformed(Stream& stream);
  void count_progress(Stream& stream, std::size_t size);
  void closed(Stream& stream);
  bool submit_trailers(Stream& stream);
  void end_without_data(Stream& stream);
  void append_frame(Buffer& out, std::string_view frame);
  void follow_resizes(std::string_view block);
  static void split_head(Buffer& out, std::size_t begin);
  void encode_continue(bool with_table);
  void encode_fields(const Stream& stream, bool with_table);
  [[nodiscard]] Stream* find(std::int32_t id);
  [[nodiscard]] Instant clock();
  void release(Stream& stream);

  Engine& engine_;
  Owner& owner_;
  const std::string_view peer_;
  nghttp2_session* session_ = nullptr;
  const HeadLimits limits_;  // as announced to the client
  FrameGuard guard_;
  Stream* newest_ = nullptr;
  std::size_t streams_ = 0;
  std::uint64_t held_ = 0;  // bytes of request bodies held by all streams
  Stream* first_ready_ = nullptr;
  Stream* last_ready_ = nullptr;
  Tunnel* tunnels_ = nullptr;
  std::size_t attached_ = 0;      // number of tunnels whose streams are open
  Stream* found_ = nullptr;       // last result of find()
  Stream* in_head_ = nullptr;     // the stream whose header section is being received; null for a trailer section
  std::int32_t trailers_id_ = 0;  // the stream of the trailer section that is being received
  std::size_t trailer_bytes_ = 0;
  bool trailers_malformed_ = false;
  KnownAuthority known_authority_;
  FieldEncoder fields_;
  Buffer* out_ = nullptr;               // while produce() runs
  std::size_t ahead_bytes_ = 0;         // bytes of a file read ahead into the memory after the end of `out_`
  std::size_t ahead_at_ = 0;            // valid only if `out_` ends at this offset
  std::optional<Instant> produced_at_;  // the clock in produce(), once it was read
  const bool secure_;
  const net::tls::PeerCertificate* const certificate_;
  bool full_ = false;    // `out_` has enough
  bool broken_ = false;  // nghttp2 has failed
  bool given_up_ = false;
  enum class Drain : std::uint8_t { no, announced, done } drain_ = Drain::no;
  Instant drain_until_ = never;
  bool drain_heard_ = false;
  Instant idle_since_;
  Instant owes_since_;
  std::uint64_t owed_block_ = 0;
  bool owing_ = true;
  Instant progress_at_{};  // when the client last read enough of any stream
  bool starved_ = false;   // the last bytes sent used up the connection's window
  core::TaskGroup upgrades_;
};

}  // namespace sluice::http::h2
