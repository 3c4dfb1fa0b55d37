#pragma once

#include <cstdint>
#include <expected>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "app/certificates.h"
#include "app/config/source.h"
#include "app/plan.h"
#include "core/address.h"
#include "net/acceptor.h"
#include "net/tls/context.h"

namespace sluice::app {

// The files of claimed unix sockets, which are removed when the program ends. Thread-safe.
class SocketFiles {
 public:
  SocketFiles() = default;
  SocketFiles(const SocketFiles&) = delete;
  ~SocketFiles() { end(); }

  void add(const core::Address& address);
  void remove(const core::Address& address);
  // Removes all files. From now on add() removes its file at once.
  void end();

 private:
  std::mutex mutex_;
  std::set<std::string> paths_;
  bool ended_ = false;
};

// The addresses and certificates that every core listens with.
struct ListenerSet {
  std::vector<net::Listening> addresses;
  std::uint16_t https_port = 443;  // the target port if requests without TLS are redirected
  std::shared_ptr<const net::tls::ServerContext> tls;
  std::shared_ptr<const net::tls::TicketKeys> tickets;
};

// The addresses and certificates of the configuration that is served, and the claimed addresses (see core::claim()) of
// the next configuration. An address with port 0 in both configurations keeps its actual port.
class Listeners {
 public:
  // Throws if something is wrong with an address.
  explicit Listeners(const Plan& plan);
  Listeners(const Listeners&) = delete;

  // Claims an address that is not in [server] listen.
  [[nodiscard]] core::Address claim_also(const std::string& text);

  // Claims those addresses of the plan that are not served yet. After an error, no address is claimed.
  [[nodiscard]] std::expected<std::vector<net::Listening>, config::Diagnostic> claim(const Plan& plan);
  void forget_claimed();
  // Precondition: claim() has succeeded for this plan. Reads the certificate files again, as they may be newer.
  void serve_claimed(const Plan& plan);

  // Reads the certificates again if this is due or if `told`. Returns true if served() has new ones.
  [[nodiscard]] bool tend(bool told);
  [[nodiscard]] ListenerSet served() const;
  [[nodiscard]] SocketFiles& files() { return files_; }

 private:
  struct Claimed {
    std::string configured;
    net::Listening listening;
  };
  using List = std::vector<Claimed>;

  [[nodiscard]] static std::vector<net::Listening> addresses_of(const List& list);
  // Removes the socket files of addresses that are in `gone` and not in `stay`.
  void remove_files(const List& gone, const List& stay);
  void serve_claimed(const ServerOptions& options);

  SocketFiles files_;
  List served_;
  List claimed_;
  std::uint16_t https_port_ = 443;
  std::optional<Certificates> certificates_;
};

}  // namespace sluice::app
