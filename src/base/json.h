#pragma once

#include <string>
#include <string_view>

#include "base/buffer.h"

namespace sluice {

// The inside of a JSON string. Bytes above 0x7F pass as they are: the text is UTF-8 already.
void append_json_escaped(Buffer& out, std::string_view text);

// A name as a step of a JSON pointer, without its slash (RFC 6901).
void append_pointer_escaped(std::string& out, std::string_view name);

}  // namespace sluice
