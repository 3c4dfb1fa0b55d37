#include "http/router.h"

#include <algorithm>
#include <array>

#include "base/contains.h"
#include "http/query_string.h"
#include "http/target.h"

namespace sluice::http {
namespace {

bool is_name(std::string_view text) {
  if (text.empty() || (text[0] >= '0' && text[0] <= '9')) return false;
  return std::ranges::all_of(text, [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
  });
}

// Characters that some servers treat as a slash or as the end of a segment.
constexpr std::string_view unusual("\\;\0", 3);

// Only in canonical form: not `01`, `+1`, `-0`.
bool is_integer(std::string_view text) {
  const bool negative = text.starts_with('-');
  if (negative) text.remove_prefix(1);
  if (text.starts_with('0') && (negative || text.size() != 1)) return false;
  return !text.empty() && text.size() <= 19 && std::ranges::all_of(text, [](char c) { return c >= '0' && c <= '9'; });
}

std::expected<Pattern::Segment, std::string> parse_segment(std::string_view text) {
  if (text == "*" || text == "**") {
    return std::unexpected("* is not a wildcard: {name} takes one segment, and {name...} the rest of the path");
  }
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

bool Condition::holds(const Request& request) const {
  if (of == Of::query) {
    for (QueryPairs pairs(request.query); !pairs.done();) {
      const auto [written, text] = pairs.next();
      if (equals_decoded(written, name)) return !value || equals_decoded(text, *value);
    }
    return false;
  }
  return std::ranges::any_of(request.fields, [this](const Field& field) {
    return same_name(field.name, name) && (!value || field.value == *value);
  });
}

bool Condition::operator==(const Condition& other) const {
  const bool is_same = of == Of::field ? same_name(name, other.name) : name == other.name;
  return of == other.of && is_same && value == other.value;
}

bool Condition::excludes(const Condition& other) const {
  return value && other.value && *value != *other.value && *this == Condition{other.of, other.name, value};
}

struct Router::Terminal {
  std::shared_ptr<Binding> binding;
  bool formats = false;
  bool folder = false;
  bool passes_on = false;
  std::uint16_t id = 0;
  std::vector<Condition> conditions;
  std::unique_ptr<Terminal> next;  // next route with the same path, with at most as many conditions

  [[nodiscard]] bool has(const std::vector<Condition>& all) const {
    return std::ranges::all_of(all, [this](const Condition& one) { return contains(conditions, one); });
  }
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

// The method of the handler that the request is for. For a preflight, the requested method.
Method method_of(const Request& request) {
  const Method method =
      is_preflight(request) ? parse_method(request.field("access-control-request-method")) : request.method;
  return method == Method::head ? Method::get : method;
}

// Whether an extension of the path may select a format. For writing methods it is part of the name: writing to
// /files/report.csv must not change the row `report`.
bool may_choose_format(const Request& request) {
  const Method method = method_of(request);
  return method == Method::get || method == Method::options;
}

// The corresponding part of Request::path, in which encoded slashes are plain slashes.
std::string_view in_path(std::string_view part, const Request& request) {
  return {request.path.data() + (part.data() - request.segments.data()), part.size()};
}

}  // namespace

bool have_common_method(const std::vector<std::string>& one, const std::vector<std::string>& other) {
  if (one.empty() || other.empty()) return true;
  return std::ranges::any_of(one, [&](const std::string& method) { return contains(other, method); });
}

Router::Router(std::shared_ptr<Binding> nowhere)
    : root_(std::make_unique<Node>()), nowhere_(nowhere ? std::move(nowhere) : std::make_shared<Binding>()) {}
Router::~Router() = default;

Router::Node& Router::root_of(std::vector<Host>& hosts, std::string_view name) {
  auto found = std::ranges::lower_bound(hosts, name, {}, &Host::name);
  if (found == hosts.end() || found->name != name) {
    found = hosts.insert(found, {std::string(name), std::make_unique<Node>()});
  }
  return *found->root;
}

const Router::Node* Router::find_root(const std::vector<Host>& hosts, std::string_view name) {
  const auto found = std::ranges::lower_bound(hosts, name, {}, &Host::name);
  return found != hosts.end() && found->name == name ? found->root.get() : nullptr;
}

bool Router::add(const Route& route) {
  Node* node = root_.get();
  if (route.host.starts_with('*')) {
    node = &root_of(domains_, std::string_view(route.host).substr(1));
  } else if (!route.host.empty()) {
    node = &root_of(hosts_, route.host);
  }
  std::unique_ptr<Terminal>* place = nullptr;
  for (const Pattern::Segment& segment : route.pattern.segments) {
    if (segment.kind == Pattern::Kind::rest) {
      place = &node->rest;
      break;
    }
    node = &node->child(segment);
  }
  if (place == nullptr) place = &node->here;

  auto added = std::make_unique<Terminal>(Terminal{.binding = route.binding,
                                                   .formats = route.formats,
                                                   .folder = route.folder,
                                                   .passes_on = route.passes_on,
                                                   .id = route.id,
                                                   .conditions = route.conditions,
                                                   .next = nullptr});
  if (!added->binding) added->binding = std::make_shared<Binding>();
  Binding& binding = *added->binding;
  SLUICE_ASSERT(binding.allow_.empty());
  std::copy_n(route.handlers.begin(), binding.handlers_.size(), binding.handlers_.begin());
  binding.other_ = route.handlers[static_cast<std::size_t>(Method::other)];
  binding.other_methods_ = route.other_methods;
  binding.upgrades_ = route.upgrades;
  binding.takes_empty_segments_ = route.folder || route.keeps_slashes;
  for (const Terminal* other = place->get(); other != nullptr; other = other->next.get()) {
    if (!other->has(added->conditions) || !added->has(other->conditions)) continue;
    for (std::size_t i = 0; i < binding.handlers_.size(); ++i) {
      if (binding.handlers_[i] != nullptr && other->binding->handlers_[i] != nullptr) return false;
    }
    const Binding& its = *other->binding;
    if (binding.other_ == nullptr || its.other_ == nullptr) continue;
    if (have_common_method(binding.other_methods_, its.other_methods_)) return false;
  }
  std::unique_ptr<Terminal>* before = place;
  while (*before && (*before)->conditions.size() >= added->conditions.size()) before = &(*before)->next;
  added->next = std::move(*before);
  *before = std::move(added);

  // A request that meets a route's conditions also meets every subset of them. So the Allow field of a route includes
  // the methods of each route whose conditions are such a subset.
  for (Terminal* one = place->get(); one != nullptr; one = one->next.get()) {
    std::array<bool, 8> taken{};
    std::string others;
    for (const Terminal* other = place->get(); other != nullptr; other = other->next.get()) {
      if (!one->has(other->conditions)) continue;
      for (std::size_t i = 0; i < taken.size(); ++i) taken[i] = taken[i] || other->binding->handlers_[i] != nullptr;
      for (const std::string& method : other->binding->other_methods_) others += method + ", ";
    }
    const auto list = [&](Method unavailable) {
      std::string allow;
      for (std::size_t i = 0; i < taken.size(); ++i) {
        const auto method = static_cast<Method>(i);
        if (!taken[i] || method == unavailable || method == Method::options) continue;
        allow += name_of(method);
        allow += method == Method::get ? ", HEAD, " : ", ";
      }
      return allow + others + "OPTIONS";
    };
    one->binding->allow_ = list(Method::connect);
    one->binding->allow_http2_ = list(one->binding->upgrades_ ? Method::get : Method::other);
  }
  return true;
}

inline const Router::Terminal* Router::choose(const Terminal* first, const Request& request) {
  if (first == nullptr || (!first->next && first->conditions.empty())) [[likely]]
    return first;
  return choose_alternative(first, request);
}

const Router::Terminal* Router::choose_alternative(const Terminal* first, const Request& request) {
  const Method method = method_of(request);
  const std::string_view text =
      is_preflight(request) ? request.field("access-control-request-method") : request.method_text;
  const Terminal* refusing = nullptr;
  for (const Terminal* one = first; one != nullptr; one = one->next.get()) {
    if (!std::ranges::all_of(one->conditions, [&](const Condition& each) { return each.holds(request); })) continue;
    if (one->binding->takes(method, text)) return one;
    if (refusing == nullptr) refusing = one;
  }
  return refusing;
}

const Router::Terminal* Router::find(Request& request) const {
  if (!hosts_.empty() || !domains_.empty()) [[unlikely]] {
    if (const Terminal* found = find_by_host(request)) return found;
  }
  return find_below(*root_, request);
}

const Router::Terminal* Router::find_by_host(Request& request) const {
  std::array<char, max_host_size> lower;
  const std::string_view host = normal_host(request.authority, lower);
  if (host.empty()) return nullptr;
  if (const Node* root = find_root(hosts_, host)) {
    if (const Terminal* found = find_below(*root, request)) return found;
  }
  for (std::size_t dot = host.find('.', 1); dot != host.npos && !domains_.empty(); dot = host.find('.', dot + 1)) {
    const Node* const root = find_root(domains_, host.substr(dot));
    if (root == nullptr) continue;
    if (const Terminal* found = find_below(*root, request)) return found;
  }
  return nullptr;
}

const Router::Terminal* Router::find_below(const Node& root, Request& request) {
  const std::string_view rest = request.segments.substr(1);
  if (rest.empty()) {
    if (const Terminal* here = choose(root.here.get(), request)) return here;
  }
  return find(root, rest, 0, request);
}

// `rest` is the unmatched end of the segments, without its leading slash. Everything before it has matched the path to
// the node.
const Router::Terminal* Router::find(const Node& node, std::string_view rest, std::size_t values, Request& request) {
  const auto slash = rest.find('/');
  const std::string_view segment = rest.substr(0, slash);
  const bool last = slash == std::string_view::npos;

  const auto descend = [&](const Node& child, std::size_t count) -> const Terminal* {
    if (last) {
      const Terminal* const here = choose(child.here.get(), request);
      if (here != nullptr || !child.rest || !child.rest->folder) return here;
      request.path_values[count] = {};
      return child.rest.get();
    }
    return find(child, rest.substr(slash + 1), count, request);
  };
  if (const Node* child = node.literal(segment)) {
    if (const Terminal* found = descend(*child, values)) return found;
  }
  std::string_view extension = last ? format_extension(segment) : std::string_view{};
  if (!extension.empty() && !may_choose_format(request)) extension = {};
  const std::string_view bare = segment.substr(0, segment.size() - extension.size());
  if (!extension.empty()) {
    const Node* const child = node.literal(bare);
    const Terminal* const found = child != nullptr ? choose(child->here.get(), request) : nullptr;
    if (found != nullptr && found->formats) {
      request.extension = extension;
      return found;
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
  return choose(node.rest.get(), request);
}

// Rewrites the path as a server with more separators would read it, and looks up the route of the result.
bool Router::has_other_filters(const Terminal& found, Request& request) const {
  std::string read;
  bool skips = false;
  for (const char c : request.segments) {
    const bool separates = c == '/' || c == '\\' || c == '\0';
    skips = !separates && (skips || c == ';');
    if (!skips && !(separates && read.ends_with('/'))) read += separates ? '/' : c;
  }
  const auto values = request.path_values;
  const auto path = std::exchange(request.path, read);
  const auto segments = std::exchange(request.segments, read);
  const auto extension = request.extension;
  const Terminal* const other = find(request);
  request.path_values = values;
  request.path = path;
  request.segments = segments;
  request.extension = extension;
  return other != nullptr && other->binding->filters(request) != found.binding->filters(request);
}

core::Async<Response> Router::handle(Exchange& exchange) {
  Request& request = exchange.request;
  const bool is_for_proxy = request.method == Method::connect && request.upgrade.empty();
  if (is_for_proxy || request.segments.empty() || request.segments[0] != '/') {
    exchange.pin.hold(*nowhere_);
    if (is_for_proxy) return problem(501, "The server is no proxy.");
    Response response;  // to `OPTIONS *`
    response.status = 204;
    return response;
  }
  const Terminal* const found = find(request);
  if (found == nullptr) {
    exchange.pin.hold(*nowhere_);
    return nowhere_->handle(exchange);
  }
  exchange.pin.hold(*found->binding);
  request.route = found->id;
  if (found->passes_on && request.segments.find_first_of(unusual) != std::string_view::npos) [[unlikely]] {
    if (has_other_filters(*found, request)) return problem(400, "This path is not passed on to a server.");
  }
  return found->binding->handle(exchange);
}

}  // namespace sluice::http
