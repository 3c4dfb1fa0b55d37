#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/time.h"

namespace sluice::http::h2 {

// What comes again with time: up to `burst` at once, one more every `interval`.
class Allowance {
 public:
  constexpr Allowance(std::int64_t burst, Duration interval) : burst_(burst), interval_(interval) {}

  // False: there is none left.
  [[nodiscard]] bool take(Instant now) {
    const Instant earliest = now - burst_ * interval_;
    if (spent_until_ < earliest) spent_until_ = earliest;
    spent_until_ += interval_;
    return spent_until_ <= now;
  }
  // As if `count` had not been taken.
  void give(std::int64_t count, Instant now) {
    spent_until_ = std::max(spent_until_ - count * interval_, now - burst_ * interval_);
  }

 private:
  std::int64_t burst_;
  Duration interval_;
  Instant spent_until_{};  // taken = (spent_until_ - now) / interval_ + burst_
};

// What a client is after that is no longer traffic.
enum class Flood : std::uint8_t {
  none,
  resets,          // streams that are opened and reset, by the client or by the server for the client's mistakes
  idle_frames,     // PING, SETTINGS, PRIORITY, unknown ones, and DATA without data
  window_updates,  // many more than there was data
  header_block,    // a header that is split into too many frames, is too long, or decodes to too much
};

// Watches a client's frames (RFC 9113, 4.1) before nghttp2 acts upon them: counts what costs us work and brings the
// client no answer, and sees the violations that nghttp2 passes over. It keeps no bytes but the header of the frame
// that is coming in.
//
// Limits are such that a well-behaved client does not meet them: browsers reset a page's loads at once, gRPC measures
// with PINGs, a download has two WINDOW_UPDATEs for a DATA frame.
class FrameGuard {
 public:
  static constexpr std::int64_t reset_burst = 500;
  static constexpr Duration reset_interval = 20ms;
  static constexpr std::int64_t idle_frame_burst = 1000;
  static constexpr Duration idle_frame_interval = 10ms;
  static constexpr std::int64_t idle_frames_per_request = 4;
  static constexpr std::uint64_t free_window_updates = 1000;
  static constexpr std::uint64_t window_updates_per_request = 8;
  static constexpr std::uint64_t window_updates_per_data_frame = 8;

  // A header block's encoded form: one that is longer than that decodes to far more than `header_limit`.
  explicit FrameGuard(std::size_t header_limit)
      : most_header_block_(4 * header_limit + 16 * 1024), most_continuations_(most_header_block_ / 16'384 + 8) {}

  // Looks at what came next and returns how much of it may be acted upon: all; or up to the frame that is too much, or
  // wrong; or up to a question, which is to be settled when those bytes have been acted upon. Then it goes on.
  [[nodiscard]] std::size_t inspect(std::string_view bytes, Instant now);
  [[nodiscard]] Flood flood() const { return flood_; }
  // The code of a connection error (RFC 9113, 7); 0: none.
  [[nodiscard]] std::uint32_t violation() const { return violation_; }

  // Is this stream still known? HEADERS, DATA or RST_STREAM have come for it, and it is not a new one. 0: no question.
  [[nodiscard]] std::int32_t question() const { return question_; }
  void settle(bool known, Instant now);
  // The server, not the client, has ended a stream: what was on its way then is to be passed over.
  void ended_by_server(std::int32_t id) { cut_streams_[next_cut_stream_++ % cut_streams_.size()] = id; }
  void closed(std::int32_t id) { closed_streams_[next_closed_stream_++ % closed_streams_.size()] = id; }

  // What only those who understand the frames can tell.
  void sent_data_frame() { window_update_limit_ += window_updates_per_data_frame; }
  void got_empty_data(Instant now) { count_idle_frame(now); }
  // The server had to reset a stream because of what the client sent (CVE-2025-8671).
  void reset_by_server(Instant now) {
    if (!resets_.take(now)) flood_ = Flood::resets;
  }
  void header_decodes_to_too_much() { flood_ = Flood::header_block; }

  // The preface and the first SETTINGS, or the rest of a header block, have not come yet.
  [[nodiscard]] bool owes_frames() const { return left_of_preface_ != 0 || !settled_ || in_block_; }
  // Which header block it is, of those that have begun.
  [[nodiscard]] std::uint64_t block() const { return blocks_; }
  [[nodiscard]] std::size_t most_continuations() const { return most_continuations_; }

 private:
  void begin_frame(Instant now);
  [[nodiscard]] std::int32_t stream_id() const;
  void end_frame();
  void count_idle_frame(Instant now) {
    if (!idle_frames_.take(now)) flood_ = Flood::idle_frames;
  }

  static constexpr std::size_t header_bytes = 9;

  Flood flood_ = Flood::none;
  std::uint32_t violation_ = 0;
  std::int32_t question_ = 0;
  bool asked_ = false;  // about the frame whose header is in hand
  std::int32_t highest_stream_ = 0;
  std::uint32_t dependency_ = 0;  // of a PRIORITY frame
  bool settled_ = false;          // the first frame has come
  bool in_block_ = false;         // a header block has begun and not ended
  std::uint8_t left_of_preface_ = 24;
  std::uint8_t header_size_ = 0;  // of the frame's header, what has come
  std::array<unsigned char, header_bytes> header_{};
  std::uint32_t payload_left_ = 0;
  std::uint64_t blocks_ = 0;
  std::size_t block_bytes_ = 0;
  std::size_t continuations_ = 0;
  const std::size_t most_header_block_;
  const std::size_t most_continuations_;
  Allowance resets_{reset_burst, reset_interval};
  Allowance idle_frames_{idle_frame_burst, idle_frame_interval};
  std::uint64_t window_updates_ = 0;
  std::uint64_t window_update_limit_ = free_window_updates;
  // The last ones: what comes for a stream that ended long before is treated as the client's mistake.
  std::array<std::int32_t, 256> cut_streams_{};
  std::array<std::int32_t, 64> closed_streams_{};
  std::uint32_t next_cut_stream_ = 0;
  std::uint32_t next_closed_stream_ = 0;
};

}  // namespace sluice::http::h2
