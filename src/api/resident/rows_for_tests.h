#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "api/resident/selection.h"
#include "api/resident/table.h"
#include "sql/rows.h"

// Rows without a database, for tests and fuzz targets.
namespace sluice::api::resident {

// A value as a database writes it; null for NULL.
struct TestValue {
  TestValue(std::nullptr_t) {}                                  // NOLINT: as it is written
  TestValue(const char* written) : text(written) {}             // NOLINT
  TestValue(std::string written) : text(std::move(written)) {}  // NOLINT
  TestValue(std::string written, sql::Form its) : text(std::move(written)), form(its) {}

  std::optional<std::string> text;
  sql::Form form = sql::Form::text;  // in a column of the form `dynamic`
};

inline std::shared_ptr<const sql::Type> type_of(sql::Form form) {
  auto type = std::make_shared<sql::Type>();
  type->form = form;
  return type;
}

inline sql::Column column_of(std::string name, sql::Form form, std::uint32_t type_id = 0) {
  return {.name = std::move(name), .type = type_of(form), .type_id = type_id};
}

inline sql::Column array_of(std::string name, sql::Form element, char delimiter = ',') {
  auto type = std::make_shared<sql::Type>();
  type->form = sql::Form::array;
  type->delimiter = delimiter;
  type->element = type_of(element);
  return {.name = std::move(name), .type = std::move(type)};
}

inline sql::Column sqlite_column(std::string name, std::string declared) {
  return {
      .name = std::move(name), .type = type_of(sql::Form::dynamic), .type_id = 0, .declared_type = std::move(declared)};
}

// Every value has memory of exactly its size, so the sanitizer finds a read past its end.
class TestRows {
 public:
  explicit TestRows(std::vector<sql::Column> header) : columns(std::move(header)) {}

  TestRows& row(const std::vector<TestValue>& values) {
    for (const TestValue& value : values) {
      sql::Field& field = fields_.emplace_back();
      field.form = value.form;
      if (!value.text) continue;
      memory_.push_back(std::make_unique<char[]>(value.text->size()));
      if (!value.text->empty()) std::memcpy(memory_.back().get(), value.text->data(), value.text->size());
      field.data = memory_.back().get();
      field.size = static_cast<std::uint32_t>(value.text->size());
    }
    return *this;
  }

  [[nodiscard]] std::size_t size() const { return fields_.size() / columns.size(); }
  [[nodiscard]] sql::Block block() const { return block(0, size()); }
  // The rows [first, last).
  [[nodiscard]] sql::Block block(std::size_t first, std::size_t last) const {
    return {.columns = columns,
            .fields = std::span(fields_).subspan(first * columns.size(), (last - first) * columns.size()),
            .rows = last - first,
            .last = last == size()};
  }

  std::vector<sql::Column> columns;

 private:
  std::vector<std::unique_ptr<char[]>> memory_;
  std::vector<sql::Field> fields_;
};

inline std::expected<std::shared_ptr<const Table>, std::string> build(TableShape shape, const TestRows& rows) {
  if (shape.memory_limit == 0) shape.memory_limit = std::uint64_t{1} << 40;
  TableBuilder builder(shape, rows.columns);
  if (auto added = builder.add(rows.block()); !added) return std::unexpected(std::move(added.error()));
  return builder.finish();
}

// Builds a table. Precondition: the rows are valid.
inline std::shared_ptr<const Table> table_of(TableShape shape, const TestRows& rows) {
  return build(std::move(shape), rows).value();
}

inline std::vector<std::uint32_t> rows_of(const Selection& selection) {
  std::vector<std::uint32_t> rows;
  for (std::uint64_t i = 0; i < selection.size(); ++i) rows.push_back(selection.at(i));
  return rows;
}

// The bytes that the encoder writes in a format.
inline std::string encoded(sql::Format format, const TestRows& rows, sql::Header header = sql::Header::present) {
  Buffer out;
  sql::Encoder encoder(format, rows.columns);
  encoder.begin(out, header);
  encoder.rows(rows.block(), out);
  encoder.end(out);
  return std::string(out.view());
}

}  // namespace sluice::api::resident
