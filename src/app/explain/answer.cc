#include "app/explain/answer.h"

#include <algorithm>
#include <filesystem>
#include <span>
#include <string_view>
#include <system_error>
#include <utility>
#include <variant>

#include <fmt/format.h>

#include "api/endpoint.h"
#include "api/query_names.h"
#include "api/require.h"
#include "api/source.h"
#include "api/write_endpoint.h"
#include "app/prepare/opened_database.h"
#include "app/suite/json.h"
#include "gateway/proxy/fields.h"
#include "gateway/proxy/path_change.h"
#include "http/identity.h"

namespace sluice::app {
namespace {

std::string_view bytes_of(const http::Body& body) {
  if (const auto* own = std::get_if<Buffer>(&body)) return own->view();
  if (const auto* shared = std::get_if<http::SharedBytes>(&body)) return shared->bytes;
  return {};
}

// The element whose `use` the claim refers to, or null.
template <class T>
const T* find_claimed(const std::vector<T>& tables, const Claim& claim) {
  const auto found = std::ranges::find_if(tables, [&](const T& one) { return &one.use == claim.use; });
  return found != tables.end() ? &*found : nullptr;
}

// As in the configuration: "path.id".
std::string name_of(const api::Source& source) {
  constexpr std::string_view names[] = {"path", "query",   "header", "cookie", "claim",
                                        "env",  "request", "body",   "upload"};
  std::string name(names[static_cast<std::size_t>(source.from)]);
  if (!source.key.empty()) name.append(".").append(source.key);
  return name;
}

// Reads the last column of each row, which has the text in the plans of both databases.
core::Task<sql::Result<std::vector<std::string>>> read_plan(sql::Database& database, std::string text,
                                                            std::vector<sql::Parameter> declared,
                                                            std::span<const sql::Argument> arguments,
                                                            sql::QueryOptions options) {
  const auto statement = co_await database.prepare(text, declared);
  if (!statement) co_return std::unexpected(statement.error());
  auto cursor = co_await database.query(*statement, arguments, options);
  if (!cursor) co_return std::unexpected(cursor.error());
  std::vector<std::string> lines;
  for (bool last = false; !last;) {
    const auto block = co_await (*cursor)->next();
    if (!block) co_return std::unexpected(block.error());
    last = block->last;
    for (std::size_t i = 0; i < block->rows; ++i) lines.emplace_back(block->row(i).back().view());
  }
  co_return lines;
}

}  // namespace

void AnswerExplainer::take(const http::Response& response) {
  Explanation::Answer answer{.status = response.status, .detail = {}, .fields = {}};
  bool is_problem = false;
  for (const auto& [name, value] : response.fields.items()) {
    if (http::same_name(name, "content-type") && value == "application/problem+json") {
      is_problem = true;
      continue;
    }
    std::string text;
    redaction_.append_address(text, value);
    answer.fields.push_back({std::string(name), redaction_.hides(name) ? std::string(Redaction::hidden) : text});
  }
  const std::string_view body = bytes_of(response.body);
  if (!is_problem) {
    answer.body = body;
  } else if (const auto json = suite::parse_json(body)) {
    if (const auto* detail = json->find("detail")) answer.detail = detail->text;
  }
  into_.answer = std::move(answer);
}

void AnswerExplainer::explain(const Claim& claim, http::Exchange& exchange, bool knows_claims) {
  knows_claims_ = knows_claims;
  const Options& options = plan_.options;
  into_.is_answered = true;
  if (const auto* route = find_claimed(options.routes, claim)) return explain(*route, exchange);
  if (const auto* files = find_claimed(options.files, claim)) return explain(*files, exchange.request);
  if (const auto* endpoint = find_claimed(options.endpoints, claim)) {
    if (claim.path == endpoint->path.value) return explain(*endpoint, exchange);
    add("changes", "a stream of the changes of " + endpoint->path.value);
    return add("database", endpoint->database.value);
  }
  if (const auto* resident = find_claimed(options.residents, claim)) {
    add("table", resident->name.value + ", in memory");
    return add("query", resident->query.value);
  }
  if (claim.kind == WebSocketTables::name) return add("websocket", "an echo of each message");
  if (claim.kind == BatchTable::name) {
    add("batch", "the calls in the body, in one transaction");
    return add("database", options.batch->database.value);
  }
  add("openapi", "the description of the endpoints");
}

void AnswerExplainer::explain(const gateway::RouteOptions& route, const http::Exchange& exchange) {
  if (!route.passes_on()) return;  // the response has been taken
  const auto change = gateway::PathChange::make(route);
  gateway::ForwardedRequest forwarded;
  const auto* const head = forwarded.make(exchange.request, "",
                                          {.change = change->get(),
                                           .preserve_host = route.preserve_host.value,
                                           .keeps_slashes = route.slashes.value == gateway::Slashes::keep});
  if (head == nullptr) {
    into_.is_answered = false;
    return take(http::problem(400, "This path is not passed on to a server."));
  }
  if (route.upstream) add_upstream(route.upstream->value, "");
  std::uint64_t sum = 0;
  for (const auto& [name, weight] : route.split) sum += weight;
  for (const auto& [name, weight] : route.split) add_upstream(name.value, fmt::format(", {} of {}", weight, sum));
  if (route.split_by) add("split_by", route.split_by->value);
  std::string target;
  redaction_.append_address(target, head->target);
  add("target", std::move(target));
  add("sent_host", route.preserve_host.value ? into_.host : "that of the server's URL");
}

void AnswerExplainer::add_upstream(const std::string& name, const std::string& share) {
  const auto& upstream = plan_.options.upstreams[*plan_.options.find_upstream(name)];
  std::string_view balance;
  for (const auto& [text, value] : gateway::names_of(gateway::Balance{})) {
    if (value == upstream.balance.value) balance = text;
  }
  add("upstream", fmt::format("{}, balance {}{}", name, balance, share));
  std::vector<std::string> servers;
  for (const auto& server : upstream.servers) {
    std::string& text = servers.emplace_back();
    redaction_.append_address(text, server.url.value);
    if (server.weight != 1) text += fmt::format(", weight {}", server.weight);
    if (server.backup) text += ", backup";
  }
  add_list("servers", std::move(servers));
}

void AnswerExplainer::explain(const files::FilesOptions& files, const http::Request& request) {
  std::string file = files.root.value;
  if (!file.ends_with('/')) file += '/';
  file += request.path_values[0];
  std::error_code error;
  if (!std::filesystem::exists(file, error)) file += ", which does not exist";
  add("file", std::move(file));
  if (files.fallback) add("fallback", files.fallback->value);
}

void AnswerExplainer::explain(const api::EndpointOptions& endpoint, http::Exchange& exchange) {
  Route::Described described;
  for (const auto& route : plan_.routes) route->describe(described);
  const auto resource = std::ranges::find_if(described.resources, [&](const api::openapi::Resource& one) {
    return one.options->path.position == endpoint.path.position;
  });
  if (resource == described.resources.end()) return;  // not reached: the plan has every endpoint
  const http::Request& request = exchange.request;
  const auto answer_without_database = [&](const api::Guards* guards, const api::QueryNames& query) {
    auto refusal = guards != nullptr && knows_claims_ ? guards->judge(exchange, {}).refusal : std::nullopt;
    if (!refusal) refusal = query.refuse(request);
    if (!refusal) return false;
    into_.is_answered = false;
    take(*refusal);
    return true;
  };
  const http::Method method = request.method == http::Method::head ? http::Method::get : request.method;
  if (method == http::Method::get) {
    const api::EndpointPlan& plan = *resource->get;
    if (answer_without_database(plan.guards.get(), plan.query)) return;
    add("database", endpoint.database.value);
    add_statement(endpoint, *resource->pattern, endpoint.get.value, plan.sources, exchange);
    return;
  }
  const auto methods = endpoint.writing_methods();
  const api::MethodOptions& options =
      *std::ranges::find(methods, method, [](const auto& one) { return one.first; })->second;
  const auto write = std::ranges::find(resource->writes, method, [](const auto& one) { return one->method; });
  if (write != resource->writes.end() && answer_without_database((*write)->guards.get(), (*write)->query)) return;
  add("database", endpoint.database.value);
  if (options.sql.value.empty() || write == resource->writes.end()) {
    add("table", options.table.value);
    std::vector<std::string> columns;
    for (const auto& [name, column] : options.columns) columns.push_back(name.value + (column.key ? ", key" : ""));
    return add_list("columns", std::move(columns));
  }
  std::vector<std::string> before;
  for (const auto& statement : options.before) before.push_back(statement.value);
  add_list("before", std::move(before));
  add_statement(endpoint, *resource->pattern, options.sql.value, (*write)->main.sources, exchange);
}

void AnswerExplainer::add_statement(const api::EndpointOptions& endpoint, const http::Pattern& pattern,
                                    const std::string& written, std::span<const api::Source> sources,
                                    const http::Exchange& exchange) {
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
    if (source.from == api::From::claim && !knows_claims_) {
      is_whole = false;
      value.text = "(of the token)";
      continue;
    }
    if (const auto bound = binder.bind(std::span(&source, 1), exchange, {}, arguments); !bound) {
      into_.is_answered = false;
      into_.destination.clear();
      take(api::refuse_value(bound.error()));
      return;
    }
    if (!arguments.back().text) continue;
    const bool hides = source.from == api::From::cookie || source.from == api::From::environment ||
                       redaction_.hides(source.name) || redaction_.hides(source.key);
    value.text = hides ? Redaction::hidden : *arguments.back().text;
  }
  add("sql", written);
  into_.parameters = std::move(values);
  if (is_whole && !endpoint.parallel) add_plan(endpoint, pattern, written, arguments);
}

void AnswerExplainer::add_plan(const api::EndpointOptions& endpoint, const http::Pattern& pattern,
                               const std::string& written, std::span<const sql::Argument> arguments) {
  const auto& database = plan_.options.databases[plan_.options.index_of_database(endpoint.database.value)];
  const bool is_sqlite = database.value.is_sqlite();
  auto opened = open_database(loop_, plan_.options, database);
  if (!opened) return add("plan", "not known: " + describe(opened.error()));
  auto lines = loop_.run(read_plan(*opened->database, (is_sqlite ? "EXPLAIN QUERY PLAN " : "EXPLAIN ") + written,
                                   api::declared_parameters(endpoint, pattern), arguments,
                                   {.deadline = loop_.reactor->clock() + 10s}));
  if (!lines) return add("plan", "not known: " + describe(lines.error()));
  add_list("plan", std::move(*lines));
}

}  // namespace sluice::app
