// Bodies of log-ins and refresh tokens. Fields must come back from the JSON that a log-in keeps.

#include <cstdint>
#include <string>
#include <string_view>

#include "fuzzing.h"
#include "login/families.h"
#include "login/fields.h"

using namespace sluice::login;
using sluice::fuzz::require;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  for (const std::string_view type : {"application/json", "application/x-www-form-urlencoded"}) {
    const auto fields = parse_fields(type, text);
    if (fields) require(fields_of(json_of(*fields)) == *fields, "a field is lost");
  }
  if (const auto token = RefreshToken::parse(text)) require(token->text() == text, "another token");
  return 0;
}
