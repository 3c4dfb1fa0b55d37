#include "sql/column_kind.h"

#include <algorithm>
#include <string>

namespace sluice::sql {

ColumnKind sqlite_column_kind(std::string_view declared_type, Strictness table) {
  std::string type(declared_type);
  std::ranges::transform(type, type.begin(),
                         [](char c) { return c >= 'a' && c <= 'z' ? static_cast<char>(c - 32) : c; });
  const auto has = [&](std::string_view word) { return type.contains(word); };
  if (type.empty() || (type == "ANY" && table == Strictness::strict)) return ColumnKind::any;
  if (type == "JSON" || type == "JSONB") return ColumnKind::json;
  if (type == "BOOL" || type == "BOOLEAN") return ColumnKind::boolean;
  // These names give the affinity INTEGER, but their values are not integers.
  if (has("POINT") || has("INTERVAL")) return ColumnKind::value;
  if (has("INT")) return ColumnKind::integer;
  if (has("CHAR") || has("CLOB") || has("TEXT")) return ColumnKind::text;
  if (has("BLOB")) return ColumnKind::bytes;
  if (has("REAL") || has("FLOA") || has("DOUB")) return ColumnKind::real;
  if (has("NUM") || has("DEC")) return ColumnKind::numeric;
  return has("DATE") || has("TIME") || has("UUID") ? ColumnKind::value : ColumnKind::other;
}

}  // namespace sluice::sql
