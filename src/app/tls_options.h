#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/declare.h"
#include "net/tls/context.h"

namespace sluice::app {

enum class TlsVersion : std::uint8_t { tls12, tls13 };

inline NameOf<TlsVersion> names_of(TlsVersion) { return {{"1.2", TlsVersion::tls12}, {"1.3", TlsVersion::tls13}}; }

enum class ClientAuth : std::uint8_t { off, optional, require };

inline NameOf<ClientAuth> names_of(ClientAuth) {
  return {{"off", ClientAuth::off}, {"optional", ClientAuth::optional}, {"require", ClientAuth::require}};
}

// [[server.tls.certificate]]
struct CertificateOptions {
  Located<std::string> cert;
  Located<std::string> key;

  template <class Visitor>
  static void declare(Visitor& v) {
    v.field("cert", &CertificateOptions::cert, "As `server.tls.cert`.", {.required = true});
    v.field("key", &CertificateOptions::key, "As `server.tls.key`.", {.required = true});
  }
};

// [server.tls]
struct TlsOptions {
  Located<std::string> cert;
  Located<std::string> key;
  std::vector<CertificateOptions> certificates;
  TlsVersion min_version = TlsVersion::tls12;
  Located<ClientAuth> client_auth = {ClientAuth::off};
  Located<std::string> client_ca;
  Located<bool> redirect = {false};
  Located<std::uint16_t> redirect_port = {0};
  Duration hsts = 0s;
  Position position;

  // [server.tls]'s own certificate first.
  [[nodiscard]] std::vector<CertificateOptions> all_certificates() const {
    std::vector<CertificateOptions> all = {{cert, key}};
    all.insert(all.end(), certificates.begin(), certificates.end());
    return all;
  }

  template <class Visitor>
  static void declare(Visitor& v) {
    v.field("cert", &TlsOptions::cert,
            "The certificate, PEM: the server's own first, then the chain up to the root. From the folder of the "
            "configuration file, as the other files here.",
            {.required = true});
    v.field("key", &TlsOptions::key, "Its private key, PEM, without a passphrase.", {.required = true});
    v.field("certificate", &TlsOptions::certificates,
            "More certificates: a client gets the one that is for the host that it names (SNI), and `server.tls.cert` "
            "where none is. Certificates with keys of different types (RSA, ECDSA) may be for the same names.");
    v.field("min_version", &TlsOptions::min_version, "The oldest version of TLS that is spoken; the newest is 1.3.");
    v.field("client_auth", &TlsOptions::client_auth,
            "Certificates of clients: not asked for; verified where a client shows one; or demanded of every client.");
    v.field("client_ca", &TlsOptions::client_ca, "Who signs the certificates of clients, PEM.");
    v.field("redirect", &TlsOptions::redirect,
            "Requests without TLS are sent to the same place with it: 301 for GET and HEAD, 308 for the others.");
    v.field("redirect_port", &TlsOptions::redirect_port,
            "The port that they are sent to, where it is another one from outside. `0`: that of the first address with "
            "TLS.",
            {.min = 0, .max = 65535});
    v.field("hsts", &TlsOptions::hsts,
            "How long browsers shall remember to come with TLS only (Strict-Transport-Security). `0s`: they are not "
            "told.",
            {.min = 0s, .max = 24h * 365 * 10});
    v.position(&TlsOptions::position);
  }
};

}  // namespace sluice::app
