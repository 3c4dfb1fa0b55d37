#include "ws/decoder.h"

#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace sluice::ws {
namespace {

using namespace std::string_literals;
using Kind = Decoder::Event::Kind;

std::string frame(Opcode opcode, std::string_view payload, bool fin = true, bool compressed = false,
                  bool masked = true) {
  Buffer out;
  FrameHeader header{.opcode = opcode,
                     .fin = fin,
                     .compressed = compressed,
                     .masked = masked,
                     .mask = {'\x11', '\xa2', '\x5c', '\xff'},
                     .payload_size = payload.size()};
  append_header(out, header);
  std::string body(payload);
  if (masked) apply_mask(body.data(), body.data(), body.size(), header.mask);
  out.append(body);
  return std::string(out.view());
}

std::string close_frame(int code, std::string_view reason = {}) {
  return frame(Opcode::close, std::string{static_cast<char>(code >> 8), static_cast<char>(code)} + std::string(reason));
}

struct Seen {
  Kind kind;
  CloseCode code;
  std::string data;
  friend bool operator==(const Seen&, const Seen&) = default;
};
std::ostream& operator<<(std::ostream& out, const Seen& seen) {
  return out << static_cast<int>(seen.kind) << '/' << static_cast<int>(seen.code) << '/'
             << testing::PrintToString(seen.data.substr(0, 60));
}

// Returns the decoder's events for these bytes if they arrive in pieces that end at `cuts`. As in a connection, bytes
// that are not consumed are kept.
std::vector<Seen> decode(const std::string& bytes, std::vector<std::size_t> cuts, const Decoder::Options& options) {
  Decoder decoder(options);
  std::vector<Seen> all;
  Buffer in;
  cuts.push_back(bytes.size());
  std::size_t shown = 0;
  for (const std::size_t cut : cuts) {
    in.append(std::string_view(bytes).substr(shown, cut - shown));
    shown = cut;
    for (;;) {
      const Decoder::Event event = decoder.next({in.data(), in.size()});
      if (event.kind != Kind::need_more) all.push_back({event.kind, event.code, std::string(event.data)});
      EXPECT_LE(event.consumed, in.size());
      in.consume(event.consumed);
      if (event.kind == Kind::refused || event.kind == Kind::close) return all;
      if (event.kind == Kind::need_more) break;
    }
  }
  return all;
}

// Expects these events for the whole bytes, for every split in two, and byte by byte.
void expect(const std::string& bytes, const std::vector<Seen>& expected, const Decoder::Options& options = {}) {
  EXPECT_EQ(decode(bytes, {}, options), expected);
  std::vector<std::size_t> every;
  for (std::size_t cut = 1; cut < bytes.size(); ++cut) {
    if (bytes.size() < 1000 || cut % 97 == 0) {
      ASSERT_EQ(decode(bytes, {cut}, options), expected) << "cut at " << cut;
    }
    every.push_back(cut);
  }
  EXPECT_EQ(decode(bytes, every, options), expected);
}

Seen text(std::string data) { return {Kind::text, CloseCode::none, std::move(data)}; }
Seen binary(std::string data) { return {Kind::binary, CloseCode::none, std::move(data)}; }
Seen ping(std::string data) { return {Kind::ping, CloseCode::none, std::move(data)}; }
Seen refused(CloseCode code) { return {Kind::refused, code, {}}; }
Seen closed(int code, std::string reason = {}) {
  return {Kind::close, static_cast<CloseCode>(code), std::move(reason)};
}

TEST(Decoder, MessagesOfOneFrame) {
  expect(frame(Opcode::text, "Hello") + frame(Opcode::binary, "\x00\xff"s) + frame(Opcode::text, ""),
         {text("Hello"), binary("\x00\xff"s), text("")});
  for (const std::size_t size : {125u, 126u, 127u, 300u}) {
    expect(frame(Opcode::binary, std::string(size, 'x')), {binary(std::string(size, 'x'))});
  }
  expect(frame(Opcode::binary, std::string(65'536, 'y')), {binary(std::string(65'536, 'y'))});
}

TEST(Decoder, AMessageThatLiesWholeIsGivenWhereItLies) {
  std::string bytes = frame(Opcode::text, "Hello");
  Decoder decoder({});
  const auto event = decoder.next(bytes);
  EXPECT_EQ(event.data, "Hello");
  EXPECT_EQ(event.data.data(), bytes.data() + 6);
  EXPECT_FALSE(decoder.in_message());
}

TEST(Decoder, Fragments) {
  expect(frame(Opcode::text, "Hel", false) + frame(Opcode::continuation, "lo"), {text("Hello")});
  expect(frame(Opcode::binary, "", false) + frame(Opcode::continuation, "", false) + frame(Opcode::continuation, "x"),
         {binary("x")});
  expect(frame(Opcode::text, "", false) + frame(Opcode::continuation, ""), {text("")});
}

