#include "app/routes/claims.h"

#include <algorithm>
#include <cstddef>
#include <map>
#include <span>
#include <utility>

#include <fmt/format.h>

#include "base/ascii.h"
#include "base/contains.h"
#include "http/exchange.h"

namespace sluice::app {
namespace {

constexpr http::Method all_methods[] = {http::Method::get,     http::Method::post,    http::Method::put,
                                        http::Method::patch,   http::Method::delete_, http::Method::options,
                                        http::Method::connect, http::Method::other};

std::span<const http::Method> methods_of(const Claim& claim) {
  if (claim.methods.empty()) return all_methods;
  return claim.methods;
}

// Two claims have the same shape if they match the same paths of the same host.
std::string shape_of(const Claim& claim) {
  std::string shape = claim.host;
  for (const auto& segment : claim.pattern.segments) {
    switch (segment.kind) {
      case http::Pattern::Kind::literal:
        shape += "/" + segment.text;
        break;
      case http::Pattern::Kind::integer:
        shape += "/{:int}";
        break;
      case http::Pattern::Kind::segment:
        shape += "/{}";
        break;
      case http::Pattern::Kind::rest:
        shape += "/{...}";
        break;
    }
  }
  return shape;
}

// Whether two claims of the same shape can match the same request, and neither of them is more specific.
bool are_alike(const Claim& one, const Claim& other) {
  if (one.kind != other.kind) return true;
  if (one.conditions.size() != other.conditions.size()) return false;
  const auto methods = methods_of(other);
  const bool have_common = std::ranges::any_of(methods_of(one), [&](http::Method method) {
    if (!contains(methods, method)) return false;
    return method != http::Method::other || http::have_common_method(one.other_methods, other.other_methods);
  });
  if (!have_common) return false;
  return std::ranges::none_of(one.conditions, [&](const http::Condition& condition) {
    return std::ranges::any_of(other.conditions, [&](const http::Condition& its) { return condition.excludes(its); });
  });
}

// "an" for "[[endpoint]]".
std::string_view article_of(std::string_view kind) {
  const std::size_t first = kind.find_first_not_of('[');
  return std::string_view("aeio").contains(kind[first]) ? "an" : "a";
}

// Finds the claim of a path as the server will find its route.
class Finder {
 public:
  explicit Finder(const std::vector<Claim>& claims) : claims_(claims) {
    for (std::size_t i = 0; i < claims.size(); ++i) {
      const Claim& claim = claims[i];
      http::Router::Route route{.pattern = claim.pattern,
                                .host = claim.host,
                                .conditions = claim.conditions,
                                .other_methods = claim.other_methods,
                                .folder = claim.folder};
      route.id = static_cast<std::uint16_t>(i + 1);
      for (const http::Method method : methods_of(claim)) {
        route.handlers[static_cast<std::size_t>(method)] = &nothing_;
      }
      (void)router_.add(route);
    }
  }

  // The claim that has `path` for the first method of `claim`. Null if nothing serves the path.
  [[nodiscard]] const Claim* find(std::string_view host, const std::string& path, const Claim& claim) {
    http::Exchange exchange;
    exchange.request.method = methods_of(claim).front();
    if (!claim.other_methods.empty()) exchange.request.method_text = claim.other_methods.front();
    exchange.request.authority = host;
    exchange.request.path = exchange.request.segments = path;
    (void)router_.handle(exchange).take();
    const std::size_t id = exchange.request.route;
    return id == 0 ? nullptr : &claims_[id - 1];
  }

 private:
  struct Nothing final : http::Handler {
    core::Async<http::Response> handle(http::Exchange&) override { return http::Response{}; }
  };

