#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/declare.h"

namespace sluice::http::compress {

enum class Coding : std::uint8_t { gzip, brotli, zstd };
inline constexpr std::size_t coding_count = 3;

inline NameOf<Coding> names_of(Coding) {
  return {{"gzip", Coding::gzip}, {"br", Coding::brotli}, {"zstd", Coding::zstd}};
}

// [compression]
struct Options {
  std::vector<Coding> codings;  // the preferred one first; empty: nothing is compressed
  ByteSize minimum = 1_KiB;
  std::vector<std::string> types = {
      "text/*",
      "application/json",
      "application/*+json",
      "application/x-ndjson",
      "application/csj",
      "application/javascript",
      "application/xml",
      "application/*+xml",
      "application/yaml",
      "application/wasm",
      "application/vnd.ms-fontobject",
      "image/svg+xml",
      "image/x-icon",
      "image/bmp",
      "font/ttf",
      "font/otf",
  };
  std::uint32_t gzip_level = 5;
  std::uint32_t brotli_quality = 5;
  std::uint32_t zstd_level = 3;
  ByteSize window = 128_KiB;
  ByteSize memory = 64_MiB;
  ByteSize cache = 16_MiB;

  // "text/*", "application/json", "application/*+json"
  static std::string check_type(std::string_view text);

  template <class Visitor>
  static void declare(Visitor& v) {
    v.field("codings", &Options::codings,
            "The codings that answers may be compressed with. Accept-Encoding decides; of codings that a client "
            "prefers equally, the first in this list is used. `[]`: nothing is compressed.",
            {.max = coding_count});
    v.field("minimum", &Options::minimum,
            "Answers that are known to be shorter are not compressed. The length of an answer with streamed rows is "
            "not known in advance.",
            {.max = 1_GiB});
    v.field("types", &Options::types,
            "The media types that are compressed: `text/csv`, `text/*`, `application/*+json`. Leave out formats that "
            "are compressed already, such as most images, audio, video and archives.",
            {.min = 1, .max = 256, .check = check_type});
    v.field("gzip_level", &Options::gzip_level, "Higher levels compress better and take longer.", {.min = 1, .max = 9});
    v.field("brotli_quality", &Options::brotli_quality, "Higher levels compress better and take longer.",
            {.min = 0, .max = 9});
    v.field("zstd_level", &Options::zstd_level, "Higher levels compress better and take longer.",
            {.min = 1, .max = 12});
    v.field("window", &Options::window,
            "How far back brotli and zstd look for repetitions; rounded down to a power of two. Each answer takes "
            "about twenty times as much memory while it is compressed. gzip looks back 32 KiB and takes 264 KiB.",
            {.min = 16_KiB, .max = 8_MiB});
    v.field("memory", &Options::memory,
            "How much memory compressors may take on each core. If it is used up, answers are sent uncompressed.",
            {.min = 1_MiB, .max = 64_GiB});
    v.field("cache", &Options::cache,
            "How much memory each core uses to keep compressed files, so that a file is not compressed again for "
            "each request. A file whose compressed form takes more than an eighth of it is not kept. `0`: no "
            "compressed files are kept.",
            {.max = 64_GiB});
  }
};

}  // namespace sluice::http::compress