TEST(Decoder, ControlFramesBetweenFragments) {
  expect(frame(Opcode::text, "a", false) + frame(Opcode::ping, "p1") + frame(Opcode::continuation, "b", false) +
             frame(Opcode::pong, "p2") + frame(Opcode::continuation, "c") + frame(Opcode::text, "d"),
         {ping("p1"), {Kind::pong, CloseCode::none, "p2"}, text("abc"), text("d")});
  expect(frame(Opcode::text, "a", false) + close_frame(1000), {closed(1000)});
}

TEST(Decoder, FragmentsOutOfOrder) {
  expect(frame(Opcode::continuation, "x"), {refused(CloseCode::protocol_error)});
  expect(frame(Opcode::continuation, "x", false), {refused(CloseCode::protocol_error)});
  expect(frame(Opcode::text, "a", false) + frame(Opcode::text, "b"), {refused(CloseCode::protocol_error)});
  expect(frame(Opcode::text, "a") + frame(Opcode::continuation, "b"), {text("a"), refused(CloseCode::protocol_error)});
}

TEST(Decoder, MasksAreAsTheRoleSays) {
  expect(frame(Opcode::text, "a", true, false, false), {refused(CloseCode::protocol_error)});
  Decoder::Options client;
  client.peer_masks = false;
  expect(frame(Opcode::text, "a", true, false, false), {text("a")}, client);
  expect(frame(Opcode::text, "a"), {refused(CloseCode::protocol_error)}, client);
  expect(frame(Opcode::text, "a", false, false, false) + frame(Opcode::continuation, "b", true, false, false),
         {text("ab")}, client);
}

TEST(Decoder, ReservedBitsAndOpcodes) {
  for (const int first : {0xC1, 0xA1, 0x91, 0xF1, 0x83, 0x84, 0x87, 0x8B, 0x8F, 0x09, 0x08, 0xC9}) {
    const std::string bytes{static_cast<char>(first), '\x80', 0, 0, 0, 0};
    expect(bytes, {refused(CloseCode::protocol_error)});
  }
}

TEST(Decoder, Pings) {
  expect(frame(Opcode::ping, ""), {ping("")});
  expect(frame(Opcode::ping, std::string(125, 'p')), {ping(std::string(125, 'p'))});
  std::string long_ping = frame(Opcode::binary, std::string(126, 'p'));
  long_ping[0] = static_cast<char>(0x89);
  expect(long_ping, {refused(CloseCode::protocol_error)});
}

TEST(Decoder, Closes) {
  expect(frame(Opcode::close, ""), {{Kind::close, CloseCode::none, ""}});
  expect(close_frame(1000), {closed(1000)});
  expect(close_frame(3456, "bye \xc3\xa4"), {closed(3456, "bye \xc3\xa4")});
  expect(frame(Opcode::close, "\x03"), {refused(CloseCode::protocol_error)});
  for (const int code : {0, 999, 1004, 1005, 1006, 1015, 1016, 2999, 5000, 65535}) {
    expect(close_frame(code), {refused(CloseCode::protocol_error)});
  }
  expect(close_frame(1000, "\xff"), {refused(CloseCode::invalid_data)});
  expect(close_frame(1000, "\xe2\x82"), {refused(CloseCode::invalid_data)});
  expect(close_frame(1000, std::string(123, 'r')), {closed(1000, std::string(123, 'r'))});
}

TEST(Decoder, TextIsUtf8) {
  expect(frame(Opcode::text, "\xce\xba\xcf\x8c\xcf\x83"), {text("\xce\xba\xcf\x8c\xcf\x83")});
  expect(frame(Opcode::binary, "\xff\xfe"), {binary("\xff\xfe")});
  expect(frame(Opcode::text, "\xff"), {refused(CloseCode::invalid_data)});
  expect(frame(Opcode::text, "a\xed\xa0\x80z"), {refused(CloseCode::invalid_data)});
  // A character may be split between frames, but must be complete at the end of the message.
  expect(frame(Opcode::text, "\xf0\x9f", false) + frame(Opcode::continuation, "\x98", false) +
             frame(Opcode::continuation, "\x80!"),
         {text("\xf0\x9f\x98\x80!")});
  expect(frame(Opcode::text, "\xf0\x9f", false) + frame(Opcode::continuation, ""), {refused(CloseCode::invalid_data)});
  expect(frame(Opcode::text, "\xf0\x9f") + frame(Opcode::text, "x"), {refused(CloseCode::invalid_data)});
  // An incomplete character in one message does not affect the next.
  expect(frame(Opcode::binary, "\xf0\x9f", false) + frame(Opcode::continuation, "") + frame(Opcode::text, "x"),
         {binary("\xf0\x9f"), text("x")});
}

TEST(Decoder, WrongTextIsRefusedBeforeItIsWhole) {
  const std::string bytes = frame(Opcode::text, "good \xed\xa0 and many more");
  std::string begun = bytes.substr(0, 6 + 7);
  Decoder decoder({});
  EXPECT_EQ(decoder.next(begun).kind, Kind::refused);
  std::string fragment = frame(Opcode::text, "\xf4\x90", false);
  Decoder other({});
  const auto event = other.next(fragment);
  EXPECT_EQ(event.kind, Kind::refused);
  EXPECT_EQ(event.code, CloseCode::invalid_data);
}

