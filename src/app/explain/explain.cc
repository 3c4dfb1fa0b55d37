#include "app/explain/explain.h"

#include <algorithm>
#include <memory>
#include <span>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "app/config/listen.h"
#include "app/config/text.h"
#include "app/explain/answer.h"
#include "app/log/redaction.h"
#include "app/prepare/loop.h"
#include "base/contains.h"
#include "core/mesh.h"
#include "gateway/policies/make_policy.h"
#include "gateway/policy.h"
#include "http/binding.h"
#include "http/h1/parser.h"
#include "http/identity.h"
#include "http/redirect.h"
#include "http/router.h"

namespace sluice::app {
namespace {

using http::Method;
using Verdict = Explanation::Policy::Verdict;

// The body of an explained request, whose bytes are not known.
struct UnknownBody final : http::BodyReader {
  core::Task<Result<std::string_view>> read() override { co_return std::string_view(); }
};

// A shape, and the route whose it is.
struct Candidate {
  const Route* route = nullptr;
  const Shape* shape = nullptr;

  [[nodiscard]] Explanation::Route described(std::string why_not = {}) const {
    return {std::string(shape->kind), shape->host + shape->path, shape->position, std::move(why_not)};
  }
};

// Answers in place of a route. The answers that need nothing but the configuration are the route's own.
struct Stand final : http::Handler {
  std::unique_ptr<http::Handler> own;  // may be null
  bool is_reached = false;

  core::Async<http::Response> handle(http::Exchange& exchange) override {
    is_reached = true;
    return own ? own->handle(exchange) : http::Response{};
  }
};

std::string text_of(const http::Condition& condition, const Redaction& redaction) {
  const bool is_field = condition.of == http::Condition::Of::field;
  if (!condition.value) return fmt::format("{} {}", is_field ? "header" : "query", condition.name);
  return fmt::format("{} {}{}{}", is_field ? "header" : "query", condition.name, is_field ? ": " : "=",
                     redaction.hides(condition.name) ? Redaction::hidden : *condition.value);
}

// Why a policy is not asked. Empty: it needs nothing but the request.
std::string reason_not_to_ask(const gateway::PolicyOptions& policy, const ExplainedRequest& request) {
  if (policy.is<gateway::limits::RateLimitOptions>()) return "decided at run time: counts requests";
  if (policy.is<gateway::limits::ConcurrencyOptions>()) return "decided at run time: counts requests in progress";
  if (policy.is<gateway::mtls::Options>()) return "decided at run time: looks at the certificate of the client";
  if (policy.is<gateway::authrequest::Options>()) {
    return "decided at run time: asks the upstream " + policy.of<gateway::authrequest::Options>().upstream.value;
  }
  if (policy.is<gateway::apikey::Options>() && policy.of<gateway::apikey::Options>().table) {
    return "decided at run time: reads the table " + policy.of<gateway::apikey::Options>().table->value;
  }
  if (policy.is<gateway::ip::Options>() && request.client.empty()) {
    return "depends on the client's address: --client ADDRESS";
  }
  return {};
}

// Asks a policy in its place, and notes what it says. One object for each policy, so that equal lists of policies are
// equal to the router.
class Asked final : public http::FilterOf<Asked> {
 public:
  // `policy`: null if it is not asked; then `note` says why. `lacks_claims`: whether an earlier policy may give claims
  // at run time.
  Asked(const Named<gateway::PolicyOptions>& options, std::unique_ptr<gateway::Policy> policy, std::string note,
        bool& lacks_claims)
      : options_(options), policy_(std::move(policy)), note_(std::move(note)), lacks_claims_(lacks_claims) {}

  core::Async<std::optional<http::Response>> before(http::Exchange& exchange, http::Slot& slot) override {
    if (policy_ == nullptr) {
      verdict_ = Verdict::undecided;
      lacks_claims_ = lacks_claims_ || options_.value.kind().gives_claims;
      return std::optional<http::Response>();
    }
    return ask(exchange, slot);
  }
  void ended(http::Exchange& exchange, http::Slot& slot, const http::Outcome& outcome) override {
    if (policy_ != nullptr) policy_->ended(exchange, slot, outcome);
  }
  std::optional<http::Response> preflight(http::Exchange& exchange) override {
    auto response = policy_ != nullptr ? policy_->preflight(exchange) : std::nullopt;
    verdict_ = Verdict::passes;
    note_ = response ? "answers the preflight" : "not asked for a preflight";
    return response;
  }

