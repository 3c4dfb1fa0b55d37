#include "app/explain/command.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "app/config/source.h"
#include "app/explain/explain.h"
#include "app/suite/json.h"
#include "core/address.h"
#include "core/ip_ranges.h"
#include "gateway/jwt/keys.h"
#include "http/fields.h"
#include "http/response.h"

namespace sluice::app {
namespace {

using suite::Json;
using Verdict = Explanation::Policy::Verdict;

bool is_control(unsigned char c) { return (c < ' ' && c != '\t') || c == 0x7f; }

std::string_view name_of(Verdict verdict) {
  switch (verdict) {
    case Verdict::passes:
      return "passes";
    case Verdict::refuses:
      return "refuses";
    case Verdict::undecided:
      return "undecided";
    case Verdict::not_asked:
      return "not asked";
  }
  return {};
}

ExplainedRequest request_of(const ExplainCommand& command, const Plan& plan) {
  ExplainedRequest request{.method = command.method,
                           .target = command.url,
                           .host = "localhost",
                           .secure = plan.options.server.tls.has_value(),
                           .headers = {},
                           .client = command.client};
  if (const auto client = core::Address::from_ip(command.client, 0)) request.client = client->ip();
  if (const auto scheme = command.url.find("://"); scheme != command.url.npos && !command.url.starts_with('/')) {
    request.secure = command.url.starts_with("https:");
    request.target = command.url.substr(scheme + 3);
    const auto path = std::min(request.target.find_first_of("/?"), request.target.size());
    request.host = request.target.substr(0, path);
    request.target.erase(0, path);
    if (!request.target.starts_with('/')) request.target.insert(0, "/");
  }
  for (const std::string& header : command.headers) {
    const auto colon = header.find(':');
    if (!http::same_name(std::string_view(header).substr(0, colon), "host")) {
      request.headers.push_back(header);
      continue;
    }
    const auto value = header.find_first_not_of(" \t", colon + 1);
    request.host = value == header.npos ? "" : header.substr(value);
  }
  return request;
}

// Lines with a label before the first line of each part.
class Text {
 public:
  explicit Text(const config::FileNames& files) : files_(files) {}

  void add(std::string_view label, std::string text) {
    if (text.empty()) return;
    std::ranges::replace_if(text, is_control, '?');  // a path may have control characters
    out_ += fmt::format("{:<12}{}\n", label == last_ ? "" : label, text);
    last_ = label;
  }
  // The text may have several lines, as a statement does.
  void add_lines(std::string_view label, std::string_view text) {
    while (!text.empty()) {
      const auto end = std::min(text.find('\n'), text.size());
      add(label, std::string(text.substr(0, end)));
      text.remove_prefix(std::min(end + 1, text.size()));
    }
  }
  [[nodiscard]] std::string place(Position position) const {
    return fmt::format("{}:{}", files_.of(position), position.line);
  }
  [[nodiscard]] const std::string& text() const { return out_; }

 private:
  const config::FileNames& files_;
  std::string last_;
  std::string out_;
};

std::string text_of(const Explanation& explanation, const config::FileNames& files) {
  Text text(files);
  text.add("request", explanation.method + " " + explanation.target);
  text.add("host", explanation.host);
  text.add("path", explanation.path);
  const auto add_route = [&](std::string_view label, const Explanation::Route& route) {
    text.add(label, fmt::format("{} {} at {}{}{}", route.kind, route.path, text.place(route.position),
                                route.why_not.empty() ? "" : ": ", route.why_not));
  };
  if (explanation.route) add_route("route", *explanation.route);
  for (const auto& [name, value, from] : explanation.path_values) {
    text.add("route", fmt::format("  {} = {}", name, value.value_or("")));
  }
  for (const std::string& condition : explanation.conditions) text.add("route", "  " + condition);
  for (const auto& other : explanation.others) add_route("not", other);
  for (const std::string& path : explanation.nearest) text.add("similar", path);
  for (const auto& policy : explanation.policies) {
    std::string verdict(name_of(policy.verdict));
    if (policy.verdict == Verdict::undecided) verdict.clear();
    if (!policy.note.empty()) verdict += (verdict.empty() ? "" : "; ") + policy.note;
    text.add("policies",
             fmt::format("{} ({}{}{}) at {}: {}", policy.name, policy.type, policy.is_default ? ", of [defaults]" : "",
                         policy.is_dry_run ? ", dry run" : "", text.place(policy.position), verdict));
  }
  if (explanation.answer) {
    const auto& answer = *explanation.answer;
    text.add("answer", fmt::format("{} {}", answer.status, http::reason_phrase(answer.status)));
    text.add("answer", answer.detail);
    for (const auto& [name, value, from] : answer.fields) text.add("answer", name + ": " + value.value_or(""));
    text.add_lines("body", answer.body);
  }
  for (const auto& item : explanation.destination) {
    std::string label = item.name;
    std::ranges::replace(label, '_', ' ');
    for (const std::string& line : item.texts) text.add_lines(label, line);
  }
  for (const auto& [name, value, from] : explanation.parameters) {
    const bool is_number = name.starts_with('$') || name.starts_with('?');  // of a made statement
    text.add("parameters", fmt::format("{}{} = {}{}", is_number ? "" : ":", name, value.value_or("NULL"),
                                       from.empty() ? "" : "  (" + std::string(from) + ")"));
  }
  return text.text();
}

class JsonObject {
 public:
  JsonObject& add(std::string name, Json value) {
    object_.members.push_back({std::move(name), std::move(value)});
    return *this;
  }
  JsonObject& add(std::string name, std::string_view text) {
    return text.empty() ? *this : add(std::move(name), Json::string(std::string(text)));
  }
  JsonObject& add(std::string name, const std::vector<std::string>& texts) {
    Json array = Json::array();
    for (const std::string& text : texts) array.items.push_back(Json::string(text));
    return add(std::move(name), std::move(array));
  }
  template <class T, class Fn>
  JsonObject& add_each(std::string name, const std::vector<T>& all, Fn describe) {
    Json array = Json::array();
    for (const T& one : all) array.items.push_back(describe(one).take());
    return add(std::move(name), std::move(array));
  }
  [[nodiscard]] Json take() { return std::move(object_); }

