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

// Several parts of a file as multipart/byteranges (RFC 9110, 14.6), read piece by piece. A file that becomes shorter
// meanwhile cuts the answer.
class MultipartRanges final : public http::BodySource {
 public:
  static constexpr std::size_t piece_bytes = 64 * 1024;

  // The boundary must not occur in the file.
  MultipartRanges(std::shared_ptr<const File> file, std::span<const ByteRange> parts, std::string_view boundary,
                  core::Mailbox& mailbox, core::BlockingPool& threads);

  // Before the first pull(): what the parts are, where that is not what the file knows of itself. Fit for a header.
  void describe_parts_as(std::string_view media_type);
  // Content-Type's value; lasts as long as the source.
  [[nodiscard]] std::string_view media_type() const { return media_type_; }
  [[nodiscard]] std::optional<std::uint64_t> size() const override { return size_; }

  [[nodiscard]] core::Async<Result<Progress>> pull(Buffer& out) override;

 private:
  struct Part {
    std::string header;
    ByteRange range;
  };

  void write_headers(std::string_view media_type);
  // What cannot be read without waiting.
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
  std::size_t part_ = 0;     // that is being sent
  std::uint64_t given_ = 0;  // bytes of it
};

// "bytes 0-499/1234"
[[nodiscard]] std::string content_range(ByteRange range, std::uint64_t size);

}  // namespace sluice::files
