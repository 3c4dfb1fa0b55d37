#include "http/h1/response.h"

#include <string>
#include <string_view>
#include <vector>

#include <gtest/gtest.h>

#include "http/response.h"

namespace sluice::http::h1 {
namespace {

using Kind = BodyFraming::Kind;
using Connection = ResponseHead::Connection;

constexpr std::string_view date = "Sun, 06 Nov 1994 08:49:37 GMT";

std::string text_of(const ResponseHead& head) {
  Buffer out;
  EXPECT_EQ(append_head(out, head), 0u);
  return std::string(out.view());
}

TEST(DateCache, Formats) {
  DateCache cache;
  const auto at = [&cache](std::int64_t second) { return std::string(cache.at(second * 1'000'000'000)); };
  EXPECT_EQ(at(784111777), date);
  EXPECT_EQ(at(0), "Thu, 01 Jan 1970 00:00:00 GMT");
  EXPECT_EQ(at(951782400), "Tue, 29 Feb 2000 00:00:00 GMT");
  EXPECT_EQ(at(4107542399), "Sun, 28 Feb 2100 23:59:59 GMT");
  EXPECT_EQ(at(4107542400), "Mon, 01 Mar 2100 00:00:00 GMT");
  EXPECT_EQ(at(1798761599), "Thu, 31 Dec 2026 23:59:59 GMT");
  EXPECT_EQ(at(-5'000'000'000), "Thu, 01 Jan 1970 00:00:00 GMT");
}

TEST(DateCache, ChangesWithTheSecond) {
  DateCache cache;
  EXPECT_EQ(cache.at(784111777'000'000'000), date);
  EXPECT_EQ(cache.at(784111777'999'999'999), date);
  EXPECT_EQ(cache.at(784111778'000'000'000), "Sun, 06 Nov 1994 08:49:38 GMT");
  EXPECT_EQ(cache.at(784111777'000'000'000), date);  // the wall clock can be set back
}

TEST(FrameBody, ByStatusVersionAndSize) {
  EXPECT_EQ(frame_body(200, Version::http11, 7), (BodyFraming{Kind::length, 7}));
  EXPECT_EQ(frame_body(200, Version::http11, 0), (BodyFraming{Kind::length, 0}));
  EXPECT_EQ(frame_body(200, Version::http11, std::nullopt), (BodyFraming{Kind::chunked, 0}));
  EXPECT_EQ(frame_body(200, Version::http10, std::nullopt), (BodyFraming{Kind::until_close, 0}));
  EXPECT_EQ(frame_body(500, Version::http10, 7), (BodyFraming{Kind::length, 7}));
  for (int status : {100, 101, 103, 204, 304}) {
    EXPECT_EQ(frame_body(status, Version::http11, 7), BodyFraming{});
    EXPECT_EQ(frame_body(status, Version::http11, std::nullopt), BodyFraming{});
  }
}

TEST(ResponseHead, Whole) {
  const Field fields[] = {{"Content-Type", "text/csv"}, {"X", "\ta \xc3\xa9"}};
  EXPECT_EQ(text_of({.framing = {Kind::length, 1500}, .date = date, .server = "sluice", .fields = fields}),
            "HTTP/1.1 200 OK\r\nContent-Type: text/csv\r\nX: \ta \xc3\xa9\r\nDate: Sun, 06 Nov 1994 08:49:37 GMT\r\n"
            "Server: sluice\r\nContent-Length: 1500\r\n\r\n");
}

TEST(ResponseHead, EveryStatusLine) {
  for (int status = 100; status <= 999; ++status) {
    const std::string line = "HTTP/1.1 " + std::to_string(status) + " " + std::string(reason_phrase(status)) + "\r\n";
    EXPECT_EQ(text_of({.status = status}).substr(0, line.size()), line);
  }
  for (int status : {0, -1, 99, 1000, 2'000'000'000}) {
    EXPECT_TRUE(text_of({.status = status}).starts_with("HTTP/1.1 500 Internal Server Error\r\n")) << status;
  }
}

TEST(ResponseHead, Framing) {
  EXPECT_EQ(text_of({.framing = {Kind::length, 0}}), "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
  EXPECT_EQ(text_of({}), "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
  EXPECT_EQ(text_of({.framing = {Kind::length, UINT64_MAX}}),
            "HTTP/1.1 200 OK\r\nContent-Length: 18446744073709551615\r\n\r\n");
  EXPECT_EQ(text_of({.framing = {Kind::chunked, 0}}), "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n");
  EXPECT_EQ(text_of({.version = Version::http10, .framing = {Kind::until_close, 0}}),
            "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n");
  for (int status : {100, 103, 204, 304}) {
    for (Kind kind : {Kind::none, Kind::length, Kind::chunked}) {
      const std::string text = text_of({.status = status, .framing = {kind, 5}});
      EXPECT_EQ(text.find("Content-Length"), std::string::npos) << text;
      EXPECT_EQ(text.find("Transfer-Encoding"), std::string::npos) << text;
    }
  }
}

TEST(ResponseHead, Connection) {
  const auto text = [](Version version, Connection connection) {
    return text_of({.status = 304, .version = version, .connection = connection});
  };
  const std::string line = "HTTP/1.1 304 Not Modified\r\n";
  EXPECT_EQ(text(Version::http11, Connection::keep_alive), line + "\r\n");
  EXPECT_EQ(text(Version::http11, Connection::close), line + "Connection: close\r\n\r\n");
  EXPECT_EQ(text(Version::http10, Connection::keep_alive), line + "Connection: keep-alive\r\n\r\n");
  EXPECT_EQ(text(Version::http10, Connection::close), line + "Connection: close\r\n\r\n");
  EXPECT_EQ(text(Version::http11, Connection::upgrade), line + "Connection: upgrade\r\n\r\n");
}

TEST(ResponseHead, DateAndServerOfTheHandlerWin) {
  const Field fields[] = {{"date", "Thu, 01 Jan 1970 00:00:00 GMT"}, {"SERVER", "upstream"}};
  EXPECT_EQ(text_of({.status = 204, .date = date, .server = "sluice", .fields = fields}),
            "HTTP/1.1 204 No Content\r\ndate: Thu, 01 Jan 1970 00:00:00 GMT\r\nSERVER: upstream\r\n\r\n");
}

TEST(ResponseHead, FramingFieldsOfTheHandlerAreNotSent) {
  const Field fields[] = {
      {"content-LENGTH", "7"}, {"Transfer-Encoding", "chunked"}, {"Connection", "close"}, {"Connectiom", "x"}};
  EXPECT_EQ(text_of({.framing = {Kind::length, 3}, .fields = fields}),
            "HTTP/1.1 200 OK\r\nConnectiom: x\r\nContent-Length: 3\r\n\r\n");
}

TEST(ResponseHead, NothingSplitsTheAnswer) {
  std::vector<std::string> bad_values = {"a\r\nSet-Cookie: b", "a\n", "\r", std::string("a\0b", 3), "\x7f"};
  for (char c = 1; c < 0x20; ++c) {
    if (c != '\t') bad_values.push_back(std::string(40, 'v') + c + std::string(40, 'v'));
  }
  for (const std::string& value : bad_values) {
    const Field fields[] = {{"A", "1"}, {"Location", value}, {"B", "2"}};
    Buffer out;
    EXPECT_EQ(append_head(out, {.status = 204, .fields = fields}), 1u);
    EXPECT_EQ(out.view(), "HTTP/1.1 204 No Content\r\nA: 1\r\nB: 2\r\n\r\n");
  }
  for (std::string_view name : {"", "a b", "a:", "a\r\nb", "a\x80"}) {
    const Field fields[] = {{name, "v"}};
    Buffer out;
    EXPECT_EQ(append_head(out, {.status = 204, .fields = fields}), 1u);
    EXPECT_EQ(out.view(), "HTTP/1.1 204 No Content\r\n\r\n");
    EXPECT_FALSE(append_field(out, name, "v"));
  }
}

TEST(ResponseHead, FollowsWhatIsThereAlready) {
  Buffer out;
  out.append("before");
  const std::string large(20'000, 'v');
  const Field fields[] = {{"Large", large}, {"None", {}}};
  append_head(out, {.status = 304, .fields = fields});
  EXPECT_EQ(out.view(), "beforeHTTP/1.1 304 Not Modified\r\nLarge: " + large + "\r\nNone: \r\n\r\n");
}

TEST(ContinueResponse, IsAHead) { EXPECT_EQ(continue_response, text_of({.status = 100})); }

}  // namespace
}  // namespace sluice::http::h1
