#include "api/resident/delta.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "base/ascii.h"

namespace sluice::api::resident {
namespace {

constexpr std::uint32_t none = Dictionary::none;

std::optional<std::size_t> find(std::span<const sql::Column> columns, std::string_view name) {
  const auto found = std::ranges::find(columns, name, &sql::Column::name);
  if (found == columns.end()) return std::nullopt;
  return static_cast<std::size_t>(found - columns.begin());
}

// Whether values of both columns are written and compared in the same way.
bool same_type(const sql::Column& a, const sql::Column& b) {
  if (a.type_id != b.type_id || (a.type == nullptr) != (b.type == nullptr)) return false;
  if (a.type && a.type->form != b.type->form) return false;
  return equal_ignoring_case(a.declared_type, b.declared_type);
}

// False for false, 0 and NULL. Any other value is true, such as a timestamp in `deleted_at`.
bool is_true(const sql::Column& column, const sql::Field& field) {
  if (field.is_null()) return false;
  const sql::Form form = column.type && column.type->form != sql::Form::dynamic ? column.type->form : field.form;
  if (form == sql::Form::boolean) return field.view() == "t";
  if (form == sql::Form::number) return field.view().find_first_not_of("+-.0") != std::string_view::npos;
  return true;
}

// Compares a row of one table with a row of another, value by value.
class Comparison {
 public:
  Comparison(const Table& old, const Table& changed) : old_(old), changed_(changed) {
    if (old.packed() == nullptr) return;
    old_reader_.emplace(*old.packed());
    changed_reader_.emplace(*changed.packed());
  }
  bool same(std::uint32_t a, std::uint32_t b) {
    if (!old_reader_) {
      return old_.object(a) == changed_.object(b) && (!old_.has_csv() || old_.csv(a, a + 1) == changed_.csv(b, b + 1));
    }
    const auto equal = [](const sql::Field& x, const sql::Field& y) {
      return x.is_null() == y.is_null() && x.form == y.form && x.view() == y.view();
    };
    return std::ranges::equal(old_reader_->row(a), changed_reader_->row(b), equal);
  }

