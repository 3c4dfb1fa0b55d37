#pragma once

#include <cstddef>
#include <cstdint>

#include "base/time.h"
#include "core/reactor.h"
#include "core/task.h"
#include "sql/postgres/messages.h"
#include "sql/postgres/sessions.h"

namespace sluice::sql::postgres {

// The cancels of one session. A CancelRequest names a session and no statement: it ends whatever the server executes
// when its signal arrives. So the object knows which requests a cancel may hit.
//
// The server closes the connection of a CancelRequest after it has sent the signal, so a request that is sent after
// that is not hit. Without this confirmation any later request may be.
class Cancel {
 public:
  class Session {
   public:
    [[nodiscard]] virtual std::size_t in_flight() const = 0;
    virtual void cancel_ended() = 0;

   protected:
    ~Session() = default;
  };

  Cancel(Sessions& sessions, Session& session) : sessions_(sessions), session_(session) {}
  Cancel(const Cancel&) = delete;

  // A new session. The key allows anyone to cancel its statements, so it is sent over TLS if the session uses TLS.
  void begin(const core::Address& address, const BackendKey& key, bool encrypted);
  // The session has ended. A cancel on its way no longer matters.
  void end();
  // Precondition: is_on_its_way() is false.
  void send();
  // No request may be sent meanwhile, because it could be hit.
  [[nodiscard]] bool is_on_its_way() const { return is_on_its_way_; }
  // Whether a cancel may have hit the request that is first in flight.
  [[nodiscard]] bool may_have_hit() const { return is_on_its_way_ || may_hit_ != 0; }
  // The request that was first in flight has ended.
  void passed() {
    if (may_hit_ != 0 && may_hit_ != all) --may_hit_;
  }

 private:
  static constexpr std::size_t all = SIZE_MAX;
  enum class Outcome : std::uint8_t { unsent, confirmed, unknown };

  [[nodiscard]] core::Task<void> run();
  [[nodiscard]] core::Task<Outcome> deliver();

  Sessions& sessions_;
  Session& session_;
  core::Address address_;
  BackendKey key_;
  bool is_encrypted_ = false;
  std::uint64_t life_ = 0;  // counts sessions
  bool is_on_its_way_ = false;
  std::size_t may_hit_ = 0;  // requests in flight, from the first
};

}  // namespace sluice::sql::postgres
