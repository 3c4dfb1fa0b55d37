#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace sluice::net::tls {

// The names in the certificate of a peer.
struct PeerCertificate {
  enum class Kind : std::uint8_t { dns, email, uri };
  // A subject alternative name. Host names are in lower case, also those of e-mail addresses.
  struct Name {
    Kind kind{};
    std::string text;
  };

  std::string subject;  // the distinguished name in RFC 2253 format, in UTF-8: "CN=example.org,O=Example"
  std::vector<Name> names;
};

}  // namespace sluice::net::tls
