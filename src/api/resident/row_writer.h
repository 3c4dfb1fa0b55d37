#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "api/resident/table.h"
#include "base/buffer.h"
#include "sql/encode/format.h"

namespace sluice::api::resident {

// Writes rows of a table as an answer has them: begin(), rows, end(). Appends whole rows only.
class RowWriter {
 public:
  struct Wanted {
    sql::Format format = sql::Format::json;
    sql::Header header = sql::Header::present;
    bool object = false;                // one row, in JSON without the array around it
    std::vector<std::uint32_t> fields;  // empty: all
  };
  // The table outlives it. Precondition: CSV is of a table that has it.
  RowWriter(const Table& table, Wanted wanted);

  void begin(Buffer& out) const;
  void row(std::uint32_t row, Buffer& out);
  void end(Buffer& out) const;

 private:
  void members(Buffer& out) const;
  void csv(std::uint32_t row, Buffer& out);

  const Table& table_;
  const Wanted wanted_;
  const bool all_;
  bool first_ = true;
  std::vector<std::string_view> values_;
};

// Cuts a line of CSV, its end included, into its values as they stand there; `values` has a place for each.
void cut_csv(std::string_view line, std::span<std::string_view> values);

}  // namespace sluice::api::resident
