#pragma once

#include <cstddef>
#include <string_view>
#include <vector>

#include "api/body/row_reader.h"
#include "api/body/row_text.h"
#include "api/schema/schema.h"
#include "base/buffer.h"

namespace sluice::api::schema {

// Checks the rows of one request against a schema. A row of csv, csj or a form becomes an object.
class RowCheck {
 public:
  // The arguments outlive this.
  RowCheck(const Schema& schema, const Shape& shape, BodyFormat format);

  // Whether the reader's last row is valid after trimming, that is, as it will be written. `faults` gets at most
  // `most`.
  [[nodiscard]] bool holds(RowReader& reader, std::size_t most, std::vector<RowFault>& faults);

 private:
  [[nodiscard]] std::string_view text_of(const RowReader& reader);

  const Shape& shape_;
  Validator validator_;
  RowText text_;
  Scalars scalars_;
  Buffer trimmed_;                     // a trimmed JSON row
  std::vector<std::size_t> in_order_;  // Shape::trims in the order of the row
  std::vector<Value> values_;
  std::vector<Fault> found_;
};

}  // namespace sluice::api::schema
