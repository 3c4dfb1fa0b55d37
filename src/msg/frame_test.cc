#include "msg/frame.h"

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

namespace sluice::msg {
namespace {

using namespace std::string_literals;

std::span<const std::byte> bytes(std::string_view text) { return std::as_bytes(std::span(text)); }

std::string text_of(std::span<const std::byte> body) {
  return {reinterpret_cast<const char*>(body.data()), body.size()};
}

std::string encoded(const Frame& frame) {
  Buffer out;
  append_frame(out, frame);
  return std::string(out.view());
}

bool is_aligned(const Frame& frame) { return reinterpret_cast<std::uintptr_t>(frame.body.data()) % 8 == 0; }

std::string described(const Frame& frame) {
  return std::to_string(frame.id) + '/' + std::to_string(frame.flags) + '/' + std::to_string(frame.correlation) + '/' +
         text_of(frame.body);
}

// Frames of all lengths of bodies from 0 to 40, with and without correlation, as (description, bytes).
std::pair<std::vector<std::string>, std::string> many_frames() {
  std::vector<std::string> expected;
  std::string stream;
  for (std::uint32_t size = 0; size <= 40; ++size)
    for (const std::uint8_t flags :
         {std::uint8_t{0}, correlated_flag, error_flag, std::uint8_t{correlated_flag | error_flag}}) {
      const std::string body(size, static_cast<char>('A' + size));
      const Frame frame{.id = 1000 + size,
                        .flags = flags,
                        .correlation = (flags & correlated_flag) != 0 ? 0xfedc0000 + size : 0,
                        .body = bytes(body)};
      expected.push_back(described(frame));
      stream += encoded(frame);
    }
  return {expected, stream};
}

// The example of docs/formats/frame.md; tests/layout checks that it is the same one.
TEST(FrameDecoder, TheExampleOfTheFormat) {
  Buffer input;
  for (const char* const hex : {"01 01 00 00 00 07 00 00 00 05 00 00 00 00 00 2a 68 65 6c 6c 6f",
                                "01 03 00 00 00 07 00 00 00 08 00 00 00 00 00 2a 00 00 00 05 62 75 73 79"})
    for (const char* at = hex; *at != '\0'; at += *at == ' ')
      if (*at != ' ') {
        input.push_back(static_cast<char>(std::stoi(std::string(at, 2), nullptr, 16)));
        at += 2;
      }
  FrameDecoder decoder(largest_body);
  const auto first = decoder.next(input);
  ASSERT_TRUE(first && *first);
  EXPECT_EQ(described(**first), "7/1/42/hello");
  const auto second = decoder.next(input);
  ASSERT_TRUE(second && *second);
  EXPECT_TRUE((*second)->is_error());
  EXPECT_EQ((*second)->correlation, 42u);
  const auto failure = parse_error((*second)->body);
  ASSERT_TRUE(failure);
  EXPECT_EQ(failure->code, ErrorCode::overloaded);
  EXPECT_EQ(failure->text, "busy");
}

TEST(FrameDecoder, AWholeFrame) {
  for (const std::uint8_t flags : {std::uint8_t{0}, correlated_flag}) {
    Buffer input;
    append_frame(input, {.id = 0xdeadbeef, .flags = flags, .correlation = 0xcafef00d, .body = bytes("payload")});
    FrameDecoder decoder(largest_body);
    const auto frame = decoder.next(input);
    ASSERT_TRUE(frame && *frame);
    EXPECT_EQ((*frame)->id, 0xdeadbeef);
    EXPECT_EQ((*frame)->flags, flags);
    EXPECT_EQ((*frame)->correlation, flags != 0 ? 0xcafef00d : 0u);
    EXPECT_EQ((*frame)->correlation_id(), flags != 0 ? std::optional(0xcafef00d) : std::nullopt);
    EXPECT_EQ(text_of((*frame)->body), "payload");
    EXPECT_TRUE(is_aligned(**frame));
    const auto none = decoder.next(input);
    ASSERT_TRUE(none);
    EXPECT_FALSE(*none);
    EXPECT_TRUE(input.empty());
    EXPECT_EQ(decoder.needed(), header_size);
  }
}

TEST(FrameDecoder, AFrameThatIsSplitAtEveryByte) {
  const std::string whole =
      encoded({.id = 7, .flags = correlated_flag, .correlation = 9, .body = bytes("a body of 24 bytes, yes!")});
  for (std::size_t cut = 0; cut < whole.size(); ++cut) {
    Buffer input;
    input.append(std::string_view(whole).substr(0, cut));
    FrameDecoder decoder(largest_body);
    for (int again = 0; again < 2; ++again) {
      const auto none = decoder.next(input);
      ASSERT_TRUE(none);
      ASSERT_FALSE(*none) << cut;
      EXPECT_EQ(input.size(), cut);
      EXPECT_EQ(decoder.needed(), cut < header_size ? header_size - cut : whole.size() - cut);
    }
    input.append(std::string_view(whole).substr(cut));
    const auto frame = decoder.next(input);
    ASSERT_TRUE(frame && *frame) << cut;
    EXPECT_EQ(described(**frame), "7/1/9/a body of 24 bytes, yes!");
  }
}

TEST(FrameDecoder, ManyFramesInOneBufferAtAllAlignments) {
  const auto [expected, stream] = many_frames();
  for (std::size_t shift = 0; shift < 8; ++shift) {
    Buffer input;
    input.append(std::string(shift, 'x') + stream);
    input.consume(shift);
    FrameDecoder decoder(40);
    for (const std::string& one : expected) {
      const auto frame = decoder.next(input);
      ASSERT_TRUE(frame && *frame);
      EXPECT_EQ(described(**frame), one);
      EXPECT_TRUE(is_aligned(**frame)) << one;
    }
    const auto none = decoder.next(input);
    EXPECT_TRUE(none && !*none && input.empty());
  }
}

TEST(FrameDecoder, ManyFramesInPieces) {
  const auto [expected, stream] = many_frames();
  for (std::size_t piece = 1; piece < 100; ++piece) {
    Buffer input;
    FrameDecoder decoder(40);
    std::vector<std::string> found;
    for (std::size_t at = 0; at < stream.size(); at += piece) {
      input.append(std::string_view(stream).substr(at, piece));
      for (;;) {
        const auto frame = decoder.next(input);
        ASSERT_TRUE(frame);
        if (!*frame) break;
        EXPECT_TRUE(is_aligned(**frame));
        found.push_back(described(**frame));
      }
      ASSERT_GT(decoder.needed(), 0u);
    }
    EXPECT_EQ(found, expected) << piece;
    EXPECT_TRUE(input.empty());
  }
}

TEST(FrameDecoder, BytesThatArriveWhileAFrameIsInUse) {
  Buffer input;
  append_frame(input, {.id = 1, .body = bytes("first")});
  FrameDecoder decoder(largest_body);
  ASSERT_TRUE(*decoder.next(input));
  append_frame(input, {.id = 2, .body = bytes(std::string(10'000, 'x'))});  // moves the buffer
  const auto second = decoder.next(input);
  ASSERT_TRUE(second && *second);
  EXPECT_EQ((*second)->id, 2u);
  EXPECT_EQ((*second)->body.size(), 10'000u);
}

TEST(FrameDecoder, ReservesALargeFrameOnce) {
  const std::string whole = encoded({.id = 1, .body = bytes(std::string(largest_body, 'x'))});
  Buffer input;
  FrameDecoder decoder(largest_body);
  input.append(std::string_view(whole).substr(0, 100));
  ASSERT_FALSE(*decoder.next(input));
  EXPECT_LT(input.capacity(), 1000u);  // the decoder itself reserves nothing
  EXPECT_EQ(decoder.needed(), whole.size() - 100);
  whole.copy(input.reserve(decoder.needed()), decoder.needed(), 100);
  input.commit(decoder.needed());
  const auto frame = decoder.next(input);
  ASSERT_TRUE(frame && *frame);
  EXPECT_EQ((*frame)->body.size(), largest_body);
}

struct Refused {
  Errc code;
  Refusal::Reason reason;
  std::string text;
};

// The refusal of a header that follows a valid frame of 15 bytes, with nothing of its body.
Refused refused(std::string_view header, std::uint32_t most_body = largest_body) {
  Buffer input;
  append_frame(input, {.id = 1, .body = bytes("abc")});
  input.append(header);
  FrameDecoder decoder(most_body);
  EXPECT_TRUE(*decoder.next(input));
  const auto failed = decoder.next(input);
  EXPECT_FALSE(failed);
  const auto again = decoder.next(input);
  EXPECT_FALSE(again);
  if (failed || again) return {};
  EXPECT_EQ(failed.error(), again.error());
  EXPECT_EQ(decoder.refusal().offset, 15u);
  return {failed.error().code, decoder.refusal().reason, decoder.refusal().text()};
}

std::string with_byte(std::size_t index, int value) {
  std::string header = "\x01\x00\x00\x00\x00\x07\x00\x00\x00\x05\x00\x00"s;
  header[index] = static_cast<char>(value);
  return header;
}

TEST(FrameDecoder, RefusesOtherVersions) {
  for (int version = 0; version < 256; ++version) {
    if (version == 1) continue;
    const Refused found = refused(with_byte(0, version));
    EXPECT_EQ(found.code, Errc::malformed);
    EXPECT_EQ(found.reason, Refusal::Reason::version);
    EXPECT_EQ(found.text, "frame at byte 15: version " + std::to_string(version) + " instead of 1");
  }
  EXPECT_EQ(refused("GET / HTTP/1.1\r\n").text, "frame at byte 15: version 71 instead of 1");
}

TEST(FrameDecoder, RefusesUnknownFlags) {
  for (int flags = 4; flags < 256; ++flags) {
    const Refused found = refused(with_byte(1, flags));
    EXPECT_EQ(found.code, Errc::malformed);
    EXPECT_EQ(found.reason, Refusal::Reason::flags);
  }
  EXPECT_EQ(refused(with_byte(1, 0x81)).text, "frame at byte 15, message 7: unknown flags in 0x81");
}

TEST(FrameDecoder, RefusesReservedBits) {
  for (int bit = 0; bit < 16; ++bit) {
    const Refused found = refused(with_byte(bit < 8 ? 11 : 10, 1 << bit % 8));
    EXPECT_EQ(found.code, Errc::malformed);
    EXPECT_EQ(found.reason, Refusal::Reason::reserved);
  }
  EXPECT_EQ(refused(with_byte(10, 1)).text, "frame at byte 15, message 7: the reserved bits are 0x0100 instead of 0");
}

TEST(FrameDecoder, RefusesBodiesBeyondTheLimit) {
  for (const std::uint32_t most : {4u, 3u}) {
    const Refused found = refused(with_byte(9, 5), most);
    EXPECT_EQ(found.code, Errc::limit);
    EXPECT_EQ(found.reason, Refusal::Reason::size);
    EXPECT_EQ(found.text, "frame at byte 15, message 7: a body of 5 bytes is too large");
  }
  EXPECT_EQ(refused("\x01\x00\x00\x00\x00\x07\x01\x00\x00\x01\x00\x00"s).code, Errc::limit);
  EXPECT_EQ(refused("\x01\x00\x00\x00\x00\x07\xff\xff\xff\xff\x00\x00"s).code, Errc::limit);
}

TEST(AppendFrame, HeaderAndBody) {
  EXPECT_EQ(encoded({.id = 0x01020304, .body = bytes("xyz")}), "\x01\x00\x01\x02\x03\x04\x00\x00\x00\x03\x00\x00xyz"s);
  EXPECT_EQ(encoded({.id = 1, .flags = correlated_flag, .correlation = 0x0a0b0c0d}),
            "\x01\x01\x00\x00\x00\x01\x00\x00\x00\x00\x00\x00\x0a\x0b\x0c\x0d"s);
}

TEST(EncodedHeader, IsTheBeginningOfTheFrame) {
  for (const std::uint8_t flags : {std::uint8_t{0}, correlated_flag}) {
    const Frame frame{.id = 77, .flags = flags, .correlation = 88, .body = bytes("shared")};
    EXPECT_EQ(std::string(EncodedHeader(frame).view()) + "shared", encoded(frame));
  }
}

TEST(AppendError, WithAndWithoutCorrelation) {
  Buffer out;
  append_error(out, 5, std::nullopt, ErrorCode::bad_payload, "no user");
  EXPECT_EQ(out.view(), "\x01\x02\x00\x00\x00\x05\x00\x00\x00\x0b\x00\x00\x00\x00\x00\x03no user"s);
  out.clear();
  append_error(out, 5, 6, ErrorCode::internal, "");
  EXPECT_EQ(out.view(), "\x01\x03\x00\x00\x00\x05\x00\x00\x00\x04\x00\x00\x00\x00\x00\x06\x00\x00\x00\x06"s);
}

TEST(ParseError, CodeAndText) {
  const std::string body = "\x00\x00\x03\xe8price"s;
  const auto own = parse_error(bytes(body));
  ASSERT_TRUE(own);
  EXPECT_EQ(own->code, ErrorCode{1000});
  EXPECT_EQ(own->text, "price");
  EXPECT_TRUE(parse_error(bytes("\x00\x00\x00\x01"s)));
  EXPECT_FALSE(parse_error(bytes("\x00\x00\x01"s)));
  EXPECT_FALSE(parse_error({}));
  EXPECT_FALSE(parse_error(bytes("\x00\x00\x00\x01\xff"s)));
}

}  // namespace
}  // namespace sluice::msg
