#include "api/schema/row_check.h"

#include <algorithm>
#include <utility>

namespace sluice::api::schema {

RowCheck::RowCheck(const Schema& schema, const Shape& shape, BodyFormat format)
    : validator_(schema),
      text_(shape),
      scalars_(format == BodyFormat::csv || format == BodyFormat::form ? Scalars::text : Scalars::typed) {}

bool RowCheck::holds(RowReader& reader, std::size_t most, std::vector<RowFault>& faults) {
  std::string_view row = reader.row_text();
  if (row.empty()) row = text_.write(reader.row());
  found_.clear();
  const bool good = validator_.validate(row, scalars_, most - std::min(most, faults.size()), found_);
  for (Fault& fault : found_) faults.push_back(reader.fault_at(fault.pointer, std::move(fault.reason)));
  return good;
}

}  // namespace sluice::api::schema
