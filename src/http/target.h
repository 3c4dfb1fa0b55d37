#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

// Functions for parts of a request's target (RFC 9110, 4.2; RFC 3986), shared by HTTP/1.1 and HTTP/2.
namespace sluice::http {

enum class PortIs : std::uint8_t { optional, required };

// Whether the text is uri-host [ ":" port ] with a nonempty host and without userinfo.
[[nodiscard]] bool is_authority(std::string_view text, PortIs port_is);

// The host of an authority in the form that is used for comparison: in lower case, without port, brackets and trailing
// dot. The view points into `space`. Empty if there is no host, or if it is longer than max_host_size.
inline constexpr std::size_t max_host_size = 255;
[[nodiscard]] std::string_view normal_host(std::string_view authority, std::span<char, max_host_size> space);

struct DecodedPath {
  enum class Fault : std::uint8_t { none, bad_escape, nul, above_root, bad_character };
  Fault fault = Fault::none;
  std::size_t size = 0;
  bool has_encoded_slash = false;
  bool has_empty_segment = false;  // in `raw`; the output has single slashes
};

// Writes the path to `out`, which has room for raw.size() bytes. Decodes escapes, then removes "." and ".." segments
// and merges runs of '/'. An encoded slash becomes a NUL, as in Request::segments; an encoded NUL is a fault. `raw`
// begins with '/' and is visible ASCII. The characters for which h1::is_refused_in_path() is true are bad characters.
[[nodiscard]] DecodedPath decode_path(std::string_view raw, char* out);

// Whether the path of a target that begins with '/' has a segment "." or "..". Escapes are decoded first, and an
// escaped slash counts as a separator.
[[nodiscard]] bool has_dot_segment(std::string_view target);

// Appends `text` as a part of a path or of a query string. Encodes every character as %XX, except unreserved ones (RFC
// 3986, 2.3) and those in `keep`.
void append_escaped(std::string& out, std::string_view text, std::string_view keep = {});

// Appends a path, or a part of one, encoded in normal form. In `segments`, as in Request::segments, a NUL stands for an
// encoded slash and is written as one.
void append_path(std::string& out, std::string_view segments);

}  // namespace sluice::http
