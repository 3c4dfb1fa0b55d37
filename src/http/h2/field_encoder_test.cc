#include "http/h2/field_encoder.h"

#include <random>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>
#include <nghttp2/nghttp2.h>

namespace sluice::http::h2 {
namespace {

using Fields = std::vector<std::pair<std::string, std::string>>;

// A client's decoder that decodes every block of a connection.
class Decoder {
 public:
  Decoder() { nghttp2_hd_inflate_new(&inflater_); }
  Decoder(const Decoder&) = delete;
  ~Decoder() { nghttp2_hd_inflate_del(inflater_); }

  Fields decode(std::string_view block) {
    Fields fields;
    const auto* at = reinterpret_cast<const std::uint8_t*>(block.data());
    for (std::size_t left = block.size();;) {
      nghttp2_nv field{};
      int flags = 0;
      const ssize_t taken = nghttp2_hd_inflate_hd2(inflater_, &field, &flags, at, left, 1);
      EXPECT_GE(taken, 0) << "not HPACK";
      if (taken < 0) return {};
      at += taken;
      left -= static_cast<std::size_t>(taken);
      if ((flags & NGHTTP2_HD_INFLATE_EMIT) != 0) {
        fields.emplace_back(std::string(reinterpret_cast<char*>(field.name), field.namelen),
                            std::string(reinterpret_cast<char*>(field.value), field.valuelen));
      }
      if ((flags & NGHTTP2_HD_INFLATE_FINAL) != 0) break;
    }
    nghttp2_hd_inflate_end_headers(inflater_);
    return fields;
  }
  void resize(std::size_t bytes) { nghttp2_hd_inflate_change_table_size(inflater_, bytes); }
  std::size_t table_bytes() { return nghttp2_hd_inflate_get_dynamic_table_size(inflater_); }

 private:
  nghttp2_hd_inflater* inflater_ = nullptr;
};

class FieldEncoderTest : public testing::Test {
 public:
  // Returns the size of the block.
  std::size_t expect_round_trip(int status, const Fields& fields, std::string_view begin = {}) {
    Buffer block;
    block.append(begin);
    encoder.add_status(block, status);
    Fields expected{{":status", std::to_string(status)}};
    for (const auto& [name, value] : fields) {
      encoder.add(block, name, value);
      std::string lower = name;
      for (char& c : lower) c = static_cast<char>(c >= 'A' && c <= 'Z' ? c + ('a' - 'A') : c);
      expected.emplace_back(lower, value);
    }
    EXPECT_EQ(decoder.decode(block.view()), expected);
    EXPECT_EQ(decoder.table_bytes(), encoder.table_bytes());
    return block.size();
  }

