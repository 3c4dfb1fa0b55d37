#pragma once

#include <algorithm>
#include <coroutine>
#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include <sys/uio.h>

#include "base/buffer.h"
#include "base/result.h"
#include "core/reactor.h"
#include "core/task.h"
#include "net/tls/session.h"

namespace sluice::net {

// The deadline of whatever waits in one direction of a stream. The timer is left armed when a wait ends, and asks when
// it fires whom it is for: so a busy connection reschedules it once in a while and not at every wait.
class Deadline : core::Timer {
 public:
  class Client {
   public:
    using Callback = void (*)(Client&) noexcept;
    explicit Client(Callback expired) : expired_(expired) {}

   private:
    friend class Deadline;
    Callback expired_;
    Instant until_ = never;
  };

  explicit Deadline(core::Reactor& reactor) : Timer(&Deadline::fired), reactor_(reactor) {}

  void start(Client& client, Instant until) {
    if (has_come_) [[unlikely]]
      until = reactor_.now();
    client_ = &client;
    client.until_ = until;
    if (!armed() || when() > until) [[unlikely]]
      reactor_.timers().schedule(*this, until);
  }
  void stop() { client_ = nullptr; }
  // Whoever waits has come to the end of it.
  void come() {
    if (client_ != nullptr) start(*client_, reactor_.now());
  }
  // So has whoever will wait.
  void come_for_good() {
    has_come_ = true;
    come();
  }

 private:
  static void fired(core::Timer& timer) noexcept;

  core::Reactor& reactor_;
  Client* client_ = nullptr;
  bool has_come_ = false;
};

// How fast a peer takes what is written to it while a write waits. In every `progress` it must take so many bytes, or
// one: counted are those that have left the socket's buffer, because a buffer of megabytes is quiet for long before it
// has room again for the next write. A first, short look is for reference; most waits are over before.
class Pace {
 public:
  explicit Pace(Duration progress) : progress_(progress) {}

  [[nodiscard]] Instant until(Instant now) noexcept {
    if (end_ == Instant{}) end_ = now + progress_ / 8;
    return end_;
  }
  // The time now was not the peer's: it counts from here on.
  void begin_anew(Instant now) noexcept { end_ = now + progress_; }
  // At that time: whether the peer has taken too little.
  [[nodiscard]] bool is_too_slow(const core::Reactor& reactor, const core::Handle& handle,
                                 std::uint32_t bytes_per_s) noexcept;

 private:
  Duration progress_;
  Instant end_{};
  std::uint64_t taken_ = 0;  // until the look before
  bool looked_ = false;
};

// A connected socket of one core: bytes in, bytes out. Its operations are awaited, tried before they wait, bounded by a
// deadline, and cancelled by destroying the coroutine that awaits them. At most one read and one write wait at a time.
// It must not move while it is open.
//
// With TLS the same operations go through a tls::Session: bytes are the application's, and a peer that ends without
// saying so (a truncation) is Errc::closed.
class Stream {
 public:
  class Wait;
  class Watch;
  class Read;
  class Write;
  class SendFile;
  class End;

  explicit Stream(core::Reactor& reactor) : reactor_(reactor), read_deadline_(reactor), write_deadline_(reactor) {}
  Stream(const Stream&) = delete;
  ~Stream() { close(); }

  [[nodiscard]] core::Handle& handle() { return handle_; }
  [[nodiscard]] const core::Handle& handle() const { return handle_; }
  [[nodiscard]] core::Reactor& reactor() { return reactor_; }
  [[nodiscard]] bool open() const { return handle_.open(); }
  // At once and, over TLS, without a goodbye: the peer can tell that something is missing.
  void close() noexcept {
    reactor_.close(handle_);
    tls_.reset();
  }

  [[nodiscard]] core::Task<Result<void>> connect(core::Address address, Instant deadline);

  // From here on everything goes through TLS. After a failure the session, which tells why, is still there, and the
  // stream is for closing. All but the context outlive the stream.
  [[nodiscard]] core::Task<Result<void>> accept_tls(std::shared_ptr<const tls::ServerContext> context,
                                                    tls::CoreState& core, Instant deadline);
  // `host` must outlive the call only.
  [[nodiscard]] core::Task<Result<void>> connect_tls(std::shared_ptr<const tls::ClientContext> context,
                                                     const std::string& host, tls::CoreState& core, Instant deadline);
  // Ends a handshake in which the peer has not said anything yet, with Errc::closed.
  void give_up_handshake() noexcept;
  // Null: there is no TLS.
  [[nodiscard]] const tls::Session* tls() const { return tls_.get(); }
  // Plain bytes again: for an answer to who does not speak TLS.
  void drop_tls() { tls_.reset(); }

