#pragma once

#include <memory>
#include <string>

#include "core/address.h"
#include "core/reactor.h"
#include "core/task.h"
#include "msg/session.h"
#include "net/stream.h"
#include "net/tls/context.h"

namespace sluice::msg {

// A session over TCP or a unix socket, with or without TLS. An idle session has no coroutine and no buffer.
class TcpSession final : public Session, net::Stream::Watch {
 public:
  TcpSession(Sessions& sessions, net::tls::CoreState& tls);

  [[nodiscard]] bool secure() const override { return stream_.tls() != nullptr; }
  [[nodiscard]] core::Handle& handle() { return stream_.handle(); }
  // Called after its socket has been accepted and it was admitted. `context`: null without TLS.
  void begin(std::string peer, std::shared_ptr<const net::tls::ServerContext> context);

 private:
  ~TcpSession() override;
  void turn_end() override;
  void woken(Woken why) override;

  // Continues to read until the session is idle or does not read any more.
  void serve();
  core::Task<void> run();
  [[gnu::noinline]] core::Task<bool> shake_hands();
  // Returns true when the session is idle, false when it reads no more.
  core::Task<bool> read_frames();
  core::Task<void> write();
  [[nodiscard]] bool finishes() const { return state() == State::ending && !handling_; }
  // Ends this side, and waits for the peer to end its own, so that it receives everything.
  core::Task<void> finish();

  net::tls::CoreState& tls_;
  net::Stream stream_;
  std::shared_ptr<const net::tls::ServerContext> tls_context_;  // until the handshake is complete
  Instant heard_{};                                             // when bytes last arrived
  bool pinged_ = false;                                         // since then
  core::TaskGroup::Member* reading_ = nullptr;
  core::TaskGroup::Member* writing_ = nullptr;
};

}  // namespace sluice::msg
