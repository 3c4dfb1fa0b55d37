#include "api/body/row_reader.h"

#include <algorithm>
#include <utility>

#include "api/body/csj_reader.h"
#include "api/body/csv_reader.h"
#include "api/body/form_reader.h"
#include "api/body/json_reader.h"

namespace sluice::api {

std::unique_ptr<RowReader> RowReader::make(BodyFormat format, const Shape& shape, const RowLimits& given) {
  RowLimits limits = given;
  limits.columns = std::max(limits.columns, shape.names.size());
  switch (format) {
    case BodyFormat::json:
    case BodyFormat::merge_patch:
      return std::make_unique<JsonReader>(shape, limits);
    case BodyFormat::ndjson:
      return std::make_unique<NdjsonReader>(shape, limits);
    case BodyFormat::csv:
      return std::make_unique<CsvReader>(shape, limits);
    case BodyFormat::csj:
      return std::make_unique<CsjReader>(shape, limits);
    case BodyFormat::form:
      return std::make_unique<FormReader>(shape, limits);
  }
  std::unreachable();
}

}  // namespace sluice::api
