#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "api/resident/table.h"
#include "base/buffer.h"
#include "sql/encode/format.h"

namespace sluice::api::resident {

// Writes rows of a table in the form of an answer: begin(), rows, end(). Appends only whole rows.
class RowWriter {
 public:
  struct Wanted {
    sql::Format format = sql::Format::json;
    sql::Header header = sql::Header::present;
    bool object = false;                  // JSON: one row without the array around it
    std::vector<std::uint32_t> fields{};  // empty for all
  };
  // The table outlives this. Precondition: if CSV is wanted, the table has CSV.
  RowWriter(const Table& table, Wanted wanted);

  void begin(Buffer& out) const;
  // Call it if rows of the answer have been written elsewhere: the next row is then not the first.
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
  // For packed rows.
  std::optional<PackedRows::Reader> reader_;
  std::vector<sql::Column> columns_;  // the wanted columns; unused if all are wanted
  std::size_t read_ = 0;              // columns up to the last wanted one
  std::vector<sql::Field> fields_;
  std::optional<sql::Encoder> encoder_;
};

// Cuts a line of CSV, including its line end, into its raw values; `values` has one element per value.
void cut_csv(std::string_view line, std::span<std::string_view> values);

}  // namespace sluice::api::resident
