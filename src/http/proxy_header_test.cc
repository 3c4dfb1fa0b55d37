#include "http/proxy_header.h"

#include <string>

#include <arpa/inet.h>
#include <gtest/gtest.h>

namespace sluice::http {
namespace {

using State = ProxyHeader::State;

// Reads like a connection, `wanted` bytes at a time. Returns "complete CLIENT", "wrong", "cut off", or "read on" if the
// parser asked for bytes after the header.
std::string read(std::string_view header, std::string_view behind = "GET / HTTP/1.1\r\n") {
  const std::string all = std::string(header) + std::string(behind);
  std::size_t size = 0;
  for (;;) {
    const ProxyHeader parsed = ProxyHeader::parse(std::string_view(all).substr(0, size));
    if (parsed.state == State::wrong) return "wrong";
    if (parsed.state == State::complete) return size == header.size() ? "complete " + parsed.client : "read on";
    if (parsed.wanted == 0) return "wants nothing";
    if (size + parsed.wanted > all.size()) return "cut off";
    size += parsed.wanted;
  }
}

std::string binary(unsigned char version, unsigned char family, std::string_view addresses) {
  std::string header("\r\n\r\n\0\r\nQUIT\n", 12);
  header += static_cast<char>(version);
  header += static_cast<char>(family);
  header += static_cast<char>(addresses.size() >> 8);
  header += static_cast<char>(addresses.size() & 255);
  return header + std::string(addresses);
}

std::string ipv6(const char* source) {
  std::string addresses(36, '\x02');
  (void)::inet_pton(AF_INET6, source, addresses.data());
  return addresses;
}

TEST(ProxyHeader, Text) {
  EXPECT_EQ(read("PROXY TCP4 192.0.2.1 198.51.100.1 56324 443\r\n"), "complete 192.0.2.1");
  EXPECT_EQ(read("PROXY TCP4 1.1.1.1 2.2.2.2 0 0\r\n"), "complete 1.1.1.1");
  EXPECT_EQ(read("PROXY TCP6 2001:DB8:0::1 ::1 65535 443\r\n"), "complete 2001:db8::1");
  EXPECT_EQ(
      read(
          "PROXY TCP6 ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff 65535 65535\r\n"),
      "complete ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff");
  EXPECT_EQ(read("PROXY TCP6 ::ffff:192.0.2.1 ::ffff:192.0.2.2 1 2\r\n"), "complete 192.0.2.1");
  EXPECT_EQ(read("PROXY TCP6 0:0:0:0:0:FFFF:c000:201 ::1 1 2\r\n"), "complete 192.0.2.1");
  EXPECT_EQ(read("PROXY UNKNOWN\r\n"), "complete ");
  EXPECT_EQ(read("PROXY UNKNOWN what ever\r\n"), "complete ");
  for (const char* wrong :
       {"GET / HTTP/1.1\r\n\r\n", "PROXY", "PROXY TCP4 192.0.2.1 198.51.100.1 56324 443\n", "PROXY UNKNOWN\n     ",
        "PROXY  TCP4 1.1.1.1 2.2.2.2 1 2\r\n", "PROXY TCP4 1.1.1.1 2.2.2.2 1\r\n",
        "PROXY TCP4 1.1.1.1 2.2.2.2 1 2 3\r\n", "PROXY TCP4 ::1 ::1 1 2\r\n",
        "PROXY TCP4 ::ffff:1.1.1.1 2.2.2.2 1 2\r\n", "PROXY TCP6 1.1.1.1 ::1 1 2\r\n",
        "PROXY TCP4 1.1.1.1 2.2.2.2 65536 2\r\n", "PROXY TCP4 1.1.1.1 2.2.2.2 01 2\r\n",
        "PROXY TCP4 1.1.1.1 2.2.2.2 -1 2\r\n", "PROXY TCP4 1.1.1.256 2.2.2.2 1 2\r\n",
        "PROXY UDP4 1.1.1.1 2.2.2.2 1 2\r\n", "PROXY tcp4 1.1.1.1 2.2.2.2 1 2\r\n", "PROXY UNKNOWNS\r\n"}) {
    EXPECT_EQ(read(wrong), "wrong") << wrong;
  }
  EXPECT_EQ(read("PROXY UNKNOWN " + std::string(91, 'x') + "\r\n"), "complete ");
  EXPECT_EQ(read("PROXY UNKNOWN " + std::string(92, 'x') + "\r\n"), "wrong") << "108 bytes";
  EXPECT_EQ(read("PROXY UNKNOWN", ""), "cut off");
}

TEST(ProxyHeader, Binary) {
  const std::string ipv4("\xc0\x00\x02\x01\x7f\x00\x00\x01\xdc\x04\x01\xbb", 12);
  EXPECT_EQ(read(binary(0x21, 0x11, ipv4)), "complete 192.0.2.1");
  EXPECT_EQ(read(binary(0x21, 0x21, ipv6("2001:db8::1"))), "complete 2001:db8::1");
  EXPECT_EQ(read(binary(0x21, 0x21, ipv6("::ffff:192.0.2.1"))), "complete 192.0.2.1");
  EXPECT_EQ(read(binary(0x21, 0x11, ipv4 + std::string("\x03\x00\x01x", 4))), "complete 192.0.2.1") << "with a TLV";
  EXPECT_EQ(read(binary(0x21, 0x11, ipv4 + std::string(4068, 'x'))), "complete 192.0.2.1");
  EXPECT_EQ(read(binary(0x21, 0x11, ipv4 + std::string(4069, 'x'))), "wrong") << "4,097 bytes";
  EXPECT_EQ(read(binary(0x20, 0x11, ipv4)), "complete ") << "LOCAL";
  EXPECT_EQ(read(binary(0x20, 0x00, "")), "complete ");
  EXPECT_EQ(read(binary(0x21, 0x00, "what ever")), "complete ");
  EXPECT_EQ(read(binary(0x21, 0x31, std::string(216, 'x'))), "complete ");
  EXPECT_EQ(read(binary(0x21, 0x31, std::string(215, 'x'))), "wrong");
  EXPECT_EQ(read(binary(0x21, 0x11, ipv4.substr(1))), "wrong");
  EXPECT_EQ(read(binary(0x21, 0x21, ipv4)), "wrong");
  EXPECT_EQ(read(binary(0x21, 0x12, ipv4)), "wrong") << "UDP";
  EXPECT_EQ(read(binary(0x22, 0x11, ipv4)), "wrong") << "no command";
  EXPECT_EQ(read(binary(0x11, 0x11, ipv4)), "wrong") << "version 1";
  EXPECT_EQ(read(binary(0x21, 0x11, ipv4).substr(0, 20), ""), "cut off");
  EXPECT_EQ(read("\r\n\r\nGET / HTTP/1.1\r\n"), "wrong");
}

}  // namespace
}  // namespace sluice::http
