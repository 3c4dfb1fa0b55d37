#pragma once

#include <cstdint>
#include <expected>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "app/config/source.h"
#include "app/plan.h"
#include "core/address.h"
#include "net/acceptor.h"
#include "net/tls/context.h"
#include "runtime/certificates.h"
#include "runtime/sockets.h"

namespace sluice::app {

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
  Listeners(const Plan& plan, runtime::SocketFiles& files, runtime::PassedSockets& passed);
  Listeners(const Listeners&) = delete;

  // Claims an address that is not in [server] listen.
  [[nodiscard]] net::Listening claim_also(const std::string& text);

  // Claims those addresses of the plan that are not served yet, and gives [[frames]] theirs. Returns those for HTTP.
  // After an error, no address is claimed.
  [[nodiscard]] std::expected<std::vector<net::Listening>, config::Diagnostic> claim(const Plan& plan);
  void forget_claimed();
  // Precondition: claim() has succeeded for this plan. Reads the certificate files again, as they may be newer.
  void serve_claimed(const Plan& plan);

  // Reads the certificates again if this is due or if `told`. Returns true if served() has new ones.
  [[nodiscard]] bool tend(bool told);
  [[nodiscard]] ListenerSet served() const;

 private:
  struct Claimed {
    std::string configured;
    net::Listening listening;
    bool is_http = true;  // else of [[frames]]
  };
  using List = std::vector<Claimed>;

  // Adds an address of the plan to claimed_. `left`: the served ones that the plan has not taken over yet.
  [[nodiscard]] std::expected<net::Listening, config::Diagnostic> claim(const Located<std::string>& at,
                                                                        std::string_view address, bool secure,
                                                                        bool is_http, List& left);
  // Those for HTTP.
  [[nodiscard]] static std::vector<net::Listening> addresses_of(const List& list);
  // Removes the socket files of addresses that are in `gone` and not in `stay`.
  void remove_files(const List& gone, const List& stay);
  void serve_claimed(const ServerOptions& options);

  runtime::SocketFiles& files_;
  runtime::PassedSockets& passed_;
  List served_;
  List claimed_;
  std::uint16_t https_port_ = 443;
  // Reads the certificates of the plan, unless those that are served have the same options.
  void serve_certificates(const Plan& plan);

  std::optional<TlsOptions> tls_;  // that certificates_ are of
  std::vector<std::string> alpn_;
  std::optional<runtime::Certificates> certificates_;
};

}  // namespace sluice::app
