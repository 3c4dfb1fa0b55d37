#include "http/h2/guard.h"

#include <algorithm>
#include <cstring>
#include <utility>

namespace sluice::http::h2 {
namespace {

// RFC 9113, 6.
enum Type : std::uint8_t {
  data = 0,
  headers = 1,
  priority = 2,
  rst_stream = 3,
  goaway = 7,
  window_update = 8,
  continuation = 9,
};
constexpr std::uint8_t end_headers = 0x4;

// RFC 9113, 7.
enum ErrorCode : std::uint32_t { protocol_error = 1, stream_closed = 5 };

}  // namespace

std::int32_t FrameGuard::stream_id() const {
  return static_cast<std::int32_t>((std::uint32_t{header_[5]} & 0x7F) << 24 | std::uint32_t{header_[6]} << 16 |
                                   std::uint32_t{header_[7]} << 8 | header_[8]);
}

std::size_t FrameGuard::inspect(std::string_view bytes, Instant now) {
  std::size_t at = 0;
  if (left_of_preface_ != 0) [[unlikely]] {
    at = std::min<std::size_t>(bytes.size(), left_of_preface_);
    left_of_preface_ = static_cast<std::uint8_t>(left_of_preface_ - at);
  }
  std::size_t frame = at;  // where the current frame begins, if within these bytes
  while (at != bytes.size() && flood_ == Flood::none && violation_ == 0) {
    if (payload_left_ != 0) {
      const std::size_t piece = std::min<std::size_t>(bytes.size() - at, payload_left_);
      if (header_[3] == priority) [[unlikely]] {
        for (std::size_t i = 0; i < piece && payload_left_ - i > 1; ++i) {  // four bytes, then the weight
          dependency_ = dependency_ << 8 | static_cast<unsigned char>(bytes[at + i]);
        }
      }
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
    payload_left_ = std::uint32_t{header_[0]} << 16 | std::uint32_t{header_[1]} << 8 | header_[2];
    if (!std::exchange(asked_, false)) {
      begin_frame(now);
      if (flood_ != Flood::none || violation_ != 0) return frame;
      if (question_ != 0) {
        // nghttp2 processes a frame's header when it is complete, so its last byte is held back until settle().
        asked_ = true;
        header_size_ = header_bytes - 1;
        payload_left_ = 0;
        return at - 1;
      }
    }
    header_size_ = 0;
    if (payload_left_ == 0) end_frame();
  }
  return at;
}

void FrameGuard::begin_frame(Instant now) {
  const std::int32_t id = stream_id();
  switch (header_[3]) {
    case data:
      if (id <= highest_stream_) question_ = id;
      break;
    case goaway:
      break;
    case headers:
      if (id > highest_stream_) {
        highest_stream_ = id;
      } else {
        question_ = id;
      }
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
    case priority:
      if (id == 0) violation_ = protocol_error;  // RFC 9113, 6.3
      dependency_ = 0;
      count_idle_frame(now);
      break;
    case rst_stream:
      if (id <= highest_stream_) question_ = id;
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
  if (type == priority && static_cast<std::int32_t>(dependency_ & 0x7FFF'FFFF) == stream_id()) {
    violation_ = protocol_error;  // a stream that depends on itself (RFC 7540, 5.3.1)
  }
}

void FrameGuard::settle(bool known, Instant now) {
  const std::int32_t id = std::exchange(question_, 0);
  if (header_[3] == rst_stream) {
    // Some clients reset a stream again for each frame in transit. That cancels no work.
    if (!known) return count_idle_frame(now);
    if (!resets_.take(now)) flood_ = Flood::resets;
    return;
  }
  if (known || std::ranges::find(cut_streams_, id) != cut_streams_.end()) return;
  // RFC 9113, 5.1: the stream has ended, or its id was skipped so that it can never be opened.
  const bool was_open = header_[3] == data || std::ranges::find(closed_streams_, id) != closed_streams_.end();
  violation_ = was_open ? stream_closed : protocol_error;
}

}  // namespace sluice::http::h2
