#include "api/schema/row_check.h"

#include <algorithm>
#include <utility>

#include "api/source.h"
#include "base/json.h"

namespace sluice::api::schema {

RowCheck::RowCheck(const Schema& schema, const Shape& shape, BodyFormat format)
    : shape_(shape),
      validator_(schema),
      text_(shape),
      scalars_(format == BodyFormat::csv || format == BodyFormat::form ? Scalars::text : Scalars::typed) {}

bool RowCheck::holds(RowReader& reader, std::size_t most, std::vector<RowFault>& faults) {
  const std::string_view row = text_of(reader);
  found_.clear();
  const bool good = validator_.validate(row, scalars_, most - std::min(most, faults.size()), found_);
  for (Fault& fault : found_) faults.push_back(reader.fault_at(fault.pointer, std::move(fault.reason)));
  return good;
}

std::string_view RowCheck::text_of(const RowReader& reader) {
  const std::string_view row = reader.row_text();
  const auto values = reader.row();
  if (shape_.trims.empty()) return row.empty() ? text_.write(values) : row;
  if (row.empty()) {
    values_.assign(values.begin(), values.end());
    for (const std::size_t i : shape_.trims) {
      if (values_[i].kind == Value::Kind::string) values_[i].text = trimmed(values_[i].text);
    }
    return text_.write(values_);
  }
  in_order_.clear();
  for (const std::size_t i : shape_.trims) {
    if (values[i].kind == Value::Kind::string) in_order_.push_back(i);
  }
  std::ranges::sort(in_order_, {}, [&](std::size_t i) { return values[i].json.data(); });
  trimmed_.clear();
  const char* copied = row.data();
  for (const std::size_t i : in_order_) {
    const std::string_view written = values[i].json;
    if (written.data() < copied) continue;  // the name occurs twice
    trimmed_.append({copied, written.data()});
    trimmed_.push_back('"');
    append_json_escaped(trimmed_, trimmed(values[i].text));
    trimmed_.push_back('"');
    copied = written.data() + written.size();
  }
  trimmed_.append({copied, row.data() + row.size()});
  return trimmed_.view();
}

}  // namespace sluice::api::schema
