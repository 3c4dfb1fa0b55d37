#include "app/suite/response.h"

#include <gtest/gtest.h>

namespace sluice::app::suite {
namespace {

using State = ResponseReader::State;

// The result of reading the bytes, whole and split at every place, with the connection closed at the end: "200 body",
// or the problem.
std::string read(std::string_view bytes, std::string_view method = "GET") {
  std::string whole;
  for (std::size_t split = 0; split <= bytes.size(); ++split) {
    ResponseReader reader(method);
    State state = reader.feed(bytes.substr(0, split));
    if (state == State::more || (state == State::done && split < bytes.size()))
      state = reader.feed(bytes.substr(split));
    if (state == State::more) state = reader.end();
    const std::string result =
        state == State::done ? std::to_string(reader.answer().status) + " " + reader.answer().body : reader.problem();
    if (split == 0) whole = result;
    EXPECT_EQ(result, whole) << "split at " << split;
  }
  return whole;
}

TEST(Response, Bodies) {
  EXPECT_EQ(read("HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabc"), "200 abc");
  EXPECT_EQ(read("HTTP/1.1 201 \r\ncontent-length:0\r\n\r\n"), "201 ");
  EXPECT_EQ(read("HTTP/1.1 204 No Content\r\n\r\n"), "204 ");
  EXPECT_EQ(read("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\n1\r\nc\r\n0\r\nX: y\r\n\r\n"),
            "200 abc");
  EXPECT_EQ(read("HTTP/1.1 200 OK\r\nConnection: close\r\n\r\nabc"), "200 abc");
  EXPECT_EQ(read("HTTP/1.1 200 OK\r\nContent-Length: 30\r\n\r\n", "HEAD"), "200 ");
  EXPECT_EQ(read("HTTP/1.1 304 Not Modified\r\nContent-Length: 30\r\n\r\n"), "304 ");
  EXPECT_EQ(read("HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\na"), "200 a");
}

TEST(Response, Broken) {
  EXPECT_EQ(read(""), "the connection was closed without an answer");
  EXPECT_EQ(read("HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nab"),
            "the connection was closed before the end of the body");
  EXPECT_EQ(read("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\n"),
            "the connection was closed before the end of the body");
  EXPECT_EQ(read("HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nabc"), "bytes behind the end of the answer");
  EXPECT_EQ(read("HTTP/1.1 204 No Content\r\n\r\nabc"), "bytes behind the end of the answer");
  EXPECT_EQ(read("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n0\r\n\r\n"),
            "bytes behind the end of the answer");
  EXPECT_EQ(read("HTTP/1.1 200 OK\r\nContent-Length: 67108865\r\n\r\n"), "the body is too long");
  EXPECT_EQ(read("HTTP/1.0 200 OK\r\n\r\n"), "it does not begin with a status line of HTTP/1.1");
  EXPECT_EQ(read("HTTP/1.1 20 OK\r\n\r\n"), "The status line has no valid status code.");
  EXPECT_EQ(read("HTTP/1.1 200\r\nContent-Length: 0\r\n\r\n"), "The status line has no valid status code.");
  EXPECT_EQ(read("<html>\r\n"), "it does not begin with a status line of HTTP/1.1");
  EXPECT_EQ(read("HTTP/1.9 200 OK\r\n\r\n"), "it does not begin with a status line of HTTP/1.1");
  EXPECT_EQ(read("HTTP/1.1 200 OK\r\nfield\r\n\r\n"), "A field name is not a token.");
  EXPECT_EQ(read("HTTP/1.1 200 OK\r\nA: b\nC: d\r\n\r\n"), "A line ends with LF alone.");
  EXPECT_EQ(read("HTTP/1.1 200 OK\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n"),
            "Content-Length and Transfer-Encoding come together.");
  EXPECT_EQ(read("HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 1\r\n\r\na"),
            "The Content-Length field comes more than once.");
  EXPECT_EQ(read("HTTP/1.1 200 OK\r\nContent-Length: 1, 1\r\n\r\na"), "The Content-Length field comes more than once.");
  EXPECT_EQ(read("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1 \r\na\r\n0\r\n\r\n"),
            "A chunk size is not valid.");
  EXPECT_EQ(read("HTTP/1.1 200 OK\r\nContent-Length: 1x\r\n\r\n"), "The Content-Length field is not valid.");
  EXPECT_EQ(read("HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\n"), "No transfer coding but chunked is supported.");
  EXPECT_EQ(read("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nx\r\n"), "A chunk size is not valid.");
  EXPECT_EQ(read("HTTP/1.1 101 Switching Protocols\r\n\r\n"), "the server switches protocols");
}

TEST(Response, Fields) {
  ResponseReader reader("GET");
  ASSERT_EQ(reader.feed("HTTP/1.1 200 OK\r\nSet-Cookie: a\r\nset-cookie:\t b \r\nContent-Length: 0\r\n\r\n"),
            State::done);
  EXPECT_EQ(*reader.answer().field("SET-COOKIE"), "a");
  EXPECT_EQ(reader.answer().fields[1].second, "b");
  EXPECT_EQ(reader.answer().field("Location"), nullptr);
}

}  // namespace
}  // namespace sluice::app::suite
