#pragma once

#include <cstddef>
#include <expected>
#include <string>
#include <vector>

#include "sql/options.h"

// `sluice init`: from a database to a configuration.
namespace sluice::app::init {

struct Column {
  std::string name;
  std::string sql;        // the name as SQL, quoted if it has to be
  bool compares = false;  // its values can be filtered and sorted by
  bool is_text = false;   // it can be searched for words
  bool is_integer = false;
  bool is_generated = false;  // the database makes its values, so nobody writes it
  bool is_hidden = false;     // SQLite's rowid, which the table does not declare
  std::size_t key_place = 0;  // in the table's key, from 1 on; 0: not part of it
  std::string labels{};       // of an enum, separated by commas
  std::string comment{};
};

// A table or a view. Names are as in the database.
struct Table {
  std::string name{};
  std::string sql{};
  std::string comment{};
  bool is_writable = false;
  std::vector<Column> columns{};

  // The columns of the key, in its order; empty without a key.
  [[nodiscard]] std::vector<const Column*> key() const;
};

// Rows of `child` belong to the row of `parent` whose key is in these columns of theirs, in the key's order.
struct Reference {
  std::string child;
  std::vector<std::string> columns;
  std::string parent;
};

struct Schema {
  std::vector<Table> tables;
  std::vector<Reference> references;
  std::vector<std::string> warnings{};  // about tables that cannot be read

  [[nodiscard]] const Table* find(const std::string& name) const;
};

// Reads the tables and views that can be named without a schema, but for those of extensions. Returns the error's
// message.
[[nodiscard]] std::expected<Schema, std::string> read_schema(const sql::DatabaseOptions& database);

}  // namespace sluice::app::init
