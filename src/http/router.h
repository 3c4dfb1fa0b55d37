#pragma once

#include <array>
#include <cstdint>
#include <expected>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "http/binding.h"
#include "http/handler.h"
#include "http/request.h"
#include "http/response.h"

namespace sluice::http {

// A route's path: literal segments, `{name}` for any segment, `{name:int}` for a segment that is an integer (without
// leading zeros or a plus sign), and, only at the end, `{name...}` for the rest of the path.
struct Pattern {
  enum class Kind : std::uint8_t { literal, integer, segment, rest };
  struct Segment {
    Kind kind;
    std::string text;  // the literal, or the parameter's name
  };
  std::vector<Segment> segments;

  // The error is a message for the user who writes the configuration.
  static std::expected<Pattern, std::string> parse(std::string_view text);
  [[nodiscard]] std::vector<std::string> names() const;
};

// A header field or query parameter that a request must have. Conditions distinguish routes that have the same path.
struct Condition {
  enum class Of : std::uint8_t { field, query };
  Of of{};
  std::string name;
  std::optional<std::string> value;  // nullopt: any value, but the field or parameter must be present

  [[nodiscard]] bool holds(const Request& request) const;
  // Whether no request can meet both conditions.
  [[nodiscard]] bool excludes(const Condition& other) const;
  [[nodiscard]] bool operator==(const Condition& other) const;
};

// Finds the handler of a path by specificity; the order of the routes does not matter. At each segment a literal takes
// precedence over `{name:int}`, `{name:int}` over `{name}`, and `{name}` over `{name...}`. The router searches the
// routes of the request's host first, then those of its domains (the longest domain first), then the routes for all
// hosts. A host's own routes thus add to those for all hosts. Of several routes with the same path, the router takes
// the one with the most conditions among those whose conditions hold. If none holds, the path counts as not found.
//
// A path is split as described at Request::segments: an encoded slash is part of a value. It is never a separator, and
// no literal contains one.
//
// For GET and HEAD, an extension at the end of the path selects the format (Route::formats). For other methods it is
// part of the name, so that they never change a resource other than the one that the path names.
//
// The handler of GET also answers HEAD. If a path exists but not for the request's method, the answer is 405 with
// Allow; the answer to OPTIONS has only the Allow field. An unknown method gives 501 unless the route has a handler
// of Method::other that takes it. CONNECT has a path only in HTTP/2, where it names a protocol (RFC 8441).
//
// A route that forwards requests (Route::passes_on) refuses some paths with an encoded slash, a backslash or a `;` with
// 400. The server behind it may treat these characters as separators, or cut the path at a `;`. A path is refused if
// such a server could read it as the path of another route with other filters.
//
// A route's filters run for every request; some methods may have other ones (Binding::set_filters). A CORS preflight
// for a route with filters never reaches a handler: one of the filters answers it, or the router does, as for any
// OPTIONS.
//
// Every exchange pins one binding, that of its route.
class Router final : public Handler {
 public:
  struct Route {
    Pattern pattern;
    // In lower case, without a port: "api.example.com". "*.example.com" means every subdomain of example.com. Empty:
    // every host.
    std::string host = {};
    std::vector<Condition> conditions = {};
    std::array<Handler*, method_count> handlers{};  // indexed by Method; HEAD and TRACE stay empty
    std::vector<std::string> other_methods = {};    // those that the handler of Method::other takes; empty: all
    bool formats = false;   // GET and HEAD: `.json`, `.csv`, `.csj` or `.ndjson` is removed from the path's end
    bool upgrades = false;  // GET only asks for another protocol; in HTTP/2, CONNECT does so
    // `/f/{rest...}` also matches `/f`, with an empty rest, unless `/f` is a route. Empty segments are ignored.
    bool folder = false;
    bool passes_on = false;      // its handler forwards the path to a server, which may interpret it differently
    bool keeps_slashes = false;  // its handler forwards empty segments (`//`); for all others such a path is a 404
    std::uint16_t id = 0;        // becomes Request::route
    // Of this route alone. The router gives it the handlers. Null: the router makes one without filters, which lives as
    // long as the router.
    std::shared_ptr<Binding> binding = nullptr;
  };

  // `nowhere`: pinned by requests that no route answers; null: as for Route::binding.
  explicit Router(std::shared_ptr<Binding> nowhere = nullptr);
  ~Router() override;
  // Returns false if an existing route with the same host, pattern and conditions already has one of the methods.
  [[nodiscard]] bool add(const Route& route);

  [[nodiscard]] core::Async<Response> handle(Exchange& exchange) override;

 private:
  struct Node;
  struct Terminal;

  // The routes of one host, or of one domain.
  struct Host {
    std::string name;  // for a domain, with the leading dot
    std::unique_ptr<Node> root;
  };
  static Node& root_of(std::vector<Host>& hosts, std::string_view name);
  static const Node* find_root(const std::vector<Host>& hosts, std::string_view name);
  [[nodiscard]] const Terminal* find(Request& request) const;
  // Whether a server could interpret the path as the path of another route with other filters.
  [[nodiscard]] bool has_other_filters(const Terminal& found, Request& request) const;
  [[nodiscard]] const Terminal* find_by_host(Request& request) const;
  static const Terminal* find_below(const Node& root, Request& request);
  static const Terminal* find(const Node& node, std::string_view rest, std::size_t values, Request& request);
  // Chooses among the routes with the same path. Returns null if no route's conditions hold.
  static const Terminal* choose(const Terminal* first, const Request& request);
  static const Terminal* choose_alternative(const Terminal* first, const Request& request);

  const std::unique_ptr<Node> root_;        // routes for all hosts
  std::vector<Host> hosts_;                 // sorted by name
  std::vector<Host> domains_;               // sorted by name
  const std::shared_ptr<Binding> nowhere_;  // for paths without a route
};

// Whether two routes take the same unknown method: compares their Route::other_methods.
[[nodiscard]] bool have_common_method(const std::vector<std::string>& one, const std::vector<std::string>& other);

// The extension that selects a format: ".json", ".csv", ".csj" or ".ndjson" at the end of a segment. Empty if absent.
[[nodiscard]] std::string_view format_extension(std::string_view segment);

// Whether the path of `target` ends in such an extension although the path of `written`, its template, does not. The
// inserted values would then select another resource and format.
[[nodiscard]] bool gains_format(std::string_view target, std::string_view written);

}  // namespace sluice::http
