#pragma once

#include <cstdint>
#include <optional>
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
    bool object = false;                  // one row, in JSON without the array around it
    std::vector<std::uint32_t> fields{};  // empty: all
  };
  // The table outlives it. Precondition: CSV is of a table that has it.
  RowWriter(const Table& table, Wanted wanted);

  void begin(Buffer& out) const;
  // The next row is not the first one of the answer.
  void follow() { first_ = false; }
  void row(std::uint32_t row, Buffer& out);
  void end(Buffer& out) const;

 private:
  [[nodiscard]] std::vector<sql::Column> wanted_columns() const;
  void members(Buffer& out) const;
  void unpack(std::uint32_t row, Buffer& out);
  void csv(std::uint32_t row, Buffer& out);

  const Table& table_;
  const Wanted wanted_;
  const bool all_;
  bool first_ = true;
  std::vector<std::string_view> values_;
  // Of packed rows.
  std::optional<PackedRows::Reader> reader_;
  std::vector<sql::Column> columns_;  // those that are wanted; not where all are
  std::size_t read_ = 0;              // columns up to the last that is wanted
  std::vector<sql::Field> fields_;
  std::optional<sql::Encoder> encoder_;
};

// Cuts a line of CSV, its end included, into its values as they stand there; `values` has a place for each.
void cut_csv(std::string_view line, std::span<std::string_view> values);

}  // namespace sluice::api::resident
