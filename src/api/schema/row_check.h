#pragma once

#include <cstddef>
#include <string_view>
#include <vector>

#include "api/body/row_reader.h"
#include "api/body/row_text.h"
#include "api/schema/schema.h"
#include "base/buffer.h"

namespace sluice::api::schema {

// The rows of one request under a schema. A row of csv, csj or a form is the object of its columns.
class RowCheck {
 public:
  // Both outlive it.
  RowCheck(const Schema& schema, const Shape& shape, BodyFormat format);

  // Of the row that the reader has read last, as it will be written: what is trimmed is. Appends what is wrong with it,
  // until there are `most`.
  [[nodiscard]] bool holds(RowReader& reader, std::size_t most, std::vector<RowFault>& faults);

 private:
  [[nodiscard]] std::string_view text_of(const RowReader& reader);

  const Shape& shape_;
  Validator validator_;
  RowText text_;
  Scalars scalars_;
  Buffer trimmed_;                     // a row of json
  std::vector<std::size_t> in_order_;  // Shape::trims, as the row has them
  std::vector<Value> values_;
  std::vector<Fault> found_;
};

}  // namespace sluice::api::schema
