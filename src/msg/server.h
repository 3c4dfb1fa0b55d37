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
  // See net::Acceptor.
  void set_options(const net::AcceptorOptions& options) { acceptor_.set_options(options); }
  [[nodiscard]] Result<core::Address> bind(const net::Listening& wanted) { return acceptor_.bind(wanted); }
  [[nodiscard]] Result<void> listen_on(std::span<const net::Listening> wanted) { return acceptor_.listen_on(wanted); }
  // Applies to new connections.
  void set_tls(std::shared_ptr<const net::tls::ServerContext> context,
               std::shared_ptr<const net::tls::TicketKeys> tickets) {
    tls_context_ = std::move(context);
    tls_->tickets = std::move(tickets);
  }
  // From now on clients must pass the door; null: nobody is refused.
  void set_door(std::shared_ptr<Door> door) { door_ = std::move(door); }
  // Closes the sessions that this server has accepted, and no others.
  void close_own();
  void stop_accepting() { acceptor_.stop(); }

  // Stops accepting, and closes all sessions one after another over this time, so that their clients do not all come
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
  const std::shared_ptr<net::tls::CoreState> tls_ = std::make_shared<net::tls::CoreState>();  // of its sessions too
  std::shared_ptr<const net::tls::ServerContext> tls_context_;
  std::shared_ptr<Door> door_;
  TcpSession* next_ = nullptr;
  SessionRef next_owner_;
  bool draining_ = false;
  net::Acceptor acceptor_;
  core::TaskGroup closing_;
};

}  // namespace sluice::msg
