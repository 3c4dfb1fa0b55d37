#include "net/stream_duplex.h"

#include <algorithm>
#include <utility>

namespace sluice::net {

StreamDuplex::StreamDuplex(Stream& stream, Buffer received) : stream_(stream), received_(std::move(received)) {
  if (received_.empty()) received_.release();
}

std::optional<Result<std::size_t>> StreamDuplex::try_read(Buffer& into, std::size_t most) {
  if (!received_.empty()) [[unlikely]] {
    const std::size_t size = std::min(most, received_.size());
    into.append(received_.view().substr(0, size));
    received_.consume(size);
    if (received_.empty()) received_.release();
    return size;
  }
  Stream::Read reading = stream_.read(into, most, never);
  if (!reading.attempt()) return std::nullopt;
  return reading.await_resume();
}

core::Task<Result<void>> StreamDuplex::readable(Instant deadline) {
  if (!received_.empty()) co_return Result<void>{};
  Stream::Wait wait = stream_.readable(deadline);
  struct Place {
    StreamDuplex& duplex;
    ~Place() { duplex.waiting_ = nullptr; }
  } place{*this};
  waiting_ = &wait;
  const auto waited = co_await wait;
  // Errc::closed comes from interrupt().
  if (!waited && waited.error().code == Errc::timed_out) co_return waited;
  co_return Result<void>{};
}

core::Task<void> StreamDuplex::peer_ended() { (void)co_await stream_.ended(never); }

void StreamDuplex::interrupt() {
  if (waiting_ != nullptr) waiting_->cancel();
}

core::Task<Result<void>> StreamDuplex::write(std::span<iovec> parts, Duration progress) {
  co_return co_await stream_.write(parts, progress);
}

core::Task<Result<void>> StreamDuplex::end(Duration progress) { co_return co_await stream_.end(progress); }

}  // namespace sluice::net
