#include "api/resident/table.h"

#include <algorithm>

#include <fmt/format.h>
#include <xxhash.h>

#include "api/resident/elements.h"

namespace sluice::api::resident {

std::string check_shape(const TableShape& shape, std::span<const sql::Column> columns) {
  const auto check = [&](const std::string& name, std::string_view what) -> std::string {
    const auto column = std::ranges::find(columns, name, &sql::Column::name);
    if (column == columns.end()) return fmt::format("{} \"{}\" is no column of the query", what, name);
    const auto type = ValueType::of(*column);
    if (!type) return fmt::format("{} \"{}\": values of its type cannot be compared", what, name);
    if (what == "key" && !type->is_single()) return fmt::format("key \"{}\" holds several values", name);
    if (std::ranges::find(reserved_parameters, name) != std::end(reserved_parameters)) {
      return fmt::format("{} \"{}\": a parameter of that name means something else; call the column otherwise (AS)",
                         what, name);
    }
    return {};
  };
  for (std::size_t i = 0; i < columns.size(); ++i) {
    for (std::size_t j = 0; j < i; ++j) {
      if (columns[i].name == columns[j].name) return fmt::format("two columns are called \"{}\"", columns[i].name);
    }
  }
  if (!shape.key.empty()) {
    if (std::string wrong = check(shape.key, "key"); !wrong.empty()) return wrong;
  }
  for (const std::string& name : shape.index) {
    if (std::string wrong = check(name, "index"); !wrong.empty()) return wrong;
  }
  return {};
}

std::optional<std::size_t> Table::find_column(std::string_view name) const {
  const auto found = std::ranges::find(columns_, name, &sql::Column::name);
  if (found == columns_.end()) return std::nullopt;
  return static_cast<std::size_t>(found - columns_.begin());
}

std::uint64_t Table::memory() const {
  std::uint64_t sum = json_.memory() + csv_.memory();
  for (const auto& index : indexes_) sum += index ? index->memory() : 0;
  return sum;
}

std::expected<std::shared_ptr<const Table>, std::string> Table::seal(std::shared_ptr<Table> table,
                                                                     const TableShape& shape) {
  // With the columns: where there are no rows, some formats still have their names.
  std::string names;
  for (std::size_t i = 0; i < table->columns_.size(); ++i) names += table->text_.name(i);
  const std::string_view text = table->json_.text();
  const XXH128_hash_t hash = XXH3_128bits_withSeed(text.data(), text.size(), XXH3_64bits(names.data(), names.size()));
  table->state_ = fmt::format("{:016x}{:016x}", hash.high64, hash.low64);
  if (table->memory() > shape.memory_limit) {
    return std::unexpected(fmt::format("it takes {} bytes, and its memory is {}", table->memory(), shape.memory_limit));
  }
  return table;
}

TableBuilder::TableBuilder(const TableShape& shape, std::span<const sql::Column> columns)
    : shape_(shape), table_(new Table({columns.begin(), columns.end()})), json_(sql::Format::ndjson, table_->columns_) {
  if (shape.csv) {
    csv_.emplace(sql::Format::csv, table_->columns_);
    table_->has_csv_ = true;
  }
  table_->indexes_.resize(columns.size());
  const auto add = [&](const std::string& name) {
    const std::size_t column = *table_->find_column(name);
    if (!table_->indexes_[column]) table_->indexes_[column] = std::make_unique<Index>(*ValueType::of(columns[column]));
    return column;
  };
  if (!shape.key.empty()) table_->key_ = add(shape.key);
  for (const std::string& name : shape.index) add(name);
}

std::expected<void, std::string> TableBuilder::add(const sql::Block& block) {
  for (std::size_t i = 0; i < block.rows; ++i) {
    const sql::Block row{.columns = table_->columns_, .fields = block.row(i), .rows = 1, .last = false};
    row_.clear();
    row_.push_back(',');
    json_.rows(row, row_);
    if (row_.size() >= RowStore::row_limit) return std::unexpected("a row is longer than 2 GiB");
    table_->json_.append(row_.view());
    if (csv_) {
      row_.clear();
      csv_->rows(row, row_);
      table_->csv_.append(row_.view());
    }
    if (auto indexed = index_row(row.fields); !indexed) return indexed;
  }
  if (table_->size() > 0xffff'fff0 - block.rows) return std::unexpected("it has more than 2^32 rows");
  if (table_->json_.text().size() > shape_.memory_limit) {
    return std::unexpected(fmt::format("it takes more than its memory, {} bytes", shape_.memory_limit));
  }
  return {};
}

std::expected<void, std::string> TableBuilder::index_row(std::span<const sql::Field> fields) {
  for (std::size_t column = 0; column < fields.size(); ++column) {
    Index* const index = table_->indexes_[column].get();
    if (index == nullptr) continue;
    const sql::Field& field = fields[column];
    if (field.is_null()) {
      index->add_null();
    } else if (!index_value(*index, field)) {
      return std::unexpected(fmt::format("a value of \"{}\" cannot be indexed: {}", table_->columns_[column].name,
                                         field.view().substr(0, 100)));
    }
    index->end_row();
  }
  return {};
}

bool TableBuilder::index_value(Index& index, const sql::Field& field) {
  const ValueType& type = index.type();
  const auto add_text = [&](std::string_view text) {
    Key key;
    return make_key(type.kind, text, scratch_, key) && index.add(key);
  };
  switch (type.shape) {
    case ValueType::Shape::array:
      return each_array_element(field.view(), type.delimiter, element_, add_text);
    case ValueType::Shape::json:
      if (field.form == sql::Form::bytes) return false;
      return each_json_element(field.view(), element_, add_text);
    case ValueType::Shape::scalar:
      break;
  }
  Key key;
  return make_key(type, field, scratch_, key) && index.add(key);
}

std::expected<std::shared_ptr<const Table>, std::string> TableBuilder::finish() {
  table_->json_.trim();
  table_->csv_.trim();
  if (const Index* const key = table_->key()) {
    if (!key->nulls().empty()) {
      return std::unexpected(fmt::format("the key \"{}\" of row {} is NULL", shape_.key, key->nulls().front() + 1));
    }
  }
  for (const auto& index : table_->indexes_) {
    if (index) index->build();
  }
  if (const Index* const key = table_->key(); key != nullptr && !key->unique()) {
    for (std::uint32_t id = 0; id < key->values(); ++id) {
      const Postings rows = key->rows_of(id);
      if (rows.size() < 2) continue;
      std::vector<std::string_view> values(table_->columns_.size());
      table_->cut(*rows.begin(), values);
      return std::unexpected(fmt::format("several rows have the key {}", values[*table_->key_].substr(0, 100)));
    }
  }
  return Table::seal(std::move(table_), shape_);
}

}  // namespace sluice::api::resident
