#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "base/buffer.h"
#include "ws/deflate.h"
#include "ws/frame.h"
#include "ws/utf8.h"

namespace sluice::ws {

// What a peer has sent, message by message, from bytes as they come (RFC 6455, 5 to 8). It does no I/O and blocks
// nothing: it is shown what has been received and not been consumed, and says how much of that it has used.
//
// A message that lies whole in those bytes is given where it lies, unmasked in place; one that comes in pieces gathers
// here. Text is checked as it comes, so what is not UTF-8 is refused before the message is complete. What a call
// decides depends on the bytes alone, not on how they were cut.
class Decoder {
 public:
  struct Options {
    std::uint64_t max_frame = 1024 * 1024;    // payload bytes as sent: 1009
    std::uint64_t max_message = 1024 * 1024;  // bytes of all its frames, and of what they decompress to: 1009
    bool peer_masks = true;                   // false: the peer is a server
    Inflater* inflater = nullptr;             // null: no compression has been agreed; it outlives the decoder
    bool keep_context = false;                // from message to message
  };
  struct Event {
    enum class Kind : std::uint8_t { need_more, text, binary, ping, pong, close, refused };
    Kind kind = Kind::need_more;
    CloseCode code = CloseCode::none;  // of close, and of refused: what to close with
    std::size_t consumed = 0;
    // The message, the control frame's payload, the close frame's reason. Lasts until the next call, and as long as the
    // bytes that were shown stay where they are.
    std::string_view data;
  };

  explicit Decoder(const Options& options);

  // `bytes` begins where what was consumed ended. After `close` and `refused` nothing more may be asked.
  [[nodiscard]] Event next(std::span<char> bytes);

  // Within a message: a fragment or a part of a frame has come.
  [[nodiscard]] bool in_message() const { return in_message_; }
  // Payload bytes that the current frame still lacks.
  [[nodiscard]] std::uint64_t frame_left() const { return frame_left_; }
  // Gives back the memory of messages that have been given.
  void release_given();

 private:
  [[nodiscard]] CloseCode judge(const FrameHeader& header) const;  // none: the frame may come here
  [[nodiscard]] Event control(const FrameHeader& header, std::string_view payload, std::size_t consumed) const;
  [[nodiscard]] Event finish(std::string_view whole, std::size_t consumed);
  static Event refuse(CloseCode code, std::size_t consumed) {
    return {.kind = Event::Kind::refused, .code = code, .consumed = consumed, .data = {}};
  }

  const Options options_;
  const std::size_t most_short_;  // bytes of a frame with a length of one byte, within the limits
  FrameHeader frame_;             // the data frame whose payload comes
  std::uint64_t frame_left_ = 0;
  bool in_frame_ = false;
  bool in_message_ = false;
  bool text_ = false;        // the message's kind
  bool compressed_ = false;  // likewise
  bool given_ = false;       // the buffers hold what was given; the next call clears them
  Utf8Validator utf8_;
  Buffer gathered_;  // of the message that comes in pieces; compressed where it is
  Buffer inflated_;
};

}  // namespace sluice::ws
