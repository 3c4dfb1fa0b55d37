#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "base/result.h"
#include "base/time.h"
#include "core/reactor.h"
#include "core/task.h"
#include "http/response.h"

namespace sluice::http::h2 {

class Session;
class Stream;

// A stream as its bytes, for the upgrade that has taken it (RFC 8441): DATA both ways. What is read is the client's to
// send again; what is written goes as the client's windows allow. END_STREAM ends a side, RST_STREAM both.
//
// It lives in the coroutine that runs the upgrade, and so may outlive its stream and its connection's last byte: from
// then on everything is Errc::closed, and the upgrade ends by itself, as it does when an HTTP/1.1 connection is lost.
// When it goes before its stream, the stream is ended; or reset, where a write was given up half-way.
class Tunnel final : public net::Duplex {
 public:
  Tunnel(Session& session, Stream& stream, Upgrade& upgrade);
  Tunnel(const Tunnel&) = delete;
  ~Tunnel() override;

  [[nodiscard]] core::Reactor& reactor() override { return reactor_; }
  [[nodiscard]] std::optional<Result<std::size_t>> try_read(Buffer& into, std::size_t most) override;
  [[nodiscard]] core::Task<Result<void>> readable(Instant deadline) override;
  void interrupt() override;
  [[nodiscard]] core::Task<Result<void>> write(std::span<iovec> parts, Duration progress) override;

  // ---- The session's side ----

  [[nodiscard]] Upgrade& upgrade() { return upgrade_; }
  [[nodiscard]] Tunnel* next() const { return next_; }
  // How much waits to be sent.
  [[nodiscard]] std::size_t pending() const { return pending_; }
  // Takes the first of it, at most as much as there is.
  void take(char* to, std::size_t size);
  // Whoever waits goes on, if there is a reason to. Each may end the tunnel.
  void wake_writer();
  void wake_reader();
  // The stream is gone. Whoever waits hears of it at the end of the turn.
  void detach();

 private:
  class Wait;
  struct Hook : core::TurnHook {
    Hook(Callback run, Tunnel& owner) : TurnHook(run), owner(owner) {}
    Tunnel& owner;
  };

  static void tell_closed(core::TurnHook& hook) noexcept;

  Session& session_;
  core::Reactor& reactor_;
  Stream* stream_;  // null: it is gone
  Upgrade& upgrade_;
  Tunnel* next_ = nullptr;  // the session's list
  Tunnel* previous_ = nullptr;
  Wait* reader_ = nullptr;
  Wait* writer_ = nullptr;
  std::span<iovec> parts_;  // what is being written: pending_ bytes
  std::size_t pending_ = 0;
  Duration progress_{};
  bool cut_ = false;  // a write was given up half-way
  Hook hook_;
};

}  // namespace sluice::http::h2
