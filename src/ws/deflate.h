#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>

#include "base/buffer.h"

struct z_stream_s;

// permessage-deflate (RFC 7692): the parameters of a connection, and the codec of one direction.
namespace sluice::ws {

// The negotiated parameters.
struct DeflateParameters {
  bool server_no_context_takeover = false;
  bool client_no_context_takeover = false;
  std::uint8_t server_window_bits = 15;
  std::uint8_t client_window_bits = 15;

  friend bool operator==(const DeflateParameters&, const DeflateParameters&) = default;
};

// Compresses the messages of one direction.
class Deflater {
 public:
  explicit Deflater(int window_bits);  // 8 to 15
  Deflater(const Deflater&) = delete;
  ~Deflater();

  // Appends the message's payload, without the last four bytes of the flush, 00 00 ff ff. `keep_context` keeps the
  // dictionary for the next message.
  void compress(std::string_view message, Buffer& out, bool keep_context);

 private:
  std::unique_ptr<z_stream_s> stream_;
};

class Inflater {
 public:
  enum class Outcome : std::uint8_t { done, malformed, too_large };

  explicit Inflater(int window_bits);  // 8 to 15
  Inflater(const Inflater&) = delete;
  ~Inflater();

  // Decompresses the payload and appends the message, at most `limit` bytes. After any outcome but `done`, the inflater
  // is reset.
  [[nodiscard]] Outcome decompress(std::string_view payload, Buffer& out, std::size_t limit, bool keep_context);

 private:
  [[nodiscard]] Outcome feed(std::string_view bytes, Buffer& out, std::size_t limit_size);
  void restart_after_final_block();

  std::unique_ptr<z_stream_s> stream_;
};

// One core's codecs for messages without a persistent dictionary. All connections share them, because they keep no
// state between messages.
class SharedCodecs {
 public:
  [[nodiscard]] Deflater& deflater(int window_bits);
  [[nodiscard]] Inflater& inflater();

 private:
  std::array<std::unique_ptr<Deflater>, 16> deflaters_;
  std::unique_ptr<Inflater> inflater_;
};

}  // namespace sluice::ws
