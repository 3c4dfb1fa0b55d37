#include "app/config/statement.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "api/source.h"
#include "app/config/text.h"
#include "base/ascii.h"
#include "http/router.h"

namespace sluice::app::config {

Diagnostic statement_refused(std::string_view whose, const Located<std::string>& statement, const sql::Error& error,
                             const Source& source, std::string meant) {
  std::string hint = std::move(meant);
  // The server may translate the message; its own numbers of parameters stay: "at or near »$1«".
  const std::size_t dollar = error.message.find('$');
  if (error.sqlstate == "42601" && dollar != std::string::npos && dollar + 1 < error.message.size() &&
      is_digit(error.message[dollar + 1])) {
    hint =
        "PostgreSQL takes no parameter here: cast it (CAST(:d AS interval)), or write a[1 : :n] and a[1: n] for "
        "slices.";
  }
  if (!error.sqlstate.empty()) hint += fmt::format("{}SQLSTATE {}", hint.empty() ? "" : " ", error.sqlstate);
  return {source.locate(statement.position, error.position),
          fmt::format("{}: {}", whose, without_literals(error.message, statement.value)), std::move(hint)};
}

namespace {

std::vector<std::string> names_in_path(const api::EndpointOptions& endpoint) {
  const auto pattern = http::Pattern::parse(endpoint.path.value);
  return pattern ? pattern->names() : std::vector<std::string>{};
}

// How the text must be written so that the parameter is replaced by its value.
std::string unquoted(const sql::ParsedSql::Quoted& quoted) {
  std::string text = ":" + quoted.name;
  if (!quoted.before.empty()) text = fmt::format("'{}' || {}", quoted.before, text);
  if (!quoted.after.empty()) text = fmt::format("{} || '{}'", text, quoted.after);
  return "write " + text;
}

}  // namespace

void check_columns(const api::EndpointOptions& endpoint, const Located<std::string>& statement,
                   std::span<const sql::Column> columns, std::vector<Diagnostic>& errors) {
  for (auto column = columns.begin(); column != columns.end(); ++column) {
    if (std::ranges::find(columns.begin(), column, column->name, &sql::Column::name) == column) continue;
    errors.push_back({statement.position,
                      fmt::format("endpoint {}: two columns are called \"{}\"", endpoint.path.value, column->name),
                      "give one of them another name with AS"});
    return;
  }
}

std::vector<std::string> check_quoted(const api::EndpointOptions& endpoint, const Located<std::string>& statement,
                                      sql::PlaceholderStyle style, const Source& source,
                                      std::vector<Diagnostic>& errors, std::vector<std::string>& warnings) {
  std::vector<std::string> found;
  const auto parsed = sql::parse_parameters(statement.value, style);
  if (!parsed) return found;
  std::vector<std::string> names = names_in_path(endpoint);
  names.insert(names.end(), parsed->names.begin(), parsed->names.end());
  for (const auto& parameter : endpoint.params) names.push_back(parameter.name.value);
  for (const sql::ParsedSql::Quoted& quoted : parsed->quoted) {
    constexpr std::string_view wildcards = "%_*?";
    if (quoted.before.find_first_not_of(wildcards) != quoted.before.npos) continue;
    if (quoted.after.find_first_not_of(wildcards) != quoted.after.npos) continue;
    const Position position =
        source.locate(statement.position, sql::character_position(statement.value, quoted.source_begin));
    const std::string message =
        fmt::format("endpoint {}: \":{}\" within quotes is text", endpoint.path.value, quoted.name);
    if (std::ranges::find(names, quoted.name) != names.end()) {
      errors.push_back({position, message + ", and takes no value", unquoted(quoted)});
      found.push_back(quoted.name);
    } else {
      warnings.push_back(
          fmt::format("{}: {}; for a parameter, {}", source.files().place(position), message, unquoted(quoted)));
    }
  }
  return found;
}

std::vector<const Located<std::string>*> statements_of(const api::EndpointOptions& endpoint) {
  std::vector<const Located<std::string>*> all = {&endpoint.get};
  for (const auto& [method, writing] : endpoint.writing_methods()) {
    for (const auto& before : writing->before) all.push_back(&before);
    all.push_back(&writing->existing);
    for (const auto& [key, statement] : writing->row_statements()) all.push_back(statement);
    all.push_back(&writing->sql);
  }
  std::erase_if(all, [](const auto* statement) { return statement->value.empty(); });
  return all;
}

void check_parameters(const api::EndpointOptions& endpoint, const std::vector<std::string_view>& used,
                      sql::PlaceholderStyle style, const Source& source, std::vector<Diagnostic>& errors) {
  const bool several = endpoint.post || endpoint.put || endpoint.patch || endpoint.delete_;
  const auto hint = [&](std::string_view name) {
    for (const auto* statement : statements_of(endpoint)) {
      const auto parsed = sql::parse_parameters(statement->value, style);
      if (!parsed) continue;
      const auto quoted = std::ranges::find(parsed->quoted, name, &sql::ParsedSql::Quoted::name);
      if (quoted != parsed->quoted.end()) return "within quotes it is text: " + unquoted(*quoted);
    }
    return did_you_mean(name, used);
  };
  std::vector<std::string_view> taken = used;  // plus names in the path from which params take values
  for (const auto& parameter : endpoint.params) {
    if (!parameter.value.from || std::ranges::find(used, parameter.name.value) == used.end()) continue;
    const auto from = api::parse_source(parameter.value.from->value);
    if (from && from->from == api::From::path) taken.push_back(std::string_view(parameter.value.from->value).substr(5));
  }
  auto unused = [&](std::string_view name, Position position) {
    if (std::ranges::find(taken, name) != taken.end()) return;
    errors.push_back({position,
                      fmt::format("endpoint {}: {} not use :{}", endpoint.path.value,
                                  several ? "its statements do" : "the statement does", name),
                      hint(name)});
  };

  const std::vector<std::string> in_path = names_in_path(endpoint);
  std::size_t at = 0;  // the parameters in the path have the order of `in_path`
  for (const std::string& name : in_path) {
    at = endpoint.path.value.find("/{", at) + 1;
    unused(name, source.locate(endpoint.path.position, count_characters(endpoint.path.value.substr(0, at)) + 1));
  }
  for (const auto& parameter : endpoint.params) {
    if (std::ranges::find(in_path, parameter.name.value) == in_path.end()) {
      unused(parameter.name.value, parameter.name.position);
    }
  }
}

}  // namespace sluice::app::config
