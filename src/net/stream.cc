#include "net/stream.h"

#include <algorithm>
#include <cerrno>
#include <new>
#include <utility>

namespace sluice::net {
namespace {

std::unexpected<Error> failed(int error) {
  const bool gone = error == EPIPE || error == ECONNRESET;
  return fail(gone ? Errc::closed : error == EPROTO ? Errc::malformed : Errc::system, error);
}

}  // namespace

void Deadline::fired(core::Timer& timer) noexcept {
  auto& self = static_cast<Deadline&>(timer);
  Client* const client = self.client_;
  if (client == nullptr) return;
  if (client->until_ > self.reactor_.now()) {
    self.reactor_.timers().schedule(self, client->until_);
    return;
  }
  client->expired_(*client);
}

bool Pace::is_too_slow(const core::Reactor& reactor, const core::Handle& handle, std::uint32_t bytes_per_s) noexcept {
  const std::uint64_t taken = handle.sent - reactor.unsent(handle);
  const auto least = static_cast<std::uint64_t>(bytes_per_s * std::chrono::duration<double>(progress_).count());
  const bool too_slow = looked_ && taken - taken_ < std::max<std::uint64_t>(least, 1);
  taken_ = taken;
  looked_ = true;
  end_ = reactor.now() + progress_;
  return too_slow;
}

bool Stream::gives_up(Pace& pace, Result<void>& result) noexcept {
  if (!is_cut_ && !pace.is_too_slow(reactor_, handle_, slowest_)) return false;
  reactor_.reset_on_close(handle_);
  result = fail(is_cut_ ? Errc::closed : Errc::timed_out);
  return true;
}

char* Stream::Read::reserve(std::size_t bytes) noexcept {
  try {
    return into_.reserve(bytes);
  } catch (const std::bad_alloc&) {
    result_ = fail(Errc::system, ENOMEM);
    return nullptr;
  }
}

bool Stream::Read::attempt() noexcept {
  if (stream_.tls_) [[unlikely]]
    return attempt_tls(*stream_.tls_);
  if (!handle_.may_read) return false;
  char* const room = reserve(least_);
  if (room == nullptr) return true;
  const core::Io io = stream_.reactor_.recv(handle_, room, std::min(most_, into_.writable()));
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

bool Stream::Read::attempt_tls(tls::Session& session) noexcept {
  constexpr std::size_t record_bytes = 16 * 1024;
  if (!handle_.may_read && !session.has_more()) return false;
  char* const room = reserve(std::min(most_, record_bytes));
  if (room == nullptr) return true;
  const core::Io io = session.read(room, std::min(most_, into_.writable()));
  if (io.ok()) {
    into_.commit(io.bytes);
    result_ = io.bytes;
    return true;
  }
  if (io.would_block()) {
    if (into_.empty()) into_.release();
    return false;
  }
  result_ = failed(io.error);
  return true;
}

bool Stream::Write::attempt() noexcept {
  constexpr std::size_t most_parts = 256;
  if (stream_.tls_) [[unlikely]] {
    const core::Io io = stream_.tls_->write(parts_);
    if (io.would_block()) return false;
    if (!io.ok()) result_ = failed(io.error);
    return true;
  }
  while (!parts_.empty()) {
    if (!handle_.may_write) return false;
    const core::Io io = stream_.reactor_.send(handle_, parts_.first(std::min(parts_.size(), most_parts)));
    if (io.would_block()) return false;
    if (!io.ok()) {
      result_ = failed(io.error);
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
  if (pending()) return false;  // another event has resumed it before its turn
  if (stream_.tls_) [[unlikely]]
    return attempt_tls(*stream_.tls_);
  if (size_ > share_bytes && !corked_) {
    // Without the cork, each share, and each piece sent after an acknowledgement, would end with a packet that is not
    // full.
    stream_.reactor_.cork(handle_, true);
    corked_ = true;
  }
  while (!head_.empty()) {
    if (!handle_.may_write) return false;
    const iovec part{const_cast<char*>(head_.data()), head_.size()};
    core::Reactor& reactor = stream_.reactor_;
    const core::Io io = size_ != 0 ? reactor.send_before_more(handle_, {&part, 1}) : reactor.send(handle_, {&part, 1});
    if (io.would_block()) return false;
    if (!io.ok()) {
      result_ = failed(io.error);
      return true;
    }
    head_.remove_prefix(io.bytes);
  }
  std::uint64_t share = share_bytes;
  while (size_ != 0) {
    if (!handle_.may_write) return false;
    if (share == 0) return put_off();
    const auto wanted = static_cast<std::size_t>(std::min(size_, share));
    const core::Io io = stream_.reactor_.send_file(handle_, file_, offset_, wanted);
    if (io.would_block()) return false;
    if (!io.ok() || io.bytes == 0) {
      result_ = failed(io.ok() ? EPIPE : io.error);
      return true;
    }
    offset_ += io.bytes;
    size_ -= io.bytes;
    share -= io.bytes;
  }
  return true;
}

bool Stream::SendFile::attempt_tls(tls::Session& session) noexcept {
  std::uint64_t share = std::min(size_, tls_share_bytes);
  const std::uint64_t rest = size_ - share;
  const core::Io io = session.send_file(head_, file_, offset_, share);
  size_ = rest + share;
  if (io.would_block()) return false;
  if (io.ok() && size_ != 0) return put_off();
  if (!io.ok()) result_ = failed(io.error);
  return true;
}

bool Stream::SendFile::time_out() noexcept {
  if (!pending() || stream_.is_cut_) return stream_.gives_up(pace_, result_);
  pace_.begin_anew(stream_.reactor_.now());
  return false;
}

bool Stream::End::attempt() noexcept {
  if (stream_.tls_) {
    const core::Io io = stream_.tls_->end();
    if (io.would_block()) return false;
    if (!io.ok()) result_ = failed(io.error);
  }
  stream_.reactor_.shutdown_write(handle_);
  return true;
}

core::Io Stream::try_write(Buffer& from) {
  iovec part{from.data(), from.size()};
  if (tls_) [[unlikely]] {
    std::span<iovec> parts(&part, 1);
    const core::Io io = tls_->write(parts);
    from.consume(from.size() - (parts.empty() ? 0 : part.iov_len));
    return io;
  }
  const core::Io io = reactor_.send(handle_, {&part, 1});
  if (io.ok()) from.consume(io.bytes);
  return io;
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

core::Task<Result<void>> Stream::accept_tls(std::shared_ptr<const tls::ServerContext> context, tls::CoreState& core,
                                            Instant deadline) {
  tls_ = std::make_unique<tls::Session>(std::move(context), core, reactor_, handle_);
  return shake_hands(deadline);
}

core::Task<Result<void>> Stream::connect_tls(std::shared_ptr<const tls::ClientContext> context, const std::string& host,
                                             tls::CoreState& core, Instant deadline, tls::Resumption* resumption) {
  tls_ = std::make_unique<tls::Session>(std::move(context), host, core, reactor_, handle_, resumption);
  return shake_hands(deadline);
}

void Stream::hurry_handshake(Instant until) noexcept {
  if (handshake_ != nullptr && !tls_->has_received()) handshake_->end_by(until);
}

core::Task<Result<void>> Stream::shake_hands(Instant deadline) {
  for (;;) {
    const tls::Session::Step step = tls_->handshake();
    if (step == tls::Session::Step::done) co_return Result<void>{};
    if (step == tls::Session::Step::failed) {
      co_return fail(tls_->failure() == tls::Failure::closed ? Errc::closed : Errc::malformed);
    }
    Wait wait(*this, step == tls::Session::Step::want_read ? Wait::Event::readable : Wait::Event::writable, deadline);
    handshake_ = &wait;
    const auto waited = co_await wait;
    handshake_ = nullptr;
    if (!waited) co_return waited;
  }
}

}  // namespace sluice::net
