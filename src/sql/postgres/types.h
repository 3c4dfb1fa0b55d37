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

// Maps the server's type OIDs to the JSON form of their text, as to_json() writes it.
namespace sluice::sql::postgres {

using TypePtr = std::shared_ptr<const Type>;

// A type that has the same OID in every PostgreSQL server; null for any other.
[[nodiscard]] TypePtr builtin_type(std::uint32_t oid);
// Precondition: `type` comes from builtin_type() or a TypeCatalog.
[[nodiscard]] ColumnKind column_kind(const TypePtr& type);

// One row of catalog_query(): a type, or one attribute of a composite type.
struct CatalogRow {
  std::uint32_t oid = 0;
  char kind = 'b';            // pg_type.typtype; 'b' for an enum with an empty label
  std::uint32_t base = 0;     // of a domain
  std::uint32_t element = 0;  // of an array
  char delimiter = ',';       // between that array's elements
  std::string attribute;      // of a composite type; empty if none
  std::uint32_t attribute_type = 0;
};

// The query of pg_type and pg_attribute for the given types. Its columns are CatalogRow's members.
[[nodiscard]] std::string catalog_query(std::span<const std::uint32_t> oids);
// Returns nullopt if `fields` is not such a row.
[[nodiscard]] std::optional<CatalogRow> parse_catalog_row(std::span<const Field> fields);

// The types of one database that are not built in, as far as they have been looked up.
class TypeCatalog {
 public:
  // The type; null while the type, or a type that it contains, is unknown. missing() then lists the unknown OIDs.
  [[nodiscard]] TypePtr find(std::uint32_t oid);
  [[nodiscard]] std::span<const std::uint32_t> missing() const { return missing_; }
  // Adds the catalog's answer for missing() and empties that list. Types that the database does not know become text.
  void add(std::span<const CatalogRow> rows);
  // Statement::type_check for columns and parameters of these types, which find() knows.
  [[nodiscard]] std::string check_of(std::vector<std::uint32_t> oids) const;

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
