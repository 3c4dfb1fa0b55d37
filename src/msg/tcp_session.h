#pragma once

#include <memory>
#include <string>

#include "core/address.h"
#include "core/reactor.h"
#include "core/task.h"
#include "msg/door.h"
#include "msg/session.h"
#include "net/stream.h"
#include "net/tls/context.h"

namespace sluice::msg {

// A session over TCP or a unix socket, with or without TLS. An idle session has no coroutine and no buffer.
class TcpSession final : public Session, net::Stream::Watch {
 public:
  TcpSession(Sessions& sessions, std::shared_ptr<net::tls::CoreState> tls);

  [[nodiscard]] bool secure() const override { return stream_.tls() != nullptr; }
  [[nodiscard]] core::Handle& handle() { return stream_.handle(); }
  [[nodiscard]] const Handshake* handshake() const override { return admission_ ? &admission_->handshake : nullptr; }
  [[nodiscard]] const void* server() const override { return tls_.get(); }
  // Called after its socket has been accepted, within the limit of sessions. `context`: null without TLS. `door`: null:
  // the session is open as soon as TLS is ready.
  void begin(std::string peer, std::shared_ptr<const net::tls::ServerContext> context,
             std::shared_ptr<Door> door = nullptr);
  // Instead of begin(): tells a client without TLS that there are too many sessions.
  void refuse();

 private:
  ~TcpSession() override;
  void turn_end() override;
  core::Task<void> watch_client() override;
  void woken(Woken why) override;

  // Continues to read until the session is idle or does not read any more.
  void serve();
  core::Task<void> run();
  [[gnu::noinline]] core::Task<bool> shake_hands();
  // Asks the door. Returns true if the session is open. `first`: the client's first frame; null if the door wants none.
  [[gnu::noinline]] core::Task<bool> enter(const Frame* first);
  // Closes the session when its client's credentials have ended.
  core::Task<void> watch_credentials();
  // When to look whether the client is still there.
  [[nodiscard]] Instant next_look() const;
  // Returns true when the session is idle, false when it reads no more.
  core::Task<bool> read_frames();
  core::Task<void> write();
  [[nodiscard]] bool finishes() const { return state() == State::ending && !handling_; }
  // Ends this side, and waits for the peer to end its own, so that it receives everything.
  core::Task<void> finish();

  const std::shared_ptr<net::tls::CoreState> tls_;  // of its server
  net::Stream stream_;
  std::shared_ptr<const net::tls::ServerContext> tls_context_;  // until the handshake is complete
  std::shared_ptr<Door> door_;                                  // null: everybody may come in
  std::unique_ptr<Admission> admission_;                        // by the door
  Instant heard_{};                                             // when bytes last arrived
  bool drops_handler_ = false;                                  // the session ends without waiting for its handler
  bool pinged_ = false;                                         // since then
  core::TaskGroup::Member* reading_ = nullptr;
  core::TaskGroup::Member* writing_ = nullptr;
  core::TaskGroup::Member* watching_credentials_ = nullptr;
};

}  // namespace sluice::msg
