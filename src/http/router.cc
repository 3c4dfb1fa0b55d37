#include "http/router.h"

#include <algorithm>
#include <array>

#include "http/target.h"

namespace sluice::http {
namespace {

bool is_name(std::string_view text) {
  if (text.empty() || (text[0] >= '0' && text[0] <= '9')) return false;
  return std::ranges::all_of(text, [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
  });
}

// In its only spelling: not `01`, `+1`, `-0`.
bool is_integer(std::string_view text) {
  const bool negative = text.starts_with('-');
  if (negative) text.remove_prefix(1);
  if (text.starts_with('0') && (negative || text.size() != 1)) return false;
  return !text.empty() && text.size() <= 19 && std::ranges::all_of(text, [](char c) { return c >= '0' && c <= '9'; });
}

std::expected<Pattern::Segment, std::string> parse_segment(std::string_view text) {
  if (!text.contains('{') && !text.contains('}')) return Pattern::Segment{Pattern::Kind::literal, std::string(text)};
  if (!text.starts_with('{') || !text.ends_with('}')) {
    return std::unexpected("a parameter takes a whole segment: /{name}");
  }
  std::string_view inner = text.substr(1, text.size() - 2);
  Pattern::Kind kind = Pattern::Kind::segment;
  if (inner.ends_with("...")) {
    kind = Pattern::Kind::rest;
    inner.remove_suffix(3);
  } else if (const auto colon = inner.find(':'); colon != std::string_view::npos) {
    if (inner.substr(colon + 1) != "int")
      return std::unexpected("the only type of a path parameter is int: {name:int}");
    kind = Pattern::Kind::integer;
    inner = inner.substr(0, colon);
  }
  if (!is_name(inner)) return std::unexpected("a parameter's name is letters, digits and underscores");
  return Pattern::Segment{kind, std::string(inner)};
}

}  // namespace

std::expected<Pattern, std::string> Pattern::parse(std::string_view text) {
  if (!text.starts_with('/')) return std::unexpected("a path begins with /");
  Pattern pattern;
  std::size_t parameters = 0;
  for (std::string_view rest = text.substr(1); !rest.empty() || text.size() > 1;) {
    const auto slash = rest.find('/');
    const std::string_view piece = rest.substr(0, slash);
    if (!pattern.segments.empty() && pattern.segments.back().kind == Kind::rest) {
      return std::unexpected("{" + pattern.segments.back().text + "...} must be the last segment");
    }
    auto segment = parse_segment(piece);
    if (!segment) return std::unexpected(std::move(segment.error()));
    if (piece == "." || piece == "..") return std::unexpected("dot segments never arrive: they are resolved before");
    if (segment->kind != Kind::literal) {
      if (++parameters > Request::max_path_values) return std::unexpected("too many parameters");
      for (const Segment& earlier : pattern.segments) {
        if (earlier.kind != Kind::literal && earlier.text == segment->text) {
          return std::unexpected("{" + segment->text + "} comes twice");
        }
      }
    }
    pattern.segments.push_back(std::move(*segment));
    if (slash == std::string_view::npos) break;
    rest.remove_prefix(slash + 1);
    if (rest.empty()) {  // a trailing slash is an empty last segment
      pattern.segments.push_back({Kind::literal, ""});
      break;
    }
  }
  for (std::size_t i = 0; i + 1 < pattern.segments.size(); ++i) {
    if (pattern.segments[i].kind == Kind::literal && pattern.segments[i].text.empty()) {
      return std::unexpected("an empty segment");
    }
  }
  return pattern;
}

std::vector<std::string> Pattern::names() const {
  std::vector<std::string> names;
  for (const Segment& segment : segments) {
    if (segment.kind != Kind::literal) names.push_back(segment.text);
  }
  return names;
}

std::string_view format_extension(std::string_view segment) {
  for (const std::string_view extension : {".json", ".csv", ".csj", ".ndjson"}) {
    if (segment.size() > extension.size() && segment.ends_with(extension)) {
      return extension;
    }
  }
  return {};
}

bool gains_format(std::string_view target, std::string_view written) {
  const std::string_view raw = target.substr(0, target.find('?'));
  std::string path(raw.size(), '\0');
  path.resize(decode_path(raw, path.data()).size);
  const std::string_view extension = format_extension(std::string_view(path).substr(path.rfind('/') + 1));
  return !written.substr(0, written.find('?')).ends_with(extension);
}

struct Router::Terminal {
  std::array<Handler*, 8> handlers{};
  bool formats = false;
  bool upgrades = false;
  bool folder = false;
  std::uint16_t id = 0;
  std::vector<Filter*> filters;
  bool is_guarded = false;  // it has filters of its own
  std::string allow;
  std::string allow_http2;
};

struct Router::Node {
  struct Literal {
    std::string text;
    std::unique_ptr<Node> node;
  };
  std::vector<Literal> literals;  // sorted by text
  std::unique_ptr<Node> integer;
  std::unique_ptr<Node> segment;
  std::unique_ptr<Terminal> rest;
  std::unique_ptr<Terminal> here;

