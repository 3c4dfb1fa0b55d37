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

// Decodes the messages of a peer from received bytes (RFC 6455, 5 to 8). It does no I/O: each call passes the received
// bytes that have not been consumed, and the result says how many the decoder has consumed.
//
// A message that lies completely in those bytes is unmasked in place and returned as a view of them. A message that
// arrives in pieces is collected in the decoder. Text is validated as it arrives, so invalid UTF-8 is refused before
// the message is complete. The result depends only on the bytes, not on how they are split.
class Decoder {
 public:
  struct Options {
    std::uint64_t max_frame = 1024 * 1024;    // payload bytes as sent; beyond it: 1009
    std::uint64_t max_message = 1024 * 1024;  // bytes of all its frames, and decompressed; beyond it: 1009
    bool peer_masks = true;                   // false: the peer is a server
    Inflater* inflater = nullptr;             // outlives the decoder; null: no compression was negotiated
    bool keep_context = false;                // keep the dictionary from message to message
  };
  struct Event {
    enum class Kind : std::uint8_t { need_more, text, binary, ping, pong, close, refused };
    Kind kind = Kind::need_more;
    CloseCode code = CloseCode::none;  // for close: the peer's code; for refused: the code to close with
    std::size_t consumed = 0;
    // The message, the control frame's payload, or the close frame's reason. Valid until the next call, as long as the
    // passed bytes are not moved.
    std::string_view data;
  };

  explicit Decoder(const Options& options);

  // `bytes` begins after the last consumed byte. After `close` or `refused`, next() must not be called again.
  [[nodiscard]] Event next(std::span<char> bytes);

  // Whether a message is incomplete: a fragment or a part of a frame has arrived.
  [[nodiscard]] bool in_message() const { return in_message_; }
  // Missing payload bytes of the current frame.
  [[nodiscard]] std::uint64_t frame_left() const { return frame_left_; }
  // The number of bytes in the decoder, of the incomplete message or of the last returned one.
  [[nodiscard]] std::size_t held() const { return gathered_.size() + inflated_.size(); }
  // Called before a pause: releases all memory except that of an incomplete message. Returned messages become invalid.
  void trim();
  // Also drops an incomplete message. next() must not be called again.
  void release();

 private:
  [[nodiscard]] CloseCode judge(const FrameHeader& header) const;  // none: the frame is valid at this point
  [[nodiscard]] Event control(const FrameHeader& header, std::string_view payload, std::size_t consumed) const;
  [[nodiscard]] Event finish(std::string_view whole, std::size_t consumed);
  static Event refuse(CloseCode code, std::size_t consumed) {
    return {.kind = Event::Kind::refused, .code = code, .consumed = consumed, .data = {}};
  }

  const Options options_;
  const std::size_t most_short_;  // the longest payload within the limits that has a one-byte length
  FrameHeader frame_;             // the data frame whose payload is being received
  std::uint64_t frame_left_ = 0;
  bool in_frame_ = false;
  bool in_message_ = false;
  bool text_ = false;        // the message is text
  bool compressed_ = false;  // the message is compressed
  bool given_ = false;       // the buffers hold the returned message; the next call clears them
  Utf8Validator utf8_;
  Buffer gathered_;  // of a message that arrives in pieces, still compressed
  Buffer inflated_;
};

}  // namespace sluice::ws
