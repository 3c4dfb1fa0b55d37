#include "ws/deflate.h"

#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace sluice::ws {
namespace {

using namespace std::string_literals;
std::string compress(Deflater& deflater, std::string_view message, bool keep) {
  Buffer out;
  out.append("before");
  deflater.compress(message, out, keep);
  return std::string(out.view().substr(6));
}

// Returns an empty string if the outcome is not `done`.
std::string inflate(Inflater& inflater, std::string_view payload, bool keep, std::size_t limit = 1 << 20) {
  Buffer out;
  out.append("before");
  if (inflater.decompress(payload, out, limit, keep) != Inflater::Outcome::done) return {};
  return std::string(out.view().substr(6));
}

std::string noise(std::size_t size, std::uint32_t seed = 1) {
  std::string result(size, '\0');
  for (char& c : result) {
    seed = seed * 1664525 + 1013904223;
    c = static_cast<char>(seed >> 24);
  }
  return result;
}

TEST(Deflate, ExamplesOfRfc7692) {
  Inflater inflater(15);
  EXPECT_EQ(inflate(inflater, "\xf2\x48\xcd\xc9\xc9\x07\x00"s, true), "Hello");
  EXPECT_EQ(inflate(inflater, "\xf2\x00\x11\x00\x00"s, true), "Hello");  // refers to the previous message
  EXPECT_EQ(inflate(inflater, "\x00\x05\x00\xfa\xff\x48\x65\x6c\x6c\x6f\x00"s, true), "Hello");
  // A block with BFINAL ends neither the message nor the dictionary.
  EXPECT_EQ(inflate(inflater, "\xf3\x48\xcd\xc9\xc9\x07\x00\x00"s, true), "Hello");
  EXPECT_EQ(inflate(inflater, "\xf2\x00\x11\x00\x00"s, true), "Hello");
  EXPECT_EQ(inflate(inflater, "\xf2\x48\x05\x00\x00\x00\xff\xff\xca\xc9\xc9\x07\x00"s, true), "Hello");
}

TEST(Deflate, RoundTripsOfEverySize) {
  for (const int bits : {8, 9, 12, 15}) {
    for (const bool keep : {false, true}) {
      Deflater deflater(bits);
      Inflater inflater(bits);
      for (std::size_t size = 1; size < 200'000; size = size * 3 / 2 + 1) {
        for (const std::string& message : {noise(size), std::string(size, 'a'), noise(size / 2) + noise(size / 2)}) {
          if (message.empty()) continue;
          EXPECT_TRUE(inflate(inflater, compress(deflater, message, keep), keep) == message) << bits << ' ' << size;
        }
      }
    }
  }
}

TEST(Deflate, AnEmptyMessage) {
  Deflater deflater(15);
  Inflater inflater(15);
  for (int i = 0; i < 3; ++i) {
    Buffer out;
    deflater.compress("", out, true);
    EXPECT_EQ(out.view(), "\0"s);
    Buffer plain;
    EXPECT_EQ(inflater.decompress(out.view(), plain, 0, true), Inflater::Outcome::done);
    EXPECT_TRUE(plain.empty());
    EXPECT_EQ(inflate(inflater, compress(deflater, "text", true), true), "text");
  }
  // An empty payload is not a valid stream of blocks.
  Buffer plain;
  EXPECT_EQ(inflater.decompress("", plain, 0, true), Inflater::Outcome::malformed);
}

TEST(Deflate, ContextMakesTheSecondMessageSmaller) {
  Deflater deflater(15);
  const std::string message = noise(1000);
  const std::string first = compress(deflater, message, true);
  const std::string second = compress(deflater, message, true);
  EXPECT_LT(second.size(), 50u);
  Inflater inflater(15);
  EXPECT_TRUE(inflate(inflater, first, true) == message);
  EXPECT_TRUE(inflate(inflater, second, true) == message);
  Inflater forgetful(15);
  EXPECT_TRUE(inflate(forgetful, first, false) == message);
  EXPECT_EQ(inflate(forgetful, second, false), "");
  // The inflater has been reset.
  EXPECT_TRUE(inflate(forgetful, first, false) == message);
}

TEST(Deflate, TheAgreedWindowIsKept) {
  // Repetitions within the window become smaller; those beyond it do not.
  for (const int bits : {9, 10, 12, 15}) {
    Deflater deflater(bits);
    const std::string near = noise(150);
    EXPECT_LT(compress(deflater, near + near, false).size(), 220u);
    const std::string far = noise(std::size_t{1} << bits);
    EXPECT_GT(compress(deflater, far + far, false).size(), 2 * far.size());
  }
}

TEST(Deflate, TheLimitIsExact) {
  Deflater deflater(15);
  Inflater inflater(15);
  for (const std::size_t size : {1u, 10u, 4096u, 4097u, 100'000u}) {
    const std::string message(size, 'x');
    const std::string payload = compress(deflater, message, false);
    EXPECT_TRUE(inflate(inflater, payload, false, size) == message);
    Buffer out;
    EXPECT_EQ(inflater.decompress(payload, out, size - 1, false), Inflater::Outcome::too_large);
  }
}

TEST(Deflate, ABombStopsAtTheLimit) {
  Deflater deflater(15);
  const std::string payload = compress(deflater, std::string(50'000'000, '\0'), false);
  EXPECT_LT(payload.size(), 300'000u);
  Inflater inflater(15);
  Buffer out;
  EXPECT_EQ(inflater.decompress(payload, out, 100'000, false), Inflater::Outcome::too_large);
  EXPECT_LT(out.capacity(), 1'000'000u);
}

TEST(Deflate, WhatIsNoDeflateStream) {
  Deflater deflater(15);
  Inflater inflater(15);
  const std::string text = "What was compressed is cut off somewhere, and somewhere else.";
  const std::string payload = compress(deflater, text, false);
  for (std::size_t size = 0; size < payload.size(); ++size) {
    // Some prefixes are valid by chance, but none of them gives the message.
    EXPECT_NE(inflate(inflater, payload.substr(0, size), false), text) << size;
    EXPECT_EQ(inflate(inflater, payload, false), text);
  }
  for (const std::string& wrong :
       {"\x06"s, "\xff"s, "\x04\x00"s, "\x00\x05\x00\xfa"s, "\xf2\x48\xcd"s, "hello, world"s}) {
    Buffer out;
    EXPECT_EQ(inflater.decompress(wrong, out, 1000, true), Inflater::Outcome::malformed)
        << testing::PrintToString(wrong);
    EXPECT_EQ(inflate(inflater, payload, false), text);
  }
}

}  // namespace
}  // namespace sluice::ws