  void used_by(std::uint16_t route, const http::Pattern& pattern) {
    if (policy_ != nullptr) policy_->used_by(route, pattern);
  }

  void write(Explanation::Policy& into) const {
    into.verdict = verdict_;
    if (verdict_ != Verdict::not_asked) into.note = note_;
  }

 private:
  core::Task<std::optional<http::Response>> ask(http::Exchange& exchange, http::Slot& slot) {
    auto response = co_await policy_->before(exchange, slot);
    const auto* const jwt =
        options_.value.is<gateway::jwt::Options>() ? &options_.value.of<gateway::jwt::Options>() : nullptr;
    if (jwt != nullptr && jwt->jwks_url && response && response->status == 503) {
      verdict_ = Verdict::undecided;
      note_ = "decided at run time: fetches its keys";
      lacks_claims_ = true;
      co_return std::nullopt;
    }
    if (response && options_.value.dry_run.value) {
      verdict_ = Verdict::passes;
      note_ = fmt::format("would refuse with {}, without dry_run", response->status);
      co_return std::nullopt;
    }
    verdict_ = response ? Verdict::refuses : Verdict::passes;
    if (!response && jwt != nullptr && jwt->revoked && http::claims_of(exchange) != nullptr) {
      verdict_ = Verdict::undecided;
      note_ = "the token is valid unless the table " + jwt->revoked->value + " revokes it";
    }
    if (!response && options_.value.is<gateway::query::Options>()) look_for_unknown_values(exchange.request);
    if (options_.value.is<gateway::cors::Options>() && exchange.request.has_field("origin")) {
      http::Response answer;
      policy_->after(exchange, slot, answer);
      const bool allows = std::ranges::any_of(answer.fields.items(), [](const http::Field& field) {
        return http::same_name(field.name, "access-control-allow-origin");
      });
      note_ = allows ? "allows the origin" : "does not allow the origin";
    }
    co_return response;
  }

  // Notes that the server would set more parameters of the query string.
  void look_for_unknown_values(const http::Request& request) {
    using gateway::Template;
    const auto values = options_.value.of<gateway::query::Options>().templates();
    const auto use = [&](Template::Source source) {
      return std::ranges::any_of(values, [&](const Template& value) { return value.uses(source); });
    };
    if (lacks_claims_ && use(Template::Source::claim)) {
      verdict_ = Verdict::undecided;
      note_ = "sets parameters to claims, which are known at run time";
    } else if (request.peer.empty() && use(Template::Source::client_ip)) {
      verdict_ = Verdict::undecided;
      note_ = "depends on the client's address: --client ADDRESS";
    }
  }

  const Named<gateway::PolicyOptions>& options_;
  const std::unique_ptr<gateway::Policy> policy_;
  Verdict verdict_ = Verdict::not_asked;
  std::string note_;
  bool& lacks_claims_;
};

// Finds the route of one request, asks its policies and explains its answer.
class Explainer {
 public:
  Explainer(const Plan& plan, const PolicyKeys::Keys& keys, const ExplainedRequest& request)
      : plan_(plan), options_(plan.options), keys_(keys), asked_(request), redaction_(options_.names_of_keys()) {
    for (const auto& route : plan.routes) {
      for (const Shape& shape : route->shapes()) candidates_.push_back({route.get(), &shape});
    }
    stands_.resize(candidates_.size());
  }

  Explanation run();