  // Reads once, up to `most` bytes, behind what `into` holds. Gives the count; 0: the peer has ended its stream. The
  // buffer gets its memory only when there is something to read, so that waiting costs none: room for `least` bytes, or
  // for `most` where that is less. With TLS it is a record's.
  [[nodiscard]] Read read(Buffer& into, std::size_t most, Instant deadline, std::size_t least = 1024);
  // What a peer must take on average while a write waits, in bytes a second; 0: a byte in each `progress` of a write.
  // Who takes less is cut with Errc::timed_out, and close() drops what he has not taken.
  void set_slowest(std::uint32_t bytes_per_s) { slowest_ = bytes_per_s; }
  // Writes all of `parts`, whose array is used up. `progress` is the time in which the peer must take some of it.
  [[nodiscard]] Write write(std::span<iovec> parts, Duration progress);
  // Writes `head` and, in the same packets, bytes of an open file; `Errc::closed` where the file has become shorter.
  [[nodiscard]] SendFile send_file(std::string_view head, int file, std::uint64_t offset, std::uint64_t size,
                                   Duration progress);
  // It is to end, whatever is still to come: what waits, now or later, gives up in the loop's next turn, a write with
  // Errc::closed and a read as if it were late, and close() drops what the peer has not taken.
  void cut() noexcept {
    is_cut_ = true;
    reactor_.reset_on_close(handle_);
    read_deadline_.come_for_good();
    write_deadline_.come_for_good();
  }
  [[nodiscard]] bool is_cut() const { return is_cut_; }
  // A read that waits gives up in the loop's next turn, as if it were late.
  void end_read() noexcept { read_deadline_.come(); }
  // Ends this side: the peer reads what was written, and then the end. `progress` as in write().
  [[nodiscard]] End end(Duration progress);
  // Over TLS: says so, if the socket takes it at once, before a close(). For when nothing was cut short.
  void say_goodbye() noexcept {
    if (tls_) (void)tls_->end();
  }
  // Until there may be something to read, or the peer has gone.
  [[nodiscard]] Wait readable(Instant deadline);
  [[nodiscard]] Wait writable(Instant deadline);
  // Until the peer has ended its side, or has gone. What it sends meanwhile stays unread.
  [[nodiscard]] Wait ended(Instant deadline);

  // For an owner that waits at the handle itself: attempts that return at once, EAGAIN where they have to wait.
  [[nodiscard]] bool may_read() const { return handle_.may_read || (tls_ && tls_->has_more()); }
  [[nodiscard]] core::Io try_read(char* into, std::size_t size) {
    if (tls_) [[unlikely]]
      return tls_->read(into, size);
    return reactor_.recv(handle_, into, size);
  }
  // Consumes what was taken of the bytes. Over TLS that may be all of them, and some still has_unsent().
  [[nodiscard]] core::Io try_write(Buffer& from);
  [[nodiscard]] bool has_unsent() const { return tls_ && tls_->has_unsent(); }

 private:
  core::Task<Result<void>> shake_hands(Instant deadline);
  // For a write that has waited: whether it is over, and then with which result.
  [[nodiscard]] bool gives_up(Pace& pace, Result<void>& result) noexcept;

  core::Reactor& reactor_;
  core::Handle handle_;
  std::unique_ptr<tls::Session> tls_;
  Wait* handshake_ = nullptr;  // while one waits for the peer
  Deadline read_deadline_;
  Deadline write_deadline_;
  std::uint32_t slowest_ = 0;
  bool is_cut_ = false;
};

// One operation that is tried, waits where it would block, and is tried again inside the reactor's dispatch, so that
// the coroutine resumes only with a result. `Self` says in attempt() what is tried: true when there is a result;
// and in time_out(), when the time of until() has come, whether it gives up.
template <class Self>
class [[nodiscard]] Operation : public core::Waiter, Deadline::Client {
 public:
  Operation(core::Handle& handle, core::Waiter*& place, Deadline& deadline)
      : Waiter(&Operation::ready), Client(&Operation::expired), handle_(handle), place_(place), deadline_(deadline) {}
  ~Operation() { unlink(); }

  bool await_ready() noexcept { return static_cast<Self*>(this)->attempt(); }
  void await_suspend(std::coroutine_handle<> caller) noexcept {
    SLUICE_ASSERT(place_ == nullptr);
    caller_ = caller;
    place_ = this;
    linked_ = true;
    deadline_.start(*this, static_cast<Self*>(this)->until());
  }

