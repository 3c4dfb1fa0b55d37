#pragma once

#include <vector>

#include "api/body/row_reader.h"
#include "api/body/row_text.h"
#include "api/schema/schema.h"

namespace sluice::api::schema {

// The rows of one request under a schema. A row of csv, csj or a form is the object of its columns.
class RowCheck {
 public:
  // Both outlive it.
  RowCheck(const Schema& schema, const Shape& shape, BodyFormat format);

  // Of the row that the reader has read last. Appends what is wrong with it, until there are `most`.
  [[nodiscard]] bool holds(RowReader& reader, std::size_t most, std::vector<RowFault>& faults);

 private:
  Validator validator_;
  RowText text_;
  Scalars scalars_;
  std::vector<Fault> found_;
};

}  // namespace sluice::api::schema
