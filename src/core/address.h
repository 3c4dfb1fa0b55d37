#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include <sys/socket.h>

namespace sluice::core {

// An address to listen on or connect to: IPv4, IPv6 or the path of a unix socket. Numeric only; name resolution is a
// separate layer. An IPv4-mapped IPv6 address, such as ::ffff:127.0.0.1 of an IPv4 client of a socket that listens on
// `::`, becomes the IPv4 address.
class Address {
 public:
  Address() = default;
  Address(const sockaddr* address, socklen_t size);

  // "127.0.0.1:8080", "[::1]:8080", "*:8080" (every IPv6 and IPv4 address), "unix:/run/sluice.sock".
  static std::optional<Address> parse(std::string_view text);
  static std::optional<Address> from_ip(std::string_view ip, std::uint16_t port);
  static std::optional<Address> from_path(std::string_view path);

  [[nodiscard]] const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&storage_); }
  [[nodiscard]] socklen_t size() const { return size_; }
  [[nodiscard]] int family() const { return storage_.ss_family; }
  [[nodiscard]] std::uint16_t port() const;  // 0 for a unix socket
  [[nodiscard]] bool is_loopback() const;
  [[nodiscard]] std::string text() const;  // in the format that parse() reads
  [[nodiscard]] std::string ip() const;    // without the port

 private:
  sockaddr_storage storage_{};
  socklen_t size_ = 0;
};

}  // namespace sluice::core
