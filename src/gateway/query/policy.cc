#include "gateway/query/policy.h"

#include <algorithm>
#include <utility>

#include "http/fields.h"
#include "http/query_string.h"
#include "http/target.h"

namespace sluice::gateway::query {

std::vector<Template> Options::templates() const {
  std::vector<Template> all;
  for (const auto* parameters : {&set, &add}) {
    for (const auto& parameter : *parameters) {
      if (auto value = Template::parse(parameter.value.value.value)) all.push_back(std::move(*value));
    }
  }
  return all;
}

QueryPolicy::QueryPolicy(const Options& options) {
  for (const auto& name : options.remove) removed_.push_back(name.value);
  for (const auto& parameter : options.set) removed_.push_back(parameter.name.value);
  for (const auto* parameters : {&options.set, &options.add}) {
    for (const auto& parameter : *parameters) {
      auto& added = added_.emplace_back(std::string(), *Template::parse(parameter.value.value.value));
      http::append_escaped(added.name, parameter.name.value);
      makes_id_ = makes_id_ || added.value.uses(Template::Source::request_id);
    }
  }
}

void QueryPolicy::used_by(std::uint16_t route, const http::Pattern& pattern) {
  for (Addition& added : added_) added.value.used_by(route, pattern);
}

// Some servers ignore the case of names. They also differ in how they read an invalid escape, such as `%u0061`.
bool QueryPolicy::removes(std::string_view name) {
  if (removed_.empty()) return false;
  scratch_.clear();
  if (!http::append_decoded(name, scratch_)) return true;
  return std::ranges::any_of(removed_, [&](const std::string& one) { return http::same_name(one, scratch_); });
}

core::Async<std::optional<http::Response>> QueryPolicy::before(http::Exchange& exchange, http::Slot&) {
  using Answer = std::optional<http::Response>;
  http::Request& request = exchange.request;
  ChangedRequest& changed = changed_.take(exchange);
  if (makes_id_) ids_.give(exchange, changed);
  ChangedQuery query(request, changed.text);
  // Some servers take a `;` as a separator too.
  char separator = '&';
  for (std::string_view rest = request.query; !rest.empty();) {
    const std::size_t end = std::min(rest.find_first_of("&;"), rest.size());
    const std::string_view pair = rest.substr(0, end);
    const char next = end < rest.size() ? rest[end] : '&';
    rest.remove_prefix(std::min(end + 1, rest.size()));
    if (removes(pair.substr(0, pair.find('=')))) {
      if (separator != '&') separator = next;
      continue;
    }
    query.begin(std::exchange(separator, next));
    changed.text += pair;
  }
  for (const Addition& added : added_) {
    scratch_.clear();
    if (!added.value.append(scratch_, exchange)) {
      return Answer(http::problem(
          403, "A claim or a value of the path has a control character, so it cannot be part of the query string."));
    }
    if (scratch_.empty()) continue;
    query.begin();
    changed.text += added.name;
    changed.text += '=';
    http::append_escaped(changed.text, scratch_);
  }
  query.apply();
  return Answer();
}

}  // namespace sluice::gateway::query
