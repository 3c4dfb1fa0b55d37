#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "base/buffer.h"
#include "base/result.h"

// The frames of message services (docs/formats/frame.md). No I/O.
namespace sluice::msg {

inline constexpr std::size_t header_size = 12;          // without the correlation id
inline constexpr std::size_t longest_header_size = 16;  // with it
inline constexpr std::uint32_t largest_body = 16 * 1024 * 1024;

// The flags of a frame. All others are refused.
inline constexpr std::uint8_t correlated_flag = 0x01;  // the frame has a correlation id
inline constexpr std::uint8_t error_flag = 0x02;       // the body is an ErrorBody

struct Frame {
  std::uint32_t id = 0;  // of the message type
  std::uint8_t flags = 0;
  std::uint32_t correlation = 0;  // only with `correlated_flag`
  std::span<const std::byte> body{};

  [[nodiscard]] bool is_correlated() const { return (flags & correlated_flag) != 0; }
  [[nodiscard]] bool is_error() const { return (flags & error_flag) != 0; }
  [[nodiscard]] std::optional<std::uint32_t> correlation_id() const {
    return is_correlated() ? std::optional(correlation) : std::nullopt;
  }
};

// Codes in error frames. Codes from 1000 on belong to the application.
enum class ErrorCode : std::uint32_t {
  bad_frame = 1,        // the frame itself is invalid; the connection ends
  unknown_message = 2,  // the service has no such message id
  bad_payload = 3,      // the body is not valid for its message id
  too_large = 4,        // the body is larger than the receiver allows; the connection ends
  overloaded = 5,       // the service is busy: the same message may succeed later
  internal = 6,
  unauthorized = 7,  // the client has no credentials that are accepted, or not any more; the connection ends
  forbidden = 8,     // the client may not do this; before a session, the connection ends
};

// The body of a frame with `error_flag`.
struct ErrorBody {
  ErrorCode code{};
  std::string_view text;  // UTF-8
};

// Returns nullopt if the body has no complete code, or a text that is not UTF-8.
[[nodiscard]] std::optional<ErrorBody> parse_error(std::span<const std::byte> body);

// Appends a whole frame. The body has at most largest_body bytes, and must not lie in `out`.
void append_frame(Buffer& out, const Frame& frame);
// Appends an error frame. Without a correlation id, the error belongs to no request.
void append_error(Buffer& out, std::uint32_t id, std::optional<std::uint32_t> correlation, ErrorCode code,
                  std::string_view text);

// The encoded header of a frame, for a gathered write of header and body. Frames to many receivers can so share one
// body.
class EncodedHeader {
 public:
  explicit EncodedHeader(const Frame& frame);
  [[nodiscard]] std::string_view view() const { return {bytes_.data(), size_}; }

 private:
  std::array<char, longest_header_size> bytes_;
  std::size_t size_;
};

// A frame that the decoder refuses.
struct Refusal {
  enum class Reason : std::uint8_t { version, flags, size, reserved };
  Reason reason{};
  std::uint32_t value = 0;   // of the field
  std::uint32_t id = 0;      // the message id; 0 if the version is not known
  std::uint64_t offset = 0;  // of the frame in the stream

  [[nodiscard]] std::string text() const;
};

// Decodes frames in place, in the buffer that the reader appends to. The result depends only on the bytes, not on how
// they arrive.
class FrameDecoder {
 public:
  // Larger bodies are refused as soon as their header has arrived.
  explicit FrameDecoder(std::uint32_t most_body) : most_body_(most_body) {}
  // The limit of the frames after the last one that next() has returned.
  void set_most_body(std::uint32_t most_body) { most_body_ = most_body; }

  // Consumes the frame that the previous call returned, and returns the next one, or nullopt if it is not complete yet.
  // Each call passes the same bytes, with those appended that have arrived since. The body is a view of `input`, valid
  // until `input` changes, and its first byte is aligned to 8 bytes: a body that is not is moved down, over its own
  // header.
  //
  // Fails with Errc::limit for a body beyond the limit and with Errc::malformed for any other invalid header; refusal()
  // has the details. A stream has no valid frame after that, so each further call fails too.
  [[nodiscard]] Result<std::optional<Frame>> next(Buffer& input);

  // After next() has returned nullopt: how many more bytes complete the header, or then the frame. A reader that
  // reserves as many gets a large frame into memory that is allocated once.
  [[nodiscard]] std::size_t needed() const { return needed_; }

  // After next() has failed.
  [[nodiscard]] const Refusal& refusal() const { return refusal_; }

 private:
  std::uint32_t most_body_;
  std::size_t given_ = 0;  // bytes of the returned frame, which the next call consumes
  std::size_t needed_ = header_size;
  std::uint64_t offset_ = 0;  // consumed bytes
  Refusal refusal_;
};

}  // namespace sluice::msg
