#pragma once

#include <cstddef>
#include <optional>
#include <span>

#include <sys/uio.h>

#include "base/buffer.h"
#include "base/result.h"
#include "base/time.h"
#include "core/task.h"

namespace sluice::core {
class Reactor;
}

namespace sluice::net {

// A two-way byte stream, independent of its transport: an HTTP/1.1 connection after a protocol upgrade, or an HTTP/2
// stream. At most one readable() and one write() may wait at a time; destroying them cancels.
class Duplex {
 public:
  virtual ~Duplex() = default;
  [[nodiscard]] virtual core::Reactor& reactor() = 0;
  // Returns at once. Appends up to `most` bytes to `into` and returns their count; 0: the peer has ended its side.
  // nullopt: no bytes are available now.
  [[nodiscard]] virtual std::optional<Result<std::size_t>> try_read(Buffer& into, std::size_t most) = 0;
  // Waits until there may be something to read, the connection has failed, or interrupt() was called.
  [[nodiscard]] virtual core::Task<Result<void>> readable(Instant deadline) = 0;
  // Waits until the peer has ended its side, or the connection has failed. Bytes received meanwhile stay unread. It
  // takes the place of readable().
  [[nodiscard]] virtual core::Task<void> peer_ended() = 0;
  // Ends a waiting readable() as if there were something to read; resumes its coroutine before it returns.
  virtual void interrupt() = 0;
  // Writes all of `parts`; the array is modified. `progress` bounds each wait for the peer to accept more.
  [[nodiscard]] virtual core::Task<Result<void>> write(std::span<iovec> parts, Duration progress) = 0;
  // Ends this side: the peer reads what was written, and then the end. Reading is still possible. No write() may
  // follow.
  [[nodiscard]] virtual core::Task<Result<void>> end(Duration progress) = 0;
  // Marks the output as incomplete: when this object is destroyed, the peer must be able to detect that. A waiting
  // write() fails in the loop's next turn. Does not resume a coroutine.
  virtual void cut() = 0;
};

}  // namespace sluice::net
