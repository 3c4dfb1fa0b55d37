#pragma once

#include <string_view>
#include <utility>

namespace sluice::app {

// An address of [server] listen: "127.0.0.1:8080", "http://127.0.0.1:8080", "https://*:8443".
struct Listen {
  enum class Scheme : unsigned char { none, http, https };
  Scheme scheme = Scheme::none;
  std::string_view address;

  static Listen parse(std::string_view text) {
    for (const auto& [prefix, scheme] :
         {std::pair{std::string_view("http://"), Scheme::http}, {std::string_view("https://"), Scheme::https}}) {
      if (text.starts_with(prefix)) return {scheme, text.substr(prefix.size())};
    }
    return {Scheme::none, text};
  }
  // An address without a scheme uses TLS if there is a [server.tls].
  [[nodiscard]] bool secure(bool has_tls) const { return scheme == Scheme::none ? has_tls : scheme == Scheme::https; }
};

}  // namespace sluice::app
