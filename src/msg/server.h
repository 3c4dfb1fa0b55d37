#pragma once

#include <memory>
#include <span>
#include <utility>

#include "base/log.h"
#include "base/result.h"
#include "base/time.h"
#include "core/address.h"
#include "msg/sessions.h"
#include "msg/tcp_session.h"
#include "net/acceptor.h"
#include "net/tls/context.h"

namespace sluice::msg {

// The message server of one core: its listeners, and the sessions that come from them.
class Server final : net::Acceptor::Owner {
 public:
  // `sessions` outlives the server.
  Server(Sessions& sessions, const net::AcceptorOptions& options)
      : sessions_(sessions), acceptor_(reactor(), *this, options) {}
  Server(const Server&) = delete;
  ~Server();

  // Starts to accept at once. Several cores may listen on the same address. `secure` means TLS and requires set_tls()
  // before.
  [[nodiscard]] Result<core::Address> listen(const net::Listening& wanted) { return acceptor_.listen(wanted); }
  // Applies to new connections.
  void set_tls(std::shared_ptr<const net::tls::ServerContext> context,
               std::shared_ptr<const net::tls::TicketKeys> tickets) {
    tls_context_ = std::move(context);
    tls_.tickets = std::move(tickets);
  }

  // Stops accepting, and closes the sessions one after another over this time, so that their clients do not all come
  // back at once.
  void drain(Duration over);
  [[nodiscard]] bool drained() const { return draining_ && sessions_.all().empty(); }

 private:
  [[nodiscard]] core::Reactor& reactor() { return sessions_.reactor(); }
  [[nodiscard]] core::Handle& next_handle() override;
  void accepted(const core::Address& peer, bool secure) override;
  void dropped(net::Acceptor::Dropped why) noexcept override;
  core::Task<void> close_sessions(Duration over);

  Sessions& sessions_;
  net::tls::CoreState tls_;
  std::shared_ptr<const net::tls::ServerContext> tls_context_;
  TcpSession* next_ = nullptr;
  SessionRef next_owner_;
  bool draining_ = false;
  net::Acceptor acceptor_;
  core::TaskGroup closing_;
};

}  // namespace sluice::msg
