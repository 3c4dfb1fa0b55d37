#pragma once

#include <cstdint>
#include <expected>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "api/query/query.h"
#include "api/resident/index.h"
#include "api/resident/packed_rows.h"
#include "api/resident/row_store.h"
#include "api/resident/row_text.h"
#include "base/buffer.h"
#include "sql/encode/encoder.h"
#include "sql/rows.h"

namespace sluice::api::resident {

// How to make a table.
struct TableShape {
  std::string key{};                 // a column; empty if absent
  std::vector<std::string> index{};  // columns
  bool csv = false;                  // can be answered as CSV too
  bool on_demand = false;            // rows are kept packed and encoded on request
  std::uint64_t memory_limit = 0;    // bytes of one version, as memory() counts them
};

// Names of query parameters. The key and columns with an index cannot have them.
inline constexpr std::string_view reserved_parameters[] = {"sort", "limit", "offset", "fields", "or", "and"};
inline constexpr query::Bounds query_bounds{.conditions = 32, .values = 1000, .depth = 4};

// Checks the shape against these columns. Returns what is wrong, for the operator, or an empty string.
[[nodiscard]] std::string check_shape(const TableShape& shape, std::span<const sql::Column> columns);
// The parameters of a query. Precondition: check_shape() accepts the shape.
[[nodiscard]] query::Vocabulary vocabulary_of(const TableShape& shape, std::span<const sql::Column> columns);

// How the rows are sorted by key.
enum class KeyOrder : std::uint8_t { none, ascending, descending };

// One version of a resident table: its rows and their indexes. Immutable, shared by all cores.
//
// An encoded row is kept as `,{"id":1,"name":"a"}\n`. So consecutive rows are one view, the inside of a JSON array, and
// each row without its comma is a line of NDJSON. Alternatively, rows are kept packed and are encoded on demand.
// RowWriter writes the same text in both cases.
class Table {
 public:
  [[nodiscard]] std::uint32_t size() const { return packed_ ? packed_->size() : json_.size(); }
  [[nodiscard]] const std::vector<sql::Column>& columns() const { return columns_; }
  [[nodiscard]] std::optional<std::size_t> find_column(std::string_view name) const;
  // Its columns are those of the table.
  [[nodiscard]] const query::Vocabulary& vocabulary() const { return vocabulary_; }
  // Returns null if the column has no index.
  [[nodiscard]] const Index* index_of(std::size_t column) const { return indexes_[column].get(); }
  // Returns null if there is no key.
  [[nodiscard]] const Index* key() const { return key_ ? indexes_[*key_].get() : nullptr; }

  // Null if the rows are kept encoded. If not null, the views below are not available.
  [[nodiscard]] const PackedRows* packed() const { return packed_.get(); }
  // The layout of packed rows with all columns. JSON rows are lines of NDJSON.
  [[nodiscard]] const sql::Layout& layout(sql::Format format) const;

  // The object and its line end.
  [[nodiscard]] std::string_view object(std::uint32_t row) const { return json_.row(row).substr(1); }
  // The object as it follows another object in an array: with a comma before it.
  [[nodiscard]] std::string_view next_object(std::uint32_t row) const { return json_.row(row); }
  // The objects with commas between them.
  [[nodiscard]] std::string_view objects(std::uint32_t first, std::uint32_t last) const {
    return first == last ? std::string_view{} : json_.rows(first, last).substr(1);
  }
  // Whether the table has CSV. csv() returns the lines of the rows.
  [[nodiscard]] bool has_csv() const { return has_csv_; }
  [[nodiscard]] std::string_view csv(std::uint32_t first, std::uint32_t last) const { return csv_.rows(first, last); }
  // Cuts a row into the JSON of its values.
  void cut(std::uint32_t row, std::span<std::string_view> values) const { text_.cut(object(row), values); }
  [[nodiscard]] const RowText& text() const { return text_; }

  // 32 hexadecimal digits, for the ETag. They depend only on the columns and rows, not on the process that loaded them.
  [[nodiscard]] const std::string& state() const { return state_; }
  // Size of the rows as JSON, even if they are kept packed.
  [[nodiscard]] std::uint64_t json_bytes() const { return json_bytes_; }
  [[nodiscard]] std::uint64_t memory() const;

 private:
  friend class TableBuilder;
  friend class Delta;
  Table(std::vector<sql::Column> columns, bool on_demand);
  void trim();
  // Completes the table after rows and indexes have been built.
  [[nodiscard]] static std::expected<std::shared_ptr<const Table>, std::string> seal(std::shared_ptr<Table> table,
                                                                                     const TableShape& shape);

  std::vector<sql::Column> columns_;
  query::Vocabulary vocabulary_;
  RowText text_;
  RowStore json_;
  RowStore csv_;
  std::unique_ptr<PackedRows> packed_;  // instead of the two above
  std::vector<sql::Layout> layouts_;    // of the packed rows: NDJSON, CSV, CSJ
  std::uint64_t json_bytes_ = 0;
  bool has_csv_ = false;
  std::vector<std::unique_ptr<Index>> indexes_;  // by column
  std::optional<std::size_t> key_;
  std::optional<KeyOrder> key_order_;  // determined by earlier versions; see Delta
  std::string state_;
};

// Builds a version from the blocks of one answer. Errors are sentences for the log.
class TableBuilder {
 public:
  // Precondition: check_shape() accepts the shape.
  TableBuilder(const TableShape& shape, std::span<const sql::Column> columns);

  [[nodiscard]] std::expected<void, std::string> add(const sql::Block& block);
  // Sorts, hashes and frees memory that was reserved for growth. May take long and may run on any thread. Call it once.
  [[nodiscard]] std::expected<std::shared_ptr<const Table>, std::string> finish();

 private:
  // Returns false if the row is too long.
  [[nodiscard]] bool keep_row(const sql::Block& row);
  // The memory used so far, which counts against the limit.
  [[nodiscard]] std::uint64_t bytes() const;
  [[nodiscard]] std::expected<void, std::string> index_row(std::span<const sql::Field> fields);
  [[nodiscard]] bool index_value(Index& index, const sql::Field& field);

  TableShape shape_;
  std::shared_ptr<Table> table_;
  sql::Encoder json_;
  std::optional<sql::Encoder> csv_;
  Buffer row_;
  std::string scratch_;
  std::string element_;
};

}  // namespace sluice::api::resident
