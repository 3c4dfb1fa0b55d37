#include "ws/frame.h"

#include <string>

#include <gtest/gtest.h>

namespace sluice::ws {
namespace {

using namespace std::string_literals;
using State = ParsedHeader::State;

TEST(ParseHeader, KnowsTheThreeLengthsWithAndWithoutMask) {
  for (const std::uint64_t size : {0ull, 1ull, 125ull, 126ull, 0xFFFFull, 0x10000ull, 0x7FFFFFFFFFFFFFFFull}) {
    for (const bool masked : {false, true}) {
      Buffer bytes;
      append_header(bytes, {.opcode = Opcode::binary,
                            .fin = true,
                            .masked = masked,
                            .mask = {'a', 'b', 'c', 'd'},
                            .payload_size = size});
      for (std::size_t shown = 0; shown < bytes.size(); ++shown) {
        EXPECT_EQ(parse_header(bytes.view().substr(0, shown)).state, State::need_more) << size << ' ' << shown;
      }
      const ParsedHeader parsed = parse_header(bytes.view());
      ASSERT_EQ(parsed.state, State::done) << size;
      EXPECT_EQ(parsed.size, bytes.size());
      EXPECT_EQ(parsed.header.payload_size, size);
      EXPECT_EQ(parsed.header.masked, masked);
      if (masked) {
        EXPECT_EQ(parsed.header.mask, (Mask{'a', 'b', 'c', 'd'}));
      }
      EXPECT_TRUE(parsed.header.fin);
      EXPECT_FALSE(parsed.header.compressed);
    }
  }
}

TEST(ParseHeader, LengthsMustBeInTheirShortestForm) {
  EXPECT_EQ(parse_header("\x82\x7e\x00\x7d"s).state, State::malformed);
  EXPECT_EQ(parse_header("\x82\x7e\x00\x7e"s).state, State::done);
  EXPECT_EQ(parse_header("\x82\x7f\x00\x00\x00\x00\x00\x00\xff\xff"s).state, State::malformed);
  EXPECT_EQ(parse_header("\x82\x7f\x00\x00\x00\x00\x00\x01\x00\x00"s).state, State::done);
}

TEST(ParseHeader, TheHighestBitOfALengthIsRefusedWithItsByte) {
  EXPECT_EQ(parse_header("\x82\x7f"s).state, State::need_more);
  EXPECT_EQ(parse_header("\x82\x7f\x80"s).state, State::malformed);
}

TEST(ParseHeader, EveryFirstByte) {
  for (int first = 0; first < 256; ++first) {
    const int opcode = first & 0x0F;
    const bool known = opcode <= 2 || (opcode >= 8 && opcode <= 10);
    const bool control = opcode >= 8;
    const bool reserved = (first & 0x30) != 0;
    const bool broken_control = control && ((first & 0x80) == 0 || (first & 0x40) != 0);
    const bool allowed = known && !reserved && !broken_control;
    const char byte = static_cast<char>(first);
    EXPECT_EQ(parse_header({&byte, 1}).state, allowed ? State::need_more : State::malformed) << first;
  }
}

TEST(ParseHeader, ControlFramesAreShort) {
  EXPECT_EQ(parse_header("\x89\x7d"s).state, State::done);
  EXPECT_EQ(parse_header("\x89\x7e"s).state, State::malformed);
  EXPECT_EQ(parse_header("\x88\xff"s).state, State::malformed);
}

TEST(ApplyMask, EverySizeAndPhaseInPlaceAndElsewhere) {
  const Mask mask{'\x37', '\xfa', '\x21', '\x3d'};
  std::string plain;
  for (int i = 0; i < 100; ++i) plain.push_back(static_cast<char>(i * 7));
  for (std::size_t size = 0; size <= plain.size(); ++size) {
    for (std::size_t phase = 0; phase < 5; ++phase) {
      std::string expected = plain.substr(0, size);
      for (std::size_t i = 0; i < size; ++i) expected[i] = static_cast<char>(expected[i] ^ mask[(i + phase) % 4]);
      std::string elsewhere(size, '\0');
      apply_mask(elsewhere.data(), plain.data(), size, mask, phase);
      EXPECT_EQ(elsewhere, expected);
      std::string in_place = plain.substr(0, size);
      apply_mask(in_place.data(), in_place.data(), size, mask, phase);
      EXPECT_EQ(in_place, expected);
    }
  }
}

TEST(AppendFrame, TheExamplesOfRfc6455) {
  Buffer out;
  append_frame(out, Opcode::text, "Hello");
  EXPECT_EQ(out.view(), "\x81\x05Hello");
  out.clear();
  append_frame(out, Opcode::ping, "Hello");
  EXPECT_EQ(out.view(), "\x89\x05Hello");
  out.clear();
  append_header(out, {.opcode = Opcode::binary, .fin = true, .payload_size = 256});
  EXPECT_EQ(out.view(), "\x82\x7e\x01\x00"s);
  out.clear();
  append_header(out, {.opcode = Opcode::binary, .fin = true, .payload_size = 65536});
  EXPECT_EQ(out.view(), "\x82\x7f\x00\x00\x00\x00\x00\x01\x00\x00"s);
  out.clear();
  append_frame(out, Opcode::text, "x", true);
  EXPECT_EQ(out.view(), "\xc1\x01x");
}

TEST(AppendClose, CodeAndReason) {
  Buffer out;
  append_close(out, CloseCode::none, "not sent");
  EXPECT_EQ(out.view(), "\x88\x00"s);
  out.clear();
  append_close(out, CloseCode::going_away, "bye");
  EXPECT_EQ(out.view(),
            "\x88\x05\x03\xe9"
            "bye");
}

TEST(AppendClose, ALongReasonIsCutAtACharacter) {
  Buffer out;
  append_close(out, CloseCode::normal, std::string(122, 'x') + "\xc3\xa4");
  EXPECT_EQ(out.view(), "\x88\x7c\x03\xe8" + std::string(122, 'x'));
  out.clear();
  append_close(out, CloseCode::normal, std::string(121, 'x') + "\xc3\xa4y");
  EXPECT_EQ(out.view(), "\x88\x7d\x03\xe8" + std::string(121, 'x') + "\xc3\xa4");
}

TEST(CloseCode, WhichMayBeSent) {
  for (int code = 0; code < 65536; ++code) {
    const bool allowed =
        (code >= 1000 && code <= 1014 && code != 1004 && code != 1005 && code != 1006) || (code >= 3000 && code < 5000);
    EXPECT_EQ(is_sendable(static_cast<std::uint16_t>(code)), allowed) << code;
  }
}

}  // namespace
}  // namespace sluice::ws
