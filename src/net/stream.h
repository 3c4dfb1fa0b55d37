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

// The deadline of an operation that waits in one direction of a stream. The timer stays armed when a wait ends; when it
// fires, it looks up the current client. So a busy connection reschedules it only once in a while, not at every wait.
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
  // Makes the deadline of the current client pass now.
  void come() {
    if (client_ != nullptr) start(*client_, reactor_.now());
  }
  // Makes the deadline of the current client and all later ones pass.
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

// Measures how fast a peer accepts written bytes while a write waits. In each interval of length `progress` the peer
// must accept a minimum, at least one byte. Bytes count when they have left the socket's buffer: a full buffer of
// megabytes has no room for the next write for a long time, even if the peer reads. The first interval is shorter and
// only gives the value to compare with; most waits end within it.
class Pace {
 public:
  explicit Pace(Duration progress) : progress_(progress) {}

  [[nodiscard]] Instant until(Instant now) noexcept {
    if (end_ == Instant{}) end_ = now + progress_ / 8;
    return end_;
  }
  // Restarts the interval, because the time until now was not spent waiting for the peer.
  void begin_anew(Instant now) noexcept { end_ = now + progress_; }
  // Called at the end of an interval: whether the peer has accepted too little.
  [[nodiscard]] bool is_too_slow(const core::Reactor& reactor, const core::Handle& handle,
                                 std::uint32_t bytes_per_s) noexcept;

 private:
  Duration progress_;
  Instant end_{};
  std::uint64_t taken_ = 0;  // up to the last check
  bool looked_ = false;
};

// A connected socket of one core: bytes in, bytes out. Operations are awaited. They try first, wait at most until a
// deadline, and are cancelled by destroying the awaiting coroutine. At most one read and one write wait at a time. A
// Stream must not move while it is open.
//
// With TLS the same operations use a tls::Session and transfer application bytes. If the peer ends without close_notify
// (a truncation), the result is Errc::closed.
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
  // Closes at once and, over TLS, without close_notify, so the peer can detect that data is missing.
  void close() noexcept {
    reactor_.close(handle_);
    tls_.reset();
  }

  [[nodiscard]] core::Task<Result<void>> connect(core::Address address, Instant deadline);

  // From here on all operations use TLS. After a failure, tls() still returns the session, which holds the error, and
  // the stream must be closed. All arguments but the context must outlive the stream.
  [[nodiscard]] core::Task<Result<void>> accept_tls(std::shared_ptr<const tls::ServerContext> context,
                                                    tls::CoreState& core, Instant deadline);
  // `host` must outlive the call, `resumption` the stream.
  [[nodiscard]] core::Task<Result<void>> connect_tls(std::shared_ptr<const tls::ClientContext> context,
                                                     const std::string& host, tls::CoreState& core, Instant deadline,
                                                     tls::Resumption* resumption = nullptr);
  // If the peer has not sent any bytes of the handshake yet, it must do so until then.
  void hurry_handshake(Instant until) noexcept;
  // Null without TLS.
  [[nodiscard]] const tls::Session* tls() const { return tls_.get(); }
  // Returns to plain bytes, to answer a client that does not use TLS.
  void drop_tls() { tls_.reset(); }

  // Reads once, and appends up to `most` bytes to `into`. Returns the count; 0: the peer has ended its stream. The
  // buffer is allocated only when there is something to read, so that waiting needs no memory. It gets room for `least`
  // bytes, or for `most` if that is less. With TLS it gets room for a record.
  [[nodiscard]] Read read(Buffer& into, std::size_t most, Instant deadline, std::size_t least = 1024);
  // The average rate in bytes per second at which a peer must accept data while a write waits; 0: one byte in each
  // `progress` of a write. If the peer is slower, the write fails with Errc::timed_out, and close() drops unsent bytes.
  void set_slowest(std::uint32_t bytes_per_s) { slowest_ = bytes_per_s; }
  // Writes all of `parts`; the array is modified. In each `progress`, the peer must accept some bytes.
  [[nodiscard]] Write write(std::span<iovec> parts, Duration progress);
  // Writes `head` and, in the same packets, bytes of an open file; `Errc::closed` if the file has become shorter.
  [[nodiscard]] SendFile send_file(std::string_view head, int file, std::uint64_t offset, std::uint64_t size,
                                   Duration progress);
  // Aborts the stream. Operations that wait, now or later, fail in the loop's next turn: a write with Errc::closed, a
  // read as if its deadline had passed. close() drops what the peer has not accepted.
  void cut() noexcept {
    is_cut_ = true;
    reactor_.reset_on_close(handle_);
    read_deadline_.come_for_good();
    write_deadline_.come_for_good();
  }
  [[nodiscard]] bool is_cut() const { return is_cut_; }
  // A waiting read fails in the loop's next turn, as if its deadline had passed.
  void end_read() noexcept { read_deadline_.come(); }
  // Ends this side: the peer reads what was written, and then the end. `progress` as in write().
  [[nodiscard]] End end(Duration progress);
  // Over TLS: sends close_notify before a close(), if the socket accepts it at once. Only for streams whose output is
  // complete.
  void say_goodbye() noexcept {
    if (tls_) (void)tls_->end();
  }
  // Waits until there may be something to read, or the connection has failed.
  [[nodiscard]] Wait readable(Instant deadline);
  [[nodiscard]] Wait writable(Instant deadline);
  // Waits until the peer has ended its side, or the connection has failed. Bytes received meanwhile stay unread.
  [[nodiscard]] Wait ended(Instant deadline);

  // For an owner that waits at the handle itself: these attempts return at once, with EAGAIN if they would have to
  // wait.
  [[nodiscard]] bool may_read() const { return handle_.may_read || (tls_ && tls_->has_more()); }
  [[nodiscard]] core::Io try_read(char* into, std::size_t size) {
    if (tls_) [[unlikely]]
      return tls_->read(into, size);
    return reactor_.recv(handle_, into, size);
  }
  // Removes the accepted bytes from `from`. Over TLS all bytes may be accepted while some of them are still unsent, see
  // has_unsent().
  [[nodiscard]] core::Io try_write(Buffer& from);
  [[nodiscard]] bool has_unsent() const { return tls_ && tls_->has_unsent(); }

 private:
  core::Task<Result<void>> shake_hands(Instant deadline);
  // For a write that has waited: whether it ends now, and with which result.
  [[nodiscard]] bool gives_up(Pace& pace, Result<void>& result) noexcept;

  core::Reactor& reactor_;
  core::Handle handle_;
  std::unique_ptr<tls::Session> tls_;
  Wait* handshake_ = nullptr;  // set while a handshake waits for the peer
  Deadline read_deadline_;
  Deadline write_deadline_;
  std::uint32_t slowest_ = 0;
  bool is_cut_ = false;
};

