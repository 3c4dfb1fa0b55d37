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
    v.field(
        "codings", &Options::codings,
        "What answers may be compressed with. Accept-Encoding chooses; among those that a client wants equally, the "
        "first of the list. `[]`: nothing is compressed.",
        {.max = coding_count});
    v.field("minimum", &Options::minimum,
            "An answer that is known to be shorter goes out as it is. The length of streamed rows is not known before.",
            {.max = 1_GiB});
    v.field("types", &Options::types,
            "The media types that are compressed: `text/csv`, `text/*`, `application/*+json`. Images, audio, video and "
            "archives are compressed already.",
            {.min = 1, .max = 256, .check = check_type});
    v.field("gzip_level", &Options::gzip_level, "Higher is smaller and slower.", {.min = 1, .max = 9});
    v.field("brotli_quality", &Options::brotli_quality, "Higher is smaller and slower.", {.min = 0, .max = 9});
    v.field("zstd_level", &Options::zstd_level, "Higher is smaller and slower.", {.min = 1, .max = 12});
    v.field("window", &Options::window,
            "How far back brotli and zstd look for what repeats; down to a power of two. Each answer that is being "
            "compressed takes some twenty times as much memory. gzip looks back 32 KiB and takes 264 KiB.",
            {.min = 16_KiB, .max = 8_MiB});
    v.field("memory", &Options::memory,
            "What compressors may take on each core. Answers that find none go out uncompressed.",
            {.min = 1_MiB, .max = 64_GiB});
    v.field("cache", &Options::cache,
            "What each core keeps of compressed files, so that a file is not compressed for each request. A file whose "
            "compressed form takes more than an eighth of it is not kept. `0`: none.",
            {.max = 64_GiB});
  }
};

}  // namespace sluice::http::compress
