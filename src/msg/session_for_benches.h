#pragma once

#include <cerrno>
#include <cstdint>
#include <utility>

#include "core/reactor.h"
#include "msg/dispatcher.h"
#include "msg/session.h"
#include "msg/sessions.h"

namespace sluice::msg {

// A reactor without sockets: a turn only runs the hooks of its end.
class BenchReactor final : public core::Reactor {
 public:
  BenchReactor() : Reactor(Instant{}) {}
  std::int64_t wall_clock_ns() const override { return 0; }
  Result<void> bind(core::Handle&, const core::Address&, bool) override { return fail(Errc::system, ENOSYS); }
  Result<void> start_listening(core::Handle&, int) override { return fail(Errc::system, ENOSYS); }
  Result<bool> accept(core::Handle&, core::Handle&, core::Address*) override { return fail(Errc::system, ENOSYS); }
  Result<bool> connect(core::Handle&, const core::Address&) override { return fail(Errc::system, ENOSYS); }
  Result<void> connect_result(core::Handle&) override { return fail(Errc::system, ENOSYS); }
  Result<core::Address> local_address(const core::Handle&) const override { return fail(Errc::system, ENOSYS); }
  void close(core::Handle&) noexcept override {}
  void shutdown_write(core::Handle&) noexcept override {}
  void reset_on_close(core::Handle&) noexcept override {}
  core::Io recv(core::Handle&, char*, std::size_t) override { return {.error = ENOSYS}; }
  core::Io send(core::Handle&, std::span<const iovec>) override { return {.error = ENOSYS}; }
  core::Io send_file(core::Handle&, int, std::uint64_t, std::size_t) override { return {.error = ENOSYS}; }
  void turn(Instant) override { run_hooks(); }
  void wake() noexcept override {}
  void set_quiet(core::Handle&, bool) noexcept override {}
};

// A session without a connection: it forgets what it has sent at the end of the turn, as if it had been written at
// once.
class BenchSession final : public Session {
 public:
  explicit BenchSession(Sessions& sessions) : Session(sessions, sessions.next_id()) {}

  [[nodiscard]] bool secure() const override { return false; }
  void begin() {
    sessions_.add(*this);
    sessions_.set_open(*this);
  }
  // Handles one frame, as TcpSession does.
  [[nodiscard]] bool handle(const Frame& frame) { return !pass(frame); }

 private:
  void turn_end() override {
    if (outbox_.empty()) return;
    Outbox now = std::move(outbox_);
    sessions_.give_back(std::move(now.bytes()));
    written();
  }
};

// The sessions of one core.
struct BenchCore {
  BenchReactor reactor;
  Dispatcher dispatcher;
  Sessions sessions{reactor, 0, dispatcher, nullptr, {}};

  void end_turn() { reactor.turn(Instant{}); }
  SessionRef begin() {
    const SessionRef session(*new BenchSession(sessions));
    static_cast<BenchSession&>(*session).begin();
    end_turn();
    return session;
  }
};

}  // namespace sluice::msg
