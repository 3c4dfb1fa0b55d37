#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "sql/compared.h"
#include "sql/parameters.h"

// Any bytes give a statement or an error. A statement's offsets map back into the source in order, and it holds no
// named parameter: parsing it again fails at the first numbered placeholder. The search for the columns that parameters
// are compared with accepts any bytes, and finds only parameters of the statement.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace sluice::sql;
  const std::string_view sql(reinterpret_cast<const char*>(data), size);
  for (const auto style : {PlaceholderStyle::dollar, PlaceholderStyle::question}) {
    const auto parsed = parse_parameters(sql, style);
    if (!parsed) {
      if (parsed.error().message.empty() || parsed.error().position > size + 1) std::abort();
      continue;
    }
    std::uint32_t previous = 0;
    for (std::uint32_t i = 0; i <= parsed->text.size(); ++i) {
      const std::uint32_t origin = parsed->source_offset(i);
      if (origin < previous || origin > size) std::abort();
      previous = origin;
    }
    const auto again = parse_parameters(parsed->text, style);
    if (parsed->names.empty() ? !again || again->text != parsed->text : again.has_value()) std::abort();
  }
  for (const auto& pair : compared_columns(sql)) {
    if (sql.find(std::to_string(pair.parameter + 1)) == sql.npos && sql.find("?0") == sql.npos) std::abort();
  }
  return 0;
}