 private:
  [[nodiscard]] std::uint16_t id_of(const Candidate& candidate) const {
    return static_cast<std::uint16_t>(&candidate - candidates_.data() + 1);
  }
  // The policies in front of a request.
  [[nodiscard]] static const Shape::Use& use_of(const Shape& shape, const http::Request& request) {
    return shape.use_of(http::is_preflight(request) ? http::parse_method(request.field("access-control-request-method"))
                                                    : request.method);
  }
  [[nodiscard]] http::Binding::Filters filters_of(const Candidate& candidate, const http::Request& request);
  void add_routes(http::Router& router, const http::Request& request);
  void add_policies(const Candidate& candidate, const http::Request& request);
  void add_values(const Shape& shape, const http::Request& request);
  // Whether the shape has the path of the request, whatever its method and, if `any`, its host and conditions.
  [[nodiscard]] static bool matches(const Shape& shape, const http::Request& request, bool any_host,
                                    bool any_condition);
  // `found`: null if no route matches.
  [[nodiscard]] std::string why_not(const Candidate& candidate, const Candidate* found, const http::Request& request);
  void add_others(const Candidate* found, const http::Request& request);
  void add_nearest(const http::Request& request);
  [[nodiscard]] std::uint16_t https_port() const;

  const Plan& plan_;
  const Options& options_;
  const PolicyKeys::Keys& keys_;
  const ExplainedRequest& asked_;
  const Redaction redaction_;
  Loop loop_;
  core::Mesh mesh_{1};
  core::MeshPort port_{mesh_, 0, *loop_.reactor};
  std::vector<Candidate> candidates_;
  std::vector<Stand> stands_;                                        // by candidate
  std::vector<std::pair<std::string, std::shared_ptr<Asked>>> all_;  // the policies of routes, by name
  bool lacks_claims_ = false;
  Explanation into_;
};

http::Binding::Filters Explainer::filters_of(const Candidate& candidate, const http::Request& request) {
  http::Binding::Filters filters;
  for (const auto& name : use_of(*candidate.shape, request)) {
    const std::size_t index = *options_.find_policy(name.value);
    const auto& policy = options_.policies[index];
    auto found = std::ranges::find(all_, name.value, [](const auto& one) { return one.first; });
    if (found == all_.end()) {
      std::string reason = reason_not_to_ask(policy.value, asked_);
      std::unique_ptr<gateway::Policy> made;
      if (reason.empty()) {
        gateway::PolicyOptions real = policy.value;
        real.dry_run.value = false;
        made = gateway::make_policy(real, {.name = policy.name.value,
                                           .reactor = *loop_.reactor,
                                           .mailbox = loop_.mailbox,
                                           .mesh = port_,
                                           .threads = loop_.threads,
                                           .keys = std::make_shared<gateway::jwt::CurrentKeys>(keys_[index]),
                                           .source = nullptr,
                                           .limit = nullptr,
                                           .table = nullptr,
                                           .revocations = plan_.policies[index]->options.revocations,
                                           .upstream = nullptr,
                                           .shared_upstream = nullptr});
      }
      all_.emplace_back(name.value, std::make_shared<Asked>(policy, std::move(made), std::move(reason), lacks_claims_));
      found = all_.end() - 1;
    }
    found->second->used_by(id_of(candidate), candidate.shape->pattern);
    filters.insert(policy.value.kind().is_first ? filters.begin() : filters.end(), found->second);
  }
  return filters;
}

void Explainer::add_routes(http::Router& router, const http::Request& request) {
  for (std::size_t i = 0; i < candidates_.size(); ++i) {
    const Candidate& candidate = candidates_[i];
    stands_[i].own = candidate.route->answer_of_configuration();
    http::Router::Route route = candidate.shape->route([&](Method) { return &stands_[i]; });
    route.id = id_of(candidate);
    route.binding = std::make_shared<http::Binding>(http::Binding::Filters(), filters_of(candidate, request));
    (void)router.add(route);  // the configuration has been checked
  }
}

void Explainer::add_policies(const Candidate& candidate, const http::Request& request) {
  const Shape::Use& all = use_of(*candidate.shape, request);
  for (const auto& filter : filters_of(candidate, request)) {
    const auto found = std::ranges::find(all_, filter, [](const auto& one) { return one.second; });
    const auto& policy = options_.policies[*options_.find_policy(found->first)];
    const auto& use = *std::ranges::find(all, found->first, &Located<std::string>::value);
    auto& added =
        into_.policies.emplace_back(policy.name.value, std::string(policy.value.kind().name), policy.name.position);
    added.is_dry_run = policy.value.dry_run.value;
    added.is_default =
        std::ranges::any_of(options_.defaults.use, [&](const auto& one) { return one.position == use.position; });
    found->second->write(added);
  }
}

void Explainer::add_values(const Shape& shape, const http::Request& request) {
  const auto names = shape.pattern.names();
  for (std::size_t i = 0; i < names.size(); ++i) {
    into_.path_values.push_back(
        {names[i], std::string(redaction_.hides(names[i]) ? Redaction::hidden : request.path_values[i])});
  }
  for (const auto& condition : shape.conditions) into_.conditions.push_back(text_of(condition, redaction_));
}

bool Explainer::matches(const Shape& shape, const http::Request& request, bool any_host, bool any_condition) {
  Stand nothing;
  http::Router::Route route = shape.route([&](Method) { return &nothing; });
  for (std::size_t i = 0; i < http::method_count; ++i) {
    const auto method = static_cast<Method>(i);
    if (method != Method::head && method != Method::trace) route.handlers[i] = &nothing;
  }
  route.other_methods.clear();
  if (any_host) route.host.clear();
  if (any_condition) route.conditions.clear();
  route.id = 1;
  http::Router router;
  (void)router.add(route);
  http::Exchange exchange;
  exchange.request = request;
  exchange.request.route = 0;
  (void)router.handle(exchange).take();
  return exchange.request.route == 1;
}

std::string Explainer::why_not(const Candidate& candidate, const Candidate* found, const http::Request& request) {
  const Shape& shape = *candidate.shape;
  if (!matches(shape, request, false, true)) return "it is for the host " + shape.host;
  std::string missing;
  for (const auto& condition : shape.conditions) {
    if (!condition.holds(request)) missing += (missing.empty() ? "it needs " : ", ") + text_of(condition, redaction_);
  }
  if (!missing.empty() || found == nullptr) return missing;
  const Shape& winner = *found->shape;
  if (shape.host != winner.host) return "the routes of " + winner.host + " come first";
  const auto form_of = [](const Shape& one) {
    std::vector<std::pair<http::Pattern::Kind, std::string>> form;
    for (const auto& [kind, text] : one.pattern.segments) {
      form.emplace_back(kind, kind == http::Pattern::Kind::literal ? text : "");
    }
    return form;
  };
  if (form_of(shape) != form_of(winner)) return "its path is less specific";
  const Method method = request.method == Method::head ? Method::get : request.method;
  const bool takes = contains(shape.methods, method) && (method != Method::other || shape.other_methods.empty() ||
                                                         contains(shape.other_methods, request.method_text));
  return takes ? "it has fewer conditions" : "it does not take " + std::string(request.method_text);
}

void Explainer::add_others(const Candidate* found, const http::Request& request) {
  for (const Candidate& candidate : candidates_) {
    if (&candidate == found || !matches(*candidate.shape, request, true, true)) continue;
    into_.others.push_back(candidate.described(why_not(candidate, found, request)));
  }
}

// Compares the path with each pattern, in which the path's own segments stand for the parameters.
void Explainer::add_nearest(const http::Request& request) {
  if (request.path == "/") return;
  std::vector<std::string_view> segments;
  for (std::string_view rest = request.path.substr(1);;) {
    const std::size_t slash = std::min(rest.find('/'), rest.size());
    segments.push_back(rest.substr(0, slash));
    if (slash == rest.size()) break;
    rest.remove_prefix(slash + 1);
  }
  std::vector<std::string> texts;
  for (const Candidate& candidate : candidates_) {
    const Shape& shape = *candidate.shape;
    std::string& text = texts.emplace_back();
    if (matches(shape, request, true, true)) continue;  // it is one of the others
    for (std::size_t i = 0; i < shape.pattern.segments.size(); ++i) {
      const auto& [kind, literal] = shape.pattern.segments[i];
      const bool is_rest = kind == http::Pattern::Kind::rest;
      if (kind == http::Pattern::Kind::literal) text.append("/").append(literal);
      if (kind == http::Pattern::Kind::literal || i >= segments.size()) continue;
      for (std::size_t j = i; j < (is_rest ? segments.size() : i + 1); ++j) text.append("/").append(segments[j]);
    }
  }
  std::vector<std::string_view> left(texts.begin(), texts.end());
  while (into_.nearest.size() < 3) {
    const std::string_view nearest = config::nearest(request.path, left);
    if (nearest.empty()) return;
    const auto at = static_cast<std::size_t>(std::ranges::find(left, nearest) - left.begin());
    const std::string path = candidates_[at].shape->host + candidates_[at].shape->path;
    if (!contains(into_.nearest, path)) into_.nearest.push_back(path);
    left[at] = {};
  }
}

// The port that requests without TLS are redirected to.
std::uint16_t Explainer::https_port() const {
  if (options_.server.tls->redirect_port.value != 0) {
    return static_cast<std::uint16_t>(options_.server.tls->redirect_port.value);
  }
  for (const auto& text : options_.server.listen) {
    const Listen listen = Listen::parse(text.value);
    if (!listen.secure(true) || listen.address.starts_with("unix:")) continue;
    return static_cast<std::uint16_t>(std::atoi(listen.address.data() + listen.address.rfind(':') + 1));
  }
  return 443;
}

Explanation Explainer::run() {
  const ServerOptions& server = options_.server;
  into_.method = asked_.method;
  redaction_.append_address(into_.target, asked_.target);
  into_.host = asked_.host;

  std::string head = fmt::format("{} {} HTTP/1.1\r\n", asked_.method, asked_.target);
  if (!asked_.host.empty()) head += fmt::format("Host: {}\r\n", asked_.host);
  for (const std::string& header : asked_.headers) head += header + "\r\n";
  head += "\r\n";
  UnknownBody body;
  http::Router router;
  http::Exchange exchange;
  http::Request& request = exchange.request;
  http::h1::RequestParser parser(request, {.head_size = server.header_limit.bytes,
                                           .target_size = server.target_limit.value.bytes,
                                           .field_count = server.field_limit});
  AnswerExplainer answer(plan_, loop_, redaction_, into_);
  const auto parsed = parser.parse(head);
  if (parsed.state != http::h1::Parsed::State::done) {
    answer.take(http::problem(http::h1::status_of(parsed.reason), http::h1::describe(parsed.reason)));
    return std::move(into_);
  }
  into_.path = request.path;
  request.secure = asked_.secure;
  request.peer = asked_.client;
  if (parser.body().kind != http::h1::BodyFraming::Kind::none) {
    request.body = &body;
  } else {
    request.upgrade = parser.upgrade();
  }

  const http::Request received = request;  // policies may change it
  add_routes(router, received);
  http::Handler* first = &router;
  http::HttpsRedirect to_https(router);
  if (server.tls && server.tls->redirect.value) {
    to_https.set_port(https_port());
    first = &to_https;
  }
  const http::Response response =
      loop_.run([](http::Handler& handler, http::Exchange& one) -> core::Task<http::Response> {
        co_return co_await handler.handle(one);
      }(*first, exchange));
  const Candidate* const found = request.route != 0 ? &candidates_[request.route - 1u] : nullptr;
  if (found == nullptr) {
    answer.take(response);
    if (response.status == 404) {
      add_others(nullptr, received);
      add_nearest(received);
    }
    return std::move(into_);
  }
  into_.route = found->described();
  add_values(*found->shape, request);
  add_others(found, received);
  add_policies(*found, received);
  const Stand& stand = stands_[request.route - 1u];
  if (!stand.is_reached || stand.own != nullptr) answer.take(response);
  into_.is_answered = stand.is_reached || response.status < 400;  // a policy may answer, as CORS does
  const bool may_get_claims = std::ranges::any_of(into_.policies, [&](const Explanation::Policy& policy) {
    return policy.verdict == Verdict::undecided &&
           options_.policies[*options_.find_policy(policy.name)].value.kind().gives_claims;
  });
  answer.knows_claims = !may_get_claims || http::claims_of(exchange) != nullptr;
  if (stand.is_reached && stand.own == nullptr) found->route->explain(answer, *found->shape, exchange);
  return std::move(into_);
}

}  // namespace

Explanation explain(const Plan& plan, const PolicyKeys::Keys& keys, const ExplainedRequest& request) {
  return Explainer(plan, keys, request).run();
}

}  // namespace sluice::app
