#include "app/routes/room/sql_text.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "api/require.h"
#include "base/ascii.h"
#include "base/contains.h"
#include "http/router.h"
#include "sql/compared.h"
#include "sql/parameters.h"
#include "sql/tokens.h"

namespace sluice::app {
namespace {

std::string last_part(std::string_view table) { return std::string(table.substr(table.rfind('.') + 1)); }

// The tables that a query names after FROM and JOIN.
std::vector<std::string> tables_of(std::string_view query) {
  std::vector<std::string> tables;
  const sql::Tokens tokens(query, sql::Tokens::Case::kept);
  bool in_list = false;  // after FROM or JOIN, where a table's name comes
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    if (tokens.is_word(i, "from") || tokens.is_word(i, "join")) {
      in_list = true;
      continue;
    }
    if (!std::exchange(in_list, false) || !tokens.is_identifier(i)) continue;
    std::string name = tokens[i].text;
    if (tokens.is_sign(i + 1, ".") && tokens.is_identifier(i + 2)) {
      name += '.' + tokens[i + 2].text;
      i += 2;
    }
    if (!contains(tables, name)) tables.push_back(std::move(name));
    // FROM a, b and FROM a AS x, b
    std::size_t next = i + 1;
    if (tokens.is_word(next, "as")) ++next;
    if (tokens.is_identifier(next) && !tokens.is_word(next, "where") && !tokens.is_word(next, "join")) ++next;
    if (tokens.is_sign(next, ",")) {
      i = next;
      in_list = true;
    }
  }
  return tables;
}

void learn_members(const api::Requirement& requirement, std::vector<std::string>& members) {
  for (std::string& name : tables_of(requirement.sql)) {
    if (!contains(members, name)) members.push_back(std::move(name));
  }
  for (const api::Requirement& part : requirement.parts) learn_members(part, members);
}

bool is_nameless_exists(const api::Requirement& requirement) {
  return (requirement.kind == api::Requirement::Kind::exists && tables_of(requirement.sql).empty()) ||
         std::ranges::any_of(requirement.parts, is_nameless_exists);
}

}  // namespace

std::expected<rooms::Published, std::string> published_of(const RoomOptions& options, sql::Dialect dialect) {
  rooms::Published published{
      .dialect = dialect, .schema = {}, .table = options.history.changes.tables.front().value, .columns = {}};
  const auto pattern = http::Pattern::parse(options.path.value);
  // The columns are found by the name of the table alone.
  std::string query = options.history.query.value;
  const std::string schema = published.table.substr(0, published.table.rfind('.') + 1);
  for (std::size_t at = 0; !schema.empty() && (at = query.find(published.table, at)) != query.npos;) {
    query.erase(at, schema.size());
  }
  const auto parsed = sql::parse_parameters(query, sql::PlaceholderStyle::question);
  if (!pattern || !parsed) return published;  // reported elsewhere
  const auto compared = sql::compared_columns(parsed->text, sql::Mentions::any);
  for (const std::string& name : pattern->names()) {
    const auto place = static_cast<std::size_t>(std::ranges::find(parsed->names, name) - parsed->names.begin());
    const auto found = std::ranges::find_if(compared, [&](const sql::Compared& one) {
      return one.parameter == place && one.use == sql::Compared::Use::equal && !one.column.empty() &&
             contains(one.tables, to_lower(last_part(published.table)));
    });
    if (found == compared.end()) {
      return std::unexpected(
          fmt::format("the history compares no column of {} with :{}, so Sluice cannot know which "
                      "rows belong to a room",
                      published.table, name));
    }
    published.columns.push_back(found->column);
  }
  return published;
}

std::vector<std::string> members_of(const RoomOptions& options) {
  std::vector<std::string> members;
  for (const api::RequireOptions& one : options.require.items) {
    if (const auto parsed = api::parse_requirement(one.that.value)) learn_members(*parsed, members);
  }
  return members;
}

bool has_nameless_exists(const api::RequireOptions& options) {
  const auto parsed = api::parse_requirement(options.that.value);
  return parsed && is_nameless_exists(*parsed);
}

}  // namespace sluice::app
