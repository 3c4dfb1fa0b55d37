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
  Located<net::tls::Crl> crl = {net::tls::Crl::soft};
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
            "The server's certificate chain, PEM: its own certificate first, then the chain up to the root. Relative "
            "paths start at the folder of the configuration file.",
            {.required = true});
    v.field("key", &TlsOptions::key, "The certificate's private key, PEM, without a passphrase.", {.required = true});
    v.field("certificate", &TlsOptions::certificates,
            "More certificates. A client gets the certificate for the host that it names (SNI); if no certificate is "
            "for that host, it gets `server.tls.cert`. Certificates with keys of different types (RSA, ECDSA) may be "
            "for the same names.");
    v.field("min_version", &TlsOptions::min_version, "The oldest version of TLS that is accepted. The newest is 1.3.");
    v.field("client_auth", &TlsOptions::client_auth,
            "Certificates of clients. `off`: clients are not asked for one. `optional`: it is verified if the client "
            "sends one. `require`: every client must send one.");
    v.field("client_ca", &TlsOptions::client_ca,
            "The authorities that may sign certificates of clients, PEM. They need not be self-signed. A certificate "
            "that a revocation list (CRL) in this file names is refused.");
    v.field("crl", &TlsOptions::crl,
            "Whether certificates are accepted if `client_ca` has revocation lists, but the one of their authority is "
            "missing or has expired. `soft`: yes, except those that an expired list names; a line in the log says so. "
            "`hard`: no.");
    v.field("redirect", &TlsOptions::redirect,
            "`true`: requests without TLS are redirected to the same URL with TLS, with 301 for GET and HEAD and "
            "with 308 for other methods.");
    v.field("redirect_port", &TlsOptions::redirect_port,
            "The port in the redirect's URL, for when clients outside see a different one. `0`: the port of the "
            "first address with TLS.",
            {.min = 0, .max = 65535});
    v.field("hsts", &TlsOptions::hsts,
            "How long browsers use only TLS for this host (Strict-Transport-Security). `0s`: the field is not sent.",
            {.min = 0s, .max = 24h * 365 * 10});
    v.position(&TlsOptions::position);
  }
};

}  // namespace sluice::app
