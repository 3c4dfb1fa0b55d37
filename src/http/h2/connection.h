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

// The first bytes that an HTTP/2 client sends (RFC 9113, 3.4).
inline constexpr std::string_view client_preface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

// The I/O of one HTTP/2 connection on an open stream: it reads, writes the output of each turn at the turn's end, and
// enforces timeouts. The stream may be plain (prior knowledge) or encrypted (ALPN).
class Connection final : Session::Owner {
 public:
  // All references, and the text of `peer`, outlive the connection.
  Connection(Engine& engine, net::Stream& stream, std::string_view peer, bool secure);
  Connection(const Connection&) = delete;

  // Runs until the connection has ended. `received` holds the bytes already read: the preface, its beginning, or
  // nothing.
  core::Task<void> run(Buffer received);
  // Called instead of run() if the server has reached its limit of connections: refuses all requests.
  core::Task<void> refuse(Buffer received);
  void drain();
  // Asks the client to send no further requests. The connection ends after the requests already sent.
  void go_away();
  // Called when the engine's options have changed.
  void follow_options() {
    if (!client_ended_) look_at_the_clock();
  }
  void cut_answers_of(const void* owner) { session_.cut_answers_of(owner); }
  void cut_pinned(const Pinned& pinned) { session_.cut_pinned(pinned); }
  [[nodiscard]] bool has_streams() const { return session_.has_streams(); }

 private:
  // Lets one coroutine wait until another one wakes it.
  class Signal {
   public:
    bool await_ready() const noexcept { return false; }
    void await_suspend(std::coroutine_handle<> caller) noexcept { waiting_ = caller; }
    void await_resume() const noexcept {}
    void wake() {
      if (waiting_) std::exchange(waiting_, nullptr).resume();
    }
    void forget() { waiting_ = nullptr; }  // the waiting coroutine was cancelled

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
  bool client_ended_ = false;  // the client has ended its side
  bool failed_ = false;
  bool over_ = false;      // reading and writing have ended
  core::TaskGroup tasks_;  // read() and write()
};

}  // namespace sluice::http::h2
