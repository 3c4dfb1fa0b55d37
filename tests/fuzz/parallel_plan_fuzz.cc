#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "sql/parameters.h"
#include "sql/postgres/parallel_plan.h"

// A statement, a NUL, and the output of EXPLAIN: refused with a reason, or accepted with two parameters and a table.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace sluice::sql;
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  const std::size_t end = input.find('\0');
  if (end == input.npos) return 0;
  postgres::RangeParameters range{.from = 0, .to = 1};
  if (const auto parsed = parse_parameters(input.substr(0, end), PlaceholderStyle::dollar)) {
    const auto found = postgres::find_range(*parsed);
    if (found) {
      range = *found;
      if (range.from == range.to || range.from >= parsed->names.size() || range.to >= parsed->names.size())
        std::abort();
      if (parsed->names[range.from] != "ctid_from" || parsed->names[range.to] != "ctid_to") std::abort();
    } else if (found.error().empty()) {
      std::abort();
    }
  }
  const auto table = postgres::check_plan(input.substr(end + 1), range);
  if (table ? table->schema.empty() || table->name.empty() : table.error().empty()) std::abort();
  return 0;
}
