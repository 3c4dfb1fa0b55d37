#include "api/body/reader.h"

#include <cstring>

#include <simdjson.h>

namespace sluice::api {

bool is_text(std::string_view bytes) {
  return bytes.empty() || (std::memchr(bytes.data(), '\0', bytes.size()) == nullptr &&
                           simdjson::validate_utf8(bytes.data(), bytes.size()));
}

}  // namespace sluice::api
