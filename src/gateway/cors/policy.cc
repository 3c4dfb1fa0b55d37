#include "gateway/cors/policy.h"

#include <algorithm>
#include <chrono>

#include "gateway/origins.h"
#include "http/accept.h"
#include "http/h1/scan.h"

namespace sluice::gateway::cors {
namespace {

std::string joined(const std::vector<std::string>& names) {
  std::string all;
  for (const std::string& name : names) {
    if (!all.empty()) all += ", ";
    all += name;
  }
  return all;
}

// The format that browsers send: comma-separated names.
bool is_list_of_names(std::string_view text) {
  return std::ranges::all_of(text, [](char c) { return http::is_token_char(c) || c == ',' || c == ' '; });
}

// Adds names of fields to Vary. Several Vary fields become one, which has each name once.
void add_vary(http::FieldList& fields, std::string_view names) {
  std::string all;
  const auto append = [&all](std::string_view list) {
    http::h1::for_each_element(list, [&all](std::string_view name) {
      if (!name.empty() && !http::lists_token(all, name)) all.append(all.empty() ? "" : ", ").append(name);
    });
  };
  for (const auto& [name, value] : fields.items()) {
    if (http::same_name(name, "vary")) append(value);
  }
  if (all.empty()) return fields.add_trusted("Vary", names);
  append(names);
  for (std::size_t i = fields.items().size(); i-- != 0;) {
    if (http::same_name(fields.items()[i].name, "vary")) fields.remove(i);
  }
  fields.add_owned("Vary", std::move(all));
}

bool is_of_cors(std::string_view name) { return http::same_name(name.substr(0, 15), "access-control-"); }

}  // namespace

CorsPolicy::CorsPolicy(const Options& options)
    : options_(options),
      headers_(std::ranges::find(options.headers, "*") == options.headers.end() ? joined(options.headers) : ""),
      expose_(joined(options.expose)),
      max_age_(std::to_string(std::chrono::duration_cast<std::chrono::seconds>(options.max_age).count())) {
  any_ = std::ranges::any_of(options.origins, [](const auto& origin) { return origin.value == "*"; });
}

bool CorsPolicy::allows(std::string_view origin) const { return allows_origin(options_.origins, origin); }

void CorsPolicy::add_origin(http::Response& response, std::string_view origin) const {
  if (any_) return response.fields.add_trusted("Access-Control-Allow-Origin", "*");
  add_vary(response.fields, "Origin");
  if (origin.empty()) return;
  response.fields.add_owned("Access-Control-Allow-Origin", std::string(origin));
  if (options_.credentials) response.fields.add_trusted("Access-Control-Allow-Credentials", "true");
}

core::Async<std::optional<http::Response>> CorsPolicy::before(http::Exchange& exchange, http::Slot& slot) {
  slot.value = allows(origin_of(exchange.request)) ? 1 : 0;
  return std::optional<http::Response>();
}

// Replaces the server's CORS fields, because browsers refuse duplicates.
void CorsPolicy::after(http::Exchange& exchange, http::Slot& slot, http::Response& response) {
  http::FieldList& fields = response.fields;
  for (std::size_t i = fields.items().size(); i-- != 0;) {
    if (is_of_cors(fields.items()[i].name)) fields.remove(i);
  }
  add_origin(response, slot.value != 0 ? origin_of(exchange.request) : std::string_view());
  if (slot.value != 0 && !expose_.empty()) response.fields.add("Access-Control-Expose-Headers", expose_);
}

std::optional<http::Response> CorsPolicy::preflight(http::Exchange& exchange) {
  const http::Request& request = exchange.request;
  const std::string_view origin = origin_of(request);
  const bool allowed = allows(origin);
  http::Response response;
  response.status = 204;
  add_origin(response, allowed ? origin : std::string_view());
  add_vary(response.fields, "Access-Control-Request-Method, Access-Control-Request-Headers");
  if (!allowed) return response;
  response.fields.add("Access-Control-Allow-Methods", exchange.allow);
  const std::string_view wanted = request.field("access-control-request-headers");
  if (!headers_.empty()) {
    response.fields.add("Access-Control-Allow-Headers", headers_);
  } else if (!wanted.empty() && is_list_of_names(wanted)) {
    response.fields.add_owned("Access-Control-Allow-Headers", std::string(wanted));
  }
  response.fields.add("Access-Control-Max-Age", max_age_);
  return response;
}

}  // namespace sluice::gateway::cors
