#pragma once

#include <array>
#include <atomic>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <expected>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/buffer.h"
#include "net/tls/crl.h"
#include "net/tls/refusal_log.h"

struct ssl_ctx_st;
struct ssl_session_st;
struct evp_cipher_st;
struct X509_name_st;

// The configuration of sessions: certificates, keys, and the offered and required features. Immutable; all cores share
// it, and a session keeps the context that it began with.
namespace sluice::net::tls {

// The keys that encrypt session tickets: immutable, the same on every core. They are independent of a context, so
// tickets stay valid when certificates change.
class TicketKeys {
 public:
  // Tickets are valid for two hours. With a new key every hour, this needs the current key and the two before it.
  static constexpr int lifetime_s = 2 * 60 * 60;
  static constexpr int rotation_s = 60 * 60;
  static constexpr std::size_t most = 3;

  struct Key {
    std::array<unsigned char, 16> name;
    std::array<unsigned char, 32> cipher;
    std::array<unsigned char, 32> mac;
    ~Key();
  };

  // Creates one new key.
  [[nodiscard]] static std::shared_ptr<const TicketKeys> make();
  // Adds a new key before the existing ones and drops the oldest.
  [[nodiscard]] std::shared_ptr<const TicketKeys> rotated() const;
  ~TicketKeys();

  [[nodiscard]] std::span<const std::shared_ptr<const Key>> keys() const { return keys_; }  // the current one first
  [[nodiscard]] const evp_cipher_st* cipher() const { return cipher_; }

 private:
  TicketKeys();
  void add_fresh();

  std::vector<std::shared_ptr<const Key>> keys_;
  evp_cipher_st* cipher_;
};

// Shared by the sessions of one core: buffers that a session uses only during an attempt, and the core's current ticket
// keys. It must outlive the sessions, and is created and used on its core.
struct CoreState {
  std::shared_ptr<const TicketKeys> tickets;  // null: sessions are not resumed
  Buffer plain;                               // bytes from several parts or a file, before encryption
  Buffer cipher;                              // records on their way to the socket; empty between attempts
  RefusalLog refusals;                        // of clients, for a server
  std::string refused;                        // the subject of the certificate that the current attempt refuses
};

// PEM files. `certificate` holds the server's certificate first and then the chain up to the root.
struct CertificateFiles {
  std::string certificate;
  std::string key;
};

enum class ClientCertificate : std::uint8_t { off, optional, require };

struct ServerOptions {
  // At least one. A client that names a host gets the certificate for that host, otherwise the first one. For
  // certificates with the same names but different key types, the client's algorithms decide.
  std::vector<CertificateFiles> certificates = {};
  ClientCertificate client_certificate = ClientCertificate::off;
  std::string client_ca = {};  // PEM: trusted certificates and revocation lists, for client certificates
  Crl crl = Crl::soft;
  bool tls12 = true;                   // in addition to 1.3
  std::vector<std::string> alpn = {};  // the supported protocols in order of preference; empty: ALPN is ignored
};

// Why the context could not be created: the file at fault, and a sentence without its full stop.
struct Problem {
  enum class File : std::uint8_t { certificate, key, ca, other };
  std::size_t certificate = 0;  // index in `certificates`
  File file{};
  std::string text;
};

// How the certificates of peers are judged by the revocation lists in the file of authorities.
struct Revocation {
  Crl crl = Crl::soft;
  std::string file;
  // An accepted fault is logged once, until the file is read again.
  std::atomic<bool> told_missing{false};
  std::atomic<bool> told_expired{false};
};

// When the first certificate in a file expires (notAfter).
struct Expiry {
  std::string file;
  std::int64_t unix_s = 0;
  friend auto operator<=>(const Expiry&, const Expiry&) = default;
};

class ServerContext {
 public:
  [[nodiscard]] static std::expected<std::shared_ptr<const ServerContext>, Problem> make(const ServerOptions& options);
  ServerContext(const ServerContext&) = delete;
  ~ServerContext();