 private:
  Json object_ = Json::object();
};

JsonObject values_of(const std::vector<Explanation::Value>& values) {
  JsonObject object;
  for (const auto& [name, text, from] : values) object.add(name, text ? Json::string(*text) : Json());
  return object;
}

std::string json_of(const Explanation& explanation, const config::FileNames& files) {
  const auto number = [](int value) { return Json::number(std::to_string(value)); };
  const auto add_place = [&](JsonObject& object, Position position) {
    object.add("file", files.of(position)).add("line", number(static_cast<int>(position.line)));
  };
  const auto route_of = [&](const Explanation::Route& route) {
    JsonObject object;
    object.add("kind", route.kind).add("path", route.path);
    add_place(object, route.position);
    object.add("why_not", route.why_not);
    return object;
  };
  JsonObject all;
  all.add("method", explanation.method).add("target", explanation.target).add("host", explanation.host);
  all.add("path", explanation.path).add("answered", Json::boolean(explanation.is_answered));
  if (explanation.route) {
    JsonObject route = route_of(*explanation.route);
    route.add("values", values_of(explanation.path_values).take()).add("conditions", explanation.conditions);
    all.add("route", route.take());
  }
  all.add_each("others", explanation.others, route_of);
  if (!explanation.nearest.empty()) all.add("similar", explanation.nearest);
  all.add_each("policies", explanation.policies, [&](const Explanation::Policy& policy) {
    JsonObject object;
    object.add("name", policy.name).add("type", policy.type);
    add_place(object, policy.position);
    object.add("default", Json::boolean(policy.is_default)).add("dry_run", Json::boolean(policy.is_dry_run));
    object.add("verdict", name_of(policy.verdict));
    object.add("note", policy.note);
    return object;
  });
  if (const auto& answer = explanation.answer) {
    JsonObject object;
    object.add("status", number(answer->status)).add("detail", answer->detail);
    object.add("fields", values_of(answer->fields).take()).add("body", answer->body);
    all.add("answer", object.take());
  }
  if (!explanation.destination.empty()) {
    JsonObject object;
    for (const auto& [name, texts, is_list] : explanation.destination) {
      is_list ? object.add(name, texts) : object.add(name, texts[0]);
    }
    object.add("parameters", values_of(explanation.parameters).take());
    all.add("destination", object.take());
  }
  return suite::print_json_lines(all.take()) + "\n";
}

}  // namespace

std::string check_method(std::string_view text) {
  return http::is_token(text) ? "" : "the method must be a word such as GET";
}

std::string check_url(std::string_view text) {
  const bool is_visible = std::ranges::all_of(text, [](unsigned char c) { return c > ' ' && c < 0x7f; });
  const bool is_path = text.starts_with('/');
  const bool is_url = text.starts_with("http://") || text.starts_with("https://");
  return is_visible && (is_path || is_url) ? ""
                                           : "the URL must be a path or begin with http:// or https://, without spaces";
}

std::string check_header(std::string_view text) {
  const auto colon = text.find(':');
  const bool is_field =
      colon != text.npos && http::is_token(text.substr(0, colon)) && std::ranges::none_of(text, is_control);
  return is_field ? "" : "a header must be 'Name: value'";  // its value may be a credential
}

std::string check_client(std::string_view text) {
  return core::Ip::parse(text) ? "" : "\"" + std::string(text) + "\" must be an IP address";
}

std::expected<PolicyKeys::Keys, std::string> keys_for(const ExplainCommand& command, const Plan& plan) {
  PolicyKeys::Keys keys = plan.keys;
  if (command.jwks.empty()) return keys;
  bool is_used = false;
  for (std::size_t i = 0; i < plan.options.policies.size(); ++i) {
    const auto& policy = plan.options.policies[i].value;
    if (!policy.is<gateway::jwt::Options>() || !policy.of<gateway::jwt::Options>().jwks_url) continue;
    gateway::jwt::Options options = policy.of<gateway::jwt::Options>();
    options.jwks_url.reset();
    options.jwks = {command.jwks};
    auto loaded = gateway::jwt::load_keys(options);
    if (!loaded) return std::unexpected("--jwks " + command.jwks + ": " + loaded.error().text);
    keys[i] = std::move(*loaded);
    is_used = true;
  }
  if (!is_used) return std::unexpected("--jwks: no policy has \"jwks_url\"");
  return keys;
}

PrintedExplanation print_explanation(const ExplainCommand& command, const Plan& plan, const PolicyKeys::Keys& keys) {
  const config::FileNames& files = plan.options.sources;
  const Explanation explanation = explain(plan, keys, request_of(command, plan));
  std::string text = command.json ? json_of(explanation, files) : text_of(explanation, files);
  return {config::without_secrets(std::move(text), plan.secrets), explanation.is_answered};
}

}  // namespace sluice::app
