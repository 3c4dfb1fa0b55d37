#include "http/h2/guard.h"

#include <algorithm>
#include <cstring>

namespace sluice::http::h2 {
namespace {

// RFC 9113, 6, and RFC 9218, 7.1.
enum Type : std::uint8_t {
  data = 0,
  headers = 1,
  priority = 2,
  rst_stream = 3,
  settings = 4,
  push_promise = 5,
  ping = 6,
  goaway = 7,
  window_update = 8,
  continuation = 9,
};
constexpr std::uint8_t end_headers = 0x4;

}  // namespace

std::size_t FrameGuard::inspect(std::string_view bytes, Instant now) {
  std::size_t at = 0;
  if (left_of_preface_ != 0) [[unlikely]] {
    at = std::min<std::size_t>(bytes.size(), left_of_preface_);
    left_of_preface_ = static_cast<std::uint8_t>(left_of_preface_ - at);
  }
  std::size_t frame = at;  // where the frame in hand begins, if that lies in these bytes
  while (at != bytes.size() && flood_ == Flood::none) {
    if (payload_left_ != 0) {
      const std::size_t piece = std::min<std::size_t>(bytes.size() - at, payload_left_);
      at += piece;
      payload_left_ -= static_cast<std::uint32_t>(piece);
      if (payload_left_ == 0) end_frame();
      continue;
    }
    if (header_size_ == 0) frame = at;
    const std::size_t piece = std::min(bytes.size() - at, header_bytes - header_size_);
    std::memcpy(header_.data() + header_size_, bytes.data() + at, piece);
    header_size_ = static_cast<std::uint8_t>(header_size_ + piece);
    at += piece;
    if (header_size_ != header_bytes) break;
    header_size_ = 0;
    payload_left_ = std::uint32_t{header_[0]} << 16 | std::uint32_t{header_[1]} << 8 | header_[2];
    begin_frame(now);
    if (flood_ != Flood::none) return frame;
    if (payload_left_ == 0) end_frame();
  }
  return at;
}

void FrameGuard::begin_frame(Instant now) {
  switch (header_[3]) {
    case data:
    case goaway:
      break;
    case headers:
      in_block_ = true;
      ++blocks_;
      block_bytes_ = payload_left_;
      continuations_ = 0;
      idle_frames_.give(idle_frames_per_request, now);
      window_update_limit_ += window_updates_per_request;
      break;
    case continuation:
      block_bytes_ += payload_left_;
      if (++continuations_ > most_continuations_ || block_bytes_ > most_header_block_) flood_ = Flood::header_block;
      break;
    case rst_stream:
      if (!resets_.take(now)) flood_ = Flood::resets;
      break;
    case window_update:
      if (++window_updates_ > window_update_limit_) flood_ = Flood::window_updates;
      break;
    default:
      count_idle_frame(now);
      break;
  }
}

void FrameGuard::end_frame() {
  settled_ = true;
  const std::uint8_t type = header_[3];
  if ((type == headers || type == continuation) && (header_[4] & end_headers) != 0) in_block_ = false;
}

}  // namespace sluice::http::h2
