#include "sql/postgres/types.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <set>

namespace sluice::sql::postgres {
namespace {

struct Builtin {
  std::uint32_t oid;
  std::uint32_t array;  // the OID of its array type; 0: none
  Form form;
  char delimiter = ',';
};

// pg_type.dat of PostgreSQL 15. to_json() has special forms for bool, the six numeric types, json and the timestamps;
// all other types become a string of the type's output.
constexpr Builtin builtins[] = {
    {16, 1000, Form::boolean},         // bool
    {17, 1001, Form::text},            // bytea: \x0aff, as bytea_output = hex gives it
    {18, 1002, Form::text},            // "char"
    {19, 1003, Form::text},            // name
    {20, 1016, Form::number},          // int8
    {21, 1005, Form::number},          // int2
    {23, 1007, Form::number},          // int4
    {24, 1008, Form::text},            // regproc
    {25, 1009, Form::text},            // text
    {26, 1028, Form::text},            // oid: to_json quotes it
    {27, 1010, Form::text},            // tid
    {28, 1011, Form::text},            // xid
    {29, 1012, Form::text},            // cid
    {114, 199, Form::json},            // json
    {142, 143, Form::text},            // xml
    {600, 1017, Form::text},           // point
    {601, 1018, Form::text},           // lseg
    {602, 1019, Form::text},           // path
    {603, 1020, Form::text, ';'},      // box
    {604, 1027, Form::text},           // polygon
    {628, 629, Form::text},            // line
    {650, 651, Form::text},            // cidr
    {700, 1021, Form::number},         // float4
    {701, 1022, Form::number},         // float8
    {705, 0, Form::text},              // unknown
    {718, 719, Form::text},            // circle
    {774, 775, Form::text},            // macaddr8
    {790, 791, Form::text},            // money
    {829, 1040, Form::text},           // macaddr
    {869, 1041, Form::text},           // inet
    {1033, 1034, Form::text},          // aclitem
    {1042, 1014, Form::text},          // bpchar
    {1043, 1015, Form::text},          // varchar
    {1082, 1182, Form::text},          // date
    {1083, 1183, Form::text},          // time
    {1114, 1115, Form::timestamp},     // timestamp
    {1184, 1185, Form::timestamp_tz},  // timestamptz
    {1186, 1187, Form::text},          // interval
    {1266, 1270, Form::text},          // timetz
    {1560, 1561, Form::text},          // bit
    {1562, 1563, Form::text},          // varbit
    {1700, 1231, Form::number},        // numeric
    {1790, 2201, Form::text},          // refcursor
    {2202, 2207, Form::text},          // regprocedure
    {2203, 2208, Form::text},          // regoper
    {2204, 2209, Form::text},          // regoperator
    {2205, 2210, Form::text},          // regclass
    {2206, 2211, Form::text},          // regtype
    {2275, 1263, Form::text},          // cstring
    {2278, 0, Form::text},             // void
    {2950, 2951, Form::text},          // uuid
    {2970, 2949, Form::text},          // txid_snapshot
    {3220, 3221, Form::text},          // pg_lsn
    {3614, 3643, Form::text},          // tsvector
    {3615, 3645, Form::text},          // tsquery
    {3642, 3644, Form::text},          // gtsvector
    {3734, 3735, Form::text},          // regconfig
    {3769, 3770, Form::text},          // regdictionary
    {3802, 3807, Form::json},          // jsonb
    {3904, 3905, Form::text},          // int4range
    {3906, 3907, Form::text},          // numrange
    {3908, 3909, Form::text},          // tsrange
    {3910, 3911, Form::text},          // tstzrange
    {3912, 3913, Form::text},          // daterange
    {3926, 3927, Form::text},          // int8range
    {4072, 4073, Form::text},          // jsonpath
    {4089, 4090, Form::text},          // regnamespace
    {4096, 4097, Form::text},          // regrole
    {4191, 4192, Form::text},          // regcollation
    {4451, 6150, Form::text},          // int4multirange
    {4532, 6151, Form::text},          // nummultirange
    {4533, 6152, Form::text},          // tsmultirange
    {4534, 6153, Form::text},          // tstzmultirange
    {4535, 6155, Form::text},          // datemultirange
    {4536, 6157, Form::text},          // int8multirange
    {5038, 5039, Form::text},          // pg_snapshot
    {5069, 271, Form::text},           // xid8
};

// bytea, "char", name, text, xml, unknown, bpchar, varchar, bit, varbit, refcursor, cstring, void, tsvector, tsquery.
// money is left out although it accepts an empty text: it reads that text as 0, which an empty field does not mean.
constexpr std::array<std::uint32_t, 15> with_empty_text{17,   18,   19,   25,   142,  705,  1042, 1043,
                                                        1560, 1562, 1790, 2275, 2278, 3614, 3615};

// One type object for all types that are written as text and for which an empty text is invalid.
const TypePtr& value_type() {
  static const TypePtr type = std::make_shared<Type>();
  return type;
}

TypePtr make_type(const Builtin& builtin) {
  const bool has_empty = std::ranges::find(with_empty_text, builtin.oid) != with_empty_text.end();
  if (builtin.form == Form::text && !has_empty) return value_type();
  auto type = std::make_shared<Type>();
  type->form = builtin.form;
  return type;
}

std::unordered_map<std::uint32_t, TypePtr> make_builtin_types() {
  std::unordered_map<std::uint32_t, TypePtr> types;
  for (const Builtin& builtin : builtins) {
    TypePtr type = make_type(builtin);
    if (builtin.array != 0) {
      auto array = std::make_shared<Type>();
      array->form = Form::array;
      array->delimiter = builtin.delimiter;
      array->element = type;
      types.emplace(builtin.array, std::move(array));
    }
    types.emplace(builtin.oid, std::move(type));
  }
  // int2vector and oidvector, whose text has no braces, and arrays of them.
  for (const auto& [oid, array, element] : {std::array{22U, 1006U, 21U},     // int2vector
                                            std::array{30U, 1013U, 26U}}) {  // oidvector
    auto vector = std::make_shared<Type>();
    vector->form = Form::array;
    vector->delimiter = ' ';
    vector->element = types.at(element);
    auto vectors = std::make_shared<Type>();
    vectors->form = Form::array;
    vectors->element = vector;
    types.emplace(oid, std::move(vector));
    types.emplace(array, std::move(vectors));
  }
  return types;
}

// In PostgreSQL a type cannot contain itself, so the nesting is finite.
constexpr int max_depth = 64;

TypePtr text_type() { return builtin_type(25); }

std::optional<std::uint32_t> parse_oid(const Field& field) {
  std::uint32_t value = 0;
  if (field.is_null()) return std::nullopt;
  const auto [end, error] = std::from_chars(field.data, field.data + field.size, value);
  if (error != std::errc() || end != field.data + field.size) return std::nullopt;
  return value;
}

}  // namespace

TypePtr builtin_type(std::uint32_t oid) {
  static const std::unordered_map<std::uint32_t, TypePtr> types = make_builtin_types();
  const auto found = types.find(oid);
  return found == types.end() ? nullptr : found->second;
}

ColumnKind column_kind(const TypePtr& type) {
  if (type->form == Form::json) return ColumnKind::server_json;
  return type->form != Form::text || type == value_type() ? ColumnKind::server_value : ColumnKind::by_server;
}

std::string catalog_query(std::span<const std::uint32_t> oids) {
  std::string sql =
      "SELECT t.oid::pg_catalog.int8, CASE WHEN EXISTS (SELECT FROM pg_catalog.pg_enum l"
      " WHERE l.enumtypid = t.oid AND l.enumlabel = '') THEN 'b' ELSE t.typtype END, t.typbasetype::pg_catalog.int8,"
      " CASE WHEN t.typcategory = 'A' AND t.typlen = -1 THEN t.typelem::pg_catalog.int8 ELSE 0 END,"
      " COALESCE(e.typdelim, ','), a.attname, a.atttypid::pg_catalog.int8"
      " FROM pg_catalog.pg_type t LEFT JOIN pg_catalog.pg_type e ON e.oid = t.typelem"
      " LEFT JOIN pg_catalog.pg_attribute a"
      " ON t.typtype = 'c' AND a.attrelid = t.typrelid AND a.attnum > 0 AND NOT a.attisdropped"
      " WHERE t.oid IN (";
  for (std::size_t i = 0; i < oids.size(); ++i) sql += (i == 0 ? "" : ",") + std::to_string(oids[i]);
  return sql + ") ORDER BY t.oid, a.attnum";
}

std::optional<CatalogRow> parse_catalog_row(std::span<const Field> fields) {
  if (fields.size() != 7) return std::nullopt;
  const auto oid = parse_oid(fields[0]);
  const auto base = parse_oid(fields[2]);
  const auto element = parse_oid(fields[3]);
  if (!oid || fields[1].size != 1 || !base || !element || fields[4].size != 1) return std::nullopt;
  CatalogRow row{*oid, *fields[1].data, *base, *element, *fields[4].data, {}, 0};
  if (!fields[5].is_null()) {
    const auto type = parse_oid(fields[6]);
    if (!type) return std::nullopt;
    row.attribute = fields[5].view();
    row.attribute_type = *type;
  }
  return row;
}

TypePtr TypeCatalog::find(std::uint32_t oid) {
  if (TypePtr type = builtin_type(oid)) return type;
  return make(oid, 0);
}

TypePtr TypeCatalog::make(std::uint32_t oid, int depth) {
  if (TypePtr type = builtin_type(oid)) return type;
  if (depth == max_depth) return text_type();
  const auto found = entries_.find(oid);
  if (found == entries_.end()) {
    if (std::find(missing_.begin(), missing_.end(), oid) == missing_.end()) missing_.push_back(oid);
    return nullptr;
  }
  Entry& entry = found->second;
  if (entry.made) return entry.made;
  if (entry.type.kind == 'd') return entry.made = make(entry.type.base, depth + 1);
  if (entry.type.kind == 'c') {
    auto type = std::make_shared<Type>();
    type->form = Form::composite;
    bool complete = true;
    for (const auto& [name, attribute_oid] : entry.attributes) {
      TypePtr attribute = make(attribute_oid, depth + 1);
      complete = complete && attribute != nullptr;
      type->attributes.push_back({name, std::move(attribute)});
    }
    return complete ? entry.made = std::move(type) : nullptr;
  }
  if (entry.type.element != 0) {
    auto type = std::make_shared<Type>();
    type->form = Form::array;
    type->delimiter = entry.type.delimiter;
    type->element = make(entry.type.element, depth + 1);
    return type->element ? entry.made = std::move(type) : nullptr;
  }
  // Enums, ranges, multiranges; and types of extensions.
  const bool is_value = entry.type.kind == 'e' || entry.type.kind == 'r' || entry.type.kind == 'm';
  return entry.made = is_value ? value_type() : text_type();
}

void TypeCatalog::add(std::span<const CatalogRow> rows) {
  for (const std::uint32_t oid : missing_) entries_[oid].made = nullptr;
  for (const CatalogRow& row : rows) {
    Entry& entry = entries_[row.oid];
    if (!row.attribute.empty()) entry.attributes.emplace_back(row.attribute, row.attribute_type);
    entry.type = row;
  }
  missing_.clear();
}

std::string TypeCatalog::check_of(std::vector<std::uint32_t> oids) const {
  std::set<std::uint32_t> composites;
  while (!oids.empty()) {
    const auto found = entries_.find(oids.back());
    oids.pop_back();
    if (found == entries_.end()) continue;
    const Entry& entry = found->second;
    if (entry.type.kind == 'd') {
      oids.push_back(entry.type.base);
    } else if (entry.type.element != 0) {
      oids.push_back(entry.type.element);
    } else if (entry.type.kind == 'c' && composites.insert(found->first).second) {
      for (const auto& [name, type] : entry.attributes) oids.push_back(type);
    }
  }
  if (composites.empty()) return {};
  std::string list;
  std::string attributes;
  for (const std::uint32_t oid : composites) {
    list += (list.empty() ? "" : ",") + std::to_string(oid);
    for (const auto& [name, type] : entries_.at(oid).attributes) {
      attributes += (attributes.empty() ? "" : "\n") + std::to_string(oid) + " " + std::to_string(type) + " ";
      for (const char c : name) attributes += c == '\'' || c == '\\' ? std::string(2, c) : std::string(1, c);
    }
  }
  return "SELECT 1 / pg_catalog.count(*) FROM (SELECT pg_catalog.string_agg(t.oid::pg_catalog.text || ' ' ||"
         " a.atttypid::pg_catalog.text || ' ' || a.attname::pg_catalog.text, E'\\n' ORDER BY t.oid, a.attnum) AS now"
         " FROM pg_catalog.pg_type t JOIN pg_catalog.pg_attribute a ON a.attrelid = t.typrelid WHERE t.oid IN (" +
         list + ") AND a.attnum > 0 AND NOT a.attisdropped) AS c WHERE c.now = E'" + attributes + "'";
}

}  // namespace sluice::sql::postgres
