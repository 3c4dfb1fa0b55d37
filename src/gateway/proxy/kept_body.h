#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <utility>

#include "base/buffer.h"
#include "http/h1/parser.h"
#include "http/request.h"

namespace sluice::gateway {

// Keeps a request's body while it is read, or before, so that it can be sent again. Its memory counts toward the
// server's limit for bodies.
class KeptBody final : public http::BodyReader {
 public:
  static constexpr std::size_t most_bytes = 64 * 1024;

  // `size`: its Content-Length, at most `most_bytes`; 0 if read_whole() is called. `body` outlives this object, and
  // nothing has been read from it.
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
    const std::string_view next = kept_.view().substr(given_, most_bytes);
    given_ += next.size();
    co_return next;
  }
  // Reads the body to its end, before the first read().
  core::Task<Result<void>> read_whole(std::string_view content_length) {
    const std::size_t expected = static_cast<std::size_t>(http::h1::parse_content_length(content_length).value_or(0));
    for (;;) {
      const auto piece = co_await body_.read();
      if (!piece) co_return std::unexpected(piece.error());
      if (piece->empty()) co_return Result<void>();
      if (piece->size() > kept_.writable()) {
        const std::size_t more = std::max({expected, kept_.size(), piece->size()});
        if (const auto room = body_.keep(more); !room) co_return std::unexpected(room.error());
        (void)kept_.reserve(more);
      }
      kept_.append(*piece);
    }
  }
  // How many bytes have been read.
  [[nodiscard]] std::uint64_t size() const { return kept_.size(); }
  // The next read() starts at the first byte again.
  void rewind() { given_ = 0; }

 private:
  http::BodyReader& body_;
  std::size_t size_;  // 0 once memory for the body is reserved
  Buffer kept_;
  std::size_t given_ = 0;
};

}  // namespace sluice::gateway
