#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "sql/column_kind.h"
#include "sql/rows.h"

// From the server's type OIDs to what JSON makes of their text: as to_json() would.
namespace sluice::sql::postgres {

using TypePtr = std::shared_ptr<const Type>;

// A type that every PostgreSQL has under the same OID; null for any other.
[[nodiscard]] TypePtr builtin_type(std::uint32_t oid);
// Of a type that builtin_type() or a TypeCatalog has given.
[[nodiscard]] ColumnKind column_kind(const TypePtr& type);

// One row of catalog_query(): a type, or one attribute of a composite type.
struct CatalogRow {
  std::uint32_t oid = 0;
  char kind = 'b';            // pg_type.typtype; 'b' for an enum with an empty label
  std::uint32_t base = 0;     // a domain's
  std::uint32_t element = 0;  // an array's
  char delimiter = ',';       // between the elements of that array
  std::string attribute;      // a composite's; empty where there is none
  std::uint32_t attribute_type = 0;
};

// Asks pg_type and pg_attribute for the given types. Its columns are CatalogRow's members.
[[nodiscard]] std::string catalog_query(std::span<const std::uint32_t> oids);
// nullopt: not such a row.
[[nodiscard]] std::optional<CatalogRow> parse_catalog_row(std::span<const Field> fields);

// The types of one database that are not built in, as far as they have been asked for.
class TypeCatalog {
 public:
  // The type, or null while it, or a type that it is made of, is unknown. What is missing is then in missing().
  [[nodiscard]] TypePtr find(std::uint32_t oid);
  [[nodiscard]] std::span<const std::uint32_t> missing() const { return missing_; }
  // The answer for missing(), which is empty afterwards. Types that the database does not know become text.
  void add(std::span<const CatalogRow> rows);

 private:
  struct Entry {
    CatalogRow type;
    std::vector<std::pair<std::string, std::uint32_t>> attributes;
    TypePtr made;
  };
  [[nodiscard]] TypePtr make(std::uint32_t oid, int depth);

  std::unordered_map<std::uint32_t, Entry> entries_;
  std::vector<std::uint32_t> missing_;
};

}  // namespace sluice::sql::postgres
