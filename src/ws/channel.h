#pragma once

#include <coroutine>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "base/buffer.h"
#include "base/result.h"
#include "base/time.h"
#include "core/reactor.h"
#include "core/task.h"
#include "net/duplex.h"
#include "ws/counters.h"
#include "ws/decoder.h"
#include "ws/deflate.h"
#include "ws/frame.h"

namespace sluice::ws {

struct Message {
  enum class Kind : std::uint8_t { text, binary };
  Kind kind = Kind::binary;
  std::string_view data;
};

// What bounds a conversation. Times are from one sign of life to the next.
struct ChannelOptions {
  std::uint64_t max_frame = 1024 * 1024;    // payload bytes: 1009
  std::uint64_t max_message = 1024 * 1024;  // bytes, decompressed: 1009
  Duration ping_interval = 30s;             // of silence, before the peer is asked whether it is there
  Duration pong_timeout = 10s;              // for any byte after that: the connection is cut
  Duration close_timeout = 5s;              // for the peer's close frame after ours
  Duration write_timeout = 30s;             // without the peer taking a byte: the connection is cut
};

// What the channels of one core share and count.
class ChannelPool {
 public:
  [[nodiscard]] Buffer take();
  void give_back(Buffer&& buffer);
  [[nodiscard]] SharedCodecs& codecs() { return codecs_; }
  [[nodiscard]] const Counters& counters() const { return counters_; }

 private:
  friend class Channel;
  std::vector<Buffer> spare_;
  SharedCodecs codecs_;
  Counters counters_;
};

// One end of a WebSocket conversation (RFC 6455), the server's: messages in, messages out.
//
// One coroutine receives; it also answers pings and the close handshake, keeps the connection alive and notices when it
// ends. So somebody has to receive, even where only sending is meant; who does not is not read from, and a peer that
// goes on sending is held back. Any number of coroutines of the same core may send; all but the receiver must have
// ended when the conversation's run returns.
//
// What is sent gathers and leaves in one write: when the receiver waits, and else at the end of the loop's turn. A
// sender awaits only where the peer is slower.
class Channel {
 public:
  // `agreed`: compression; nothing: none. All referred to outlive it.
  Channel(net::Duplex& duplex, ChannelPool& pool, const ChannelOptions& options,
          const std::optional<DeflateParameters>& agreed);
  Channel(const Channel&) = delete;
  ~Channel();

  // The next message; its data lasts until the next call. Errc::closed: the conversation is over, close_code() tells
  // why. One at a time.
  [[nodiscard]] core::Async<Result<Message>> receive();

  // The data lasts until the result is there. Text must be UTF-8. Errc::closed: the conversation is over, or ends.
  [[nodiscard]] core::Async<Result<void>> send(Message::Kind kind, std::string_view data);

  // Says goodbye and waits for the peer to do the same, for at most the close timeout; messages that still come are
  // dropped. Where somebody receives, that one waits, and this returns at once.
  [[nodiscard]] core::Task<void> close(CloseCode code = CloseCode::normal, std::string_view reason = {});

  // Says goodbye, with 1001 as before a restart, and waits for nothing.
  void drain(CloseCode code = CloseCode::going_away);

  // The peer's code, where it closed first; else ours. None while the conversation goes on; abnormal: the connection
  // was lost.
  [[nodiscard]] CloseCode close_code() const { return code_; }
  [[nodiscard]] bool closed_by_peer() const { return by_peer_; }
  // No message can be sent any more.
  [[nodiscard]] bool closing() const { return close_sent_ || over_; }

 private:
  class Turn;
  class Writing;

  [[nodiscard]] std::optional<Result<Message>> take();
  core::Task<Result<Message>> receive_later();
  core::Task<Result<void>> send_later(Message::Kind kind, std::string_view data);
  core::Task<void> flush();

  void append_message(Message::Kind kind, std::string_view data);
  void append_control(Opcode opcode, std::string_view payload);
  [[nodiscard]] bool compresses(std::string_view data) const;
  void begin_close(CloseCode code, std::string_view reason);
  void refuse(CloseCode code);
  void lose();
  [[nodiscard]] Instant next_deadline() const;
  void miss_deadline();
  void ask_for_pump();
  static void pump(core::TurnHook& hook) noexcept;

  struct Hook : core::TurnHook {
    explicit Hook(Channel& owner) : TurnHook(&Channel::pump), channel(owner) {}
    Channel& channel;
  };

  net::Duplex& duplex_;
  core::Reactor& reactor_;
  ChannelPool& pool_;
  const ChannelOptions& options_;
  std::optional<DeflateParameters> agreed_;
  std::unique_ptr<Deflater> own_deflater_;  // with a dictionary that lasts; else the pool's
  std::unique_ptr<Inflater> own_inflater_;
  Decoder decoder_;
  Buffer in_;
  std::size_t given_ = 0;  // of in_: the message that was given, used up with the next call
  Buffer out_;             // whole frames that wait for a write
  Hook hook_{*this};
  Turn* first_turn_ = nullptr;  // those who wait to write, in their order
  Turn* last_turn_ = nullptr;
  Instant heard_;       // when bytes came last
  Instant deadline_{};  // for the pong, or for the peer's close frame
  unsigned reads_ = 0;  // in this turn of the loop
  Instant reads_turn_{};
  CloseCode code_ = CloseCode::none;
  bool writing_ = false;
  bool receiving_ = false;
  bool ping_sent_ = false;
  bool close_sent_ = false;
  bool over_ = false;  // nothing more is received, nor sent but what waits already
  bool lost_ = false;  // nothing more is written either
  bool by_peer_ = false;
  bool wakes_receiver_ = false;
  core::TaskGroup flushing_;
};

}  // namespace sluice::ws
