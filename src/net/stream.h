#pragma once

#include <sys/uio.h>

#include <coroutine>
#include <cstddef>
#include <span>
#include <string>

#include "base/buffer.h"
#include "base/result.h"
#include "core/reactor.h"
#include "core/task.h"

namespace sluice::net {

// The deadline of whatever waits in one direction of a stream. The timer is left armed when a wait ends, and asks when it
// fires whom it is for: so a busy connection reschedules it once in a while and not at every wait.
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
    client_ = &client;
    client.until_ = until;
    if (!armed() || when() > until) [[unlikely]] reactor_.timers().schedule(*this, until);
  }
  void stop() { client_ = nullptr; }

 private:
  static void fired(core::Timer& timer) noexcept;

  core::Reactor& reactor_;
  Client* client_ = nullptr;
};

// A connected socket of one core: bytes in, bytes out. Its operations are awaited, tried before they wait, bounded by a
// deadline, and cancelled by destroying the coroutine that awaits them. At most one read and one write wait at a time.
// It must not move while it is open.
class Stream {
 public:
  class Wait;
  class Read;
  class Write;
  class SendFile;

  explicit Stream(core::Reactor& reactor) : reactor_(reactor), read_deadline_(reactor), write_deadline_(reactor) {}
  Stream(const Stream&) = delete;
  ~Stream() { close(); }

  [[nodiscard]] core::Handle& handle() { return handle_; }
  [[nodiscard]] const core::Handle& handle() const { return handle_; }
  [[nodiscard]] core::Reactor& reactor() { return reactor_; }
  [[nodiscard]] bool open() const { return handle_.open(); }
  void close() noexcept { reactor_.close(handle_); }

  [[nodiscard]] core::Task<Result<void>> connect(core::Address address, Instant deadline);

  // Reads once, up to `most` bytes, behind what `into` holds. Gives the count; 0: the peer has ended its stream. The
  // buffer gets its memory only when there is something to read, so that waiting costs none.
  [[nodiscard]] Read read(Buffer& into, std::size_t most, Instant deadline);
  // Writes all of `parts`, whose array is used up. `progress` bounds each wait for the peer to take more.
  [[nodiscard]] Write write(std::span<iovec> parts, Duration progress);
  // Writes bytes of an open file; `Errc::closed` where the file has become shorter.
  [[nodiscard]] SendFile send_file(int file, std::uint64_t offset, std::uint64_t size, Duration progress);
  // Until there may be something to read, or the peer has gone.
  [[nodiscard]] Wait readable(Instant deadline);
  [[nodiscard]] Wait writable(Instant deadline);

 private:
  core::Reactor& reactor_;
  core::Handle handle_;
  Deadline read_deadline_;
  Deadline write_deadline_;
};

// One operation that is tried, waits where it would block, and is tried again inside the reactor's dispatch, so that
// the coroutine resumes only with a result. `Self` says in attempt() what is tried: true when there is a result.
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
  core::Handle& handle_;

 private:
  static void ready(core::Waiter& waiter) noexcept {
    auto& self = static_cast<Operation&>(waiter);
    if (static_cast<Self&>(self).attempt()) return self.finish();
    self.deadline_.start(self, static_cast<Self&>(self).until());
  }
  static void expired(Deadline::Client& client) noexcept {
    auto& self = static_cast<Operation&>(client);
    static_cast<Self&>(self).time_out();
    self.finish();
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

// Waits for one direction of a stream, until a deadline.
class [[nodiscard]] Stream::Wait : public Operation<Stream::Wait> {
 public:
  enum class Direction : bool { read, write };
  Wait(Stream& stream, Direction direction, Instant until)
      : Operation(stream.handle_, direction == Direction::read ? stream.handle_.reader : stream.handle_.writer,
                  direction == Direction::read ? stream.read_deadline_ : stream.write_deadline_),
        direction_(direction),
        until_(until) {}

  bool attempt() const noexcept { return direction_ == Direction::read ? handle_.may_read : handle_.may_write; }
  void time_out() noexcept { result_ = fail(Errc::timed_out); }
  [[nodiscard]] Instant until() const noexcept { return until_; }
  Result<void> await_resume() const noexcept { return result_; }
  // Ends the wait with Errc::closed, if it is on; resumes the waiting coroutine.
  void cancel() noexcept {
    if (!waiting()) return;
    result_ = fail(Errc::closed);
    finish();
  }

 private:
  Direction direction_;
  Instant until_;
  Result<void> result_;
};

class [[nodiscard]] Stream::Read : public Operation<Stream::Read> {
 public:
  Read(Stream& stream, Buffer& into, std::size_t most, Instant until)
      : Operation(stream.handle_, stream.handle_.reader, stream.read_deadline_),
        reactor_(stream.reactor_),
        into_(into),
        most_(most),
        until_(until) {}

  bool attempt() noexcept;
  void time_out() noexcept { result_ = fail(Errc::timed_out); }
  [[nodiscard]] Instant until() const noexcept { return until_; }
  Result<std::size_t> await_resume() const noexcept { return result_; }

 private:
  core::Reactor& reactor_;
  Buffer& into_;
  std::size_t most_;
  Instant until_;
  Result<std::size_t> result_ = 0;
};

class [[nodiscard]] Stream::Write : public Operation<Stream::Write> {
 public:
  Write(Stream& stream, std::span<iovec> parts, Duration progress)
      : Operation(stream.handle_, stream.handle_.writer, stream.write_deadline_),
        reactor_(stream.reactor_),
        parts_(parts),
        progress_(progress) {}

  bool attempt() noexcept;
  void time_out() noexcept { result_ = fail(Errc::timed_out); }
  [[nodiscard]] Instant until() const noexcept { return reactor_.now() + progress_; }
  Result<void> await_resume() const noexcept { return result_; }

 private:
  core::Reactor& reactor_;
  std::span<iovec> parts_;
  Duration progress_;
  Result<void> result_;
};

class [[nodiscard]] Stream::SendFile : public Operation<Stream::SendFile> {
 public:
  SendFile(Stream& stream, int file, std::uint64_t offset, std::uint64_t size, Duration progress)
      : Operation(stream.handle_, stream.handle_.writer, stream.write_deadline_),
        reactor_(stream.reactor_),
        file_(file),
        offset_(offset),
        size_(size),
        progress_(progress) {}

  bool attempt() noexcept;
  void time_out() noexcept { result_ = fail(Errc::timed_out); }
  [[nodiscard]] Instant until() const noexcept { return reactor_.now() + progress_; }
  Result<void> await_resume() const noexcept { return result_; }

 private:
  core::Reactor& reactor_;
  int file_;
  std::uint64_t offset_;
  std::uint64_t size_;
  Duration progress_;
  Result<void> result_;
};

inline Stream::Read Stream::read(Buffer& into, std::size_t most, Instant deadline) {
  return {*this, into, most, deadline};
}
inline Stream::Write Stream::write(std::span<iovec> parts, Duration progress) { return {*this, parts, progress}; }
inline Stream::SendFile Stream::send_file(int file, std::uint64_t offset, std::uint64_t size, Duration progress) {
  return {*this, file, offset, size, progress};
}
inline Stream::Wait Stream::readable(Instant deadline) { return {*this, Wait::Direction::read, deadline}; }
inline Stream::Wait Stream::writable(Instant deadline) { return {*this, Wait::Direction::write, deadline}; }

}  // namespace sluice::net
