#include "gateway/authrequest/policy.h"

#include <algorithm>
#include <array>
#include <utility>

#include "http/identity.h"
#include "http/target.h"

namespace sluice::gateway::authrequest {
namespace {

using Progress = http::BodySource::Progress;

// The longest body of a 2xx answer that is read to its end. A longer one closes the connection.
constexpr std::size_t most_dropped = 64 * 1024;

// Leaves out fields that describe the body, because the body is not sent, and fields that could turn the answer into a
// 304, 412 or 206, because these statuses decide nothing. Connection could hide fields from the auth server that the
// handler of the request sees.
bool is_left_out(std::string_view name) {
  static constexpr std::string_view names[] = {
      "content-length", "content-type",        "content-encoding", "if-match", "if-modified-since",
      "if-none-match",  "if-unmodified-since", "if-range",         "range",    "connection"};
  return std::ranges::any_of(names, [&](std::string_view one) { return http::same_name(one, name); });
}

// Fields in which auth servers and their frameworks look for the method and the target of the client's request.
bool tells_target(std::string_view name) {
  static constexpr std::string_view names[] = {"x-forwarded-method", "x-forwarded-uri", "x-original-method",
                                               "x-original-uri",     "x-original-url",  "x-rewrite-url"};
  return std::ranges::any_of(names, [&](std::string_view one) { return is_read_as(one, name); });
}

bool is_for_client(int status) {
  return (status >= 300 && status < 400 && status != 304) || status == 401 || status == 403 || status == 429;
}

core::Task<void> drop(http::Body body) {
  auto* const source = std::get_if<std::unique_ptr<http::BodySource>>(&body);
  if (source == nullptr) co_return;
  Buffer dropped;
  while (dropped.size() < most_dropped) {
    const auto progress = co_await (*source)->pull(dropped);
    if (!progress || *progress == Progress::done) co_return;
  }
}

}  // namespace

AuthRequestPolicy::AuthRequestPolicy(const Options& options, std::shared_ptr<Upstream> upstream,
                                     std::shared_ptr<const SharedUpstream> shared)
    : path_(options.path.value),
      copied_([&] {
        std::vector<std::string> names;
        for (const auto& name : options.copy) names.push_back(name.value);
        return names;
      }()),
      proxy_(std::move(upstream), std::move(shared)) {}

bool AuthRequestPolicy::copies(std::string_view name) const {
  return std::ranges::any_of(copied_, [&](const std::string& one) { return is_read_as(one, name); });
}

core::Async<std::optional<http::Response>> AuthRequestPolicy::before(http::Exchange& exchange, http::Slot& slot) {
  return ask(exchange, slot);
}

core::Task<std::optional<http::Response>> AuthRequestPolicy::ask(http::Exchange& exchange, http::Slot& slot) {
  http::Request& request = exchange.request;
  std::vector<http::Field> fields;
  std::size_t own = 0;
  for (std::size_t i = 0; i < request.fields.size(); ++i) {
    const http::Field& field = request.fields[i];
    const bool is_own = i + request.own_fields >= request.fields.size();
    if (is_left_out(field.name) || copies(field.name) || (!is_own && tells_target(field.name))) continue;
    own += is_own ? 1 : 0;
    fields.push_back(field);
  }
  // Sends the path as routes and policies see it, so that no other spelling can mislead the auth server.
  std::string uri;
  http::append_path(uri, request.segments);
  if (!request.query.empty()) uri.append("?").append(request.query);
  fields.push_back({"X-Forwarded-Method", request.method_text});
  fields.push_back({"X-Forwarded-Uri", uri});
  http::Exchange asking;
  http::Request& question = asking.request;
  question.method = http::Method::get;
  question.version = http::Version::http11;
  question.method_text = "GET";
  question.target = question.path = question.segments = path_;
  question.authority = request.authority;
  question.fields = fields;
  question.peer = request.peer;
  question.secure = request.secure;
  question.from_proxy = request.from_proxy;
  question.connection_peer = request.connection_peer;
  question.own_fields = own + 2;
  if (const auto* identity = exchange.attributes.find<http::Identity>()) asking.attributes.set(*identity);

  http::Response answer = co_await proxy_.handle(asking);
  if (answer.status >= 200 && answer.status < 300) {
    pass(exchange, slot, answer.fields.items());
    ++passed_;
    co_await drop(std::move(answer.body));
    co_return std::nullopt;
  }
  pass(exchange, slot, {});  // in a dry run, the request continues without the client's own fields of these names
  if (is_for_client(answer.status)) {
    ++refused_;
    if (const auto* ours = exchange.pin.answer_fields()) remove_ours(*ours, answer.fields);
    co_return answer;
  }
  ++failed_;
  const int status = answer.status == 503 || answer.status == 504 ? answer.status : 502;
  co_return http::problem(status, "The server that decides about this request gave no decision.");
}

// Reserves memory for the whole text before it makes views into the text.
void AuthRequestPolicy::pass(http::Exchange& exchange, http::Slot& slot, std::span<const http::Field> answered) {
  http::Request& request = exchange.request;
  ChangedRequest& changed = changed_.take(exchange);
  slot.value = reinterpret_cast<std::uintptr_t>(&changed);
  std::size_t room = 0;
  for (const http::Field& field : answered) room += field.value.size();
  changed.text.reserve(room);
  for (const http::Field& field : request.fields) {
    if (!copies(field.name)) changed.keep(request, field, field.value);
  }
  for (const http::Field& field : answered) {
    if (http::same_name(field.name, "set-cookie")) changed.cookies.emplace_back(field.value);
    const auto name = std::ranges::find_if(copied_, [&](const auto& one) { return http::same_name(one, field.name); });
    if (name == copied_.end() || field.value.empty()) continue;
    const std::size_t begin = changed.text.size();
    changed.text += field.value;
    changed.set(*name, std::string_view(changed.text).substr(begin));
  }
  changed.apply(request);
}

void AuthRequestPolicy::after(http::Exchange&, http::Slot& slot, http::Response& response) {
  if (slot.value == 0) return;
  for (std::string& cookie : reinterpret_cast<ChangedRequest*>(slot.value)->cookies) {
    if (response.fields.items().size() == http::FieldList::max_size) return;
    response.fields.add_owned("Set-Cookie", std::move(cookie));
  }
}

Readings AuthRequestPolicy::readings() const {
  const auto decisions = [](const char* result, std::uint64_t count) {
    return counter("sluice_auth_request_decisions_total", "Requests that another server was asked about, by result.",
                   static_cast<double>(count), label("result", result));
  };
  return {decisions("passed", passed_), decisions("refused", refused_), decisions("failed", failed_)};
}

}  // namespace sluice::gateway::authrequest
