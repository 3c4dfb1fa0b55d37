#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/blocking_pool.h"
#include "core/mailbox.h"
#include "files/file.h"
#include "files/ranges.h"
#include "http/response.h"

namespace sluice::files {

// Several ranges of a file as multipart/byteranges (RFC 9110, 14.6), read piece by piece. If the file becomes shorter
// while it is being sent, pull() fails.
class MultipartRanges final : public http::BodySource {
 public:
  static constexpr std::size_t piece_bytes = 64 * 1024;

  // The boundary must not occur in the file.
  MultipartRanges(std::shared_ptr<const File> file, std::span<const ByteRange> parts, std::string_view boundary,
                  core::Mailbox& mailbox, core::BlockingPool& threads);

  // Sets the parts' media type if it is not the file's own. Call it before the first pull(). The type must be valid in
  // a header.
  void describe_parts_as(std::string_view media_type);
  // The value of Content-Type. It is valid as long as the source.
  [[nodiscard]] std::string_view media_type() const { return media_type_; }
  [[nodiscard]] std::optional<std::uint64_t> size() const override { return size_; }

  [[nodiscard]] core::Async<Result<Progress>> pull(Buffer& out) override;

 private:
  struct Part {
    std::string header;
    ByteRange range;
  };

  void write_headers(std::string_view media_type);
  // Reads the bytes that are not available without waiting.
  core::Task<Result<Progress>> pull_slowly(Buffer& out);
  [[nodiscard]] std::size_t next_size() const;
  void advance(std::size_t bytes);

  const std::shared_ptr<const File> file_;
  core::Mailbox& mailbox_;
  core::BlockingPool& threads_;
  const std::string boundary_;
  const std::string media_type_;
  std::vector<Part> parts_;
  const std::string end_;
  std::uint64_t size_ = 0;
  std::size_t part_ = 0;     // the part that is being sent
  std::uint64_t given_ = 0;  // bytes of that part sent so far
};

// "bytes 0-499/1234"
[[nodiscard]] std::string content_range(ByteRange range, std::uint64_t size);

}  // namespace sluice::files
