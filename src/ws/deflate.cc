#include "ws/deflate.h"

#include <algorithm>
#include <new>

#include <zlib.h>

namespace sluice::ws {
namespace {

// Small tables, because they are cleared for each message without a persistent dictionary, and kept by each connection
// with one.
constexpr int level = 4;
constexpr int memory_level = 6;

constexpr std::string_view flush_end("\x00\x00\xff\xff", 4);

Bytef* bytes_of(std::string_view text) { return reinterpret_cast<Bytef*>(const_cast<char*>(text.data())); }

}  // namespace

Deflater::Deflater(int window_bits) : stream_(std::make_unique<z_stream_s>()) {
  // zlib supports no raw window of 256 bytes. With a window of 512 bytes it uses only distances up to 512 - 262 because
  // of its look-ahead, so that window serves for both sizes.
  const int bits = std::max(window_bits, 9);
  if (deflateInit2(stream_.get(), level, Z_DEFLATED, -bits, memory_level, Z_DEFAULT_STRATEGY) != Z_OK) {
    throw std::bad_alloc();
  }
}

Deflater::~Deflater() { deflateEnd(stream_.get()); }

void Deflater::compress(std::string_view message, Buffer& out, bool keep_context) {
  // An empty message is encoded as an empty stored block (RFC 7692, 7.2.3.6), because a flush directly after a flush
  // would output nothing.
  if (message.empty()) return out.push_back('\0');
  stream_->next_in = bytes_of(message);
  constexpr std::size_t most_in = 1u << 30;
  [[maybe_unused]] const std::size_t before = out.size();
  do {
    const std::size_t part = std::min(message.size(), most_in);
    message.remove_prefix(part);
    stream_->avail_in = static_cast<uInt>(part);
    const int flush = message.empty() ? Z_SYNC_FLUSH : Z_NO_FLUSH;
    // The flush is complete only if it leaves room in the output. If it fills the output exactly, more may follow.
    do {
      const std::size_t room = std::clamp<std::size_t>(part / 2 + 64, 256, 64 * 1024);
      stream_->next_out = reinterpret_cast<Bytef*>(out.reserve(room));
      stream_->avail_out = static_cast<uInt>(room);
      deflate(stream_.get(), flush);
      out.commit(room - stream_->avail_out);
    } while (stream_->avail_out == 0);
  } while (!message.empty());
  SLUICE_ASSERT(out.size() >= before + flush_end.size() && out.view().ends_with(flush_end));
  out.truncate(out.size() - flush_end.size());
  if (!keep_context) deflateReset(stream_.get());
}

Inflater::Inflater(int window_bits) : stream_(std::make_unique<z_stream_s>()) {
  if (inflateInit2(stream_.get(), -window_bits) != Z_OK) throw std::bad_alloc();
}

Inflater::~Inflater() { inflateEnd(stream_.get()); }

void Inflater::restart_after_final_block() {
  // A block with BFINAL ends zlib's stream, but neither the message nor the dictionary of later messages (RFC 7692,
  // 7.2.3.4).
  std::array<Bytef, 32768> window;
  uInt size = window.size();
  const auto in = stream_->next_in;
  const auto left = stream_->avail_in;
  inflateGetDictionary(stream_.get(), window.data(), &size);
  inflateReset(stream_.get());
  inflateSetDictionary(stream_.get(), window.data(), size);
  stream_->next_in = in;
  stream_->avail_in = left;
}

Inflater::Outcome Inflater::feed(std::string_view bytes, Buffer& out, std::size_t limit_size) {
  stream_->next_in = bytes_of(bytes);
  stream_->avail_in = static_cast<uInt>(bytes.size());
  for (;;) {
    // One byte of room beyond the limit detects a message that is too large.
    const std::size_t room =
        std::clamp<std::size_t>(limit_size + 1 - out.size(), 1, std::max<std::size_t>(bytes.size() * 4, 4096));
    stream_->next_out = reinterpret_cast<Bytef*>(out.reserve(room));
    stream_->avail_out = static_cast<uInt>(room);
    const int result = inflate(stream_.get(), Z_SYNC_FLUSH);
    out.commit(room - stream_->avail_out);
    if (out.size() > limit_size) return Outcome::too_large;
    if (result == Z_STREAM_END) {
      restart_after_final_block();
      if (stream_->avail_in == 0) return Outcome::done;
      continue;
    }
    if (result != Z_OK && result != Z_BUF_ERROR) return Outcome::malformed;
    if (stream_->avail_in == 0 && stream_->avail_out != 0) return Outcome::done;
    if (result == Z_BUF_ERROR && stream_->avail_out != 0) return Outcome::malformed;
  }
}

Inflater::Outcome Inflater::decompress(std::string_view payload, Buffer& out, std::size_t limit, bool keep_context) {
  const std::size_t limit_size = out.size() + limit;
  Outcome outcome = feed(payload, out, limit_size);
  if (outcome == Outcome::done) outcome = feed(flush_end, out, limit_size);
  // Refuses a payload that ends within a block: the bytes of the flush would then be read as content of that block.
  constexpr int between_blocks = 128;
  if (outcome == Outcome::done && (stream_->data_type & between_blocks) == 0) outcome = Outcome::malformed;
  if (outcome != Outcome::done || !keep_context) inflateReset(stream_.get());
  return outcome;
}

Deflater& SharedCodecs::deflater(int window_bits) {
  auto& deflater = deflaters_[static_cast<std::size_t>(window_bits)];
  if (!deflater) deflater = std::make_unique<Deflater>(window_bits);
  return *deflater;
}

Inflater& SharedCodecs::inflater() {
  if (!inflater_) inflater_ = std::make_unique<Inflater>(15);
  return *inflater_;
}

}  // namespace sluice::ws
