#include "net/stream.h"

#include <algorithm>

namespace sluice::net {

void Stream::Wait::await_suspend(std::coroutine_handle<> caller) noexcept {
  SLUICE_ASSERT(place() == nullptr);
  caller_ = caller;
  place() = this;
  linked_ = true;
  stream_.reactor_.timers().schedule(timer_, deadline_);
}

void Stream::Wait::ready(core::Waiter& waiter) noexcept { static_cast<Wait&>(waiter).finish(); }

void Stream::Wait::expired(core::Timer& timer) noexcept {
  Wait& self = static_cast<Deadline&>(timer).owner;
  self.result_ = fail(Errc::timed_out);
  self.finish();
}

void Stream::Wait::cancel() noexcept {
  if (!linked_) return;
  result_ = fail(Errc::closed);
  finish();
}

void Stream::Wait::finish() noexcept {
  unlink();
  stream_.reactor_.timers().cancel(timer_);
  caller_.resume();
}

bool Stream::Read::attempt() noexcept {
  if (!handle_.may_read) return false;
  char* room = into_.reserve(std::min<std::size_t>(most_, 1024));
  const core::Io io = reactor_.recv(handle_, room, std::min(most_, into_.writable()));
  if (io.ok()) {
    into_.commit(io.bytes);
    result_ = io.bytes;
    return true;
  }
  if (io.would_block()) {
    if (into_.empty()) into_.release();
    return false;
  }
  result_ = fail(io.error == ECONNRESET ? Errc::closed : Errc::system, io.error);
  return true;
}

bool Stream::Write::attempt() noexcept {
  constexpr std::size_t most_parts = 64;
  while (!parts_.empty()) {
    if (!handle_.may_write) return false;
    const core::Io io = reactor_.send(handle_, parts_.first(std::min(parts_.size(), most_parts)));
    if (io.would_block()) return false;
    if (!io.ok()) {
      result_ = fail(io.error == EPIPE || io.error == ECONNRESET ? Errc::closed : Errc::system, io.error);
      return true;
    }
    std::size_t sent = io.bytes;
    while (!parts_.empty() && sent >= parts_[0].iov_len) {
      sent -= parts_[0].iov_len;
      parts_ = parts_.subspan(1);
    }
    if (!parts_.empty() && sent != 0) {
      parts_[0].iov_base = static_cast<char*>(parts_[0].iov_base) + sent;
      parts_[0].iov_len -= sent;
    }
  }
  return true;
}

bool Stream::SendFile::attempt() noexcept {
  constexpr std::size_t most_at_once = 1 << 20;  // the socket's buffer ends it earlier as a rule
  while (size_ != 0) {
    if (!handle_.may_write) return false;
    const auto wanted = static_cast<std::size_t>(std::min<std::uint64_t>(size_, most_at_once));
    const core::Io io = reactor_.send_file(handle_, file_, offset_, wanted);
    if (io.would_block()) return false;
    if (!io.ok() || io.bytes == 0) {
      result_ = fail(io.ok() || io.error == EPIPE || io.error == ECONNRESET ? Errc::closed : Errc::system, io.error);
      return true;
    }
    offset_ += io.bytes;
    size_ -= io.bytes;
  }
  return true;
}

core::Task<Result<void>> Stream::connect(core::Address address, Instant deadline) {
  auto connected = reactor_.connect(handle_, address);
  if (!connected) co_return std::unexpected(connected.error());
  if (!*connected) {
    if (auto waited = co_await writable(deadline); !waited) {
      close();
      co_return waited;
    }
    if (auto result = reactor_.connect_result(handle_); !result) {
      close();
      co_return result;
    }
  }
  co_return Result<void>{};
}

}  // namespace sluice::net
