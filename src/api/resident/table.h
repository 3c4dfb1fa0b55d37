#pragma once

#include <cstdint>
#include <expected>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "api/resident/index.h"
#include "api/resident/packed_rows.h"
#include "api/resident/row_store.h"
#include "api/resident/row_text.h"
#include "base/buffer.h"
#include "sql/encode/encoder.h"
#include "sql/rows.h"

namespace sluice::api::resident {

// What a table is made as.
struct TableShape {
  std::string key{};                 // a column; empty: none
  std::vector<std::string> index{};  // columns
  bool csv = false;                  // it is answered as CSV too
  bool on_demand = false;            // rows are kept packed, and encoded when they are asked for
  std::uint64_t memory_limit = 0;    // bytes of one version, as memory() counts them
};

// Parameters that a column may not be called by.
inline constexpr std::string_view reserved_parameters[] = {"sort", "limit", "offset", "fields"};

// What is wrong with the shape, for these columns: in the words of an error of the configuration. Empty: nothing.
[[nodiscard]] std::string check_shape(const TableShape& shape, std::span<const sql::Column> columns);

// How rows stand by their keys.
enum class KeyOrder : std::uint8_t { none, ascending, descending };

// One version of a resident table: rows, and what finds them. Immutable, shared by all cores.
//
// A row is kept as `,{"id":1,"name":"a"}\n`: neighbours are one view of a JSON array's inside, and each by itself,
// without its comma, a line of NDJSON. Or rows are kept packed, and encoded on demand: RowWriter writes the same of
// both.
class Table {
 public:
  [[nodiscard]] std::uint32_t size() const { return packed_ ? packed_->size() : json_.size(); }
  [[nodiscard]] const std::vector<sql::Column>& columns() const { return columns_; }
  [[nodiscard]] std::optional<std::size_t> find_column(std::string_view name) const;
  // Null: it has none.
  [[nodiscard]] const Index* index_of(std::size_t column) const { return indexes_[column].get(); }
  // Null: there is no key.
  [[nodiscard]] const Index* key() const { return key_ ? indexes_[*key_].get() : nullptr; }

  // Null: the rows are there encoded. Else there are none of the views below.
  [[nodiscard]] const PackedRows* packed() const { return packed_.get(); }
  // How packed rows are written, all columns of them; JSON's are lines of NDJSON.
  [[nodiscard]] const sql::Layout& layout(sql::Format format) const;

  // The object and its line end.
  [[nodiscard]] std::string_view object(std::uint32_t row) const { return json_.row(row).substr(1); }
  // The object as it follows another one in an array: behind a comma.
  [[nodiscard]] std::string_view next_object(std::uint32_t row) const { return json_.row(row); }
  // Objects, with commas between them.
  [[nodiscard]] std::string_view objects(std::uint32_t first, std::uint32_t last) const {
    return first == last ? std::string_view{} : json_.rows(first, last).substr(1);
  }
  // Whether `csv` was asked for. The rows' lines.
  [[nodiscard]] bool has_csv() const { return has_csv_; }
  [[nodiscard]] std::string_view csv(std::uint32_t first, std::uint32_t last) const { return csv_.rows(first, last); }
  // Cuts a row into the JSON of its values.
  void cut(std::uint32_t row, std::span<std::string_view> values) const { text_.cut(object(row), values); }
  [[nodiscard]] const RowText& text() const { return text_; }

  // The same for the same rows, whoever has loaded them: 32 hexadecimal digits.
  [[nodiscard]] const std::string& state() const { return state_; }
  // Of the rows as JSON, whether they are kept so or not.
  [[nodiscard]] std::uint64_t json_bytes() const { return json_bytes_; }
  [[nodiscard]] std::uint64_t memory() const;

 private:
  friend class TableBuilder;
  friend class Delta;
  Table(std::vector<sql::Column> columns, bool on_demand);
  void trim();
  // When rows and indexes are there.
  [[nodiscard]] static std::expected<std::shared_ptr<const Table>, std::string> seal(std::shared_ptr<Table> table,
                                                                                     const TableShape& shape);

  std::vector<sql::Column> columns_;
  RowText text_;
  RowStore json_;
  RowStore csv_;
  std::unique_ptr<PackedRows> packed_;  // instead of the two
  std::vector<sql::Layout> layouts_;    // of the packed rows: NDJSON, CSV, CSJ
  std::uint64_t json_bytes_ = 0;
  bool has_csv_ = false;
  std::vector<std::unique_ptr<Index>> indexes_;  // by column
  std::optional<std::size_t> key_;
  std::optional<KeyOrder> key_order_;  // as versions before have shown it; see Delta
  std::string state_;
};

// Makes a version from the blocks of one answer. Errors are sentences for the log.
class TableBuilder {
 public:
  // Precondition: check_shape() has nothing to say.
  TableBuilder(const TableShape& shape, std::span<const sql::Column> columns);

  [[nodiscard]] std::expected<void, std::string> add(const sql::Block& block);
  // Sorts, hashes, and gives back what was room to grow: takes its time, on any thread. Once.
  [[nodiscard]] std::expected<std::shared_ptr<const Table>, std::string> finish();

 private:
  // False: it is too long.
  [[nodiscard]] bool keep_row(const sql::Block& row);
  // What has been filled so far, which is counted against the limit.
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
