#include "gateway/headers/policy.h"

#include <algorithm>
#include <span>

#include "base/ascii.h"
#include "http/request_id.h"

namespace sluice::gateway::headers {
namespace {

constexpr std::string_view id_field = "X-Request-Id";

bool is_one_of(std::string_view name, std::span<const std::string_view> names) {
  return std::ranges::any_of(names, [&](std::string_view one) { return is_read_as(one, name); });
}

}  // namespace

bool may_change_in_request(std::string_view name) {
  static constexpr std::string_view others[] = {
      "connection",     "content-length",    "expect", "forwarded",        "host",
      "http2-settings", "keep-alive",        "proxy",  "proxy-connection", "te",
      "trailer",        "transfer-encoding", "upgrade"};
  return !is_one_of(name, others) && !is_read_as(name.substr(0, 12), "x-forwarded-");
}

bool may_change_in_response(std::string_view name) {
  static constexpr std::string_view others[] = {"connection", "content-encoding", "content-length",    "content-range",
                                                "date",       "keep-alive",       "proxy-connection",  "server",
                                                "te",         "trailer",          "transfer-encoding", "upgrade"};
  return !is_one_of(name, others);
}

std::vector<Template> Options::templates() const {
  std::vector<Template> all;
  for (const auto* changes : {&request, &response}) {
    if (!*changes) continue;
    for (const auto* fields : {&(*changes)->set, &(*changes)->add}) {
      for (const auto& field : *fields) {
        if (auto value = Template::parse(field.value.value.value)) all.push_back(std::move(*value));
      }
    }
  }
  return all;
}

HeadersPolicy::Changes::Changes(const std::optional<ChangeOptions>& options) {
  if (!options) return;
  for (const auto& name : options->remove) remove.push_back(name.value);
  for (const auto& field : options->set) {
    remove.push_back(field.name.value);
    add.push_back({field.name.value, *Template::parse(field.value.value.value)});
  }
  for (const auto& field : options->add) add.push_back({field.name.value, *Template::parse(field.value.value.value)});
}

bool HeadersPolicy::Changes::removes(std::string_view name) const {
  return std::ranges::any_of(remove, [&](const std::string& one) { return is_read_as(one, name); });
}

bool HeadersPolicy::Changes::adds(std::string_view name) const {
  return std::ranges::any_of(add, [&](const Change& change) { return is_read_as(change.name, name); });
}

bool HeadersPolicy::Changes::uses(Template::Source source) const {
  return std::ranges::any_of(add, [&](const Change& change) { return change.value.uses(source); });
}

HeadersPolicy::HeadersPolicy(const Options& options)
    : request_id_(options.request_id),
      request_(options.request),
      response_(options.response),
      makes_id_(request_id_ || request_.uses(Template::Source::request_id) ||
                response_.uses(Template::Source::request_id)),
      changes_request_(makes_id_ || !request_.empty()) {}

bool HeadersPolicy::owns_field(std::string_view name) const {
  return request_.removes(name) || request_.adds(name) || (request_id_ && is_read_as(id_field, name));
}

void HeadersPolicy::used_by(std::uint16_t route, const http::Pattern& pattern) {
  for (Changes* changes : {&request_, &response_}) {
    for (Change& change : changes->add) change.value.used_by(route, pattern);
  }
}

// Writes the whole text before it makes views into it, because the text may move while it grows.
core::Async<std::optional<http::Response>> HeadersPolicy::before(http::Exchange& exchange, http::Slot&) {
  using Answer = std::optional<http::Response>;
  if (!changes_request_) return Answer();
  http::Request& request = exchange.request;
  ChangedRequest& changed = changed_.take(exchange);
  if (makes_id_) ids_.give(exchange, changed);
  const std::string& text = changed.text;
  places_.clear();
  for (const Change& change : request_.add) {
    const std::size_t begin = text.size();
    if (!change.value.append(changed.text, exchange)) {
      return Answer(http::problem(
          403, "A claim or a value of the path has a control character, so it cannot be part of a header field."));
    }
    places_.emplace_back(begin, text.size());
  }
  for (const http::Field& field : request.fields) {
    if (request_id_ && is_read_as(field.name, id_field)) continue;
    if (!request_.removes(field.name)) changed.keep(request, field, field.value);
  }
  for (std::size_t i = 0; i < places_.size(); ++i) {
    const auto [begin, end] = places_[i];
    const std::string_view value = trim_blanks(std::string_view(text).substr(begin, end - begin));
    if (!value.empty()) changed.set(request_.add[i].name, value);
  }
  if (request_id_) changed.set(id_field, http::request_id_of(exchange));
  changed.apply(request);
  return Answer();
}

void HeadersPolicy::after(http::Exchange& exchange, http::Slot&, http::Response& response) {
  http::FieldList& fields = response.fields;
  for (std::size_t i = fields.items().size(); i-- != 0;) {
    const std::string_view name = fields.items()[i].name;
    if (response_.removes(name) || (request_id_ && http::same_name(name, id_field))) fields.remove(i);
  }
  const auto has_room = [&] { return fields.items().size() < http::FieldList::max_size; };
  for (const Change& change : response_.add) {
    if (!has_room()) return;
    if (const auto constant = change.value.constant()) {
      if (!trim_blanks(*constant).empty()) fields.add(change.name, trim_blanks(*constant));
      continue;
    }
    std::string value;
    if (!change.value.append(value, exchange)) continue;
    value = trim_blanks(value);
    if (!value.empty()) fields.add_owned(change.name, std::move(value));
  }
  if (request_id_ && has_room()) fields.add(id_field, http::request_id_of(exchange));
}

}  // namespace sluice::gateway::headers
