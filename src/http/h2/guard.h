#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <utility>

#include "base/time.h"

namespace sluice::http::h2 {

// A token bucket: up to `burst` at once, and one more every `interval`.
class Allowance {
 public:
  constexpr Allowance(std::int64_t burst, Duration interval) : burst_(burst), interval_(interval) {}

  // Takes one token. Returns false if none is left.
  [[nodiscard]] bool take(Instant now) {
    const Instant earliest = now - burst_ * interval_;
    if (spent_until_ < earliest) spent_until_ = earliest;
    spent_until_ += interval_;
    return spent_until_ <= now;
  }
  void give(std::int64_t count, Instant now) {
    spent_until_ = std::max(spent_until_ - count * interval_, now - burst_ * interval_);
  }

 private:
  std::int64_t burst_;
  Duration interval_;
  Instant spent_until_{};  // taken = (spent_until_ - now) / interval_ + burst_
};

// The kind of flood that a client is sending.
enum class Flood : std::uint8_t {
  none,
  resets,          // streams opened and then reset, by the client or by the server because of client errors
  idle_frames,     // PING, SETTINGS, PRIORITY, unknown ones, and DATA without data
  window_updates,  // far more than the data sent explains
  header_block,    // a header block that has too many frames, is too long, or decodes to too many bytes
};

inline constexpr std::array<std::string_view, 5> flood_names = {"", "cancelled requests", "frames without a request",
                                                                "window updates", "header fields"};

// Inspects a client's frames (RFC 9113, 4.1) before nghttp2 processes them. It counts frames that cost the server work
// without leading to a response, and detects violations that nghttp2 ignores. It stores only the header of the current
// frame.
//
// The limits are high enough for well-behaved clients: browsers reset all loads of a page at once, gRPC measures with
// PINGs, and a download sends two WINDOW_UPDATEs for each DATA frame.
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

  // Limits the encoded size of a header block. A longer block would decode to far more than `header_limit`.
  // `resets`: how many streams may be reset at once.
  explicit FrameGuard(std::size_t header_limit, std::int64_t resets = reset_burst)
      : most_header_block_(4 * header_limit + 16 * 1024),
        most_continuations_(most_header_block_ / 16'384 + 8),
        resets_(resets, reset_interval) {}

  // Inspects the next bytes and returns how many of them nghttp2 may process: all of them, or only the bytes before an
  // invalid frame, before a frame that exceeds a limit, or before a question(). After a question, the caller lets
  // nghttp2 process these bytes, calls settle(), and then passes the remaining bytes.
  [[nodiscard]] std::size_t inspect(std::string_view bytes, Instant now);
  [[nodiscard]] Flood flood() const { return flood_; }
  // The code of a connection error (RFC 9113, 7); 0 if absent.
  [[nodiscard]] std::uint32_t violation() const { return violation_; }

  // The stream for which settle() must say whether nghttp2 still knows it: a HEADERS, DATA or RST_STREAM frame has
  // arrived for it, and it is not new. 0: no question.
  [[nodiscard]] std::int32_t question() const { return question_; }
  void settle(bool known, Instant now);
  // The server has ended a stream before the client did. Frames already in transit for it are ignored.
  void ended_by_server(std::int32_t id) { cut_streams_[next_cut_stream_++ % cut_streams_.size()] = id; }
  void closed(std::int32_t id) { closed_streams_[next_closed_stream_++ % closed_streams_.size()] = id; }

  // Events that only the session can detect.
  void sent_data_frame() { window_update_limit_ += window_updates_per_data_frame; }
  void got_empty_data(Instant now) { count_idle_frame(now); }
  // The server had to reset a stream because of a client error (CVE-2025-8671).
  void reset_by_server(Instant now) {
    if (!resets_.take(now)) flood_ = Flood::resets;
  }
  void header_decodes_to_too_much() { flood_ = Flood::header_block; }

  // The client still has to send the preface, its first SETTINGS, or the rest of a header block.
  [[nodiscard]] bool owes_frames() const { return left_of_preface_ != 0 || !settled_ || in_block_; }
  // The number of header blocks that have begun.
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
  bool asked_ = false;  // question() was asked about the current frame
  std::int32_t highest_stream_ = 0;
  std::uint32_t dependency_ = 0;  // of a PRIORITY frame
  bool settled_ = false;          // the first frame has arrived
  bool in_block_ = false;         // a header block has begun and not ended
  std::uint8_t left_of_preface_ = 24;
  std::uint8_t header_size_ = 0;  // received bytes of the frame's header
  std::array<unsigned char, header_bytes> header_{};
  std::uint32_t payload_left_ = 0;
  std::uint64_t blocks_ = 0;
  std::size_t block_bytes_ = 0;
  std::size_t continuations_ = 0;
  const std::size_t most_header_block_;
  const std::size_t most_continuations_;
  Allowance resets_;
  Allowance idle_frames_{idle_frame_burst, idle_frame_interval};
  std::uint64_t window_updates_ = 0;
  std::uint64_t window_update_limit_ = free_window_updates;
  // The most recently ended streams. A frame for a stream that ended long before counts as a client error.
  std::array<std::int32_t, 256> cut_streams_{};
  std::array<std::int32_t, 64> closed_streams_{};
  std::uint32_t next_cut_stream_ = 0;
  std::uint32_t next_closed_stream_ = 0;
};

}  // namespace sluice::http::h2