  const std::vector<Claim>& claims_;
  Nothing nothing_;
  http::Router router_;
};

// Whether one of these policies checks the client.
bool is_guarded(const Options& options, const std::vector<Located<std::string>>& use) {
  return std::ranges::any_of(use, [&](const auto& name) {
    const gateway::PolicyOptions& policy = options.policies[*options.find_policy(name.value)].value;
    return policy.kind().is_guard && !policy.kind().is_limit && !policy.dry_run.value;
  });
}

// A path that the pattern matches, without its rest.
std::string sample_of(const Claim& claim) {
  std::string sample;
  for (const auto& segment : claim.pattern.segments) {
    if (segment.kind == http::Pattern::Kind::rest) break;
    sample += "/" + (segment.kind == http::Pattern::Kind::literal ? segment.text : "1");
  }
  return sample;
}

bool has_rest(const Claim& claim) {
  return !claim.pattern.segments.empty() && claim.pattern.segments.back().kind == http::Pattern::Kind::rest;
}

std::string sample_host(const Claim& claim) {
  return claim.host.starts_with("*.") ? "a" + claim.host.substr(1) : claim.host;
}

// Warns if requests of the open claim reach the path of the guarded claim at its upstream.
void warn_of_reach(const Claim& open, const Claim& guarded, Finder& finder, std::vector<std::string>& warnings) {
  if (open.upstream.empty() || open.upstream != guarded.upstream || !open.strip || !guarded.strip) return;
  if (shape_of(open) == shape_of(guarded)) return;  // has a warning of its own
  const std::string sample = sample_of(guarded);
  std::string sent = sample.substr(std::min(guarded.strip->size(), sample.size()));
  if (has_rest(guarded) || sent.empty()) sent += has_rest(guarded) ? "/1" : "/";
  // A host that no route names stands for all hosts that a route without one is for.
  const std::string host = open.host.empty() ? "other.invalid" : sample_host(open);
  const std::string asked = std::string(*open.strip) + sent;
  if (finder.find(host, asked, open) != &open) return;
  warnings.push_back(fmt::format(
      "requests for \"{}\"{} go to the route \"{}\", and the upstream \"{}\" gets \"{}\" as it does from \"{}\": only "
      "\"{}\" has a policy that checks the client",
      asked,
      open.host == guarded.host ? ""
      : open.host.empty()       ? " and other hosts"
                                : " and the host " + host,
      open.path, open.upstream, sent, guarded.path, guarded.path));
}

}  // namespace

std::string pattern_below(std::string_view folder) {
  return fmt::format("{}{}{{file...}}", folder, folder.ends_with('/') ? "" : "/");
}

std::vector<Claim> claims_of(const Options& options) {
  std::vector<Claim> claims;
  for_each_route_kind([&]<class Kind> {
    std::vector<Claim> own;
    Kind::claim(options, own);
    for (Claim& claim : own) {
      auto pattern = http::Pattern::parse(claim.folder ? pattern_below(claim.path) : claim.path);
      if (!pattern) continue;  // reported by the kind's checks
      claim.kind = Kind::name;
      claim.pattern = std::move(*pattern);
      claims.push_back(std::move(claim));
    }
  });
  return claims;
}

void check_claims(const std::vector<Claim>& claims, const config::Complain& complain) {
  std::map<std::string, std::vector<const Claim*>> by_shape;
  for (const Claim& claim : claims) {
    auto& before = by_shape[shape_of(claim)];
    for (const Claim* other : before) {
      if (!are_alike(*other, claim)) continue;
      const auto [first, second] = std::minmax(other->position, claim.position);
      const Claim& holder = first == other->position ? *other : claim;
      std::string hint = config::again(first);
      if (other->kind == claim.kind && !claim.apart.empty())
        hint += fmt::format("; {} can tell them apart", claim.apart);
      complain(second,
               fmt::format("{} {} has the path \"{}\"", other->kind == claim.kind ? "another" : article_of(holder.kind),
                           holder.kind, holder.path),
               std::move(hint));
      break;
    }
    before.push_back(&claim);
  }
}

std::vector<std::string> warn_of_open_writes(const Options& options) {
  const auto has_guarded = [&](const api::EndpointOptions& endpoint) {
    return std::ranges::any_of(endpoint.writing_methods(),
                               [&](const auto& one) { return is_guarded(options, one.second->use); });
  };
  const auto guarded = std::ranges::find_if(options.endpoints, has_guarded);
  std::vector<std::string> warnings;
  if (guarded == options.endpoints.end()) return warnings;
  for (const api::EndpointOptions& endpoint : options.endpoints) {
    const auto writing = endpoint.writing_methods();
    const auto open = std::ranges::find_if(writing, [&](const auto& one) {
      return !one.second->is_public.value && !is_guarded(options, one.second->use);
    });
    if (open == writing.end()) continue;
    if (has_guarded(endpoint)) {
      const std::string_view method = http::name_of(open->first);
      warnings.push_back(fmt::format(
          "\"{}\": {} of the endpoint in line {} writes, and no policy checks the client, as one does for another "
          "method; `public = true` in [endpoint.{}] says that this is meant",
          endpoint.path.value, method, endpoint.path.position.line, to_lower(method)));
      continue;
    }
    if (endpoint.is_public.value) continue;
    warnings.push_back(fmt::format(
        "\"{}\": the endpoint in line {} writes, and no policy checks the client, as one does for \"{}\" in line {}; "
        "`public = true` says that this is meant",
        endpoint.path.value, endpoint.path.position.line, guarded->path.value, guarded->path.position.line));
  }
  return warnings;
}

std::vector<std::string> warn_of_guards_beside(const Options& options) {
  const auto is_guarded = [&](const Claim& claim) {
    return claim.use != nullptr && app::is_guarded(options, *claim.use);
  };
  const std::vector<Claim> claims = claims_of(options);
  Finder finder(claims);
  std::vector<std::string> warnings;
  std::map<std::string, std::vector<const Claim*>> by_shape;
  for (const Claim& claim : claims) {
    if (claim.passes_on) by_shape[shape_of(claim)].push_back(&claim);
  }
  for (const auto& [shape, same] : by_shape) {
    const auto guarded = std::ranges::find_if(same, [&](const Claim* claim) { return is_guarded(*claim); });
    const auto open = std::ranges::find_if_not(same, [&](const Claim* claim) { return is_guarded(*claim); });
    if (guarded == same.end() || open == same.end()) continue;
    warnings.push_back(fmt::format(
        "\"{}\": the route in line {} has a policy that checks the client, and the one with the same path in line {} "
        "has none",
        (*open)->path, (*guarded)->position.line, (*open)->position.line));
  }
  for (const Claim& claim : claims) {
    if (!claim.passes_on || claim.pattern.segments.empty()) continue;
    const bool has_rest = app::has_rest(claim);
    std::string sample = sample_of(claim);
    if (has_rest ? sample.empty() : claim.upstream.empty() || claim.path.ends_with('/')) continue;
    if (!has_rest) sample += '/';
    const std::string host = sample_host(claim);
    const Claim* const other = finder.find(host, sample, claim);
    if (other == nullptr || !other->passes_on || is_guarded(claim) == is_guarded(*other)) continue;
    if (!has_rest) {
      // A route for `/a/{rest...}` itself gets its own warning.
      const bool is_catch_all = other->pattern.segments.size() <= claim.pattern.segments.size();
      if (!is_guarded(claim) || !is_catch_all || other->upstream != claim.upstream) continue;
    }
    const std::string_view path = claim.path;
    warnings.push_back(fmt::format(
        "requests for \"{}\" go to the route \"{}\", those for \"{}\" to a route of its own: only \"{}\" has a policy "
        "that checks the client",
        has_rest ? std::string(path.substr(0, path.rfind('/'))) : claim.path + "/", other->path, path,
        (is_guarded(claim) ? claim : *other).path));
  }
  for (const Claim& guarded : claims) {
    if (!is_guarded(guarded)) continue;
    for (const Claim& open : claims) {
      if (open.passes_on && !is_guarded(open)) warn_of_reach(open, guarded, finder, warnings);
    }
  }
  return warnings;
}

}  // namespace sluice::app
