#pragma once

#include <array>
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

struct ssl_ctx_st;
struct evp_cipher_st;

// What sessions are made from: certificates, keys, what is offered and what is demanded. Immutable once made; all cores
// share it, and a session keeps the one that it began with.
namespace sluice::net::tls {

// The keys that session tickets are sealed with, as of one moment: immutable, the same on every core, and older than a
// context, so that a ticket outlives a change of certificates.
class TicketKeys {
 public:
  // Tickets are good for two hours. With a new key every hour that takes the current key and the two before it.
  static constexpr int lifetime_s = 2 * 60 * 60;
  static constexpr int rotation_s = 60 * 60;
  static constexpr std::size_t most = 3;

  struct Key {
    std::array<unsigned char, 16> name;
    std::array<unsigned char, 32> cipher;
    std::array<unsigned char, 32> mac;
    ~Key();
  };

  // With one fresh key.
  [[nodiscard]] static std::shared_ptr<const TicketKeys> make();
  // With a fresh key before those that are there; the oldest is forgotten.
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

// What the sessions of one core share: memory that is lent to each for the length of one attempt, and the ticket keys
// as this core knows them. It outlives them, and is made and used on its core.
struct CoreState {
  std::shared_ptr<const TicketKeys> tickets;  // null: sessions are not resumed
  Buffer plain;                               // gathered or read from a file, on its way into records
  Buffer cipher;                              // records on their way to the socket; empty between attempts
};

// PEM files. `certificate` holds the server's certificate first and then the chain up to the root.
struct CertificateFiles {
  std::string certificate;
  std::string key;
};

enum class ClientCertificate : std::uint8_t { off, optional, require };

struct ServerOptions {
  // At least one. A client that names a host gets the certificate that is for it, else the first. Certificates for the
  // same names with keys of different types stand beside each other: the client's algorithms decide.
  std::vector<CertificateFiles> certificates = {};
  ClientCertificate client_certificate = ClientCertificate::off;
  std::string client_ca = {};          // PEM: who signs the clients' certificates
  bool tls12 = true;                   // beside 1.3
  std::vector<std::string> alpn = {};  // what the server speaks, the preferred first; empty: ALPN is ignored
};

// Why there is no context: which file is to blame, and a sentence without its full stop.
struct Problem {
  enum class File : std::uint8_t { certificate, key, client_ca, other };
  std::size_t certificate = 0;  // index in `certificates`
  File file{};
  std::string text;
};

class ServerContext {
 public:
  [[nodiscard]] static std::expected<std::shared_ptr<const ServerContext>, Problem> make(const ServerOptions& options);
  ServerContext(const ServerContext&) = delete;
  ~ServerContext();

  // What works and may still be a mistake: a certificate that has expired, a chain in disorder.
  [[nodiscard]] const std::vector<Problem>& warnings() const { return warnings_; }
  [[nodiscard]] ssl_ctx_st* get() const { return contexts_.front(); }

 private:
  friend struct ServerCallbacks;
  ServerContext() = default;
  // The context for a host as a client names it; null: none has it.
  [[nodiscard]] ssl_ctx_st* find(std::string_view host) const;

  std::vector<ssl_ctx_st*> contexts_;         // the default one first
  std::map<std::string, ssl_ctx_st*> names_;  // in lower case; "*.example.org" stands for one label more
  std::string alpn_;                          // as it is on the wire
  std::vector<Problem> warnings_;
};

struct ClientOptions {
  enum class Verify : std::uint8_t {
    none,   // whoever answers; safe from listeners only
    chain,  // signed by whom we trust, for whatever name
    full,   // and for the name that we have asked for
  };
  Verify verify = Verify::full;
  std::string ca_file = {};      // PEM; empty: those that the system trusts
  std::string certificate = {};  // PEM: our own, for servers that ask; empty: none
  std::string key = {};
  std::vector<std::string> alpn = {};
};

class ClientContext {
 public:
  // The text is a sentence without its full stop.
  [[nodiscard]] static std::expected<std::shared_ptr<const ClientContext>, std::string> make(
      const ClientOptions& options);
  ClientContext(const ClientContext&) = delete;
  ~ClientContext();

  [[nodiscard]] ssl_ctx_st* get() const { return context_; }
  [[nodiscard]] ClientOptions::Verify verify() const { return verify_; }

 private:
  ClientContext() = default;

  ssl_ctx_st* context_ = nullptr;
  ClientOptions::Verify verify_{};
};

}  // namespace sluice::net::tls
