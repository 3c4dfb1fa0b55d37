#include "http/h2/tunnel.h"

#include <algorithm>
#include <coroutine>
#include <cstring>

#include "http/h2/session.h"
#include "http/h2/stream.h"

namespace sluice::http::h2 {

// Waits until it is ended, or until its deadline passes.
class Tunnel::Wait : core::Timer {
 public:
  Wait(core::Reactor& reactor, Wait*& place, Instant until)
      : Timer(&Wait::expired), reactor_(reactor), place_(place), until_(until) {}
  Wait(const Wait&) = delete;
  ~Wait() { unlink(); }

  bool await_ready() const noexcept { return false; }
  void await_suspend(std::coroutine_handle<> caller) noexcept {
    SLUICE_ASSERT(place_ == nullptr);
    caller_ = caller;
    place_ = this;
    reactor_.timers().schedule(*this, until_);
  }
  Result<void> await_resume() const noexcept { return result_; }

  void put_off(Instant until) { reactor_.timers().schedule(*this, until); }
  void end(Result<void> result = {}) {
    result_ = result;
    unlink();
    caller_.resume();
  }

 private:
  static void expired(core::Timer& timer) noexcept { static_cast<Wait&>(timer).end(fail(Errc::timed_out)); }
  void unlink() {
    if (place_ != this) return;
    place_ = nullptr;
    reactor_.timers().cancel(*this);
  }

  core::Reactor& reactor_;
  Wait*& place_;
  Instant until_;
  Result<void> result_;
  std::coroutine_handle<> caller_;
};

Tunnel::Tunnel(Session& session, Stream& stream, Upgrade& upgrade)
    : session_(session),
      reactor_(session.reactor()),
      stream_(&stream),
      upgrade_(upgrade),
      next_(session.tunnels_),
      hook_(&Tunnel::tell_closed, *this) {
  if (next_ != nullptr) next_->previous_ = this;
  session_.tunnels_ = this;
  stream.tunnel = this;
  ++session_.attached_;
}

Tunnel::~Tunnel() {
  if (next_ != nullptr) next_->previous_ = previous_;
  (previous_ != nullptr ? previous_->next_ : session_.tunnels_) = next_;
  if (stream_ == nullptr) return;
  stream_->tunnel = nullptr;
  --session_.attached_;
  session_.end_tunnelled(*stream_, cut_ || (ended_ && !stream_->client_done));
}

std::optional<Result<std::size_t>> Tunnel::try_read(Buffer& into, std::size_t most) {
  if (stream_ == nullptr && !both_ended_) return fail(Errc::closed);
  Buffer& arrived = both_ended_ ? rest_ : stream_->arrived;
  if (arrived.empty()) {
    if (both_ended_ || stream_->client_done) return std::size_t{0};
    return std::nullopt;
  }
  const std::size_t size = std::min(most, arrived.size());
  into.append(arrived.view().substr(0, size));
  arrived.consume(size);
  if (stream_ != nullptr) session_.consumed(*stream_, size);
  return size;
}

core::Task<Result<void>> Tunnel::readable(Instant deadline) {
  if (stream_ == nullptr || stream_->client_done || !stream_->arrived.empty()) co_return Result<void>{};
  session_.lend_back(stream_->arrived);  // an idle stream keeps no buffer
  co_return co_await Wait(reactor_, reader_, deadline);
}

core::Task<void> Tunnel::peer_ended() {
  while (stream_ != nullptr && !stream_->client_done) (void)co_await Wait(reactor_, reader_, never);
}

void Tunnel::interrupt() {
  if (reader_ != nullptr) reader_->end();
}

core::Task<Result<void>> Tunnel::write(std::span<iovec> parts, Duration progress) {
  if (stream_ == nullptr) co_return fail(Errc::closed);
  SLUICE_ASSERT(pending_ == 0 && !ended_);
  parts_ = parts;
  for (const iovec& part : parts) pending_ += part.iov_len;
  if (pending_ == 0) co_return Result<void>{};
  progress_ = progress;
  // A write that times out or is cancelled can never be completed, so the stream must be reset.
  struct Writing {
    Tunnel& tunnel;
    ~Writing() {
      if (tunnel.pending_ != 0) tunnel.cut_ = true;
      tunnel.pending_ = 0;
      tunnel.aborts_ = false;
    }
  } writing{*this};
  session_.send_tunnelled(*stream_);
  const auto waited = co_await Wait(reactor_, writer_, reactor_.now() + progress);
  if (stream_ == nullptr) co_return fail(Errc::closed);
  if (pending_ == 0) co_return Result<void>{};
  co_return waited;
}

core::Task<Result<void>> Tunnel::end(Duration) {
  if (stream_ == nullptr) co_return fail(Errc::closed);
  ended_ = true;
  session_.end_tunnelled(*stream_, false);
  co_return Result<void>{};
}

void Tunnel::take(char* to, std::size_t size) {
  SLUICE_ASSERT(size <= pending_);
  pending_ -= size;
  while (size != 0) {
    iovec& part = parts_.front();
    const std::size_t piece = std::min(size, part.iov_len);
    if (piece != 0) std::memcpy(to, part.iov_base, piece);
    to += piece;
    size -= piece;
    part.iov_base = static_cast<char*>(part.iov_base) + piece;
    part.iov_len -= piece;
    if (part.iov_len == 0) parts_ = parts_.subspan(1);
  }
  if (writer_ != nullptr && !aborts_) writer_->put_off(reactor_.now() + progress_);
}

void Tunnel::cut() {
  cut_ = true;
  if (writer_ == nullptr) return;
  aborts_ = true;
  writer_->put_off(reactor_.now());
}

void Tunnel::wake_writer() {
  if (writer_ != nullptr && pending_ == 0) writer_->end();
}

void Tunnel::wake_reader() {
  if (reader_ != nullptr && (stream_ == nullptr || stream_->client_done || !stream_->arrived.empty())) reader_->end();
}

void Tunnel::detach() {
  if (ended_ && stream_->client_done) {
    both_ended_ = true;
    rest_.swap(stream_->arrived);
  }
  stream_ = nullptr;
  --session_.attached_;
  reactor_.at_turn_end(hook_);
}

// The resumed coroutine may destroy the tunnel, so no branch uses it afterwards.
void Tunnel::tell_closed(core::TurnHook& hook) noexcept {
  Tunnel& self = static_cast<Hook&>(hook).owner;
  if (self.writer_ != nullptr) {
    self.reactor_.at_turn_end(self.hook_);
    return self.writer_->end();
  }
  if (self.reader_ != nullptr) self.reader_->end();
}

}  // namespace sluice::http::h2