// One operation: it tries, waits if it would block, and tries again inside the reactor's dispatch, so the coroutine
// resumes only with a result. `Self` defines attempt(), which tries and returns true if there is a result. It also
// defines time_out(), which is called at the time that until() returned and says whether the operation ends.
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
    renew_deadline();
  }

 protected:
  [[nodiscard]] bool waiting() const { return linked_; }
  void finish() noexcept {
    unlink();
    caller_.resume();
  }
  void try_again() noexcept { ready(*this); }
  void renew_deadline() noexcept { deadline_.start(*this, static_cast<Self*>(this)->until()); }
  core::Handle& handle_;

 private:
  static void ready(core::Waiter& waiter) noexcept {
    auto& self = static_cast<Operation&>(waiter);
    if (static_cast<Self&>(self).attempt()) self.finish();
  }
  static void expired(Deadline::Client& client) noexcept {
    auto& self = static_cast<Operation&>(client);
    if (static_cast<Self&>(self).time_out()) return self.finish();
    self.renew_deadline();
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
  void end_by(Instant until) noexcept {
    until_ = std::min(until_, until);
    if (waiting()) renew_deadline();
  }
  // Ends a wait in progress with Errc::closed; resumes the waiting coroutine.
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

// A base class that waits for something to read without a coroutine, so an idle connection needs no frame.
class Stream::Watch : core::Waiter, Deadline::Client {
 public:
  [[nodiscard]] bool watching() const { return watching_; }

 protected:
  enum class Woken : std::uint8_t {
    readable,  // or the connection has failed
    late,      // the deadline has passed
    recalled,  // by recall()
  };

  explicit Watch(Stream& stream) : Waiter(&Watch::ready), Client(&Watch::expired), stream_(stream) {}
  ~Watch() { SLUICE_ASSERT(!watching_); }

  // Returns false if there is something to read already.
  [[nodiscard]] bool watch(Instant until) {
    SLUICE_ASSERT(stream_.handle_.reader == nullptr);
    if (stream_.may_read()) return false;
    stream_.handle_.reader = this;
    watching_ = true;
    stream_.read_deadline_.start(*this, until);
    return true;
  }
  // Must be called before the stream is destroyed.
  void unwatch() noexcept {
    if (!watching_) return;
    watching_ = false;
    stream_.handle_.reader = nullptr;
    stream_.read_deadline_.stop();
  }
  void recall() { wake(Woken::recalled); }
  // Called from the reactor's dispatch, or from recall(). It may destroy this object.
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
  // Returns null if there is no memory, and sets that as the result.
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

// A long file is sent in shares, one per turn of the reactor. Other files and other work of the core therefore do not
// wait long, even if the peer reads fast.
class [[nodiscard]] Stream::SendFile : public Operation<Stream::SendFile>, core::TurnHook {
 public:
  static constexpr std::uint64_t share_bytes = 2 << 20;
  static constexpr std::uint64_t tls_share_bytes = 512 << 10;  // smaller, because the bytes are also encrypted

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
  // Called when the share is used up: continues in the next turn. Returns false, as attempt()'s result.
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
