#include "core/address.h"

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <cstring>

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/un.h>

namespace sluice::core {

Address::Address(const sockaddr* address, socklen_t size) : size_(size) {
  std::memcpy(&storage_, address, std::min<std::size_t>(size, sizeof storage_));
  const auto* v6 = reinterpret_cast<const sockaddr_in6*>(&storage_);
  if (family() != AF_INET6 || !IN6_IS_ADDR_V4MAPPED(&v6->sin6_addr)) return;
  sockaddr_in v4{};
  v4.sin_family = AF_INET;
  v4.sin_port = v6->sin6_port;
  std::memcpy(&v4.sin_addr, &v6->sin6_addr.s6_addr[12], sizeof v4.sin_addr);
  storage_ = {};
  std::memcpy(&storage_, &v4, sizeof v4);
  size_ = sizeof v4;
}

std::optional<Address> Address::from_ip(std::string_view ip, std::uint16_t port) {
  const std::string text(ip);
  Address result;
  sockaddr_in v4{};
  if (inet_pton(AF_INET, text.c_str(), &v4.sin_addr) == 1) {
    v4.sin_family = AF_INET;
    v4.sin_port = htons(port);
    std::memcpy(&result.storage_, &v4, sizeof v4);
    result.size_ = sizeof v4;
    return result;
  }
  sockaddr_in6 v6{};
  if (inet_pton(AF_INET6, text.c_str(), &v6.sin6_addr) == 1) {
    v6.sin6_family = AF_INET6;
    v6.sin6_port = htons(port);
    return Address(reinterpret_cast<const sockaddr*>(&v6), sizeof v6);
  }
  return std::nullopt;
}

std::optional<Address> Address::from_path(std::string_view path) {
  sockaddr_un local{};
  if (path.empty() || path.size() >= sizeof local.sun_path || path.contains('\0')) return std::nullopt;
  local.sun_family = AF_UNIX;
  std::memcpy(local.sun_path, path.data(), path.size());
  Address result;
  std::memcpy(&result.storage_, &local, sizeof local);
  result.size_ = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + path.size() + 1);
  return result;
}

std::optional<Address> Address::parse(std::string_view text) {
  if (text.starts_with("unix:")) return from_path(text.substr(5));
  const auto colon = text.rfind(':');
  if (colon == std::string_view::npos) return std::nullopt;
  std::string_view host = text.substr(0, colon);
  const std::string_view digits = text.substr(colon + 1);
  std::uint16_t port = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), port);
  if (error != std::errc{} || end != digits.data() + digits.size()) return std::nullopt;
  if (host == "*") return from_ip("::", port);
  if (host == "localhost") return from_ip("127.0.0.1", port);
  if (host.starts_with('[') && host.ends_with(']')) {
    host = host.substr(1, host.size() - 2);
    if (!host.contains(':')) return std::nullopt;
  } else if (host.contains(':')) {
    return std::nullopt;  // an IPv6 address without brackets would be ambiguous with its port
  }
  return from_ip(host, port);
}

std::uint16_t Address::port() const {
  if (family() == AF_INET) return ntohs(reinterpret_cast<const sockaddr_in*>(&storage_)->sin_port);
  if (family() == AF_INET6) return ntohs(reinterpret_cast<const sockaddr_in6*>(&storage_)->sin6_port);
  return 0;
}

bool Address::is_loopback() const {
  if (family() == AF_UNIX) return true;
  if (family() == AF_INET) {
    return (ntohl(reinterpret_cast<const sockaddr_in*>(&storage_)->sin_addr.s_addr) >> 24) == 127;
  }
  return family() == AF_INET6 && IN6_IS_ADDR_LOOPBACK(&reinterpret_cast<const sockaddr_in6*>(&storage_)->sin6_addr);
}

std::string Address::ip() const {
  char text[INET6_ADDRSTRLEN] = "";
  if (family() == AF_INET) {
    inet_ntop(AF_INET, &reinterpret_cast<const sockaddr_in*>(&storage_)->sin_addr, text, sizeof text);
  } else if (family() == AF_INET6) {
    inet_ntop(AF_INET6, &reinterpret_cast<const sockaddr_in6*>(&storage_)->sin6_addr, text, sizeof text);
  }
  return text;
}

std::string Address::text() const {
  if (family() == AF_UNIX) {
    return std::string("unix:") + reinterpret_cast<const sockaddr_un*>(&storage_)->sun_path;
  }
  const std::string host = ip();
  const std::string port_text = std::to_string(port());
  return family() == AF_INET6 ? "[" + host + "]:" + port_text : host + ":" + port_text;
}

}  // namespace sluice::core
