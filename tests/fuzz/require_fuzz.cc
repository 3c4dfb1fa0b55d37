#include <cstdint>
#include <string>
#include <string_view>

#include "api/require.h"
#include "fuzzing.h"

namespace {

using sluice::api::Requirement;
using sluice::fuzz::require;

// Checks the offset and the depth of every part, and that it has the fields that its kind needs.
void look_at(const Requirement& requirement, std::string_view text, std::size_t depth) {
  require(depth < sluice::api::deepest_requirement);
  require(requirement.offset <= text.size());
  for (const auto& operand : requirement.operands) {
    require(operand.offset < text.size());
    if (operand.source) require(text.substr(operand.offset).starts_with(operand.text));
  }
  if (requirement.kind == Requirement::Kind::exists) {
    require(!requirement.sql.empty() && requirement.offset + requirement.sql.size() < text.size());
    require(text[requirement.offset + requirement.sql.size()] == ')');
    for (const auto& [parameter, claim] : requirement.claims) {
      require(requirement.sql.find(":" + parameter) != std::string::npos && parameter.size() == claim.size() + 5);
    }
  }
  for (const Requirement& part : requirement.parts) look_at(part, text, depth + 1);
}

}  // namespace

// Any bytes as an expression of `require`: they give a tree, or an error at a position in the text.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto parsed = sluice::api::parse_requirement(text);
  if (parsed) {
    look_at(*parsed, text, 0);
  } else {
    require(parsed.error().offset <= text.size() && !parsed.error().message.empty());
  }
  return 0;
}