  [[nodiscard]] const Node* literal(std::string_view text) const {
    const auto found = std::ranges::lower_bound(literals, text, {}, &Literal::text);
    return found != literals.end() && found->text == text ? found->node.get() : nullptr;
  }
  Node& child(const Pattern::Segment& by) {
    if (by.kind == Pattern::Kind::literal) {
      auto found = std::ranges::lower_bound(literals, by.text, {}, &Literal::text);
      if (found == literals.end() || found->text != by.text) {
        found = literals.insert(found, {by.text, std::make_unique<Node>()});
      }
      return *found->node;
    }
    auto& place = by.kind == Pattern::Kind::integer ? integer : segment;
    if (!place) place = std::make_unique<Node>();
    return *place;
  }
};

namespace {

bool is_preflight(const Request& request) {
  return request.method == Method::options && request.has_field("origin") &&
         request.has_field("access-control-request-method");
}

Response tell_methods(std::string_view allow) {
  Response response;
  response.status = 204;
  response.fields.add("Allow", allow);
  return response;
}

// The same part of the path, where slashes that came encoded are slashes.
std::string_view in_path(std::string_view part, const Request& request) {
  return {request.path.data() + (part.data() - request.segments.data()), part.size()};
}

}  // namespace

Router::Router(std::vector<Filter*> everywhere)
    : everywhere_(std::move(everywhere)),
      root_(std::make_unique<Node>()),
      nowhere_(std::make_unique<Terminal>(Terminal{.filters = everywhere_, .allow = {}, .allow_http2 = {}})) {}
Router::~Router() = default;

bool Router::add(const Route& route) {
  Node* node = root_.get();
  std::unique_ptr<Terminal>* place = nullptr;
  for (const Pattern::Segment& segment : route.pattern.segments) {
    if (segment.kind == Pattern::Kind::rest) {
      place = &node->rest;
      break;
    }
    node = &node->child(segment);
  }
  if (place == nullptr) place = &node->here;
  if (*place) return false;
  *place = std::make_unique<Terminal>(Terminal{.handlers = route.handlers,
                                               .formats = route.formats,
                                               .upgrades = route.upgrades,
                                               .folder = route.folder,
                                               .id = route.id,
                                               .filters = everywhere_,
                                               .is_guarded = !route.filters.empty(),
                                               .allow = {},
                                               .allow_http2 = {}});
  (*place)->filters.insert((*place)->filters.end(), route.filters.begin(), route.filters.end());
  const auto list = [&route](Method unavailable) {
    std::string allow;
    for (std::size_t i = 0; i < route.handlers.size(); ++i) {
      const auto method = static_cast<Method>(i);
      if (route.handlers[i] == nullptr || method == unavailable) continue;
      allow += name_of(method);
      allow += method == Method::get ? ", HEAD, " : ", ";
    }
    return allow + "OPTIONS";
  };
  (*place)->allow = list(Method::connect);
  (*place)->allow_http2 = list(route.upgrades ? Method::get : Method::other);
  return true;
}

// `rest` is what follows the node in the segments, without its leading slash; the node itself has been reached by all
// before it.
const Router::Terminal* Router::find(const Node& node, std::string_view rest, std::size_t values,
                                     Request& request) const {
  const auto slash = rest.find('/');
  const std::string_view segment = rest.substr(0, slash);
  const bool last = slash == std::string_view::npos;

  const auto descend = [&](const Node& child, std::size_t count) -> const Terminal* {
    if (last) {
      if (child.here || !child.rest || !child.rest->folder) return child.here.get();
      request.path_values[count] = {};
      return child.rest.get();
    }
    return find(child, rest.substr(slash + 1), count, request);
  };
  if (const Node* child = node.literal(segment)) {
    if (const Terminal* found = descend(*child, values)) return found;
  }
  const std::string_view extension = last ? format_extension(segment) : std::string_view{};
  const std::string_view bare = segment.substr(0, segment.size() - extension.size());
  if (!extension.empty()) {
    const Node* child = node.literal(bare);
    if (child != nullptr && child->here && child->here->formats) {
      request.extension = extension;
      return child->here.get();
    }
  }
  const auto capture = [&](const Node& child, bool integer) -> const Terminal* {
    const Terminal* found = descend(child, values + 1);
    if (found == nullptr) return nullptr;
    const bool strip = last && found->formats && !extension.empty();
    const std::string_view value = strip ? bare : segment;
    if (integer && !is_integer(value)) return nullptr;
    request.path_values[values] = in_path(value, request);
    if (strip) request.extension = extension;
    return found;
  };
  if (!segment.empty()) {
    if (node.integer && (is_integer(segment) || is_integer(bare))) {
      if (const Terminal* found = capture(*node.integer, true)) return found;
    }
    if (node.segment) {
      if (const Terminal* found = capture(*node.segment, false)) return found;
    }
  }
  if (node.rest) request.path_values[values] = in_path(rest, request);
  return node.rest.get();
}

core::Async<Response> Router::dispatch(Exchange& exchange) {
  Request& request = exchange.request;
  if (request.method == Method::connect && request.upgrade.empty()) return problem(501, "The server is no proxy.");
  if (request.segments.empty() || request.segments[0] != '/') {  // `OPTIONS *`
    Response response;
    response.status = 204;
    return response;
  }
  const std::string_view rest = request.segments.substr(1);
  const Terminal* found = rest.empty() && root_->here ? root_->here.get() : find(*root_, rest, 0, request);
  if (found == nullptr) found = nowhere_.get();
  request.route = found->id;
  if (found->filters.empty()) return answer(request, *found);
  exchange.allow = request.version == Version::http2 ? found->allow_http2 : found->allow;
  if (found->is_guarded && is_preflight(request)) {
    for (Filter* filter : found->filters) {
      if (auto response = filter->preflight(exchange)) return std::move(*response);
    }
    return tell_methods(exchange.allow);
  }
  auto asking = exchange.ask(found->filters);
  if (!asking.ready()) return answer_later(exchange, *found, asking.take_task());
  if (asking.get()) return std::move(*asking.get());
  return answer(request, *found);
}

core::Task<Response> Router::answer_later(Exchange& exchange, const Terminal& found,
                                          core::Task<std::optional<Response>> asking) {
  if (auto response = co_await std::move(asking)) co_return std::move(*response);
  co_return co_await answer(exchange.request, found);
}

inline core::Async<Response> Router::answer(Request& request, const Terminal& found) {
  // Behind the filters, so that no spelling of a path finds out what is there. Folders pass over empty segments.
  if (request.has_empty_segment && !found.folder && !found.allow.empty()) [[unlikely]]
    return problem(404, "The path has an empty segment (//), and no resource has such a path.");

  const bool over_http2 = request.version == Version::http2;
  const Method method = request.method == Method::head ? Method::get : request.method;
  const auto index = static_cast<std::size_t>(method);
  const bool needs_http1 = found.upgrades && over_http2 && method == Method::get;
  if (index < found.handlers.size() && found.handlers[index] != nullptr && !needs_http1) [[likely]] {
    return found.handlers[index]->handle(request);
  }
  // TRACE is known, and no resource takes it (RFC 9110, 9.1).
  if (method == Method::other) return problem(501, "The server does not know this method.");
  if (found.allow.empty()) return problem(404, "No resource has this path.");
  const std::string& allow = over_http2 ? found.allow_http2 : found.allow;
  if (method == Method::options) return tell_methods(allow);
  Response response = problem(405, "The resource does not take this method.");
  response.fields.add("Allow", allow);
  return response;
}

}  // namespace sluice::http
