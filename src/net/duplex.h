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

// Bytes both ways, whatever carries them: an HTTP/1.1 connection after its protocol has changed, or an HTTP/2 stream.
// At most one readable() and one write() wait at a time; destroying them cancels.
class Duplex {
 public:
  virtual ~Duplex() = default;
  [[nodiscard]] virtual core::Reactor& reactor() = 0;
  // Tries at once: appends up to `most` bytes to `into` and gives their count; 0: the peer has ended its side. Nothing:
  // there is nothing now.
  [[nodiscard]] virtual std::optional<Result<std::size_t>> try_read(Buffer& into, std::size_t most) = 0;
  // Until there may be something to read, the peer has gone, or interrupt() was called.
  [[nodiscard]] virtual core::Task<Result<void>> readable(Instant deadline) = 0;
  // Ends a readable() that waits, as if there were something to read; resumes its coroutine before it returns.
  virtual void interrupt() = 0;
  // Writes all of `parts`, whose array is used up. `progress` bounds each wait for the peer to take more.
  [[nodiscard]] virtual core::Task<Result<void>> write(std::span<iovec> parts, Duration progress) = 0;
};

}  // namespace sluice::net
