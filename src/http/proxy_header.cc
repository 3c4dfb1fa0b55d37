#include "http/proxy_header.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <optional>

#include <arpa/inet.h>

#include "core/address.h"

namespace sluice::http {
namespace {

using State = ProxyHeader::State;

constexpr std::string_view text_start = "PROXY ";
constexpr std::size_t shortest_text = std::string_view("PROXY UNKNOWN\r\n").size();
constexpr std::size_t longest_text = 107;  // including the line end
constexpr std::string_view binary_start("\r\n\r\n\0\r\nQUIT\n", 12);
constexpr std::size_t binary_head = 16;
constexpr std::size_t longest_binary = 4096;

ProxyHeader need(std::size_t bytes) { return {.state = State::need_more, .wanted = bytes, .client = {}}; }
ProxyHeader complete(std::string client) {
  return {.state = State::complete, .wanted = 0, .client = std::move(client)};
}

std::optional<std::string> address_of(std::string_view text, bool is_v6) {
  const auto address = core::Address::from_ip(text, 0);
  if (!address || text.contains(':') != is_v6) return std::nullopt;
  return address->ip();
}

bool is_proxy_port(std::string_view text) {
  std::uint16_t port = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), port);
  return error == std::errc{} && end == text.data() + text.size() && (text.size() == 1 || text[0] != '0');
}

// Parses the text between "PROXY " and the line end, such as "TCP4 192.0.2.1 198.51.100.1 56324 443".
ProxyHeader parse_line(std::string_view line) {
  if (line == "UNKNOWN" || line.starts_with("UNKNOWN ")) return complete({});
  std::array<std::string_view, 5> words;
  for (std::size_t i = 0; i < words.size(); ++i) {
    const auto space = line.find(' ');
    if ((space == line.npos) != (i + 1 == words.size())) return {};
    words[i] = line.substr(0, space);
    if (space != line.npos) line.remove_prefix(space + 1);
  }
  if (words[0] != "TCP4" && words[0] != "TCP6") return {};
  const bool is_v6 = words[0] == "TCP6";
  auto client = address_of(words[1], is_v6);
  if (!client || !address_of(words[2], is_v6) || !is_proxy_port(words[3]) || !is_proxy_port(words[4])) return {};
  return complete(*std::move(client));
}

ProxyHeader parse_text(std::string_view received) {
  const auto end = received.find('\n');
  if (end != received.npos) {
    if (end + 1 != received.size() || received[end - 1] != '\r') return {};
    return parse_line(received.substr(text_start.size(), end - 1 - text_start.size()));
  }
  const std::size_t wanted = received.size() < shortest_text ? shortest_text - received.size()
                             : received.ends_with('\r')      ? 1
                                                             : 2;
  return received.size() + wanted <= longest_text ? need(wanted) : ProxyHeader{};
}

ProxyHeader parse_binary(std::string_view received) {
  if (received.size() < binary_head) return need(binary_head - received.size());
  const auto byte = [&](std::size_t i) { return static_cast<unsigned>(static_cast<unsigned char>(received[i])); };
  const std::size_t size = binary_head + (byte(14) << 8 | byte(15));
  if (byte(12) >> 4 != 2 || size > longest_binary) return {};
  if (received.size() < size) return need(size - received.size());
  if (received.size() != size) return {};
  const std::string_view addresses = received.substr(binary_head);
  enum Command : std::uint8_t { local = 0, proxy = 1 };
  if ((byte(12) & 15) == local) return complete({});
  if ((byte(12) & 15) != proxy) return {};
  // The high half is the address family, the low half the transport: 1 is a stream. The fields after the addresses are
  // ignored.
  std::array<char, INET6_ADDRSTRLEN> text{};
  switch (byte(13)) {
    case 0x00:  // unspecified
      return complete({});
    case 0x11:
      if (addresses.size() < 12) return {};
      (void)::inet_ntop(AF_INET, addresses.data(), text.data(), text.size());
      break;
    case 0x21:
      if (addresses.size() < 36) return {};
      (void)::inet_ntop(AF_INET6, addresses.data(), text.data(), text.size());
      break;
    case 0x31:  // addresses of unix sockets do not identify a client
      return addresses.size() < 216 ? ProxyHeader{} : complete({});
    default:
      return {};
  }
  const auto address = core::Address::from_ip(text.data(), 0);
  return address ? complete(address->ip()) : ProxyHeader{};
}

}  // namespace

ProxyHeader ProxyHeader::parse(std::string_view received) {
  if (received.empty()) return need(shortest_text);  // the binary header is longer
  const auto begins = [&](std::string_view start) {
    return received.starts_with(start.substr(0, std::min(start.size(), received.size())));
  };
  if (begins(text_start)) return parse_text(received);
  if (begins(binary_start)) return parse_binary(received);
  return {};
}

}  // namespace sluice::http
