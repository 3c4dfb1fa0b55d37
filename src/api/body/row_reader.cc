#include "api/body/row_reader.h"

#include "api/body/json_reader.h"

namespace sluice::api {

std::unique_ptr<RowReader> RowReader::make(BodyFormat format, const Shape& shape, const RowLimits& limits) {
  switch (format) {
    case BodyFormat::json:
      return std::make_unique<JsonReader>(shape, limits);
    case BodyFormat::ndjson:
      return std::make_unique<NdjsonReader>(shape, limits);
    default:
      return nullptr;
  }
}

}  // namespace sluice::api
