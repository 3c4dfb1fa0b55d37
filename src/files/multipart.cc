#include "files/multipart.h"

#include <algorithm>
#include <cerrno>
#include <utility>

namespace sluice::files {

std::string content_range(ByteRange range, std::uint64_t size) {
  return "bytes " + std::to_string(range.begin) + "-" + std::to_string(range.begin + range.size - 1) + "/" +
         std::to_string(size);
}

MultipartRanges::MultipartRanges(std::shared_ptr<const File> file, std::span<const ByteRange> parts,
                                 std::string_view boundary, core::Mailbox& mailbox, core::BlockingPool& threads)
    : file_(std::move(file)),
      mailbox_(mailbox),
      threads_(threads),
      boundary_(boundary),
      media_type_("multipart/byteranges; boundary=" + boundary_),
      end_("\r\n--" + boundary_ + "--\r\n") {
  for (const ByteRange& range : parts) parts_.push_back({{}, range});
  write_headers(file_->media_type);
}

void MultipartRanges::describe_parts_as(std::string_view media_type) { write_headers(media_type); }

void MultipartRanges::write_headers(std::string_view media_type) {
  size_ = end_.size();
  for (Part& part : parts_) {
    part.header = &part == parts_.data() ? "--" : "\r\n--";
    part.header += boundary_;
    part.header += "\r\nContent-Type: " + std::string(media_type);
    part.header += "\r\nContent-Range: " + content_range(part.range, file_->size) + "\r\n\r\n";
    size_ += part.header.size() + part.range.size;
  }
}

std::size_t MultipartRanges::next_size() const {
  return static_cast<std::size_t>(std::min<std::uint64_t>(parts_[part_].range.size - given_, piece_bytes));
}

void MultipartRanges::advance(std::size_t bytes) {
  given_ += bytes;
  if (given_ < parts_[part_].range.size) return;
  ++part_;
  given_ = 0;
}

core::Async<Result<http::BodySource::Progress>> MultipartRanges::pull(Buffer& out) {
  for (std::size_t pulled = 0; part_ < parts_.size();) {
    if (pulled >= piece_bytes) return Result<Progress>(Progress::more);
    const Part& part = parts_[part_];
    const std::uint64_t offset = part.range.begin + given_;
    const std::size_t size = next_size();
    if (given_ == 0) out.append(part.header);
    if (file_->in_memory()) {
      out.append(std::string_view(file_->bytes).substr(offset, size));
    } else {
      const int error = read_whole(file_->descriptor.get(), out.reserve(size), size, offset, Patience::none);
      if (error == EAGAIN) return pull_slowly(out);
      if (error != 0) return Result<Progress>(fail(error == ENODATA ? Errc::closed : Errc::system, error));
      out.commit(size);
    }
    advance(size);
    pulled += size;
  }
  out.append(end_);
  return Result<Progress>(Progress::done);
}

core::Task<Result<http::BodySource::Progress>> MultipartRanges::pull_slowly(Buffer& out) {
  struct Piece {
    int error = 0;
    std::string bytes;
  };
  auto work = [file = file_, offset = parts_[part_].range.begin + given_, size = next_size()] {
    Piece piece;
    piece.bytes.resize(size);
    piece.error = read_whole(file->descriptor.get(), piece.bytes.data(), size, offset, Patience::any);
    return piece;
  };
  const auto piece = co_await threads_.run(mailbox_, std::move(work));
  if (!piece) co_return std::unexpected(piece.error());
  if (piece->error != 0) co_return fail(piece->error == ENODATA ? Errc::closed : Errc::system, piece->error);
  out.append(piece->bytes);
  advance(piece->bytes.size());
  co_return Progress::more;
}

}  // namespace sluice::files
