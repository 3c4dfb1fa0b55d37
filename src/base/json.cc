#include "base/json.h"

namespace sluice {

void append_json_escaped(Buffer& out, std::string_view text) {
  static constexpr char hex[] = "0123456789abcdef";
  for (char c : text) {
    switch (c) {
      case '"':
        out.append("\\\"");
        break;
      case '\\':
        out.append("\\\\");
        break;
      case '\b':
        out.append("\\b");
        break;
      case '\f':
        out.append("\\f");
        break;
      case '\n':
        out.append("\\n");
        break;
      case '\r':
        out.append("\\r");
        break;
      case '\t':
        out.append("\\t");
        break;
      default:
        if (static_cast<unsigned char>(c) < 0x20) {
          const char escape[] = {'\\', 'u', '0', '0', hex[c >> 4], hex[c & 0xF]};
          out.append({escape, sizeof escape});
        } else {
          out.push_back(c);
        }
    }
  }
}

void append_pointer_escaped(std::string& out, std::string_view name) {
  for (const char c : name) {
    if (c == '~') {
      out += "~0";
    } else if (c == '/') {
      out += "~1";
    } else {
      out += c;
    }
  }
}

}  // namespace sluice
