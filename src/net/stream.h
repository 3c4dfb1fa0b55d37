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

// A connected socket of one core: bytes in, bytes out. Its operations are awaited, tried before they wait, bounded by a
// deadline, and cancelled by destroying the coroutine that awaits them. At most one read and one write wait at a time.
// It must not move while it is open.
class Stream {
 public:
  class Wait;
  class Read;
  class Write;
  class SendFile;

  explicit Stream(core::Reactor& reactor) : reactor_(reactor) {}
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
};

// Waits for one direction of a stream, until a deadline.
class [[nodiscard]] Stream::Wait : core::Waiter {
 public:
  enum class Direction : bool { read, write };
  Wait(Stream& stream, Direction direction, Instant deadline)
      : Waiter(&Wait::ready), stream_(stream), direction_(direction), deadline_(deadline), timer_(&Wait::expired, *this) {}
  ~Wait() { unlink(); }

  bool await_ready() const noexcept {
    return direction_ == Direction::read ? stream_.handle_.may_read : stream_.handle_.may_write;
  }
  void await_suspend(std::coroutine_handle<> caller) noexcept;
  Result<void> await_resume() const noexcept { return result_; }
  // Ends the wait with Errc::closed, if it is on; resumes the waiting coroutine.
  void cancel() noexcept;

 private:
  struct Deadline : core::Timer {
    Deadline(Callback fire, Wait& owner) : Timer(fire), owner(owner) {}
    Wait& owner;
  };
  static void ready(core::Waiter& waiter) noexcept;
  static void expired(core::Timer& timer) noexcept;
  core::Waiter*& place() { return direction_ == Direction::read ? stream_.handle_.reader : stream_.handle_.writer; }
  void unlink() noexcept {
    if (linked_) {
      place() = nullptr;
      linked_ = false;
    }
  }
  void finish() noexcept;

  Stream& stream_;
  Direction direction_;
  bool linked_ = false;
  Result<void> result_;
  Instant deadline_;
  Deadline timer_;
  std::coroutine_handle<> caller_;
};

// One operation that is tried, waits where it would block, and is tried again inside the reactor's dispatch, so that
// the coroutine resumes only with a result. `Self` says in attempt() what is tried: true when there is a result.
template <class Self>
class [[nodiscard]] Operation : public core::Waiter {
 public:
  Operation(core::Reactor& reactor, core::Handle& handle, core::Waiter*& place)
      : Waiter(&Operation::ready), reactor_(reactor), handle_(handle), place_(place), timer_(&Operation::expired, *this) {}
  ~Operation() { unlink(); }

  bool await_ready() noexcept { return static_cast<Self*>(this)->attempt(); }
  void await_suspend(std::coroutine_handle<> caller) noexcept {
    SLUICE_ASSERT(place_ == nullptr);
    caller_ = caller;
    place_ = this;
    linked_ = true;
    reactor_.timers().schedule(timer_, static_cast<Self*>(this)->deadline());
  }

 protected:
  core::Reactor& reactor_;
  core::Handle& handle_;

 private:
  struct Deadline : core::Timer {
    Deadline(Callback fire, Operation& owner) : Timer(fire), owner(owner) {}
    Operation& owner;
  };
  static void ready(core::Waiter& waiter) noexcept {
    auto& self = static_cast<Operation&>(waiter);
    if (!static_cast<Self&>(self).attempt()) {
      self.reactor_.timers().schedule(self.timer_, static_cast<Self&>(self).deadline());
      return;
    }
    self.finish();
  }
  static void expired(core::Timer& timer) noexcept {
    auto& self = static_cast<Deadline&>(timer).owner;
    static_cast<Self&>(self).time_out();
    self.finish();
  }
  void unlink() noexcept {
    if (linked_) {
      place_ = nullptr;
      linked_ = false;
    }
  }
  void finish() noexcept {
    unlink();
    reactor_.timers().cancel(timer_);
    caller_.resume();
  }

  core::Waiter*& place_;
  bool linked_ = false;
  Deadline timer_;
  std::coroutine_handle<> caller_;
};

class [[nodiscard]] Stream::Read : public Operation<Stream::Read> {
 public:
  Read(Stream& stream, Buffer& into, std::size_t most, Instant deadline)
      : Operation(stream.reactor_, stream.handle_, stream.handle_.reader), into_(into), most_(most), deadline_(deadline) {}

  bool attempt() noexcept;
  void time_out() noexcept { result_ = fail(Errc::timed_out); }
  [[nodiscard]] Instant deadline() const noexcept { return deadline_; }
  Result<std::size_t> await_resume() const noexcept { return result_; }

 private:
  Buffer& into_;
  std::size_t most_;
  Instant deadline_;
  Result<std::size_t> result_ = 0;
};

class [[nodiscard]] Stream::Write : public Operation<Stream::Write> {
 public:
  Write(Stream& stream, std::span<iovec> parts, Duration progress)
      : Operation(stream.reactor_, stream.handle_, stream.handle_.writer), parts_(parts), progress_(progress) {}

  bool attempt() noexcept;
  void time_out() noexcept { result_ = fail(Errc::timed_out); }
  [[nodiscard]] Instant deadline() const noexcept { return reactor_.now() + progress_; }
  Result<void> await_resume() const noexcept { return result_; }

 private:
  std::span<iovec> parts_;
  Duration progress_;
  Result<void> result_;
};

class [[nodiscard]] Stream::SendFile : public Operation<Stream::SendFile> {
 public:
  SendFile(Stream& stream, int file, std::uint64_t offset, std::uint64_t size, Duration progress)
      : Operation(stream.reactor_, stream.handle_, stream.handle_.writer),
        file_(file),
        offset_(offset),
        size_(size),
        progress_(progress) {}

  bool attempt() noexcept;
  void time_out() noexcept { result_ = fail(Errc::timed_out); }
  [[nodiscard]] Instant deadline() const noexcept { return reactor_.now() + progress_; }
  Result<void> await_resume() const noexcept { return result_; }

 private:
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
