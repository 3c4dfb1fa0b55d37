#include "api/openapi/json_object.h"

#include "base/buffer.h"
#include "base/json.h"

namespace sluice::api::openapi {

std::string json_string(std::string_view text) {
  Buffer escaped;
  append_json_escaped(escaped, text);
  return "\"" + std::string(escaped.view()) + "\"";
}

JsonObject& JsonObject::add(std::string_view name, std::string_view json) {
  if (!members_.empty()) members_ += ',';
  members_ += json_string(name) + ":";
  members_ += json;
  return *this;
}

}  // namespace sluice::api::openapi
