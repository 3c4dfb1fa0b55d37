#include "msg/frame.h"

#include <bit>
#include <cstring>
#include <utility>

#include <fmt/format.h>

#include "base/assert.h"
#include "base/utf8.h"

namespace sluice::msg {
namespace {

constexpr std::uint8_t version = 1;
constexpr std::uint8_t known_flags = correlated_flag | error_flag;

static_assert(std::endian::native == std::endian::little);

std::uint32_t load_u32(const char* from) {
  std::uint32_t value = 0;
  std::memcpy(&value, from, 4);
  return std::byteswap(value);
}

std::uint16_t load_u16(const char* from) {
  std::uint16_t value = 0;
  std::memcpy(&value, from, 2);
  return std::byteswap(value);
}

void store_u32(char* to, std::uint32_t value) {
  value = std::byteswap(value);
  std::memcpy(to, &value, 4);
}

// Returns the size of the header. `to` has room for the longest one.
std::size_t store_header(char* to, const Frame& frame, std::size_t body_size) {
  SLUICE_ASSERT(body_size <= largest_body && (frame.flags & ~known_flags) == 0);
  to[0] = static_cast<char>(version);
  to[1] = static_cast<char>(frame.flags);
  store_u32(to + 2, frame.id);
  store_u32(to + 6, static_cast<std::uint32_t>(body_size));
  to[10] = to[11] = 0;
  if (!frame.is_correlated()) return header_size;
  store_u32(to + header_size, frame.correlation);
  return longest_header_size;
}

}  // namespace

std::optional<ErrorBody> parse_error(std::span<const std::byte> body) {
  if (body.size() < 4) return std::nullopt;
  const char* const from = reinterpret_cast<const char*>(body.data());
  const std::string_view text(from + 4, body.size() - 4);
  if (!is_utf8(text)) return std::nullopt;
  return ErrorBody{.code = static_cast<ErrorCode>(load_u32(from)), .text = text};
}

void append_frame(Buffer& out, const Frame& frame) {
  char* const begin = out.reserve(longest_header_size + frame.body.size());
  const std::size_t header = store_header(begin, frame, frame.body.size());
  if (!frame.body.empty()) std::memcpy(begin + header, frame.body.data(), frame.body.size());
  out.commit(header + frame.body.size());
}

void append_error(Buffer& out, std::uint32_t id, std::optional<std::uint32_t> correlation, ErrorCode code,
                  std::string_view text) {
  const Frame frame{.id = id,
                    .flags = static_cast<std::uint8_t>(correlation ? error_flag | correlated_flag : error_flag),
                    .correlation = correlation.value_or(0)};
  char* const begin = out.reserve(longest_header_size + 4 + text.size());
  const std::size_t header = store_header(begin, frame, 4 + text.size());
  store_u32(begin + header, static_cast<std::uint32_t>(code));
  out.commit(header + 4);
  out.append(text);
}

EncodedHeader::EncodedHeader(const Frame& frame) : size_(store_header(bytes_.data(), frame, frame.body.size())) {}

std::string Refusal::text() const {
  switch (reason) {
    case Reason::version:
      return fmt::format("frame at byte {}: version {} instead of {}", offset, value, version);
    case Reason::flags:
      return fmt::format("frame at byte {}, message {}: unknown flags in 0x{:02x}", offset, id, value);
    case Reason::size:
      return fmt::format("frame at byte {}, message {}: a body of {} bytes is too large", offset, id, value);
    case Reason::reserved:
      return fmt::format("frame at byte {}, message {}: the reserved bits are 0x{:04x} instead of 0", offset, id,
                         value);
  }
  std::unreachable();
}

Result<std::optional<Frame>> FrameDecoder::next(Buffer& input) {
  using Reason = Refusal::Reason;
  input.consume(given_);
  offset_ += given_;
  given_ = 0;
  if (input.size() < header_size) {
    needed_ = header_size - input.size();
    return std::nullopt;
  }

  char* const at = input.data();
  const auto flags = static_cast<std::uint8_t>(at[1]);
  const std::uint32_t id = load_u32(at + 2);
  const std::uint32_t body_size = load_u32(at + 6);
  const auto refuse = [&](Reason reason, std::uint32_t value) {
    refusal_ = {.reason = reason, .value = value, .id = reason == Reason::version ? 0 : id, .offset = offset_};
    return fail(reason == Reason::size ? Errc::limit : Errc::malformed);
  };
  if (at[0] != version) [[unlikely]]
    return refuse(Reason::version, static_cast<std::uint8_t>(at[0]));
  if ((flags & ~known_flags) != 0) [[unlikely]]
    return refuse(Reason::flags, flags);
  if (body_size > most_body_) [[unlikely]]
    return refuse(Reason::size, body_size);
  if (const auto reserved = load_u16(at + 10); reserved != 0) [[unlikely]]
    return refuse(Reason::reserved, reserved);

  const std::size_t header = (flags & correlated_flag) != 0 ? longest_header_size : header_size;
  const std::size_t size = header + body_size;
  if (input.size() < size) {
    needed_ = size - input.size();
    return std::nullopt;
  }
  needed_ = 0;
  given_ = size;
  Frame frame{.id = id, .flags = flags, .correlation = header == header_size ? 0 : load_u32(at + header_size)};
  char* body = at + header;
  if (const auto misaligned = reinterpret_cast<std::uintptr_t>(body) % 8; misaligned != 0) {
    body -= misaligned;  // at most 7 bytes, and the header has 12
    std::memmove(body, body + misaligned, body_size);
  }
  frame.body = std::as_bytes(std::span(body, body_size));
  return frame;
}

}  // namespace sluice::msg
