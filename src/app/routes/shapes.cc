#include "app/routes/shapes.h"

#include <algorithm>
#include <cstddef>
#include <functional>
#include <map>
#include <span>
#include <utility>

#include <fmt/format.h>

#include "base/ascii.h"
#include "base/contains.h"
#include "http/exchange.h"

namespace sluice::app {
namespace {

// Two shapes have the same form if they match the same paths of the same host.
std::string form_of(const Shape& shape) {
  std::string form = shape.host;
  for (const auto& segment : shape.pattern.segments) {
    switch (segment.kind) {
      case http::Pattern::Kind::literal:
        form += "/" + segment.text;
        break;
      case http::Pattern::Kind::integer:
        form += "/{:int}";
        break;
      case http::Pattern::Kind::segment:
        form += "/{}";
        break;
      case http::Pattern::Kind::rest:
        form += "/{...}";
        break;
    }
  }
  return form;
}

// Whether two shapes of the same form can match the same request, and neither of them is more specific.
bool are_alike(const Shape& one, const Shape& other) {
  if (one.kind != other.kind || one.apart.empty()) return true;
  if (one.conditions.size() != other.conditions.size()) return false;
  const bool have_common = std::ranges::any_of(one.methods, [&](http::Method method) {
    if (!contains(other.methods, method)) return false;
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

// Finds the shape of a path as the server will find its route.
class Finder {
 public:
  explicit Finder(const std::vector<Shape>& shapes) : shapes_(shapes) {
    for (std::size_t i = 0; i < shapes.size(); ++i) {
      http::Router::Route route = shapes[i].route([&](http::Method) { return &nothing_; });
      route.id = static_cast<std::uint16_t>(i + 1);
      (void)router_.add(route);
    }
  }

  // The shape that has `path` for the first method of `shape`. Null if nothing serves the path.
  [[nodiscard]] const Shape* find(std::string_view host, const std::string& path, const Shape& shape) {
    http::Exchange exchange;
    exchange.request.method = shape.methods.front();
    if (!shape.other_methods.empty()) exchange.request.method_text = shape.other_methods.front();
    exchange.request.authority = host;
    exchange.request.path = exchange.request.segments = path;
    (void)router_.handle(exchange).take();
    const std::size_t id = exchange.request.route;
    return id == 0 ? nullptr : &shapes_[id - 1];
  }

 private:
  struct Nothing final : http::Handler {
    core::Async<http::Response> handle(http::Exchange&) override { return http::Response{}; }
  };

  const std::vector<Shape>& shapes_;
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
std::string sample_of(const Shape& shape) {
  std::string sample;
  for (const auto& segment : shape.pattern.segments) {
    if (segment.kind == http::Pattern::Kind::rest) break;
    sample += "/" + (segment.kind == http::Pattern::Kind::literal ? segment.text : "1");
  }
  return sample;
}

bool has_rest(const Shape& shape) {
  return !shape.pattern.segments.empty() && shape.pattern.segments.back().kind == http::Pattern::Kind::rest;
}

std::string sample_host(const Shape& shape) {
  return shape.host.starts_with("*.") ? "a" + shape.host.substr(1) : shape.host;
}

// Warns if requests of the open shape reach the path of the guarded shape at its upstream.
void warn_of_reach(const Shape& open, const Shape& guarded, Finder& finder, std::vector<std::string>& warnings) {
  if (open.upstream.empty() || open.upstream != guarded.upstream || !open.strip || !guarded.strip) return;
  if (form_of(open) == form_of(guarded)) return;  // has a warning of its own
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

bool complete(Shape& shape, std::string_view kind) {
  auto pattern = http::Pattern::parse(shape.folder ? pattern_below(shape.path) : shape.path);
  if (!pattern) return false;
  shape.kind = kind;
  shape.pattern = std::move(*pattern);
  return true;
}

std::vector<Shape> shapes_of(const Options& options) {
  std::vector<Shape> all;
  for_each_route_kind([&]<class Kind> {
    for_each_table<Kind>(
        options, [&](const auto& table) { std::ranges::move(shapes_of<Kind>(table), std::back_inserter(all)); });
  });
  return all;
}

void check_shapes(const std::vector<Shape>& shapes, const config::FileNames& files, const config::Complain& complain) {
  std::map<std::string, std::vector<const Shape*>> by_form;
  for (const Shape& shape : shapes) {
    auto& before = by_form[form_of(shape)];
    for (const Shape* other : before) {
      if (!are_alike(*other, shape)) continue;
      const auto [first, second] = std::minmax(other->position, shape.position);
      const Shape& holder = first == other->position ? *other : shape;
      std::string hint = config::again(first, files);
      if (other->kind == shape.kind && !shape.apart.empty())
        hint += fmt::format("; {} can tell them apart", shape.apart);
      complain(second,
               fmt::format("{} {} has the path \"{}\"", other->kind == shape.kind ? "another" : article_of(holder.kind),
                           holder.kind, holder.path),
               std::move(hint));
      break;
    }
    before.push_back(&shape);
  }
}

std::vector<std::string> warn_of_open_writes(const Options& options) {
  const auto has_guarded = [&](const api::EndpointOptions& endpoint) {
    return std::ranges::any_of(endpoint.writing_methods(),
                               [&](const auto& one) { return is_guarded(options, one.second->use); });
  };
  std::vector<std::pair<std::string_view, std::reference_wrapper<const api::EndpointOptions>>> all;
  for (const api::EndpointOptions& endpoint : options.endpoints) all.emplace_back("endpoint", endpoint);
  for (const RoomOptions& room : options.room_tables) all.emplace_back("room", room.endpoint);
  const auto found = std::ranges::find_if(all, [&](const auto& one) { return has_guarded(one.second); });
  std::vector<std::string> warnings;
  if (found == all.end()) return warnings;
  const api::EndpointOptions& guarded = found->second;
  for (const auto& [kind, of] : all) {
    const api::EndpointOptions& endpoint = of;
    const auto writing = endpoint.writing_methods();
    const auto open = std::ranges::find_if(writing, [&](const auto& one) {
      return !one.second->is_public.value && !is_guarded(options, one.second->use);
    });
    if (open == writing.end()) continue;
    if (has_guarded(endpoint)) {
      const std::string_view method = http::name_of(open->first);
      warnings.push_back(fmt::format(
          "\"{}\": {} of the endpoint in {} writes, and no policy checks the client, as one does for another "
          "method; `public = true` in [endpoint.{}] says that this is meant",
          endpoint.path.value, method, options.sources.line(endpoint.path.position), to_lower(method)));
      continue;
    }
    if (endpoint.is_public.value) continue;
    warnings.push_back(
        fmt::format("\"{}\": the {} in {} writes, and no policy checks the client, as one does for \"{}\" in {}; "
                    "`public = true` says that this is meant",
                    endpoint.path.value, kind, options.sources.line(endpoint.path.position), guarded.path.value,
                    options.sources.line(guarded.path.position)));
  }
  return warnings;
}

std::vector<std::string> warn_of_guards_beside(const Options& options) {
  const auto is_guarded = [&](const Shape& shape) { return app::is_guarded(options, shape.use); };
  const std::vector<Shape> shapes = shapes_of(options);
  Finder finder(shapes);
  std::vector<std::string> warnings;
  std::map<std::string, std::vector<const Shape*>> by_form;
  for (const Shape& shape : shapes) {
    if (shape.passes_on) by_form[form_of(shape)].push_back(&shape);
  }
  for (const auto& [form, same] : by_form) {
    const auto guarded = std::ranges::find_if(same, [&](const Shape* shape) { return is_guarded(*shape); });
    const auto open = std::ranges::find_if_not(same, [&](const Shape* shape) { return is_guarded(*shape); });
    if (guarded == same.end() || open == same.end()) continue;
    warnings.push_back(fmt::format(
        "\"{}\": the route in {} has a policy that checks the client, and the one with the same path in {} "
        "has none",
        (*open)->path, options.sources.line((*guarded)->position), options.sources.line((*open)->position)));
  }
  for (const Shape& shape : shapes) {
    if (!shape.passes_on || shape.pattern.segments.empty()) continue;
    const bool has_rest = app::has_rest(shape);
    std::string sample = sample_of(shape);
    if (has_rest ? sample.empty() : shape.upstream.empty() || shape.path.ends_with('/')) continue;
    if (!has_rest) sample += '/';
    const std::string host = sample_host(shape);
    const Shape* const other = finder.find(host, sample, shape);
    if (other == nullptr || !other->passes_on || is_guarded(shape) == is_guarded(*other)) continue;
    if (!has_rest) {
      // A route for `/a/{rest...}` itself gets its own warning.
      const bool is_catch_all = other->pattern.segments.size() <= shape.pattern.segments.size();
      if (!is_guarded(shape) || !is_catch_all || other->upstream != shape.upstream) continue;
    }
    const std::string_view path = shape.path;
    warnings.push_back(fmt::format(
        "requests for \"{}\" go to the route \"{}\", those for \"{}\" to a route of its own: only \"{}\" has a policy "
        "that checks the client",
        has_rest ? std::string(path.substr(0, path.rfind('/'))) : shape.path + "/", other->path, path,
        (is_guarded(shape) ? shape : *other).path));
  }
  for (const Shape& guarded : shapes) {
    if (!is_guarded(guarded)) continue;
    for (const Shape& open : shapes) {
      if (open.passes_on && !is_guarded(open)) warn_of_reach(open, guarded, finder, warnings);
    }
  }
  return warnings;
}

}  // namespace sluice::app
