#include "sql/postgres/session_reset.h"

#include <array>
#include <optional>
#include <span>
#include <string>
#include <utility>

#include "base/ascii.h"
#include "sql/postgres/messages.h"
#include "sql/postgres/server_error.h"
#include "sql/postgres/settings.h"

namespace sluice::sql::postgres {
namespace {

// The user comes first, because the other commands may need the login's rights. RESET SESSION AUTHORIZATION also resets
// a role that the login starts with (ALTER ROLE ... SET role); RESET ROLE restores that role.
constexpr std::array<std::string_view, reset_commands> commands = {
    "RESET SESSION AUTHORIZATION",
    "RESET ROLE",
    "RESET ALL",
    "UNLISTEN *",
    "DISCARD TEMP",
    "SELECT 1 FROM pg_catalog.pg_advisory_unlock_all() AS done WHERE done IS NULL"};

// Functions are matched by name only, so any function with a suspect's name is suspect. Suspects are built-in functions
// that set parameters, take session locks or run SQL that they are given, and all other functions that are written in
// SQL or a procedural language, or are volatile. A word of the text may name a view, a table with policies, a domain or
// range, or a composite type: their definitions, and those of the types that these contain, count as text. Operators,
// casts and operator classes are not searched for in the text: if any of them uses a suspect, every statement may
// change its session. Comparisons use collation C, where lower() and [:alnum:] are limited to ASCII; a name with other
// characters is searched for as a substring.
constexpr std::string_view judgement = R"(WITH RECURSIVE suspect AS (
  SELECT p.oid, lower(p.proname::text COLLATE "C") AS name
  FROM pg_catalog.pg_proc p JOIN pg_catalog.pg_language l ON l.oid = p.prolang
  WHERE CASE WHEN p.oid < 16384
    THEN p.proname ~ '^(set_config|setseed|pg_(try_)?advisory_lock|ts_stat|ts_rewrite|.*_to_xml)'
    ELSE p.prorettype NOT IN ('pg_catalog.trigger'::pg_catalog.regtype, 'pg_catalog.event_trigger'::pg_catalog.regtype)
      AND (p.prokind = 'a' OR p.provolatile = 'v' OR l.lanname NOT IN ('internal', 'c')) END
), definition AS (
  SELECT lower(relname::text COLLATE "C") AS name, 'view' AS kind, oid FROM pg_catalog.pg_class
  WHERE relkind = 'v' AND oid >= 16384
  UNION ALL
  SELECT lower(c.relname::text COLLATE "C"), 'policy', p.oid
  FROM pg_catalog.pg_policy p JOIN pg_catalog.pg_class c ON c.oid = p.polrelid
  UNION ALL
  SELECT lower(typname::text COLLATE "C"), 'type', oid FROM pg_catalog.pg_type
  WHERE typtype IN ('d', 'r', 'm') AND oid >= 16384
  UNION ALL
  SELECT DISTINCT lower(c.relname::text COLLATE "C"), 'columns', c.oid
  FROM pg_catalog.pg_class c JOIN pg_catalog.pg_attribute a ON a.attrelid = c.oid
  WHERE c.oid >= 16384 AND a.attnum > 0 AND a.atttypid >= 16384
), code AS (
  SELECT lower($1 COLLATE "C") AS text
  UNION
  SELECT lower((CASE d.kind
    WHEN 'view' THEN pg_catalog.pg_get_viewdef(d.oid)
    WHEN 'type' THEN (
      SELECT pg_catalog.concat_ws(' ', pg_catalog.format_type(t.typbasetype, NULL),
        pg_catalog.format_type(r.rngsubtype, NULL), pg_catalog.string_agg(pg_catalog.pg_get_constraintdef(c.oid), ' '))
      FROM pg_catalog.pg_type t LEFT JOIN pg_catalog.pg_constraint c ON c.contypid = t.oid
        LEFT JOIN pg_catalog.pg_range r ON t.oid IN (r.rngtypid, r.rngmultitypid)
      WHERE t.oid = d.oid GROUP BY t.typbasetype, r.rngsubtype)
    WHEN 'columns' THEN (
      SELECT pg_catalog.string_agg(pg_catalog.format_type(atttypid, NULL), ' ') FROM pg_catalog.pg_attribute
      WHERE attrelid = d.oid AND attnum > 0 AND atttypid >= 16384 AND NOT attisdropped)
    ELSE (SELECT pg_catalog.pg_get_expr(polqual, polrelid) FROM pg_catalog.pg_policy WHERE oid = d.oid) END) COLLATE "C")
  FROM code c JOIN definition d
    ON d.name = ANY (regexp_split_to_array(c.text, '[^[:alnum:]_$]+'))
    OR d.name ~ '[^[:alnum:]_$]' AND strpos(c.text, replace(d.name, '"', '""')) > 0
)
SELECT strpos(lower($1), 'u&"') > 0
  OR EXISTS (SELECT FROM code c JOIN suspect s
    ON s.name = ANY (regexp_split_to_array(c.text, '[^[:alnum:]_$]+'))
    OR s.name ~ '[^[:alnum:]_$]' AND strpos(c.text, replace(s.name, '"', '""')) > 0)
  OR EXISTS (SELECT FROM suspect s JOIN pg_catalog.pg_operator o ON o.oprcode = s.oid)
  OR EXISTS (SELECT FROM suspect s JOIN pg_catalog.pg_cast c ON c.castfunc = s.oid)
  OR EXISTS (SELECT FROM suspect s JOIN pg_catalog.pg_amproc a ON a.amproc = s.oid))";

