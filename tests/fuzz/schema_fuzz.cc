// A schema and a value, both any bytes, separated by a NUL. Every validation must end, report no more errors than the
// limit, and give pointers no deeper than the value. An accepted schema, written for another place, is accepted again.

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "api/body/row_reader.h"
#include "api/schema/row_check.h"
#include "api/schema/schema.h"
#include "fuzzing.h"

namespace {

using namespace sluice::api;
using sluice::fuzz::require;

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  const auto middle = input.find('\0');
  if (middle == input.npos) return 0;
  const auto schema = schema::Schema::parse(input.substr(0, middle));
  if (!schema) {
    require(!schema.error().empty() && schema.error().size() <= schema::most_faults, "as many faults as are told");
    for (const auto& fault : schema.error()) require(!fault.reason.empty(), "a schema is refused without a reason");
    return 0;
  }
  require(!schema::relocated((*schema)->text(), "#/x").empty(), "a schema that is nothing elsewhere");

  const Shape shape{.names = {"a", "b.c", ""}, .allow_unknown = true};
  constexpr std::size_t most = 5;
  for (const BodyFormat format : {BodyFormat::json, BodyFormat::csv, BodyFormat::csj}) {
    schema::RowCheck check(**schema, shape, format);
    const auto reader = RowReader::make(format, shape, {.row_bytes = 1 << 16});
    reader->feed(input.substr(middle + 1));
    reader->finish();
    std::vector<RowFault> faults;
    for (;;) {
      const auto next = reader->next();
      if (next == RowReader::Next::bad_row) continue;
      if (next != RowReader::Next::row) break;
      const std::size_t before = faults.size();
      const bool good = check.holds(*reader, most, faults);
      require(good == (faults.size() == before) || before == most, "a verdict that its faults do not bear out");
      require(faults.size() <= most, "more faults than were asked for");
      if (faults.size() == most) break;
    }
  }
  return 0;
}
