#pragma once

#include <optional>
#include <random>
#include <string>
#include <string_view>

#include <brotli/decode.h>
#include <zlib.h>
#include <zstd.h>

#include "http/compress/options.h"

namespace sluice::http::compress {

inline constexpr Coding all_codings[] = {Coding::gzip, Coding::brotli, Coding::zstd};

// The result of decoding compressed bytes with the reference library of the coding.
struct Decoded {
  std::string text;
  bool complete = false;  // the stream has ended, and no bytes follow
};

// Returns nothing if the bytes are invalid. Decodes an incomplete stream as far as possible.
inline std::optional<Decoded> decode(Coding coding, std::string_view bytes) {
  Decoded decoded;
  char block[65536];
  switch (coding) {
    case Coding::gzip: {
      z_stream stream{};
      if (::inflateInit2(&stream, 15 + 16) != Z_OK) return std::nullopt;
      stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(bytes.data()));
      stream.avail_in = static_cast<uInt>(bytes.size());
      int result = Z_OK;
      do {
        stream.next_out = reinterpret_cast<Bytef*>(block);
        stream.avail_out = sizeof block;
        result = ::inflate(&stream, Z_NO_FLUSH);
        decoded.text.append(block, sizeof block - stream.avail_out);
      } while (result == Z_OK);
      decoded.complete = result == Z_STREAM_END && stream.avail_in == 0;
      const bool wrong = result != Z_STREAM_END && result != Z_BUF_ERROR;
      ::inflateEnd(&stream);
      if (wrong) return std::nullopt;
      return decoded;
    }
    case Coding::brotli: {
      BrotliDecoderState* state = ::BrotliDecoderCreateInstance(nullptr, nullptr, nullptr);
      auto* in = reinterpret_cast<const std::uint8_t*>(bytes.data());
      std::size_t left = bytes.size();
      BrotliDecoderResult result{};
      do {
        auto* out = reinterpret_cast<std::uint8_t*>(block);
        std::size_t room = sizeof block;
        result = ::BrotliDecoderDecompressStream(state, &left, &in, &room, &out, nullptr);
        decoded.text.append(block, sizeof block - room);
      } while (result == BROTLI_DECODER_RESULT_NEEDS_MORE_OUTPUT ||
               (result == BROTLI_DECODER_RESULT_NEEDS_MORE_INPUT && ::BrotliDecoderHasMoreOutput(state) != 0));
      decoded.complete = result == BROTLI_DECODER_RESULT_SUCCESS && left == 0;
      ::BrotliDecoderDestroyInstance(state);
      if (result == BROTLI_DECODER_RESULT_ERROR) return std::nullopt;
      return decoded;
    }
    case Coding::zstd:
      break;
  }
  ZSTD_DCtx* context = ::ZSTD_createDCtx();
  ZSTD_inBuffer in{bytes.data(), bytes.size(), 0};
  std::size_t result = 1;
  for (;;) {
    ZSTD_outBuffer out{block, sizeof block, 0};
    result = ::ZSTD_decompressStream(context, &out, &in);
    if (::ZSTD_isError(result) != 0) break;
    decoded.text.append(block, out.pos);
    if (result == 0 || (in.pos == in.size && out.pos < out.size)) break;
  }
  ::ZSTD_freeDCtx(context);
  if (::ZSTD_isError(result) != 0) return std::nullopt;
  decoded.complete = result == 0 && in.pos == in.size;
  return decoded;
}

// Returns nothing unless the stream is complete.
inline std::optional<std::string> decode_whole(Coding coding, std::string_view bytes) {
  auto decoded = decode(coding, bytes);
  if (!decoded || !decoded->complete) return std::nullopt;
  return std::move(decoded->text);
}

inline std::string words(std::size_t size, unsigned seed = 1) {
  static constexpr const char* some[] = {"silent ", "harbor ", "winter ", "\n", "river ", "17 ", "3.25,", "glass "};
  std::mt19937 random(seed);
  std::string text;
  while (text.size() < size) text += some[random() % std::size(some)];
  text.resize(size);
  return text;
}

inline std::string noise(std::size_t size, unsigned seed = 1) {
  std::mt19937 random(seed);
  std::string bytes(size, '\0');
  for (char& byte : bytes) byte = static_cast<char>(random());
  return bytes;
}

}  // namespace sluice::http::compress
