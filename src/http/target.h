#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

// Parts of a request's target (RFC 9110, 4.2; RFC 3986) as HTTP/1.1 and HTTP/2 both take them.
namespace sluice::http {

enum class PortIs : std::uint8_t { optional, required };

// uri-host [ ":" port ] with a host that is not empty and without userinfo.
[[nodiscard]] bool is_authority(std::string_view text, PortIs port_is);

struct DecodedPath {
  enum class Fault : std::uint8_t { none, bad_escape, nul, above_root, bad_character };
  Fault fault = Fault::none;
  std::size_t size = 0;
  bool has_encoded_slash = false;
  bool has_empty_segment = false;  // which is gone: runs of '/' are made one
};

// Writes the path to `out`, which has room for raw.size() bytes: escapes resolved, then "." and ".." segments removed,
// runs of '/' made one. An encoded slash becomes a NUL, as Request::segments has it; an encoded NUL is a fault.
// `raw` begins with '/' and is visible ASCII; what it holds that is in no URI is a bad character, as far as scan.h
// says.
[[nodiscard]] DecodedPath decode_path(std::string_view raw, char* out);

// Whether the path of a target that begins with '/' has a segment "." or "..", which removes itself or the one before
// it. Escapes count as what they stand for, an escaped slash too.
[[nodiscard]] bool has_dot_segment(std::string_view target);

// Appends `text` as a part of a path or of a query string: everything but unreserved characters (RFC 3986, 2.3), and
// those in `keep`, as %XX.
void append_escaped(std::string& out, std::string_view text, std::string_view keep = {});

}  // namespace sluice::http
