#include "files/sniff.h"

#include <algorithm>
#include <array>

namespace sluice::files {
namespace {

using namespace std::string_view_literals;

struct Signature {
  std::string_view media_type;
  std::string_view begin;
  std::size_t offset = 0;  // position of `further`
  std::string_view further = {};
};

// A type may have several signatures.
constexpr std::array signatures{
    Signature{"image/png", "\x89PNG\r\n\x1a\n"sv},
    Signature{"image/jpeg", "\xff\xd8\xff"sv},
    Signature{"image/gif", "GIF87a"sv},
    Signature{"image/gif", "GIF89a"sv},
    Signature{"image/webp", "RIFF"sv, 8, "WEBP"sv},
    Signature{"image/avif", ""sv, 4, "ftypavif"sv},
    Signature{"image/avif", ""sv, 4, "ftypavis"sv},
    Signature{"image/heic", ""sv, 4, "ftypheic"sv},
    Signature{"image/heic", ""sv, 4, "ftypheix"sv},
    Signature{"image/tiff", "II*\0"sv},
    Signature{"image/tiff", "MM\0*"sv},
    Signature{"application/pdf", "%PDF-"sv},
    Signature{"application/zip", "PK\x03\x04"sv},
    Signature{"application/zip", "PK\x05\x06"sv},  // an empty archive
    Signature{"application/gzip", "\x1f\x8b\x08"sv},
    Signature{"application/zstd", "\x28\xb5\x2f\xfd"sv},
    Signature{"audio/wav", "RIFF"sv, 8, "WAVE"sv},
    Signature{"audio/flac", "fLaC"sv},
    Signature{"audio/ogg", "OggS"sv},
    Signature{"video/ogg", "OggS"sv},
    Signature{"video/mp4", ""sv, 4, "ftypisom"sv},
    Signature{"video/mp4", ""sv, 4, "ftypiso2"sv},
    Signature{"video/mp4", ""sv, 4, "ftypmp4"sv},
    Signature{"video/mp4", ""sv, 4, "ftypavc1"sv},
    Signature{"video/mp4", ""sv, 4, "ftypM4V"sv},
    Signature{"video/webm", "\x1a\x45\xdf\xa3"sv},
    Signature{"video/matroska", "\x1a\x45\xdf\xa3"sv},
    Signature{"font/woff2", "wOF2"sv},
    Signature{"font/woff", "wOFF"sv},
};

bool matches(const Signature& signature, std::string_view bytes) {
  return bytes.starts_with(signature.begin) && bytes.size() >= signature.offset &&
         bytes.substr(signature.offset).starts_with(signature.further);
}

}  // namespace

std::string_view sniff(std::string_view first_bytes) {
  const auto found = std::ranges::find_if(signatures, [&](const Signature& one) { return matches(one, first_bytes); });
  return found == signatures.end() ? std::string_view{} : found->media_type;
}

bool may_be(std::string_view media_type, std::string_view first_bytes) {
  bool known = false;
  for (const Signature& one : signatures) {
    if (one.media_type != media_type) continue;
    known = true;
    if (matches(one, first_bytes)) return true;
  }
  return !known;
}

}  // namespace sluice::files
