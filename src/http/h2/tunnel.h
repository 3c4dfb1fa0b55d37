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

// The bytes of a stream's DATA frames in both directions, for the upgrade that runs on the stream (RFC 8441). Reading
// opens the client's window again; writing is limited by the client's windows. END_STREAM ends one side, RST_STREAM
// both.
//
// The tunnel lives in the coroutine that runs the upgrade, so it may outlive its stream and the connection. After the
// stream has closed, all calls return Errc::closed, and the upgrade ends as when an HTTP/1.1 connection is lost. Only
// bytes received before both sides ended can still be read. If the tunnel is destroyed before its stream, it ends the
// stream. It resets the stream instead if the stream was cut, if a write was abandoned halfway, or if the client still
// sends to a side that was ended before.
class Tunnel final : public net::Duplex {
 public:
  Tunnel(Session& session, Stream& stream, Upgrade& upgrade);
  Tunnel(const Tunnel&) = delete;
  ~Tunnel() override;

  [[nodiscard]] core::Reactor& reactor() override { return reactor_; }
  [[nodiscard]] std::optional<Result<std::size_t>> try_read(Buffer& into, std::size_t most) override;
  [[nodiscard]] core::Task<Result<void>> readable(Instant deadline) override;
  [[nodiscard]] core::Task<void> peer_ended() override;
  void interrupt() override;
  [[nodiscard]] core::Task<Result<void>> write(std::span<iovec> parts, Duration progress) override;
  [[nodiscard]] core::Task<Result<void>> end(Duration progress) override;
  void cut() override;

  // ---- The session's side ----

  [[nodiscard]] Upgrade& upgrade() { return upgrade_; }
  [[nodiscard]] Tunnel* next() const { return next_; }
  // The server's side ends after the pending bytes.
  [[nodiscard]] bool ended() const { return ended_; }
  // Number of bytes waiting to be sent.
  [[nodiscard]] std::size_t pending() const { return pending_; }
  // Copies the first `size` pending bytes to `to`. Precondition: size <= pending().
  void take(char* to, std::size_t size);
  // Resume the waiting writer or reader if it has something to do. Both may destroy the tunnel.
  void wake_writer();
  void wake_reader();
  // Called when the stream has closed. Waiting coroutines are resumed at the end of the turn.
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
  Stream* stream_;  // null: it has closed
  Upgrade& upgrade_;
  Tunnel* next_ = nullptr;  // in the session's list
  Tunnel* previous_ = nullptr;
  Wait* reader_ = nullptr;
  Wait* writer_ = nullptr;
  std::span<iovec> parts_;  // the unsent rest of a write: pending_ bytes
  std::size_t pending_ = 0;
  Duration progress_{};
  bool ended_ = false;
  bool both_ended_ = false;  // and therefore the stream has closed
  Buffer rest_;              // bytes of the closed stream that are still unread
  bool cut_ = false;         // cut() was called or a write was abandoned
  bool aborts_ = false;      // progress no longer extends the deadline of the pending write
  Hook hook_;
};

}  // namespace sluice::http::h2
