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
#include "http/server.h"
#include "net/tls/context.h"

namespace sluice::app {

// The files of the unix sockets that have been claimed: they go with the program. For any thread.
class SocketFiles {
 public:
  SocketFiles() = default;
  SocketFiles(const SocketFiles&) = delete;
  ~SocketFiles() { end(); }

  void add(const core::Address& address);
  void remove(const core::Address& address);
  // Removes all, and from now on what is added.
  void end();

 private:
  std::mutex mutex_;
  std::set<std::string> paths_;
  bool ended_ = false;
};

// What every core listens with.
struct ListenerSet {
  std::vector<http::Listening> addresses;
  std::uint16_t https_port = 443;  // where requests without TLS are sent to, if they are
  std::shared_ptr<const net::tls::ServerContext> tls;
  std::shared_ptr<const net::tls::TicketKeys> tickets;
};

// Where the program listens and with which certificates: those of the configuration that is served, and the addresses
// of the next one once they are claimed. An address that stays keeps its port where the file says 0.
class Listeners {
 public:
  // Throws what is wrong with an address.
  explicit Listeners(const Plan& plan);
  Listeners(const Listeners&) = delete;

  // An address that is not of [server] listen.
  [[nodiscard]] core::Address claim_also(const std::string& text);

  // Claims those addresses of the plan that are not served. An error: none is claimed.
  [[nodiscard]] std::expected<std::vector<http::Listening>, config::Diagnostic> claim(const Plan& plan);
  void forget_claimed();
  // Precondition: claim() of the same plan. Reads the certificates again: those of the plan may be older.
  void serve_claimed(const Plan& plan);

  // Reads the certificates again where it is time, or where somebody asks for it (`told`). True: served() has others.
  [[nodiscard]] bool tend(bool told);
  [[nodiscard]] ListenerSet served() const;
  [[nodiscard]] SocketFiles& files() { return files_; }

 private:
  struct Claimed {
    std::string configured;
    http::Listening listening;
  };
  using List = std::vector<Claimed>;

  [[nodiscard]] static std::vector<http::Listening> addresses_of(const List& list);
  // The files of those that are not in the other list as well.
  void remove_files(const List& gone, const List& stay);
  void serve_claimed(const ServerOptions& options);

  SocketFiles files_;
  List served_;
  List claimed_;
  std::uint16_t https_port_ = 443;
  std::optional<Certificates> certificates_;
};

}  // namespace sluice::app