 protected:
  [[nodiscard]] bool waiting() const { return linked_; }
  void finish() noexcept {
    unlink();
    caller_.resume();
  }
  void try_again() noexcept { ready(*this); }
  core::Handle& handle_;

 private:
  static void ready(core::Waiter& waiter) noexcept {
    auto& self = static_cast<Operation&>(waiter);
    if (static_cast<Self&>(self).attempt()) self.finish();
  }
  static void expired(Deadline::Client& client) noexcept {
    auto& self = static_cast<Operation&>(client);
    if (static_cast<Self&>(self).time_out()) return self.finish();
    self.deadline_.start(self, static_cast<Self&>(self).until());
  }
  void unlink() noexcept {
    if (!linked_) return;
    place_ = nullptr;
    linked_ = false;
    deadline_.stop();
  }

  core::Waiter*& place_;
  Deadline& deadline_;
  bool linked_ = false;
  std::coroutine_handle<> caller_;
};

// Waits for one direction of a stream, or for the peer's end, until a deadline.
class [[nodiscard]] Stream::Wait : public Operation<Stream::Wait> {
 public:
  enum class Event : std::uint8_t { readable, writable, ended };
  Wait(Stream& stream, Event event, Instant until)
      : Operation(stream.handle_, event == Event::writable ? stream.handle_.writer : stream.handle_.reader,
                  event == Event::writable ? stream.write_deadline_ : stream.read_deadline_),
        stream_(stream),
        event_(event),
        until_(until) {}

  bool attempt() const noexcept {
    if (event_ == Event::ended) return handle_.peer_ended;
    return event_ == Event::readable ? stream_.may_read() : handle_.may_write;
  }
  bool time_out() noexcept {
    result_ = fail(Errc::timed_out);
    return true;
  }
  [[nodiscard]] Instant until() const noexcept { return until_; }
  Result<void> await_resume() const noexcept { return result_; }
  // Ends the wait with Errc::closed, if it is on; resumes the waiting coroutine.
  void cancel() noexcept {
    if (!waiting()) return;
    result_ = fail(Errc::closed);
    finish();
  }

 private:
  Stream& stream_;
  Event event_;
  Instant until_;
  Result<void> result_;
};

// Waits for something to read without a coroutine, in whoever derives from it: an idle connection then has no frame.
class Stream::Watch : core::Waiter, Deadline::Client {
 public:
  [[nodiscard]] bool watching() const { return watching_; }

 protected:
  enum class Woken : std::uint8_t {
    readable,  // or the peer has gone
    late,      // the deadline has passed
    recalled,  // by recall()
  };

  explicit Watch(Stream& stream) : Waiter(&Watch::ready), Client(&Watch::expired), stream_(stream) {}
  ~Watch() { SLUICE_ASSERT(!watching_); }

  // False: there is something already.
  [[nodiscard]] bool watch(Instant until) {
    SLUICE_ASSERT(stream_.handle_.reader == nullptr);
    if (stream_.may_read()) return false;
    stream_.handle_.reader = this;
    watching_ = true;
    stream_.read_deadline_.start(*this, until);
    return true;
  }
  // Before the stream is destroyed.
  void unwatch() noexcept {
    if (!watching_) return;
    watching_ = false;
    stream_.handle_.reader = nullptr;
    stream_.read_deadline_.stop();
  }
  void recall() { wake(Woken::recalled); }
  // Comes from within the reactor's dispatch, or from recall(). It may destroy this.
  virtual void woken(Woken why) = 0;

 private:
  static void ready(core::Waiter& waiter) noexcept { static_cast<Watch&>(waiter).wake(Woken::readable); }
  static void expired(Deadline::Client& client) noexcept { static_cast<Watch&>(client).wake(Woken::late); }
  void wake(Woken why) {
    unwatch();
    woken(why);
  }

  Stream& stream_;
  bool watching_ = false;
};

class [[nodiscard]] Stream::Read : public Operation<Stream::Read> {
 public:
  Read(Stream& stream, Buffer& into, std::size_t most, Instant until, std::size_t least)
      : Operation(stream.handle_, stream.handle_.reader, stream.read_deadline_),
        stream_(stream),
        into_(into),
        most_(most),
        least_(std::min(least, most)),
        until_(until) {}