 private:
  const Table& old_;
  const Table& changed_;
  std::optional<PackedRows::Reader> old_reader_;
  std::optional<PackedRows::Reader> changed_reader_;
};

// The order of the keys. Precondition: at least two rows.
KeyOrder order_of(const Index& key, std::uint32_t rows) {
  bool ascending = true;
  bool descending = true;
  for (std::uint32_t row = 0; row < rows && (ascending || descending); ++row) {
    const std::uint32_t rank = key.rank_of_row(row);
    ascending = ascending && rank == row;
    descending = descending && rank == rows - 1 - row;
  }
  if (ascending) return KeyOrder::ascending;
  return descending ? KeyOrder::descending : KeyOrder::none;
}

}  // namespace

std::string check_changes(const TableShape& shape, const ChangesShape& changes_shape,
                          std::span<const sql::Column> columns, std::span<const sql::Column> changes) {
  if (shape.key.empty()) return "changes are found by the table's \"key\", which is missing";
  for (std::size_t i = 0; i < changes.size(); ++i) {
    if (find(changes, changes[i].name) != i) return fmt::format("two columns are called \"{}\"", changes[i].name);
  }
  const auto version = find(columns, changes_shape.version);
  if (!version) {
    return fmt::format("version \"{}\" is no column of the query, and a load must know the greatest",
                       changes_shape.version);
  }
  if (const auto type = ValueType::of(columns[*version]); !type || !type->orders()) {
    return fmt::format("version \"{}\": values of its type have no order", changes_shape.version);
  }
  if (!changes_shape.deleted.empty() && !find(changes, changes_shape.deleted)) {
    return fmt::format("deleted \"{}\" is no column of the changes", changes_shape.deleted);
  }
  for (const sql::Column& column : columns) {
    const auto place = find(changes, column.name);
    if (!place) return fmt::format("the changes have no column \"{}\", as the query has", column.name);
    if (!same_type(column, changes[*place])) {
      return fmt::format("column \"{}\" of the changes has another type than that of the query", column.name);
    }
  }
  return {};
}

// A change at an old row; edits are in the order of the old rows.
struct Delta::Edit {
  std::uint32_t position = 0;  // an old row
  bool inserts = false;        // before the old row and its other edits; if false, deletes or replaces it
  std::uint32_t changed = none;
  std::uint32_t turn = 0;  // order among the rows inserted at the same position
};

Delta::Delta(const TableShape& shape, const ChangesShape& changes_shape, std::shared_ptr<const Table> old,
             std::span<const sql::Column> changes)
    : shape_(shape), old_(std::move(old)), changed_(shape, old_->columns()) {
  for (const sql::Column& column : old_->columns()) places_.push_back(*find(changes, column.name));
  version_ = *find(changes, changes_shape.version);
  if (!changes_shape.deleted.empty()) deleted_ = find(changes, changes_shape.deleted);
}

std::expected<void, std::string> Delta::add(const sql::Block& block, Since& since) {
  const Index& keys = *old_->key();
  const std::size_t key_place = places_[*old_->find_column(shape_.key)];
  const ValueType version_type = *ValueType::of(block.columns[version_]);
  fields_.clear();
  std::size_t rows = 0;
  for (std::size_t i = 0; i < block.rows; ++i) {
    const auto row = block.row(i);
    if (!since.note(version_type, row[version_])) {
      return std::unexpected(fmt::format("\"{}\" is no version", row[version_].view().substr(0, 100)));
    }
    if (!deleted_ || !is_true(block.columns[*deleted_], row[*deleted_])) {
      for (const std::size_t place : places_) fields_.push_back(row[place]);
      ++rows;
      continue;
    }
    Key key;
    if (row[key_place].is_null() || !make_key(keys.type(), row[key_place], scratch_, key)) {
      return std::unexpected(fmt::format("a row that is deleted has no \"{}\"", shape_.key));
    }
    if (const std::uint32_t id = keys.find(key); id != none) gone_.push_back(*keys.rows_of(id).begin());
  }
  return changed_.add({.columns = old_->columns(), .fields = fields_, .rows = rows, .last = block.last});
}

std::vector<Delta::Edit> Delta::find_edits(const Table& changed, KeyOrder order) const {
  const Index& keys = *old_->key();
  std::vector<Edit> edits;
  std::vector<std::uint32_t> added;
  Comparison comparison(*old_, changed);
  for (std::uint32_t row = 0; row < changed.size(); ++row) {
    const std::uint32_t id = keys.find(changed.key()->value_of_row(row));
    if (id == none) {
      added.push_back(row);
      continue;
    }
    const std::uint32_t before = *keys.rows_of(id).begin();
    const bool same = comparison.same(before, row);
    // An unchanged row gets an edit too, which keeps it from being deleted below.
    edits.push_back({.position = before, .inserts = false, .changed = same ? none : row, .turn = 0});
  }
  const auto less = [](const Edit& a, const Edit& b) { return a.position < b.position; };
  std::ranges::sort(edits, less);
  std::vector<Edit> removed;
  for (const std::uint32_t row : gone_) {
    const Edit edit{.position = row};
    if (!std::ranges::binary_search(edits, edit, less)) removed.push_back(edit);
  }
  std::erase_if(edits, [](const Edit& edit) { return edit.changed == none; });
  std::ranges::sort(removed, less);
  const auto twice = std::ranges::unique(removed, {}, &Edit::position);
  removed.erase(twice.begin(), twice.end());
  edits.insert(edits.end(), removed.begin(), removed.end());

  if (order != KeyOrder::none) std::ranges::sort(added, {}, [&](auto row) { return changed.key()->rank_of_row(row); });
  if (order == KeyOrder::descending) std::ranges::reverse(added);
  std::uint32_t turn = 0;
  for (const std::uint32_t row : added) {
    std::uint32_t position = old_->size();
    if (order != KeyOrder::none) {
      position = keys.rank(changed.key()->value_of_row(row), false);
      if (order == KeyOrder::descending) position = old_->size() - position;
    }
    edits.push_back({.position = position, .inserts = true, .changed = row, .turn = turn++});
  }
  std::ranges::sort(edits, [](const Edit& a, const Edit& b) {
    if (a.position != b.position) return a.position < b.position;
    return a.inserts != b.inserts ? a.inserts : a.turn < b.turn;
  });
  return edits;
}

std::expected<std::shared_ptr<const Table>, std::string> Delta::apply() {
  auto finished = changed_.finish();
  if (!finished) return finished;
  const Table& changed = **finished;
  std::optional<KeyOrder> order = old_->key_order_;
  if (!order && old_->size() > 1) order = order_of(*old_->key(), old_->size());
  const std::vector<Edit> edits = find_edits(changed, order.value_or(KeyOrder::ascending));
  if (edits.empty()) return old_;

  std::shared_ptr<Table> table(new Table(old_->columns(), shape_.on_demand));
  table->has_csv_ = old_->has_csv_;
  table->key_ = old_->key_;
  table->key_order_ = order;
  std::vector<std::uint32_t> old_places(old_->size(), none);
  std::vector<std::uint32_t> changed_places(changed.size(), none);
  std::optional<PackedRows::Reader> reader;  // for the changed rows, whose words have other numbers
  if (old_->packed_) {
    table->packed_ = PackedRows::with_words_of(*old_->packed_);
    reader.emplace(*changed.packed_);
  }
  const auto take = [&](const Table& from, std::uint32_t row, std::vector<std::uint32_t>& places) {
    places[row] = table->size();
    if (reader) {
      if (&from == old_.get()) return table->packed_->append_row(*from.packed_, row);
      return table->packed_->append(reader->row(row));
    }
    table->json_.append(from.json_.row(row));
    if (table->has_csv_) table->csv_.append(from.csv_.row(row));
  };
  std::uint32_t next = 0;
  for (const Edit& edit : edits) {
    for (; next < edit.position; ++next) take(*old_, next, old_places);
    if (edit.changed != none) take(changed, edit.changed, changed_places);
    if (!edit.inserts) ++next;
  }
  for (; next < old_->size(); ++next) take(*old_, next, old_places);
  table->trim();
  for (std::size_t i = 0; i < old_->indexes_.size(); ++i) {
    table->indexes_.emplace_back();
    if (!old_->indexes_[i]) continue;
    table->indexes_.back() =
        Index::merged(*old_->indexes_[i], old_places, *changed.indexes_[i], changed_places, table->size());
    if (!table->indexes_.back()) {
      return std::unexpected(fmt::format("the values of \"{}\" are longer than 4 GiB", table->columns_[i].name));
    }
  }
  return Table::seal(std::move(table), shape_);
}

}  // namespace sluice::api::resident
