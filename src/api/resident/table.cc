#include "api/resident/table.h"

#include <algorithm>

#include <fmt/format.h>
#include <xxhash.h>

#include "api/resident/elements.h"
#include "api/resident/row_writer.h"

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

namespace {

// Whether values can be compared with a pattern. In a column of SQLite without a type, some may be texts.
bool holds_texts(const ValueType& type) {
  using enum ValueType::Spelling;
  return type.ordered && (type.kind == Kind::text || type.kind == Kind::dynamic) &&
         (type.spelling == plain || type.spelling == padded);
}

}  // namespace

query::Vocabulary vocabulary_of(const TableShape& shape, std::span<const sql::Column> columns) {
  query::Vocabulary words{.columns = {}, .bounds = query_bounds, .others = {}};
  for (const sql::Column& column : columns) {
    query::Column& asked = words.columns.emplace_back();
    asked.name = column.name;
    asked.shows = true;
    asked.filters = column.name == shape.key || std::ranges::find(shape.index, column.name) != shape.index.end();
    if (!asked.filters) continue;
    const ValueType type = *ValueType::of(column);
    asked.type = type;
    asked.sorts = asked.orders = type.orders();
    asked.is_text = holds_texts(type);
    asked.is_boolean =
        type.is_single() && (type.kind == Kind::boolean || type.spelling == ValueType::Spelling::boolean);
  }
  return words;
}

std::optional<std::size_t> Table::find_column(std::string_view name) const {
  const auto found = std::ranges::find(columns_, name, &sql::Column::name);
  if (found == columns_.end()) return std::nullopt;
  return static_cast<std::size_t>(found - columns_.begin());
}

Table::Table(std::vector<sql::Column> columns, bool on_demand) : columns_(std::move(columns)), text_(columns_) {
  if (!on_demand) return;
  packed_ = std::make_unique<PackedRows>(columns_);
  for (const auto format : {sql::Format::ndjson, sql::Format::csv, sql::Format::csj}) {
    layouts_.emplace_back(format, columns_);
  }
}

const sql::Layout& Table::layout(sql::Format format) const {
  switch (format) {
    case sql::Format::json:
    case sql::Format::ndjson:
      return layouts_[0];
    case sql::Format::csv:
      return layouts_[1];
    case sql::Format::csj:
      break;
  }
  return layouts_[2];
}

void Table::trim() {
  json_.trim();
  csv_.trim();
  if (packed_) packed_->trim();
}

std::uint64_t Table::memory() const {
  std::uint64_t sum = json_.memory() + csv_.memory() + (packed_ ? packed_->memory() : 0);
  for (const auto& index : indexes_) sum += index ? index->memory() : 0;
  return sum;
}

namespace {

// The hash and the size of the rows as JSON, without holding all of the JSON in memory.
XXH128_hash_t hash_of_packed(const Table& table, std::uint64_t seed, std::uint64_t& bytes) {
  constexpr std::size_t piece = 64 * 1024;
  const std::unique_ptr<XXH3_state_t, decltype(&XXH3_freeState)> state(XXH3_createState(), XXH3_freeState);
  if (!state) throw std::bad_alloc();
  XXH3_128bits_reset_withSeed(state.get(), seed);
  RowWriter writer(table, {.format = sql::Format::ndjson});
  Buffer out;
  const auto take = [&] {
    XXH3_128bits_update(state.get(), out.data(), out.size());
    bytes += out.size();
    out.clear();
  };
  for (std::uint32_t row = 0; row < table.size(); ++row) {
    out.push_back(',');
    writer.row(row, out);
    if (out.size() >= piece) take();
  }
  take();
  return XXH3_128bits_digest(state.get());
}

}  // namespace

std::expected<std::shared_ptr<const Table>, std::string> Table::seal(std::shared_ptr<Table> table,
                                                                     const TableShape& shape) {
  table->vocabulary_ = vocabulary_of(shape, table->columns_);
  // Includes the columns, because an answer without rows still contains their names in some formats.
  std::string names;
  for (std::size_t i = 0; i < table->columns_.size(); ++i) names += table->text_.name(i);
  const std::uint64_t seed = XXH3_64bits(names.data(), names.size());
  XXH128_hash_t hash{};
  if (table->packed_) {
    hash = hash_of_packed(*table, seed, table->json_bytes_);
  } else {
    const std::string_view text = table->json_.text();
    hash = XXH3_128bits_withSeed(text.data(), text.size(), seed);
    table->json_bytes_ = text.size();
  }
  table->state_ = fmt::format("{:016x}{:016x}", hash.high64, hash.low64);
  if (table->memory() > shape.memory_limit) {
    return std::unexpected(fmt::format("it takes {} bytes, and its memory is {}", table->memory(), shape.memory_limit));
  }
  return table;
}

TableBuilder::TableBuilder(const TableShape& shape, std::span<const sql::Column> columns)
    : shape_(shape),
      table_(new Table({columns.begin(), columns.end()}, shape.on_demand)),
      json_(sql::Format::ndjson, table_->columns_) {
  table_->has_csv_ = shape.csv;
  if (shape.csv && !shape.on_demand) csv_.emplace(sql::Format::csv, table_->columns_);
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
    if (!keep_row(row)) return std::unexpected("a row is longer than 2 GiB");
    if (auto indexed = index_row(row.fields); !indexed) return indexed;
  }
  if (table_->size() > 0xffff'fff0 - block.rows) return std::unexpected("it has more than 2^32 rows");
  if (bytes() > shape_.memory_limit) {
    return std::unexpected(fmt::format("it takes more than its memory, {} bytes", shape_.memory_limit));
  }
  return {};
}

bool TableBuilder::keep_row(const sql::Block& row) {
  if (table_->packed_) {
    std::uint64_t size = 0;
    for (const sql::Field& field : row.fields) size += field.size;
    if (size >= PackedRows::row_limit) return false;
    table_->packed_->append(row.fields);
    return true;
  }
  row_.clear();
  row_.push_back(',');
  json_.rows(row, row_);
  if (row_.size() >= RowStore::row_limit) return false;
  table_->json_.append(row_.view());
  if (csv_) {
    row_.clear();
    csv_->rows(row, row_);
    table_->csv_.append(row_.view());
  }
  return true;
}

std::uint64_t TableBuilder::bytes() const {
  std::uint64_t sum = table_->json_.text().size() + table_->csv_.text().size();
  if (table_->packed_) sum += table_->packed_->bytes();
  for (const auto& index : table_->indexes_) sum += index ? index->used() : 0;
  return sum;
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
  table_->trim();
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
      Buffer value;
      RowWriter(*table_, {.format = sql::Format::csj, .fields = {static_cast<std::uint32_t>(*table_->key_)}})
          .row(*rows.begin(), value);
      value.truncate(value.size() - 1);
      return std::unexpected(fmt::format("several rows have the key {}", value.view().substr(0, 100)));
    }
  }
  return Table::seal(std::move(table_), shape_);
}

}  // namespace sluice::api::resident
