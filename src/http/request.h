#pragma once

#include <array>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <span>
#include <string_view>

#include "base/result.h"
#include "base/time.h"
#include "core/task.h"
#include "http/claims.h"
#include "http/fields.h"

namespace sluice::core {
class Reactor;
}

namespace sluice::http {

enum class Method : std::uint8_t { get, head, post, put, delete_, patch, options, connect, trace, other };
inline constexpr std::size_t method_count = 10;
enum class Version : std::uint8_t { http10, http11, http2 };

[[nodiscard]] Method parse_method(std::string_view text);
[[nodiscard]] std::string_view name_of(Method method);

// What is told where there is no memory for more of a body now, and may be later.
inline constexpr std::unexpected<Error> no_memory{Error{Errc::system, ENOMEM}};

// The body of a request, pulled by the handler. What a handler does not read, the connection reads and drops, or
// closes.
class BodyReader {
 public:
  virtual ~BodyReader() = default;
  // The next bytes; empty at the end. The view lasts until the next call.
  [[nodiscard]] virtual core::Task<Result<std::string_view>> read() = 0;
  // Before the first read(): the body may be so many bytes longer than the server takes of others, up to
  // ServerOptions::most_body.
  virtual void allow_more(std::uint64_t) {}
  // From now on the client must send so many bytes each second, on average of ServerOptions::body_timeout, if that is
  // more than ServerOptions::slowest_client: others wait for what the handler holds meanwhile.
  virtual void hurry(std::uint32_t /*bytes_per_s*/) {}
  // Before the handler keeps so many bytes more of what it has read, until it answers: they count against what the
  // server may hold of bodies. An error is for the answer, as one of read() is: Errc::limit, or no_memory.
  [[nodiscard]] virtual Result<void> keep(std::size_t) { return {}; }
};

// What policies learned about a request. It is one value: a codec resets all of it before the next request.
struct Findings {
  // What the verified token says. Null: no policy wants a token, or the request came without one and may.
  std::shared_ptr<const Claims> claims;
  // When the token expires, the policy's leeway included: seconds of the Unix epoch.
  double claims_end_s = std::numeric_limits<double>::infinity();

  // Likewise, by the reactor's clock; `never` where it does not. What lasts longer than a request ends then.
  [[nodiscard]] Instant claims_end(const core::Reactor& reactor) const;
};

// One request. Everything is a view into the connection's buffer or arena and lasts until the response has been sent.
struct Request {
  Method method{};
  Version version{};
  std::string_view method_text;
  std::string_view target;  // as it was sent
  std::string_view path;    // decoded, dot segments removed; begins with '/'; "*" or empty: OPTIONS *, CONNECT
  // `path` for whoever splits it into segments: the same bytes, except that a slash which came encoded (%2F), and so is
  // data, is a NUL. No path holds one otherwise.
  std::string_view segments;
  bool has_empty_segment = false;  // of the path as it was sent: `//`, of which `path` has one slash
  std::string_view query;          // as it was sent, without '?'
  std::string_view authority;      // Host, or :authority
  std::span<const Field> fields;
  BodyReader* body = nullptr;  // null: there is none
  std::string_view peer;       // the client's address, without its port
  bool secure = false;
  // The protocols that the client would change to, as sent: HTTP/1.1's Upgrade, HTTP/2's :protocol. Empty: none.
  std::string_view upgrade;

  // The router's findings.
  static constexpr std::size_t max_path_values = 16;
  std::array<std::string_view, max_path_values> path_values;  // of the route's parameters, in the pattern's order
  std::string_view extension;                                 // ".csv" where the route takes one off the path
  std::uint16_t route = 0;                                    // index of the matched route, for counting; 0: none

  Findings findings;

  // The field's value; empty where it is missing. Where it comes more than once, the first.
  [[nodiscard]] std::string_view field(std::string_view name) const;
  [[nodiscard]] bool has_field(std::string_view name) const;
};

}  // namespace sluice::http