  // Problems that are not fatal: a certificate or a revocation list that has expired, a chain in the wrong order.
  [[nodiscard]] const std::vector<Problem>& warnings() const { return warnings_; }
  // Of the files with its own certificates, and of the file with trusted ones.
  [[nodiscard]] const std::vector<Expiry>& own_expiries() const { return own_expiries_; }
  [[nodiscard]] const std::vector<Expiry>& ca_expiries() const { return ca_expiries_; }
  [[nodiscard]] ssl_ctx_st* get() const { return contexts_.front(); }

 private:
  friend struct ServerCallbacks;
  ServerContext() = default;
  // The context for the host that a client names; null if no certificate is for it.
  [[nodiscard]] ssl_ctx_st* find(std::string_view host) const;

  std::vector<ssl_ctx_st*> contexts_;         // the default one first
  std::map<std::string, ssl_ctx_st*> names_;  // in lower case; "*.example.org" matches exactly one more label
  std::string alpn_;                          // in wire format
  Revocation revocation_;
  std::vector<Problem> warnings_;
  std::vector<Expiry> own_expiries_;
  std::vector<Expiry> ca_expiries_;  // at most one
};

// A client's session, which shortens the next handshake with the same server. It belongs to one core, one context and
// one name, because resumption does not verify the server's certificate again.
class Resumption {
 public:
  Resumption() = default;
  Resumption(const Resumption&) = delete;
  ~Resumption();

  [[nodiscard]] ssl_session_st* get() const { return session_; }  // null: no session
  void set(ssl_session_st* session);                              // takes ownership

 private:
  ssl_session_st* session_ = nullptr;
};

// The index at which a client's SSL stores its Resumption.
[[nodiscard]] int resumption_index();

// A name in RFC 2253 format: "CN=example.org". `ascii`: other characters are escaped, for logs.
[[nodiscard]] std::string text_of(const X509_name_st* name, bool ascii);

struct ClientOptions {
  enum class Verify : std::uint8_t {
    none,   // any certificate; safe only against passive attackers
    chain,  // signed by a trusted CA, for any name
    full,   // also issued for the requested name
  };
  Verify verify = Verify::full;
  std::string ca_file = {};  // PEM: trusted certificates and revocation lists; empty: the system's CAs
  Crl crl = Crl::soft;
  std::string certificate = {};  // PEM: the client's own, for servers that request it; empty: none
  std::string key = {};
  std::vector<std::string> alpn = {};
};

class ClientContext {
 public:
  [[nodiscard]] static std::expected<std::shared_ptr<const ClientContext>, Problem> make(const ClientOptions& options);
  ClientContext(const ClientContext&) = delete;
  ~ClientContext();

  [[nodiscard]] ssl_ctx_st* get() const { return context_; }
  [[nodiscard]] ClientOptions::Verify verify() const { return verify_; }
  // Problems that are not fatal: a revocation list that has expired.
  [[nodiscard]] const std::vector<std::string>& warnings() const { return warnings_; }
  // Of the file with its own certificate, and of the one with trusted ones; each has at most one entry.
  [[nodiscard]] const std::vector<Expiry>& own_expiries() const { return own_expiries_; }
  [[nodiscard]] const std::vector<Expiry>& ca_expiries() const { return ca_expiries_; }
  // A hash of the options and the contents of the files, to detect changes.
  [[nodiscard]] const std::string& fingerprint() const { return fingerprint_; }

 private:
  ClientContext() = default;

  ssl_ctx_st* context_ = nullptr;
  ClientOptions::Verify verify_{};
  Revocation revocation_;
  std::vector<std::string> warnings_;
  std::vector<Expiry> own_expiries_;
  std::vector<Expiry> ca_expiries_;
  std::string fingerprint_;
};

}  // namespace sluice::net::tls
