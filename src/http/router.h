#pragma once

#include <array>
#include <cstdint>
#include <expected>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "http/filter.h"
#include "http/handler.h"
#include "http/request.h"
#include "http/response.h"

namespace sluice::http {

// A route's path: literal segments, `{name}` for one segment, `{name:int}` for one that is an integer (without
// leading zeros or a plus), and at the end
// `{name...}` for all that follows.
struct Pattern {
  enum class Kind : std::uint8_t { literal, integer, segment, rest };
  struct Segment {
    Kind kind;
    std::string text;  // the literal, or the parameter's name
  };
  std::vector<Segment> segments;

  // An error is what is wrong, for the configuration's reader.
  static std::expected<Pattern, std::string> parse(std::string_view text);
  [[nodiscard]] std::vector<std::string> names() const;
};

// Finds the handler of a path by specificity, never by order: at each segment a literal goes before an integer, that
// before any segment, and that before the rest.
//
// A path is split as Request::segments says: a slash that came encoded is part of a value, never a separator, and in no
// literal.
//
// HEAD is answered by GET's handler. A path that exists with another method gives 405 with Allow, OPTIONS the Allow
// alone; an unknown method gives 501 everywhere (RFC 9110, 9.1). CONNECT has a path only in HTTP/2, where it names a
// protocol (RFC 8441).
//
// A route's filters are asked about every request for it, whatever the method. A CORS preflight for a route with
// filters is answered by one of them or by the router itself, as any OPTIONS, so that no handler runs.
class Router final : public Dispatcher {
 public:
  struct Route {
    Pattern pattern;
    std::array<Handler*, 8> handlers{};  // by Method, get to connect; HEAD stays empty
    bool formats = false;                // `.json`, `.csv`, `.csj`, `.ndjson` at the path's end is taken off
    bool upgrades = false;               // GET only asks for another protocol: in HTTP/2, CONNECT does
    bool folder = false;                 // `/f/{rest...}` takes `/f` too, unless that is a route; the rest is empty
    std::uint16_t id = 0;                // given to the request that matches
    std::vector<Filter*> filters = {};   // in the order in which they are asked; they outlive the router
  };

  // `everywhere`: filters of every exchange, asked before those of its route; they outlive the router.
  explicit Router(std::vector<Filter*> everywhere = {});
  ~Router() override;
  // False: a route of the same shape is there already.
  [[nodiscard]] bool add(const Route& route);

  [[nodiscard]] core::Async<Response> dispatch(Exchange& exchange) override;

 private:
  struct Node;
  struct Terminal;

  [[gnu::always_inline]] static core::Async<Response> answer(Request& request, const Terminal& found);
  static core::Task<Response> answer_later(Exchange& exchange, const Terminal& found,
                                           core::Task<std::optional<Response>> asking);
  const Terminal* find(const Node& node, std::string_view rest, std::size_t values, Request& request) const;

  const std::vector<Filter*> everywhere_;
  const std::unique_ptr<Node> root_;
  const std::unique_ptr<const Terminal> nowhere_;  // of paths without a route
};

// The extension that chooses a format: ".json", ".csv", ".csj" or ".ndjson" at the end of a segment; else empty.
[[nodiscard]] std::string_view format_extension(std::string_view segment);

// Whether the path of `target` ends in such an extension and that of `written`, the template that it was made of, does
// not: the values would name another resource, in another format.
[[nodiscard]] bool gains_format(std::string_view target, std::string_view written);

}  // namespace sluice::http
