#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/buffer.h"

// The frames of RFC 6455, section 5: headers, masks, close codes. No I/O and no state.
namespace sluice::ws {

enum class Opcode : std::uint8_t { continuation = 0, text = 1, binary = 2, close = 8, ping = 9, pong = 10 };

[[nodiscard]] constexpr bool is_control(Opcode opcode) { return (static_cast<std::uint8_t>(opcode) & 8) != 0; }

// Status codes of a close frame (RFC 6455, 7.4.1, and IANA's registry). Applications may also use 3000 to 4999.
enum class CloseCode : std::uint16_t {
  normal = 1000,
  going_away = 1001,
  protocol_error = 1002,
  unsupported_data = 1003,
  none = 1005,      // never sent: the close frame had no code
  abnormal = 1006,  // never sent: the connection ended without a close frame
  invalid_data = 1007,
  policy_violation = 1008,
  too_large = 1009,
  internal_error = 1011,
  service_restart = 1012,
  try_again_later = 1013,
  // Ours, of the range for applications.
  unauthorized = 4401,       // the client's token has expired or was revoked
  forbidden = 4403,          // the client may no longer be here
  too_many_messages = 4429,  // in too little time
};

// Whether a peer may send this code.
[[nodiscard]] constexpr bool is_sendable(std::uint16_t code) {
  return (code >= 1000 && code <= 1003) || (code >= 1007 && code <= 1014) || (code >= 3000 && code <= 4999);
}

inline constexpr std::size_t max_header_size = 14;
inline constexpr std::size_t max_control_payload = 125;

using Mask = std::array<char, 4>;

struct FrameHeader {
  Opcode opcode = Opcode::continuation;
  bool fin = false;
  bool compressed = false;  // RSV1 (RFC 7692, 6)
  bool masked = false;
  Mask mask{};
  std::uint64_t payload_size = 0;
};

// The result of parsing the beginning of a frame.
struct ParsedHeader {
  enum class State : std::uint8_t { need_more, done, malformed };
  State state = State::need_more;
  std::uint8_t size = 0;  // of the header, when done
  FrameHeader header;
};

// Refuses an invalid header as soon as the invalid byte has arrived: RSV2 and RSV3, unknown opcodes, control frames
// that are fragmented, compressed or longer than 125 bytes, and lengths that are not in their shortest form or have the
// highest bit set.
[[nodiscard]] ParsedHeader parse_header(std::string_view bytes);

// XORs `size` bytes at `from` with the mask and writes them to `to`. The mask starts at its byte `phase % 4`. `from`
// and `to` are equal or do not overlap.
void apply_mask(char* to, const char* from, std::size_t size, const Mask& mask, std::size_t phase = 0);

// Appends an encoded header, with a mask only if `header.masked`.
void append_header(Buffer& out, const FrameHeader& header);
// Appends a whole frame without a mask, as servers send it.
void append_frame(Buffer& out, Opcode opcode, std::string_view payload, bool compressed = false);
// Appends a close frame. With CloseCode::none it has no payload. The reason is truncated to at most 123 bytes, at a
// character boundary.
void append_close(Buffer& out, CloseCode code, std::string_view reason = {});

}  // namespace sluice::ws
