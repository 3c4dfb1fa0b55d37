#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
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

// The most that produce() gives at a time, but for a header section at its end. A packet for the network device holds
// 64 KiB with its headers: a few bytes more, TLS's own among them, would cost a second packet with each write.
inline constexpr std::size_t output_bytes = 64 * 1024 - 512;

// The server's side of one HTTP/2 connection (RFC 9113) without its I/O: bytes that came go in, bytes that are to go
// come out, and in between the handler answers. nghttp2 does the framing, HPACK, the state of streams and flow control.
//
// Handlers run in receive() and in what they wait for, sources are pulled in produce() and in what they wait for;
// never inside one of nghttp2's receiving callbacks.
class Session {
 public:
  // Whoever does the I/O. What it is told happens outside receive() and produce(), or ends with receive().
  class Owner {
   public:
    virtual void has_output() = 0;     // produce() would give something
    virtual void upgrade_ended() = 0;  // in a moment, has_upgrades() may no longer be

   protected:
    ~Owner() = default;
  };

  Session(Engine& engine, Owner& owner, std::string_view peer, bool secure);
  Session(const Session&) = delete;
  ~Session();

  // Cancels what runs; nothing is received or produced any more. Upgrades hear that their streams are gone.
  void end();

  void receive(std::string_view bytes);
  // Appends what is to be sent, up to about `output_bytes`, to an empty buffer.
  void produce(Buffer& out);
  // All has been said, or the client has understood nothing: with the last of produce()'s bytes the connection ends.
  [[nodiscard]] bool over() const;
  // Something may last too long that expire() could not know of before.
  [[nodiscard]] bool is_busy() const { return streams_ != attached_ || owing_; }
  [[nodiscard]] bool has_streams() const { return newest_ != nullptr; }
  // Some still run, be their streams gone.
  [[nodiscard]] bool has_upgrades() const { return !upgrades_.empty(); }

  // The server is ending: the client is told, and upgrades are; requests that were on their way are still answered.
  void drain();
  // The client is told to send no further requests here.
  void go_away();
  // Resets the streams whose answer's body `owner` keeps alive, and lets go of it.
  void cut_answers_of(const void* owner);
  void cut_pinned(const Pinned& pinned);
  // No request is answered: the server has as many connections as it may.
  void refuse_all();
  // The shortest time that expire() looks for, of what begins.
  [[nodiscard]] Duration shortest_patience() const;
  // Acts upon what has lasted too long; when to ask again at the latest. Something to send may have come of it.
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
  void finish_drain();

  [[nodiscard]] std::uint32_t& active(const Request& request);
  void add_ready(Stream& stream);
  void remove_ready(Stream& stream);
  void run_ready();
  void start(Stream& stream);
  static core::Task<void> answer_later(Session& session, Stream& stream, core::Task<Response> answer);
  void answer_without_memory(Stream& stream);
  void respond(Stream& stream);  // with its response
  void refuse(Stream& stream, const Refusal& refusal);
  static core::Task<void> pull_later(Session& session, Stream& stream,
                                     core::Task<Result<BodySource::Progress>> pulling);
  void hand_over(Stream& stream);
  void cut(Stream& stream);
  static core::Task<void> run_upgrade(Session& session, Stream& stream, std::unique_ptr<Upgrade> upgrade);
  void send_tunnelled(Stream& stream);
  void end_tunnelled(Stream& stream, bool cut);
  void lend_back(Buffer& arrived);
  void report(Stream& stream, bool broken);
  void drop_body(Stream& stream);
  void refuse_rest(Stream& stream);
  void consumed(Stream& stream, std::size_t bytes);

  // nghttp2's callbacks, by what they tell.
  int begin_headers(std::int32_t id);
  int got_field(std::string_view name, std::string_view value, bool name_is_known);
  void got_whole_head(Stream& stream, bool ended);
  void got_trailers(Stream& stream, bool ended);
  void got_data(Stream& stream, std::string_view bytes);
  void got_end(Stream& stream);
  std::ptrdiff_t next_data(Stream& stream, std::size_t most, std::uint32_t& flags);
  int send_data(Stream& stream, const std::uint8_t* frame_header, std::size_t size);
  [[nodiscard]] bool read_file(const Stream& stream, const FileRange& file, char* to, std::size_t size);
  // What the client sent for this stream breaks the rules of messages: it is reset (RFC 9113, 8.1.1).
  void malformed(Stream& stream);
  void count_progress(Stream& stream, std::size_t size);
  void closed(Stream& stream);
  bool submit_trailers(Stream& stream);
  void append_frame(Buffer& out, std::string_view frame);
  void follow_resizes(std::string_view block);
  static void split_head(Buffer& out, std::size_t begin);
  void encode_fields(const Stream& stream, bool with_table);
  [[nodiscard]] Stream* find(std::int32_t id);
  [[nodiscard]] Instant clock();
  void release(Stream& stream);

  Engine& engine_;
  Owner& owner_;
  const std::string_view peer_;
  nghttp2_session* session_ = nullptr;
  const HeadLimits limits_;  // that the client was told of
  FrameGuard guard_;
  Stream* newest_ = nullptr;
  std::size_t streams_ = 0;
  std::uint64_t held_ = 0;  // of requests' bodies, by all streams
  Stream* first_ready_ = nullptr;
  Stream* last_ready_ = nullptr;
  Tunnel* tunnels_ = nullptr;
  std::size_t attached_ = 0;   // tunnels whose streams are there
  Stream* found_ = nullptr;    // by find()
  Stream* in_head_ = nullptr;  // whose header section is coming in; null: a trailer section
  std::size_t trailer_bytes_ = 0;
  bool trailers_malformed_ = false;
  KnownAuthority known_authority_;
  FieldEncoder fields_;
  Buffer* out_ = nullptr;               // while produce() runs
  std::size_t ahead_bytes_ = 0;         // of a file, read to behind where `out_` ends, if that is
  std::size_t ahead_at_ = 0;            // here
  std::optional<Instant> produced_at_;  // when it has asked
  const bool secure_;
  bool full_ = false;    // `out_` has enough
  bool broken_ = false;  // nghttp2 goes no further
  bool given_up_ = false;
  enum class Drain : std::uint8_t { no, announced, done } drain_ = Drain::no;
  Instant drain_until_ = never;
  bool drain_heard_ = false;
  Instant idle_since_;
  Instant owes_since_;
  std::uint64_t owed_block_ = 0;
  bool owing_ = true;
  Instant progress_at_{};  // when the client last took enough of any stream
  bool starved_ = false;   // what was sent last has used up the connection's window
  core::TaskGroup upgrades_;
};

}  // namespace sluice::http::h2
