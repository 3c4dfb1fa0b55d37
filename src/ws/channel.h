#pragma once

#include <array>
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

// A message for many channels of one core. It is compressed once for each size of window, and not once for each
// channel. `data` must outlive it.
class SharedMessage {
 public:
  SharedMessage(Message::Kind kind, std::string_view data) : kind_(kind), data_(data) {}

 private:
  friend class Channel;
  const Message::Kind kind_;
  const std::string_view data_;
  std::array<Buffer, 16> frames_;  // whole frames, by the bits of the window; empty: not needed yet
};

// The limits of a conversation.
struct ChannelOptions {
  std::uint64_t max_frame = 1024 * 1024;    // payload bytes; beyond it: 1009
  std::uint64_t max_message = 1024 * 1024;  // bytes, decompressed; beyond it: 1009
  Duration ping_interval = 30s;             // how long the peer may be silent before the channel sends a ping
  Duration pong_timeout = 10s;              // without any byte after the ping: the connection is cut
  Duration close_timeout = 5s;              // how long to wait for the peer's close frame after ours
  Duration write_timeout = 30s;             // without the peer reading a byte: the connection is cut
};

// Accounts for the memory of messages that do not fit into one read, from their first bytes until the receiver has
// processed them.
class MessageMemory {
 public:
  virtual ~MessageMemory() = default;
  // Returns CloseCode::none if there is room. With any other code the conversation ends with that code.
  [[nodiscard]] virtual CloseCode take(std::size_t bytes) = 0;
  virtual void give_back(std::size_t bytes) = 0;
  // Reports whether the channel waits for the peer to send the rest of a message, or to read. The owner may call
  // Channel::abandon() only while the channel waits.
  virtual void set_waiting(bool waiting) = 0;
  // The peer has read this many bytes, or this many bytes are about to be sent to it.
  virtual void moved(std::size_t bytes) = 0;
};

// Shared by the channels of one core: buffers, codecs and counters.
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

// The server's end of a WebSocket conversation (RFC 6455): receives and sends messages.
//
// One coroutine receives. receive() also answers pings and the close handshake, keeps the connection alive and detects
// its end. So one coroutine must receive even if the application only sends; otherwise nothing is read, and
// backpressure stops the peer. Any number of coroutines of the same core may send. All except the receiver must have
// ended when the conversation's run returns.
//
// Sent messages are collected and written together, when the receiver waits or at the end of the loop's turn. send()
// suspends only if the peer reads too slowly.
class Channel {
 public:
  // `agreed`: the negotiated compression, if any. `memory`: null if only the maximum message size limits the memory.
  // All references outlive the channel.
  Channel(net::Duplex& duplex, ChannelPool& pool, const ChannelOptions& options,
          const std::optional<DeflateParameters>& agreed, MessageMemory* memory = nullptr);
  Channel(const Channel&) = delete;
  ~Channel();

  // Returns the next message; its data is valid until the next call. Errc::closed: the conversation is over, see
  // close_code(). Only one call may run at a time.
  [[nodiscard]] core::Async<Result<Message>> receive();

  // `data` must stay valid until the call completes. Text must be UTF-8. Errc::closed: the conversation is over or is
  // closing.
  [[nodiscard]] core::Async<Result<void>> send(Message::Kind kind, std::string_view data);

  // The same for a message that goes to many channels. `message` may be destroyed before the call completes, but not
  // its data.
  [[nodiscard]] core::Async<Result<void>> send(SharedMessage& message);

  // Waits until the connection has ended. The peer's messages stay unread meanwhile, so it must not run beside
  // receive().
  [[nodiscard]] core::Task<void> peer_ended() { return duplex_.peer_ended(); }

  // Sends a close frame and waits for the peer's, at most for the close timeout. Messages that still arrive are
  // dropped. If another coroutine is in receive(), it does the waiting, and close() returns at once.
  [[nodiscard]] core::Task<void> close(CloseCode code = CloseCode::normal, std::string_view reason = {});