TEST(Decoder, LimitsOfFrameAndMessage) {
  Decoder::Options options;
  options.max_frame = 100;
  options.max_message = 150;
  const auto fragment = [](Opcode opcode, std::size_t size, bool fin = false) {
    return frame(opcode, std::string(size, 'x'), fin);
  };
  expect(fragment(Opcode::binary, 100, true), {binary(std::string(100, 'x'))}, options);
  expect(fragment(Opcode::binary, 101, true), {refused(CloseCode::too_large)}, options);
  expect(fragment(Opcode::binary, 100) + fragment(Opcode::continuation, 50, true), {binary(std::string(150, 'x'))},
         options);
  expect(fragment(Opcode::binary, 100) + fragment(Opcode::continuation, 51, true), {refused(CloseCode::too_large)},
         options);
  // A length that is too large is refused as soon as the header has arrived.
  Decoder decoder(options);
  std::string header = "\x82\xff\x7f\xff\xff\xff\xff\xff\xff\xff\x01\x02\x03\x04"s;
  EXPECT_EQ(decoder.next(header).code, CloseCode::too_large);
}

TEST(Decoder, MemoryGrowsWithWhatCameNotWithWhatWasAnnounced) {
  Decoder::Options options;
  options.max_frame = options.max_message = 1u << 30;
  Decoder decoder(options);
  std::string bytes = "\x82\xff\x00\x00\x00\x00\x3f\xff\xff\xff\x01\x02\x03\x04"s + std::string(1000, 'x');
  const auto event = decoder.next(bytes);
  EXPECT_EQ(event.kind, Kind::need_more);
  EXPECT_EQ(event.consumed, bytes.size());
  EXPECT_EQ(decoder.frame_left(), 0x3fffffffu - 1000);
  EXPECT_TRUE(decoder.in_message());
}

class CompressedDecoder : public testing::Test {
 protected:
  std::string compressed(std::string_view message, bool keep = false) {
    Buffer out;
    deflater.compress(message, out, keep);
    return std::string(out.view());
  }
  Inflater inflater{15};
  Deflater deflater{15};
  Decoder::Options options{
      .max_frame = 1000, .max_message = 1000, .peer_masks = true, .inflater = &inflater, .keep_context = false};
};

TEST_F(CompressedDecoder, OneFrameAndSeveral) {
  const std::string message = "compressed, compressed, compressed";
  const std::string payload = compressed(message);
  expect(frame(Opcode::text, payload, true, true), {text(message)}, options);
  for (std::size_t cut = 0; cut <= payload.size(); ++cut) {
    expect(frame(Opcode::text, payload.substr(0, cut), false, true) + frame(Opcode::ping, "") +
               frame(Opcode::continuation, payload.substr(cut)),
           {ping(""), text(message)}, options);
  }
  // The next message may be uncompressed.
  expect(frame(Opcode::text, payload, true, true) + frame(Opcode::text, "plain") +
             frame(Opcode::binary, payload, true, true),
         {text(message), text("plain"), binary(message)}, options);
}

TEST_F(CompressedDecoder, ContextIsKeptWhereAgreed) {
  const std::string first = compressed("the same words", true);
  const std::string second = compressed("the same words", true);
  ASSERT_LT(second.size(), first.size());
  const std::string both = frame(Opcode::text, first, true, true) + frame(Opcode::text, second, true, true);
  options.keep_context = true;
  EXPECT_EQ(decode(both, {}, options), (std::vector{text("the same words"), text("the same words")}));
  Inflater other(15);
  options.inflater = &other;
  options.keep_context = false;
  expect(both, {text("the same words"), refused(CloseCode::invalid_data)}, options);
}

TEST_F(CompressedDecoder, TheBitMarksTheFirstFrameOnly) {
  expect(frame(Opcode::text, "x", false) + frame(Opcode::continuation, "y", true, true),
         {refused(CloseCode::protocol_error)}, options);
  std::string compressed_ping = frame(Opcode::ping, "");
  compressed_ping[0] = static_cast<char>(0xC9);
  expect(compressed_ping, {refused(CloseCode::protocol_error)}, options);
  options.inflater = nullptr;
  expect(frame(Opcode::text, compressed("x"), true, true), {refused(CloseCode::protocol_error)}, options);
}

TEST_F(CompressedDecoder, LimitsAndWrongData) {
  expect(frame(Opcode::binary, compressed(std::string(1000, 'x')), true, true), {binary(std::string(1000, 'x'))},
         options);
  expect(frame(Opcode::binary, compressed(std::string(1001, 'x')), true, true), {refused(CloseCode::too_large)},
         options);
  expect(frame(Opcode::binary, "hello, world", true, true), {refused(CloseCode::invalid_data)}, options);
  expect(frame(Opcode::text, compressed("\xff\xfe"), true, true), {refused(CloseCode::invalid_data)}, options);
  expect(frame(Opcode::binary, compressed("\xff\xfe"), true, true), {binary("\xff\xfe")}, options);
}

}  // namespace
}  // namespace sluice::ws
