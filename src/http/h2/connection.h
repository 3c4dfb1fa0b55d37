#pragma once

#include <coroutine>
#include <string_view>
#include <utility>

#include "base/buffer.h"
#include "core/task.h"
#include "core/timer.h"
#include "http/h2/session.h"
#include "net/stream.h"

namespace sluice::http::h2 {

// What a client that knows of HTTP/2 sends first (RFC 9113, 3.4).
inline constexpr std::string_view client_preface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

// One HTTP/2 connection on an open stream: reads while anything is to be read, writes what a turn has gathered, and
// looks at the clock. The stream may be plain (prior knowledge) or encrypted (ALPN).
class Connection final : Session::Owner {
 public:
  // `peer` and `stream` outlive it.
  Connection(Engine& engine, net::Stream& stream, std::string_view peer, bool secure);
  Connection(const Connection&) = delete;

  // Until the connection has ended. `received` has been read already: the preface, or its beginning, or nothing.
  core::Task<void> run(Buffer received);
  // Instead: the server has as many connections as it may.
  core::Task<void> refuse(Buffer received);
  void drain();
  // No requests after those that are on their way, please: the connection ends with the last of them.
  void go_away();
  void cut_answers_of(const void* owner) { session_.cut_answers_of(owner); }
  void cut_pinned(const Pinned& pinned) { session_.cut_pinned(pinned); }
  [[nodiscard]] bool has_streams() const { return session_.has_streams(); }

 private:
  // One coroutine waits, others wake it.
  class Signal {
   public:
    bool await_ready() const noexcept { return false; }
    void await_suspend(std::coroutine_handle<> caller) noexcept { waiting_ = caller; }
    void await_resume() const noexcept {}
    void wake() {
      if (waiting_) std::exchange(waiting_, nullptr).resume();
    }
    void forget() { waiting_ = nullptr; }  // the one who waited has been cancelled

   private:
    std::coroutine_handle<> waiting_;
  };
  struct Hook : core::TurnHook {
    Hook(Callback run, Connection& owner) : TurnHook(run), owner(owner) {}
    Connection& owner;
  };
  struct Clock : core::Timer {
    Clock(Callback fire, Connection& owner) : Timer(fire), owner(owner) {}
    Connection& owner;
  };

  void has_output() override { engine_.reactor.at_turn_end(flush_); }
  void upgrade_ended() override {
    if (over_) end();
  }
  core::Task<void> read();
  core::Task<void> write();
  core::Task<void> linger();
  void look_at_the_clock();
  void watch_what_is_busy();
  void fail_without_memory();
  void end() { engine_.reactor.at_turn_end(end_); }

  Engine& engine_;
  net::Stream& stream_;
  Session session_;
  Buffer input_;
  Buffer output_;
  Signal output_wanted_;
  Signal ended_;
  Hook flush_;
  Hook end_;
  Clock clock_;
  bool client_ended_ = false;  // it sends nothing more
  bool failed_ = false;
  bool over_ = false;      // nothing is read or written any more
  core::TaskGroup tasks_;  // reading and writing
};

}  // namespace sluice::http::h2
