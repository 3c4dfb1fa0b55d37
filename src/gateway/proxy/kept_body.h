#pragma once

#include <cstddef>
#include <string_view>
#include <utility>

#include "base/buffer.h"
#include "http/request.h"

namespace sluice::gateway {

// Keeps a request's body while it is read, so that it can be sent again. Its memory counts toward the server's limit
// for bodies.
class KeptBody final : public http::BodyReader {
 public:
  static constexpr std::size_t most_bytes = 64 * 1024;

  // `size`: its Content-Length, at most `most_bytes`. `body` outlives this object, and nothing has been read from it.
  KeptBody(http::BodyReader& body, std::size_t size) : body_(body), size_(size) {}
  KeptBody(const KeptBody&) = delete;

  core::Task<Result<std::string_view>> read() override {
    if (size_ != 0) {
      const std::size_t size = std::exchange(size_, 0);
      if (const auto room = body_.keep(size); !room) co_return std::unexpected(room.error());
      (void)kept_.reserve(size);
    }
    if (given_ == kept_.size()) {
      const auto piece = co_await body_.read();
      if (!piece) co_return std::unexpected(piece.error());
      kept_.append(*piece);
    }
    const std::string_view next = kept_.view().substr(given_);
    given_ = kept_.size();
    co_return next;
  }
  // The next read() starts at the first byte again.
  void rewind() { given_ = 0; }

 private:
  http::BodyReader& body_;
  std::size_t size_;  // 0 once memory for the body is reserved
  Buffer kept_;
  std::size_t given_ = 0;
};

}  // namespace sluice::gateway
