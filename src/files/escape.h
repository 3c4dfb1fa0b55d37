#pragma once

#include <string>
#include <string_view>

namespace sluice::files {

// File names are any bytes but '/' and NUL; each of these makes them harmless in one place. All append to `out`.

// As part of a URL's path: everything but unreserved characters and '/' as %XX. So no name looks like a scheme.
void append_url_path(std::string& out, std::string_view text);
// As text or in a quoted attribute of an HTML page. Bytes that are not UTF-8 become U+FFFD.
void append_html(std::string& out, std::string_view text);
// As a JSON string, with its quotes. Bytes that are not UTF-8 become U+FFFD.
void append_json(std::string& out, std::string_view text);

}  // namespace sluice::files
