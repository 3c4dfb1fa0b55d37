#pragma once

#include <cstddef>
#include <optional>
#include <span>

#include "net/duplex.h"
#include "net/stream.h"

namespace sluice::net {

// A Duplex over a Stream that must outlive it. Bytes that were already received are read first.
class StreamDuplex final : public Duplex {
 public:
  StreamDuplex(Stream& stream, Buffer received);
  StreamDuplex(const StreamDuplex&) = delete;

  [[nodiscard]] core::Reactor& reactor() override { return stream_.reactor(); }
  [[nodiscard]] std::optional<Result<std::size_t>> try_read(Buffer& into, std::size_t most) override;
  [[nodiscard]] core::Task<Result<void>> readable(Instant deadline) override;
  [[nodiscard]] core::Task<void> peer_ended() override;
  void interrupt() override;
  [[nodiscard]] core::Task<Result<void>> write(std::span<iovec> parts, Duration progress) override;
  [[nodiscard]] core::Task<Result<void>> end(Duration progress) override;
  void cut() override { stream_.cut(); }

 private:
  Stream& stream_;
  Buffer received_;
  Stream::Wait* waiting_ = nullptr;
};

}  // namespace sluice::net
