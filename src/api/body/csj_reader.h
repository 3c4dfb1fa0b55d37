#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "api/body/json_row.h"
#include "api/body/line_scan.h"
#include "api/body/reader.h"

namespace sluice::api {

// application/csj: a line of names, then a line per row, each a JSON array without its brackets.
class CsjReader final : public Reader {
 public:
  CsjReader(const Shape& shape, const RowLimits& limits) : Reader(shape, limits), json_(fields_, limits) {}

  [[nodiscard]] bool single() const override { return false; }

 private:
  Next step() override;
  Next line(const char* begin, const char* end);
  Next header(const char* end);
  Next values(const char* begin, const char* end);

  JsonRow json_;
  LineScan lines_;
  std::vector<std::string> names_;
  std::vector<std::uint32_t> columns_;  // their nodes in fields_
  bool started_ = false;
  bool has_header_ = false;
};

}  // namespace sluice::api
