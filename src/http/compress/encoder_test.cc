#include "http/compress/encoder.h"

#include <vector>

#include <gtest/gtest.h>

#include "http/compress/test_support.h"

namespace sluice::http::compress {
namespace {

using Step = Encoder::Step;

class EveryCoding : public testing::TestWithParam<Coding> {
 protected:
  Options options;
};

std::string in_pieces(Encoder& encoder, std::string_view text, std::size_t piece, bool flushed = false) {
  Buffer out;
  for (std::size_t at = 0; at < text.size(); at += piece) {
    EXPECT_TRUE(encoder.write(text.substr(at, piece), flushed ? Step::flush : Step::go_on, out));
  }
  EXPECT_TRUE(encoder.write({}, Step::finish, out));
  return std::string(out.view());
}

TEST_P(EveryCoding, ABodyComesBackHoweverItIsCut) {
  const auto encoder = make_encoder(GetParam(), options);
  const std::string texts[] = {"", "x", words(1000), noise(1000), std::string(1000, 'a')};
  for (const std::string& text : texts) {
    for (std::size_t piece = 1; piece <= text.size() + 1; piece += piece < 40 ? 1 : 61) {
      for (const bool flushed : {false, true}) {
        ASSERT_TRUE(encoder->begin(std::nullopt));
        ASSERT_EQ(decode_whole(GetParam(), in_pieces(*encoder, text, piece, flushed)), text) << piece << flushed;
      }
    }
  }
}

TEST_P(EveryCoding, LongBodiesComeBack) {
  const auto encoder = make_encoder(GetParam(), options);
  for (const std::string& text : {words(1'000'000), noise(300'000), std::string(6'000'000, '\0')}) {
    for (const std::size_t piece : {std::size_t{16 * 1024}, std::size_t{700'001}, text.size()}) {
      ASSERT_TRUE(encoder->begin(std::nullopt));
      ASSERT_TRUE(decode_whole(GetParam(), in_pieces(*encoder, text, piece)) == text);
      ASSERT_TRUE(encoder->begin(text.size()));
      ASSERT_TRUE(decode_whole(GetParam(), in_pieces(*encoder, text, piece)) == text);
    }
  }
}

TEST_P(EveryCoding, AFlushMakesReadableWhatWasWritten) {
  const auto encoder = make_encoder(GetParam(), options);
  ASSERT_TRUE(encoder->begin(std::nullopt));
  Buffer out;
  std::string written;
  for (const std::size_t size : {1, 10, 3000, 200'000, 1, 0, 5}) {
    const std::string text = words(size, static_cast<unsigned>(size));
    written += text;
    ASSERT_TRUE(encoder->write(text, Step::go_on, out));
    ASSERT_TRUE(encoder->write({}, Step::flush, out));
    const auto decoded = decode(GetParam(), out.view());
    ASSERT_TRUE(decoded);
    ASSERT_TRUE(decoded->text == written) << size << ": " << decoded->text.size() << " of " << written.size();
    EXPECT_FALSE(decoded->complete);
  }
  ASSERT_TRUE(encoder->write({}, Step::finish, out));
  EXPECT_TRUE(decode_whole(GetParam(), out.view()) == written);
}

TEST_P(EveryCoding, ANewBodyForgetsAnAbandonedOne) {
  const auto encoder = make_encoder(GetParam(), options);
  Buffer dropped;
  ASSERT_TRUE(encoder->begin(5'000'000));
  ASSERT_TRUE(encoder->write(words(100'000), Step::go_on, dropped));
  ASSERT_TRUE(encoder->begin(std::nullopt));
  EXPECT_EQ(decode_whole(GetParam(), in_pieces(*encoder, "abc", 2)), "abc");
}

TEST_P(EveryCoding, EveryLevelAndWindowComesBack) {
  const std::string text = words(90'000) + noise(10'000) + words(90'000);
  for (const std::uint32_t level : {1u, 2u, 3u, 4u, 5u, 6u, 7u, 8u, 9u, 10u, 11u, 12u}) {
    for (const std::uint64_t window : {16ull << 10, (100ull << 10) + 1, 8ull << 20}) {
      options.gzip_level = std::min(level, 9u);
      options.brotli_quality = std::min(level - 1, 9u);
      options.zstd_level = level;
      options.window = {window};
      const auto encoder = make_encoder(GetParam(), options);
      ASSERT_TRUE(encoder->begin(std::nullopt));
      ASSERT_TRUE(decode_whole(GetParam(), in_pieces(*encoder, text, 16384)) == text) << level << " " << window;
    }
  }
}

TEST_P(EveryCoding, SmallBodiesAreCompressedAtOnce) {
  EncoderPool pool(options);
  Buffer out;
  out.append("before");
  for (std::size_t size = 0; size < 70'000; size = size * 5 / 4 + 1) {
    for (const std::string& text : {words(size), noise(size)}) {
      out.truncate(6);
      ASSERT_TRUE(pool.compress(GetParam(), text, out));
      EXPECT_TRUE(out.view().starts_with("before"));
      EXPECT_TRUE(decode_whole(GetParam(), out.view().substr(6)) == text);
    }
  }
  out.clear();
  ASSERT_TRUE(pool.compress(GetParam(), words(60'000), out));
  EXPECT_LT(out.size(), 30'000u);
}

TEST_P(EveryCoding, ThePoolKeepsToItsLimit) {
  options.memory = 8_MiB;
  EncoderPool pool(options);
  const std::string text = words(400'000);
  std::vector<EncoderPool::Lease> leases;
  Buffer out;
  {  // the cost of an encoder is known after the first one was given back
    auto lease = pool.lend(GetParam(), std::nullopt);
    ASSERT_TRUE(lease->write(text, Step::go_on, out));
  }
  for (int i = 0; i < 1000; ++i) {
    auto lease = pool.lend(GetParam(), std::nullopt);
    if (!lease) break;
    ASSERT_TRUE(lease->write(text, Step::go_on, out));
    EXPECT_LE(pool.memory(), options.memory.bytes);
    leases.push_back(std::move(lease));
    out.clear();
  }
  ASSERT_GE(leases.size(), 2u);
  ASSERT_LT(leases.size(), 1000u);
  EXPECT_FALSE(pool.lend(GetParam(), std::nullopt));
  EXPECT_TRUE(pool.compress(GetParam(), "once", out)) << "what takes an encoder for a moment is not refused";
  leases.pop_back();
  EXPECT_TRUE(pool.lend(GetParam(), std::nullopt));
  leases.clear();
  for (const Coding other : all_codings) EXPECT_TRUE(pool.lend(other, std::nullopt)) << "spare ones make room";
  EXPECT_LE(pool.memory(), options.memory.bytes);
}

TEST_P(EveryCoding, ALeaseMayMove) {
  EncoderPool pool(options);
  auto first = pool.lend(GetParam(), std::nullopt);
  auto second = pool.lend(GetParam(), std::nullopt);
  first = std::move(second);
  EXPECT_FALSE(second);
  EXPECT_EQ(decode_whole(GetParam(), in_pieces(*first.operator->(), "text", 1)), "text");
  first.give_back();
  EXPECT_FALSE(first);
}

INSTANTIATE_TEST_SUITE_P(Codings, EveryCoding, testing::ValuesIn(all_codings), [](const auto& one) {
  return std::string(one.param == Coding::gzip ? "gzip" : one.param == Coding::brotli ? "brotli" : "zstd");
});

}  // namespace
}  // namespace sluice::http::compress