  // Sends a close frame, by default with 1001 as before a restart, and does not wait.
  void drain(CloseCode code = CloseCode::going_away);

  // Called when others need the memory of the message. An incomplete message is dropped, and the conversation ends with
  // 1013. A message that the receiver is processing stays valid until the next receive(). In that case the peer does
  // not read what is sent, so the connection is cut and waiting sends fail. Resumes no coroutine.
  void abandon();

  // Cuts the connection: nothing more is received or sent, and waiting calls fail in the loop's next turn. Resumes no
  // coroutine.
  void cut();

  // The peer's code if it closed first, otherwise ours. `none` while the conversation is open; `abnormal` if the
  // connection was lost.
  [[nodiscard]] CloseCode close_code() const { return code_; }
  [[nodiscard]] bool closed_by_peer() const { return by_peer_; }
  // Messages can no longer be sent.
  [[nodiscard]] bool closing() const { return close_sent_ || over_; }

 private:
  class Turn;
  class Writing;
  class PeerWait;

  [[nodiscard]] std::optional<Result<Message>> take();
  core::Task<Result<Message>> receive_later();
  core::Task<Result<void>> send_later(Message::Kind kind, std::string_view data);
  core::Task<void> flush();

  void append_message(Message::Kind kind, std::string_view data);
  // Compresses without a persistent dictionary.
  void append_compressed(Buffer& out, Opcode opcode, std::string_view data, Deflater& deflater, bool keep);
  void append_control(Opcode opcode, std::string_view payload);
  [[nodiscard]] bool compresses(std::string_view data) const;
  void begin_close(CloseCode code, std::string_view reason);
  [[nodiscard]] CloseCode account();
  void refuse(CloseCode code);
  void lose();
  [[nodiscard]] Instant next_deadline() const;
  [[nodiscard]] Instant message_deadline() const { return grew_at_ + options_.ping_interval + options_.pong_timeout; }
  void miss_deadline();
  core::Task<void> wait();
  void ask_for_pump();
  static void pump(core::TurnHook& hook) noexcept;

  struct Hook : core::TurnHook {
    explicit Hook(Channel& owner) : TurnHook(&Channel::pump), channel(owner) {}
    Channel& channel;
  };

  net::Duplex& duplex_;
  core::Reactor& reactor_;
  ChannelPool& pool_;
  MessageMemory* const memory_;
  const ChannelOptions& options_;
  std::optional<DeflateParameters> agreed_;
  std::unique_ptr<Deflater> own_deflater_;  // with a persistent dictionary; otherwise the pool's is used
  std::unique_ptr<Inflater> own_inflater_;
  Decoder decoder_;
  Buffer in_;
  std::size_t given_ = 0;  // bytes of in_ that hold the returned message; consumed by the next call
  Buffer out_;             // complete frames that have not been written
  Hook hook_{*this};
  Turn* first_turn_ = nullptr;  // queue of coroutines that wait to write
  Turn* last_turn_ = nullptr;
  std::size_t held_ = 0;     // bytes of the decoder that are counted in memory_
  Instant heard_;            // when the last bytes arrived
  Instant grew_at_{};        // when the last message was completed, or the incomplete one last grew
  Instant deadline_{};       // for the pong, or for the peer's close frame
  unsigned peer_waits_ = 0;  // number of waits reported to memory_
  unsigned reads_ = 0;       // number of reads in this turn of the loop
  Instant reads_turn_{};
  CloseCode code_ = CloseCode::none;
  bool writing_ = false;
  bool receiving_ = false;
  bool in_message_ = false;  // whether a message was incomplete when the channel last waited for the peer
  bool ping_sent_ = false;
  bool close_sent_ = false;
  bool over_ = false;  // nothing more is received; only pending output is still sent
  bool lost_ = false;  // nothing more is received or written
  bool by_peer_ = false;
  bool wakes_receiver_ = false;
  core::TaskGroup flushing_;
};

}  // namespace sluice::ws