  FieldEncoder encoder;
  Decoder decoder;
};

TEST_F(FieldEncoderTest, WhatIsSaidAgainIsOneByte) {
  const Fields steady{{"Content-Type", "text/html; charset=utf-8"}, {"x-own", "a b"}, {"Server", "sluice"}};
  EXPECT_GT(expect_round_trip(200, steady), 40u);
  EXPECT_EQ(expect_round_trip(200, steady), 4u);
  EXPECT_EQ(expect_round_trip(404, {{"CONTENT-TYPE", "text/html; charset=utf-8"}}), 2u) << "by any case of the name";
}

TEST_F(FieldEncoderTest, WhatNamesOneFileIsKeptWhenItComesAgain) {
  const Fields of_file{{"ETag", "\"5f3-1a\""}, {"Content-Length", "1500"}};
  EXPECT_GT(expect_round_trip(200, of_file), 10u);
  EXPECT_EQ(encoder.table_bytes(), 0u);
  EXPECT_GT(expect_round_trip(200, of_file), 10u);
  EXPECT_EQ(expect_round_trip(200, of_file), 3u);
}

TEST_F(FieldEncoderTest, NamesThatAreNotTheSameAreToldApart) {
  for (int i = 0; i < 3; ++i) {
    expect_round_trip(200, {{"x-a^", "v"}, {"x-a~", "v"}, {"X-LONG-NAME^", "v"}, {"x-long-name~", "v"}, {"x-a", "V"}});
  }
}

TEST_F(FieldEncoderTest, WithoutTheTableEverythingIsSaid) {
  const Fields fields{{"Server", "sluice"}, {"x-own", "a"}};
  expect_round_trip(200, fields);
  const std::size_t bytes = encoder.table_bytes();
  encoder.use_table(false);
  EXPECT_GT(expect_round_trip(200, fields), 15u);
  EXPECT_GT(expect_round_trip(200, {{"x-other", "b"}}), 10u);
  EXPECT_EQ(encoder.table_bytes(), bytes);
  encoder.use_table(true);
  EXPECT_EQ(expect_round_trip(200, fields), 3u);
}

TEST_F(FieldEncoderTest, CookiesAreNeverKept) {
  const Fields cookie{{"Set-Cookie", "session=secret"}};
  for (int i = 0; i < 4; ++i) EXPECT_GT(expect_round_trip(200, cookie), 15u);
  EXPECT_EQ(encoder.table_bytes(), 0u);
}

TEST_F(FieldEncoderTest, EveryStatusEveryNameAndEverySizeOfValue) {
  for (int status = 200; status <= 999; ++status) expect_round_trip(status, {});
  for (const char* name : {"age",
                           "via",
                           "date",
                           "etag",
                           "vary",
                           "link",
                           "allow",
                           "server",
                           "expires",
                           "refresh",
                           "location",
                           "set-cookie",
                           "retry-after",
                           "content-type",
                           "last-modified",
                           "cache-control",
                           "accept-ranges",
                           "content-range",
                           "content-length",
                           "content-encoding",
                           "content-language",
                           "content-location",
                           "www-authenticate",
                           "proxy-authenticate",
                           "content-disposition",
                           "strict-transport-security",
                           "access-control-allow-origin",
                           "x",
                           "ab",
                           "Abc",
                           "x-a-very-long-name-that-nobody-knows-of"}) {
    for (int i = 0; i < 3; ++i) expect_round_trip(200, {{name, "v"}, {name, ""}});
  }
  for (std::size_t size : {0, 1, 3, 4, 7, 8, 9, 15, 16, 17, 126, 127, 128, 254, 255, 1000, 16'000, 60'000}) {
    for (int i = 0; i < 3; ++i) expect_round_trip(200, {{"x-value", std::string(size, 'v')}});
  }
}

TEST_F(FieldEncoderTest, TheTableIsTheClientsWhateverComesAndWhateverItsSize) {
  std::mt19937 random(7);  // NOLINT: deterministic on purpose
  const auto below = [&](std::size_t end) { return random() % end; };
  const char* const names[] = {"content-type", "etag", "x-some", "Content-Length", "date", "vary", "x-other-thing"};
  for (int block = 0; block < 20'000; ++block) {
    std::string update;
    if (below(100) == 0) {
      const std::size_t bytes = below(5) == 0 ? 0 : below(FieldEncoder::most_table_bytes + 1);
      encoder.resize(bytes);
      decoder.resize(bytes);
      update = static_cast<char>(0x20 | std::min<std::size_t>(bytes, 31));
      if (bytes >= 31) {
        std::size_t left = bytes - 31;
        for (; left >= 128; left >>= 7) update += static_cast<char>(left | 128);
        update += static_cast<char>(left);
      }
    }
    Fields fields;
    for (std::size_t i = below(8); i != 0; --i) {
      fields.emplace_back(names[below(std::size(names))], std::string(below(60), 'v') + std::to_string(below(30)));
    }
    expect_round_trip(200, fields, update);
    if (HasFailure()) return;
  }
}

}  // namespace
}  // namespace sluice::http::h2
