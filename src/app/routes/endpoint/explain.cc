#include "app/routes/endpoint/explain.h"

#include <algorithm>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "api/endpoint.h"
#include "api/list/page.h"
#include "api/query_names.h"
#include "api/require.h"
#include "api/source.h"
#include "api/write_endpoint.h"
#include "app/prepare/opened_database.h"
#include "app/routes/endpoint/read_plan.h"

namespace sluice::app {
namespace {

// As in the configuration: "path.id".
std::string name_of(const api::Source& source) {
  constexpr std::string_view names[] = {"path", "query",   "header", "cookie", "claim",
                                        "env",  "request", "body",   "upload"};
  std::string name(names[static_cast<std::size_t>(source.from)]);
  if (!source.key.empty()) name.append(".").append(source.key);
  return name;
}

bool is_hidden(const AnswerExplainer& into, const api::Source& source) {
  return source.from == api::From::cookie || source.from == api::From::environment ||
         into.redaction().hides(source.name) || into.redaction().hides(source.key);
}

// `reading`: makes the task that reads the plan.
template <class Reading>
void add_plan(AnswerExplainer& into, const api::EndpointOptions& endpoint, Reading reading) {
  const Options& options = into.options();
  Loop& loop = into.loop();
  const auto& database = options.databases[options.index_of_database(endpoint.database.value)];
  auto opened = open_database(loop, options, database);
  if (!opened) return into.add("plan", "not known: " + describe(opened.error()));
  const std::string explain = database.value.is_sqlite() ? "EXPLAIN QUERY PLAN " : "EXPLAIN ";
  auto lines =
      loop.run(reading(*opened->database, explain, sql::QueryOptions{.deadline = loop.reactor->clock() + 10s}));
  if (!lines) return into.add("plan", "not known: " + describe(lines.error()));
  into.add_list("plan", std::move(*lines));
}

// `written`: the statement as in the file.
void add_statement(AnswerExplainer& into, const api::EndpointOptions& endpoint, const http::Pattern& pattern,
                   const std::string& written, std::span<const api::Source> sources, const http::Exchange& exchange) {
  api::Binder binder;
  std::vector<sql::Argument> arguments;
  arguments.reserve(sources.size());
  std::vector<Explanation::Value> values;
  bool is_whole = true;  // the head of the request has all values
  for (const api::Source& source : sources) {
    Explanation::Value& value = values.emplace_back(source.name, std::nullopt, name_of(source));
    if (source.from == api::From::body || source.from == api::From::upload) {
      is_whole = false;
      value.text = "(of the body)";
      continue;
    }
    if (source.from == api::From::claim && !into.knows_claims) {
      is_whole = false;
      value.text = "(of the token)";
      continue;
    }
    const auto bound = binder.bind(std::span(&source, 1), exchange, {}, arguments);
    if (!bound) return into.refuse(api::refuse_value(bound.error()));
    if (!arguments.back().text) continue;
    value.text = is_hidden(into, source) ? Redaction::hidden : *arguments.back().text;
  }
  into.add("sql", written);
  into.set_parameters(std::move(values));
  if (!is_whole || endpoint.parallel) return;
  add_plan(into, endpoint, [&](sql::Database& database, const std::string& explain, const sql::QueryOptions& options) {
    return read_plan(database, explain + written, api::declared_parameters(endpoint, pattern), arguments, options);
  });
}

// The statement of a list, which is made for each request.
void add_list(AnswerExplainer& into, const api::EndpointOptions& endpoint, const api::EndpointPlan& plan,
              const http::Exchange& exchange) {
  api::list::Page page(plan);
  std::string text;
  if (const auto refusal = page.read(exchange, text)) return into.refuse(*refusal);
  std::vector<Explanation::Value> values;
  const char sign = plan.list->dialect == sql::Dialect::postgres ? '$' : '?';
  for (std::size_t i = 0; i < page.arguments().size(); ++i) {
    const std::string name = sign + std::to_string(i + 1);
    if (i >= plan.sources.size()) {
      values.emplace_back(name, std::string(page.arguments()[i].text.value_or("")));
      continue;
    }
    const api::Source& source = plan.sources[i];
    Explanation::Value& value = values.emplace_back(name, std::nullopt, name_of(source));
    if (source.from == api::From::claim && !into.knows_claims) {
      value.text = "(of the token)";
    } else if (page.arguments()[i].text) {
      value.text = is_hidden(into, source) ? Redaction::hidden : *page.arguments()[i].text;
    }
  }
  into.add("sql", text);
  into.set_parameters(std::move(values));
  add_plan(into, endpoint, [&](sql::Database& database, const std::string& explain, const sql::QueryOptions& options) {
    return read_plan(database, page.explained(explain, text), page.arguments(), options);
  });
}

}  // namespace

void explain_endpoint(AnswerExplainer& into, const api::EndpointOptions& endpoint, const PreparedEndpoint& prepared,
                      http::Exchange& exchange) {
  const http::Request& request = exchange.request;
  const auto answer_without_database = [&](const api::Guards* guards, const api::QueryNames& query) {
    auto refusal = guards != nullptr && into.knows_claims ? guards->judge(exchange, {}).refusal : std::nullopt;
    if (!refusal) refusal = query.refuse(request);
    if (!refusal) return false;
    into.refuse(*refusal);
    return true;
  };
  const http::Method method = request.method == http::Method::head ? http::Method::get : request.method;
  if (method == http::Method::get) {
    const api::EndpointPlan& plan = *prepared.get;
    const bool is_file = endpoint.returns == api::Returns::file;
    if (!is_file && !into.add_format(request, plan.formats)) return;
    if (plan.list) {
      auto refusal = plan.guards && into.knows_claims ? plan.guards->judge(exchange, {}).refusal : std::nullopt;
      if (refusal) return into.refuse(*refusal);
      into.add("database", endpoint.database.value);
      return add_list(into, endpoint, plan, exchange);
    }
    if (answer_without_database(plan.guards.get(), plan.query)) return;
    into.add("database", endpoint.database.value);
    add_statement(into, endpoint, prepared.pattern, endpoint.get.value, plan.sources, exchange);
    return;
  }
  const auto methods = endpoint.writing_methods();
  const api::MethodOptions& options =
      *std::ranges::find(methods, method, [](const auto& one) { return one.first; })->second;
  const auto write = std::ranges::find(prepared.writes, method, [](const auto& one) { return one->method; });
  if (write != prepared.writes.end()) {
    if (!into.add_format(request, (*write)->formats, !(*write)->main.statement.columns.empty())) return;
    if (answer_without_database((*write)->guards.get(), (*write)->query)) return;
  }
  into.add("database", endpoint.database.value);
  if (options.sql.value.empty() || write == prepared.writes.end()) {
    into.add("table", options.table.value);
    std::vector<std::string> columns;
    for (const auto& [name, column] : options.columns) columns.push_back(name.value + (column.key ? ", key" : ""));
    into.add_list("columns", std::move(columns));
    for (const auto& [key, statement] : options.row_statements()) {
      if (!statement->value.empty()) into.add(key, statement->value);
    }
    return;
  }
  std::vector<std::string> before;
  for (const auto& statement : options.before) before.push_back(statement.value);
  into.add_list("before", std::move(before));
  add_statement(into, endpoint, prepared.pattern, options.sql.value, (*write)->main.sources, exchange);
}

}  // namespace sluice::app
