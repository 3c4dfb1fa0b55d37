#include "ws/frame.h"

#include <bit>
#include <cstring>

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

namespace sluice::ws {
namespace {

std::uint8_t byte_at(std::string_view bytes, std::size_t index) { return static_cast<std::uint8_t>(bytes[index]); }

std::uint64_t big_endian(std::string_view bytes, std::size_t begin, std::size_t size) {
  std::uint64_t value = 0;
  for (std::size_t i = begin; i < begin + size; ++i) value = value << 8 | byte_at(bytes, i);
  return value;
}

bool is_known(std::uint8_t opcode) { return opcode <= 2 || (opcode >= 8 && opcode <= 10); }

}  // namespace

ParsedHeader parse_header(std::string_view bytes) {
  using State = ParsedHeader::State;
  ParsedHeader parsed;
  const auto answer = [&parsed](State state) {
    parsed.state = state;
    return parsed;
  };
  if (bytes.empty()) return parsed;
  const std::uint8_t first = byte_at(bytes, 0);
  FrameHeader& header = parsed.header;
  header.fin = (first & 0x80) != 0;
  header.compressed = (first & 0x40) != 0;
  if ((first & 0x30) != 0 || !is_known(first & 0x0F)) return answer(State::malformed);
  header.opcode = static_cast<Opcode>(first & 0x0F);
  const bool control = is_control(header.opcode);
  if (control && (!header.fin || header.compressed)) return answer(State::malformed);

  if (bytes.size() < 2) return parsed;
  const std::uint8_t second = byte_at(bytes, 1);
  header.masked = (second & 0x80) != 0;
  const std::uint8_t length = second & 0x7F;
  if (control && length > max_control_payload) return answer(State::malformed);
  std::size_t size = 2;
  header.payload_size = length;
  if (length == 126) {
    if (bytes.size() < 4) return parsed;
    header.payload_size = big_endian(bytes, 2, 2);
    if (header.payload_size < 126) return answer(State::malformed);
    size = 4;
  } else if (length == 127) {
    // The first byte already shows whether the highest bit is set.
    if (bytes.size() > 2 && (byte_at(bytes, 2) & 0x80) != 0) return answer(State::malformed);
    if (bytes.size() < 10) return parsed;
    header.payload_size = big_endian(bytes, 2, 8);
    if (header.payload_size < 0x10000) return answer(State::malformed);
    size = 10;
  }
  if (header.masked) {
    if (bytes.size() < size + 4) return parsed;
    std::memcpy(header.mask.data(), bytes.data() + size, 4);
    size += 4;
  }
  parsed.size = static_cast<std::uint8_t>(size);
  return answer(State::done);
}

void apply_mask(char* to, const char* from, std::size_t size, const Mask& mask, std::size_t phase) {
  // The mask rotated by `phase`. The first byte in memory is the lowest byte.
  std::uint32_t four = 0;
  std::memcpy(&four, mask.data(), 4);
  static_assert(std::endian::native == std::endian::little);
  four = std::rotr(four, static_cast<int>(phase % 4 * 8));
  const std::uint64_t eight = std::uint64_t{four} << 32 | four;
  std::size_t i = 0;
#if defined(__SSE2__)
  const __m128i sixteen = _mm_set1_epi32(static_cast<int>(four));
  for (; i + 16 <= size; i += 16) {
    const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(from + i));
    _mm_storeu_si128(reinterpret_cast<__m128i*>(to + i), _mm_xor_si128(bytes, sixteen));
  }
#endif
  for (; i + 8 <= size; i += 8) {
    std::uint64_t word = 0;
    std::memcpy(&word, from + i, 8);
    word ^= eight;
    std::memcpy(to + i, &word, 8);
  }
  for (std::uint64_t rest = eight; i < size; ++i, rest >>= 8)
    to[i] = static_cast<char>(from[i] ^ static_cast<char>(rest));
}

void append_header(Buffer& out, const FrameHeader& header) {
  char* const begin = out.reserve(max_header_size);
  char* at = begin;
  *at++ = static_cast<char>((header.fin ? 0x80 : 0) | (header.compressed ? 0x40 : 0) |
                            static_cast<std::uint8_t>(header.opcode));
  const auto masked = static_cast<std::uint8_t>(header.masked ? 0x80 : 0);
  const std::uint64_t size = header.payload_size;
  int length_bytes = 0;
  if (size < 126) {
    *at++ = static_cast<char>(masked | size);
  } else {
    length_bytes = size < 0x10000 ? 2 : 8;
    *at++ = static_cast<char>(masked | (length_bytes == 2 ? 126 : 127));
  }
  while (length_bytes-- > 0) *at++ = static_cast<char>(size >> (8 * length_bytes));
  if (header.masked) {
    std::memcpy(at, header.mask.data(), 4);
    at += 4;
  }
  out.commit(static_cast<std::size_t>(at - begin));
}

void append_frame(Buffer& out, Opcode opcode, std::string_view payload, bool compressed) {
  append_header(out, {.opcode = opcode, .fin = true, .compressed = compressed, .payload_size = payload.size()});
  out.append(payload);
}

void append_close(Buffer& out, CloseCode code, std::string_view reason) {
  if (code == CloseCode::none) return append_frame(out, Opcode::close, {});
  const auto number = static_cast<std::uint16_t>(code);
  std::size_t size = reason.size();
  if (size > max_control_payload - 2) {
    size = max_control_payload - 2;
    while (size > 0 && (static_cast<std::uint8_t>(reason[size]) & 0xC0) == 0x80) --size;
  }
  append_header(out, {.opcode = Opcode::close, .fin = true, .payload_size = size + 2});
  out.push_back(static_cast<char>(number >> 8));
  out.push_back(static_cast<char>(number & 0xFF));
  out.append(reason.substr(0, size));
}

}  // namespace sluice::ws