constexpr Duration harmless_for = 10s;

bool is_word_character(char c) { return is_letter(c) || is_digit(c) || c == '_' || c == '$'; }

// Calls `take` with each word, in lower case, until it returns false. Returns whether it never did.
template <class Take>
bool for_each_word(std::string_view sql, Take take) {
  std::string word;
  for (std::size_t i = 0; i <= sql.size(); ++i) {
    if (i < sql.size() && is_word_character(sql[i])) {
      word.push_back(to_lower(sql[i]));
      continue;
    }
    if (!word.empty() && !take(word)) return false;
    word.clear();
  }
  return true;
}

// Whether a name may have other characters than those of words.
bool may_name_by_quotes(std::string_view sql) {
  bool is_quoted = false;
  for (std::size_t i = 0; i < sql.size(); ++i) {
    const char c = sql[i];
    if (static_cast<unsigned char>(c) >= 0x80) return true;
    if (c == '"') {
      if (i != 0 && sql[i - 1] == '&') return true;  // U&"..."
      is_quoted = !is_quoted;
    } else if (is_quoted && (!is_word_character(c) || c == '$')) {
      return true;
    }
  }
  return false;
}

}  // namespace

void HarmlessWords::add(std::string_view sql, Instant now) {
  if (now - since_ > harmless_for) words_.clear();
  if (words_.empty()) since_ = now;
  (void)for_each_word(sql, [this](const std::string& word) {
    words_.insert(word);
    return true;
  });
}

bool HarmlessWords::has_all(std::string_view sql, Instant now) const {
  if (words_.empty() || now - since_ > harmless_for || may_name_by_quotes(sql)) return false;
  return for_each_word(sql, [this](const std::string& word) { return words_.contains(word); });
}

void write_session_reset(Buffer& out) {
  for (const std::string_view command : commands) write_command(out, command);
}

void write_renewal(Buffer& out) {
  for (const std::string_view command : std::span(commands).first<renewal_commands>()) write_command(out, command);
}

core::Task<Result<bool>> may_change_session(Query& conversation, std::string_view sql) {
  Connection& connection = conversation.connection();
  std::string parameter(4 + sql.size(), '\0');
  put_parameter(parameter.data(), sql);
  write_parse(connection.out(), {}, judgement, std::array{text_oid});
  write_bind(connection.out(), {}, 1, parameter);
  write_execute(connection.out(), 0);
  write_sync(connection.out());
  conversation.expect_answer();
  bool may = true;
  const auto refused = co_await conversation.read_answer([&may](const Message& message) {
    Field field;
    if (message.type != 'D') return true;
    if (!cut_row(message.payload, 1, &field)) return false;
    may = field.is_null() || field.view() != "f";
    return true;
  });
  if (!refused) co_return std::unexpected(refused.error());
  if (const auto& error = *refused) {
    co_return std::unexpected(Error{Failure::statement, error->sqlstate, "looking up functions: " + error->message, 0});
  }
  co_return may;
}

}  // namespace sluice::sql::postgres
