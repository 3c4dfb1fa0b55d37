#pragma once

#include <string>
#include <string_view>

namespace sluice::http {

// File names may contain any byte except '/' and NUL. Each function escapes them for one context and appends to `out`.

// For the path of a URL: writes everything except unreserved characters and '/' as %XX, so no name looks like a scheme.
void append_url_path(std::string& out, std::string_view text);
// For text or a quoted attribute in an HTML page. Bytes that are not UTF-8 become U+FFFD.
void append_html(std::string& out, std::string_view text);
// As a JSON string, with its quotes. Bytes that are not UTF-8 become U+FFFD.
void append_json(std::string& out, std::string_view text);

}  // namespace sluice::http