  bool attempt() noexcept;
  bool time_out() noexcept {
    result_ = fail(Errc::timed_out);
    return true;
  }
  [[nodiscard]] Instant until() const noexcept { return until_; }
  Result<std::size_t> await_resume() const noexcept { return result_; }

 private:
  bool attempt_tls(tls::Session& session) noexcept;
  // Null: there is no memory, and that is the result.
  char* reserve(std::size_t bytes) noexcept;

  Stream& stream_;
  Buffer& into_;
  std::size_t most_;
  std::size_t least_;
  Instant until_;
  Result<std::size_t> result_ = 0;
};

class [[nodiscard]] Stream::Write : public Operation<Stream::Write> {
 public:
  Write(Stream& stream, std::span<iovec> parts, Duration progress)
      : Operation(stream.handle_, stream.handle_.writer, stream.write_deadline_),
        stream_(stream),
        parts_(parts),
        pace_(progress) {}

  bool attempt() noexcept;
  bool time_out() noexcept { return stream_.gives_up(pace_, result_); }
  [[nodiscard]] Instant until() noexcept { return pace_.until(stream_.reactor_.now()); }
  Result<void> await_resume() const noexcept { return result_; }

 private:
  Stream& stream_;
  std::span<iovec> parts_;
  Pace pace_;
  Result<void> result_;
};

// A long file goes by shares, one a turn of the reactor, so that many files are sent side by side and nobody else waits
// long for the core, however fast the peer takes it.
class [[nodiscard]] Stream::SendFile : public Operation<Stream::SendFile>, core::TurnHook {
 public:
  static constexpr std::uint64_t share_bytes = 2 << 20;
  static constexpr std::uint64_t tls_share_bytes = 512 << 10;  // it is encrypted, too

  SendFile(Stream& stream, std::string_view head, int file, std::uint64_t offset, std::uint64_t size, Duration progress)
      : Operation(stream.handle_, stream.handle_.writer, stream.write_deadline_),
        TurnHook(&SendFile::next_turn),
        stream_(stream),
        head_(head),
        file_(file),
        offset_(offset),
        size_(size),
        pace_(progress) {}
  ~SendFile() {
    if (corked_ && handle_.open()) stream_.reactor_.cork(handle_, false);
  }

  bool attempt() noexcept;
  bool time_out() noexcept;
  [[nodiscard]] Instant until() noexcept { return pace_.until(stream_.reactor_.now()); }
  Result<void> await_resume() const noexcept { return result_; }

 private:
  static void next_turn(TurnHook& hook) noexcept {
    auto& self = static_cast<SendFile&>(hook);
    if (self.waiting()) self.try_again();
  }
  bool attempt_tls(tls::Session& session) noexcept;
  // The share is used up: goes on in the next turn. False, for attempt().
  bool put_off() noexcept {
    stream_.reactor_.at_next_turn(*this);
    return false;
  }

  Stream& stream_;
  std::string_view head_;
  int file_;
  std::uint64_t offset_;
  std::uint64_t size_;
  bool corked_ = false;
  Pace pace_;
  Result<void> result_;
};

class [[nodiscard]] Stream::End : public Operation<Stream::End> {
 public:
  End(Stream& stream, Duration progress)
      : Operation(stream.handle_, stream.handle_.writer, stream.write_deadline_), stream_(stream), pace_(progress) {}

  bool attempt() noexcept;
  bool time_out() noexcept { return stream_.gives_up(pace_, result_); }
  [[nodiscard]] Instant until() noexcept { return pace_.until(stream_.reactor_.now()); }
  Result<void> await_resume() const noexcept { return result_; }

 private:
  Stream& stream_;
  Pace pace_;
  Result<void> result_;
};

inline Stream::Read Stream::read(Buffer& into, std::size_t most, Instant deadline, std::size_t least) {
  return {*this, into, most, deadline, least};
}
inline Stream::Write Stream::write(std::span<iovec> parts, Duration progress) { return {*this, parts, progress}; }
inline Stream::SendFile Stream::send_file(std::string_view head, int file, std::uint64_t offset, std::uint64_t size,
                                          Duration progress) {
  return {*this, head, file, offset, size, progress};
}
inline Stream::End Stream::end(Duration progress) { return {*this, progress}; }
inline Stream::Wait Stream::readable(Instant deadline) { return {*this, Wait::Event::readable, deadline}; }
inline Stream::Wait Stream::writable(Instant deadline) { return {*this, Wait::Event::writable, deadline}; }
inline Stream::Wait Stream::ended(Instant deadline) { return {*this, Wait::Event::ended, deadline}; }

}  // namespace sluice::net
