#include "api/body/reader.h"

#include <cstring>

#include "base/utf8.h"

namespace sluice::api {

std::string column_of(std::string_view pointer) {
  std::string name;
  if (pointer.starts_with('/')) pointer.remove_prefix(1);
  for (std::size_t at = 0; at < pointer.size(); ++at) {
    if (pointer[at] == '~' && at + 1 < pointer.size()) {
      name += pointer[++at] == '0' ? '~' : '/';
    } else {
      name += pointer[at] == '/' ? '.' : pointer[at];
    }
  }
  return name;
}

bool is_text(std::string_view bytes) {
  return bytes.empty() || (std::memchr(bytes.data(), '\0', bytes.size()) == nullptr && is_utf8(bytes));
}

}  // namespace sluice::api
