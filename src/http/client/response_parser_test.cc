#include "http/client/response_parser.h"

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

namespace sluice::http::client {
namespace {

using h1::BodyFraming;
using h1::Parsed;
using h1::Reason;
using Kind = BodyFraming::Kind;

struct Outcome {
  Parsed parsed;
  int status = 0;
  Version version{};
  std::vector<std::pair<std::string, std::string>> fields;
  BodyFraming body;
  std::optional<std::uint64_t> length;
  bool keep_alive = false;
  std::string upgrade;

  friend bool operator==(const Outcome&, const Outcome&) = default;
};

// Passes growing prefixes of `bytes`, each `step` bytes longer, each in its own allocation of exact size.
Outcome feed(std::string_view bytes, std::size_t step, Method request, const ResponseLimits& limits = {}) {
  ResponseParser parser(limits);
  Outcome outcome;
  std::unique_ptr<char[]> block;
  for (std::size_t size = std::min(step, bytes.size());; size = std::min(size + step, bytes.size())) {
    auto moved = std::make_unique<char[]>(size);
    bytes.copy(moved.get(), size);
    block = std::move(moved);
    outcome.parsed = parser.parse({block.get(), size}, request);
    if (outcome.parsed.state != Parsed::State::need_more || size == bytes.size()) break;
  }
  if (outcome.parsed.state != Parsed::State::done) return outcome;
  const ResponseHead& head = parser.head();
  outcome.status = head.status;
  outcome.version = head.version;
  for (const Field& field : head.fields) outcome.fields.emplace_back(field.name, field.value);
  outcome.body = head.body;
  outcome.length = head.length;
  outcome.keep_alive = head.keep_alive;
  outcome.upgrade = head.upgrade;
  return outcome;
}

// The result must be the same for the whole text and for the text split at every byte.
Outcome parse(std::string_view bytes, Method request = Method::get, const ResponseLimits& limits = {}) {
  Outcome whole = feed(bytes, bytes.size(), request, limits);
  EXPECT_EQ(feed(bytes, 1, request, limits), whole) << bytes;
  return whole;
}

Reason refusal(std::string_view bytes, Method request = Method::get) {
  const Outcome outcome = parse(bytes, request);
  EXPECT_EQ(outcome.parsed.state, Parsed::State::refused) << bytes;
  return outcome.parsed.reason;
}

TEST(ResponseParser, AResponse) {
  const std::string_view bytes =
      "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nX-Empty:\r\nX-Space: \t a b \t\r\nContent-Length: 5\r\n\r\n";
  const Outcome outcome = parse(std::string(bytes) + "hello");
  EXPECT_EQ(outcome.parsed, (Parsed{Parsed::State::done, Reason::none, static_cast<std::uint16_t>(bytes.size())}));
  EXPECT_EQ(outcome.status, 200);
  EXPECT_EQ(outcome.version, Version::http11);
  EXPECT_EQ(outcome.fields,
            (std::vector<std::pair<std::string, std::string>>{
                {"Content-Type", "text/plain"}, {"X-Empty", ""}, {"X-Space", "a b"}, {"Content-Length", "5"}}));
  EXPECT_EQ(outcome.body, (BodyFraming{Kind::length, 5}));
  EXPECT_TRUE(outcome.keep_alive);
}

TEST(ResponseParser, StatusLines) {
  for (const std::string_view line :
       {"HTTP/1.1 404 Not Found", "HTTP/1.1 404 ", "HTTP/1.1 404", "HTTP/1.9 404 \x80\t!"}) {
    EXPECT_EQ(parse(std::string(line) + "\r\n\r\n").status, 404) << line;
  }
  EXPECT_EQ(parse("HTTP/1.0 200 OK\r\n\r\n").version, Version::http10);
  EXPECT_EQ(parse("HTTP/1.1 999 ?\r\n\r\n").status, 999);
  for (const std::string_view line :
       {"", "HTTP/1.1", "http/1.1 200 OK", "HTTP/11 200 OK", "HTTP/1.12 200", " HTTP/1.1 200"}) {
    const Reason reason = refusal(std::string(line) + "\r\n\r\n");
    EXPECT_TRUE(reason == Reason::bad_version || reason == Reason::bad_status) << line;
  }
  EXPECT_EQ(refusal("HTTP/2.0 200 OK\r\n\r\n"), Reason::unsupported_version);
  for (const std::string_view rest :
       {"", " ", " 20", " 2000", " 20x", " 099 x", "  200 OK", " 200OK", " 200\tOK", " 200 a\x01z"}) {
    EXPECT_EQ(refusal("HTTP/1.1" + std::string(rest) + "\r\n\r\n"), Reason::bad_status) << rest;
  }
}

TEST(ResponseParser, LinesThatAnotherWouldReadInAnotherWay) {
  const std::string begin = "HTTP/1.1 200 OK\r\n";
  EXPECT_EQ(refusal("HTTP/1.1 200 OK\nA: b\r\n\r\n"), Reason::bare_lf);
  EXPECT_EQ(refusal(begin + "A: b\n\r\n"), Reason::bare_lf);
  EXPECT_EQ(refusal(begin + "\n"), Reason::bare_lf);
  EXPECT_EQ(refusal(begin + "A: b\rc\r\n\r\n"), Reason::bare_cr);
  EXPECT_EQ(refusal(begin + "A: b\r\r\n\r\n"), Reason::bare_cr);
  EXPECT_EQ(refusal(begin + "A: b\r\n c\r\n\r\n"), Reason::obsolete_folding);
  EXPECT_EQ(refusal(begin + "A : b\r\n\r\n"), Reason::space_before_colon);
  for (const std::string_view line : {": b", "A", "A\x80: b", "A(: b", "\rA: b"}) {
    EXPECT_EQ(refusal(begin + std::string(line) + "\r\n\r\n"), Reason::bad_field_name) << line;
  }
  EXPECT_EQ(refusal(begin + "A: b\x01\r\n\r\n"), Reason::bad_field_value);
  EXPECT_EQ(refusal(begin + std::string("A: b\0c\r\n\r\n", 10)), Reason::bad_field_value);
}

TEST(ResponseParser, Lengths) {
  const auto body = [](const std::string& fields, Method request = Method::get, const char* status = "200") {
    return parse("HTTP/1.1 " + std::string(status) + " x\r\n" + fields + "\r\n", request);
  };
  EXPECT_EQ(body("Content-Length: 0\r\n").body, BodyFraming{});
  EXPECT_TRUE(body("Content-Length: 0\r\n").keep_alive);
  EXPECT_EQ(body("").body, BodyFraming{Kind::until_close});
  EXPECT_FALSE(body("").keep_alive);
  EXPECT_EQ(body("Transfer-Encoding: , Chunked ,\r\n").body, BodyFraming{Kind::chunked});
  EXPECT_EQ(body("content-length: 99999999999999999999\r\n").body, (BodyFraming{Kind::length, INT64_MAX}));

  // These responses have no body, whatever their fields say.
  for (const char* const status : {"100", "101", "204", "304"}) {
    for (const char* const fields : {"", "Content-Length: 7\r\n", "Transfer-Encoding: chunked\r\n"}) {
      EXPECT_EQ(body(fields, Method::get, status).body, BodyFraming{}) << status << fields;
      EXPECT_TRUE(body(fields, Method::get, status).keep_alive) << status << fields;
    }
  }
  EXPECT_EQ(body("Content-Length: 7\r\n", Method::head).body, BodyFraming{});
  EXPECT_TRUE(body("", Method::head).keep_alive);

  const auto refused = [&](const std::string& fields) {
    const Reason reason = refusal("HTTP/1.1 200 x\r\n" + fields + "\r\n");
    EXPECT_EQ(refusal("HTTP/1.1 304 x\r\n" + fields + "\r\n"), reason);
    return reason;
  };
  for (const char* const fields : {"Content-Length: 5\r\nContent-Length: 6\r\n", "Content-Length: 5, 6\r\n",
                                   "Content-Length: 5\r\nTransfer-Encoding: chunked\r\nContent-Length: 0\r\n"}) {
    EXPECT_EQ(refused(fields), Reason::duplicate_content_length) << fields;
  }
  for (const char* const value : {"", "5,", ", 5", "5, +5", "+5", "-1", "0x5", "5 5"}) {
    EXPECT_EQ(refused("Content-Length: " + std::string(value) + "\r\n"), Reason::bad_content_length) << value;
  }
  for (const char* const value : {"gzip", "gzip, chunked", "chunked, gzip", "identity", "xchunked", "chunked;a=b"}) {
    EXPECT_EQ(refused("Transfer-Encoding: " + std::string(value) + "\r\n"), Reason::unsupported_transfer_encoding)
        << value;
  }
  EXPECT_EQ(refused("Transfer-Encoding: \r\n"), Reason::bad_transfer_encoding);
  EXPECT_EQ(refused("Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n"), Reason::bad_transfer_encoding);
  EXPECT_EQ(refusal("HTTP/1.0 200 x\r\nTransfer-Encoding: chunked\r\n\r\n"), Reason::transfer_encoding_in_http10);
}

// RFC 9112, 6.3: equal lengths are one length, and a transfer coding overrides it but ends the connection.
TEST(ResponseParser, RepeatedAndOverriddenLengths) {
  const auto head = [](const std::string& fields, Method request = Method::get, const char* status = "200") {
    return parse("HTTP/1.1 " + std::string(status) + " x\r\n" + fields + "\r\n", request);
  };
  for (const char* const fields : {"Content-Length: 5\r\nContent-Length: 5\r\n", "Content-Length: 5 ,5\r\n",
                                   "Content-Length: 005\r\nA: b\r\ncontent-length: 5, 5\r\n"}) {
    EXPECT_EQ(head(fields).body, (BodyFraming{Kind::length, 5})) << fields;
    EXPECT_TRUE(head(fields).keep_alive) << fields;
    EXPECT_EQ(head(fields, Method::head).length, 5u) << fields;
    EXPECT_EQ(head(fields, Method::get, "304").body, BodyFraming{}) << fields;
  }
  for (const char* const fields : {"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n",
                                   "Transfer-Encoding: chunked\r\nContent-Length: 0\r\nContent-Length: 0\r\n"}) {
    EXPECT_EQ(head(fields).body, BodyFraming{Kind::chunked}) << fields;
    EXPECT_FALSE(head(fields).keep_alive) << fields;
    EXPECT_EQ(head(fields, Method::head).length, std::nullopt) << fields;
    EXPECT_EQ(head(fields, Method::head).body, BodyFraming{}) << fields;
    EXPECT_FALSE(head(fields, Method::head).keep_alive) << fields;
    EXPECT_FALSE(head(fields, Method::get, "304").keep_alive) << fields;
  }
  EXPECT_EQ(head("").length, std::nullopt);
}

TEST(ResponseParser, WhetherTheConnectionGoesOn) {
  const auto goes_on = [](const std::string& version, const std::string& fields) {
    return parse(version + " 200 OK\r\nContent-Length: 1\r\n" + fields + "\r\n").keep_alive;
  };
  EXPECT_TRUE(goes_on("HTTP/1.1", ""));
  EXPECT_FALSE(goes_on("HTTP/1.1", "Connection: close\r\n"));
  EXPECT_FALSE(goes_on("HTTP/1.1", "Connection: Keep-Alive, X-A\r\nConnection: x-b,CLOSE\r\n"));
  EXPECT_FALSE(goes_on("HTTP/1.1", "Connection: close\r\nConnection: keep-alive\r\n"));
  EXPECT_FALSE(goes_on("HTTP/1.0", ""));
  EXPECT_TRUE(goes_on("HTTP/1.0", "Connection: keep-alive\r\n"));
}

TEST(ResponseParser, Upgrades) {
  EXPECT_EQ(parse("HTTP/1.1 101 x\r\nUpgrade: websocket\r\nConnection: upgrade\r\n\r\n").upgrade, "websocket");
  EXPECT_EQ(parse("HTTP/1.1 101 x\r\nUpgrade: websocket\r\n\r\n").upgrade, "");
  EXPECT_EQ(parse("HTTP/1.1 200 x\r\nUpgrade: h2c\r\nConnection: upgrade\r\n\r\n").upgrade, "");
}

TEST(ResponseParser, Limits) {
  const ResponseLimits limits{.head_size = 64, .field_count = 2};
  const std::string fits = "HTTP/1.1 200 OK\r\nA: " + std::string(64 - 24, 'a') + "\r\n\r\n";
  ASSERT_EQ(fits.size(), 64U);
  EXPECT_EQ(parse(fits, Method::get, limits).status, 200);
  EXPECT_EQ(parse(fits + "body", Method::get, limits).status, 200);
  const std::string longer = "HTTP/1.1 200 OK\r\nA: " + std::string(65 - 24, 'a') + "\r\n\r\n";
  EXPECT_EQ(parse(longer, Method::get, limits).parsed.reason, Reason::head_too_large);
  EXPECT_EQ(parse("HTTP/1.1 200 OK\r\nA:\r\nB:\r\n\r\n", Method::get, limits).status, 200);
  EXPECT_EQ(parse("HTTP/1.1 200 OK\r\nA:\r\nB:\r\nC:\r\n\r\n", Method::get, limits).parsed.reason,
            Reason::too_many_fields);
}

TEST(ResponseParser, OneAfterTheOther) {
  ResponseParser parser;
  std::string bytes = "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 3\r\n\r\n";
  Parsed parsed = parser.parse(bytes, Method::post);
  ASSERT_EQ(parsed.state, Parsed::State::done);
  EXPECT_EQ(parser.head().status, 100);
  EXPECT_TRUE(parser.head().keep_alive);
  parser.reset();
  parsed = parser.parse(std::string_view(bytes).substr(parsed.head_size), Method::post);
  ASSERT_EQ(parsed.state, Parsed::State::done);
  EXPECT_EQ(parser.head().status, 200);
  EXPECT_FALSE(parser.head().keep_alive);
  parser.reset();
  const std::string third = "HTTP/1.1 204 x\r\n\r\n";
  EXPECT_EQ(parser.parse(third, Method::post).state, Parsed::State::done);
  EXPECT_TRUE(parser.head().keep_alive);
  EXPECT_TRUE(parser.head().fields.empty());
}

TEST(ResponseParser, BytesThatMove) {
  auto bytes = std::make_unique<std::string>("HTTP/1.1 101 x\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n");
  ResponseParser parser;
  ASSERT_EQ(parser.parse(*bytes, Method::get).state, Parsed::State::done);
  const auto moved = std::make_unique<std::string>(*bytes);
  bytes.reset();
  parser.relocate(moved->data());
  EXPECT_EQ(parser.head().fields[1].value, "echo");
  EXPECT_EQ(parser.head().upgrade, "echo");
}

}  // namespace
}  // namespace sluice::http::client
