#pragma once

#include <string>
#include <string_view>

#include "base/buffer.h"

namespace sluice {

// White space between the tokens of JSON (RFC 8259, 2).
constexpr bool is_json_blank(char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r'; }

// Escapes the content of a JSON string. Bytes above 0x7F are copied unchanged: the text is already UTF-8.
void append_json_escaped(Buffer& out, std::string_view text);

// Escapes a name as a reference token of a JSON pointer, without its slash (RFC 6901).
void append_pointer_escaped(std::string& out, std::string_view name);

}  // namespace sluice
