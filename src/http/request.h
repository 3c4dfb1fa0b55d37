#pragma once

#include <array>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "base/result.h"
#include "base/time.h"
#include "core/task.h"
#include "http/fields.h"

namespace sluice::net::tls {
struct PeerCertificate;
}

namespace sluice::http {

enum class Method : std::uint8_t { get, head, post, put, delete_, patch, options, connect, trace, other };
// Whether the method is safe (RFC 9110, 9.2.1).
[[nodiscard]] constexpr bool is_safe(Method method) {
  return method == Method::get || method == Method::head || method == Method::options || method == Method::trace;
}
inline constexpr std::size_t method_count = 10;
enum class Version : std::uint8_t { http10, http11, http2 };

[[nodiscard]] Method parse_method(std::string_view text);
[[nodiscard]] std::string_view name_of(Method method);

// The error of a body that there is no memory for now. A retry may succeed later.
inline constexpr std::unexpected<Error> no_memory{Error{Errc::system, ENOMEM}};

// The body of a request. The handler pulls it. If the handler does not read all of it, the connection drops the rest or
// closes.
class BodyReader {
 public:
  virtual ~BodyReader() = default;
  // Returns the next bytes, or an empty view at the end. The view is valid until the next call.
  [[nodiscard]] virtual core::Task<Result<std::string_view>> read() = 0;
  // After the end: the fields of the trailer section, as received. The views are valid as long as the request.
  [[nodiscard]] virtual std::span<const Field> trailers() { return {}; }
  // Before the first read(): allows this many bytes above ServerOptions::body_limit, up to ServerOptions::most_body.
  virtual void allow_more(std::uint64_t) {}
  // Before the first read(): sets the limit of this body, instead of ServerOptions::body_limit, up to
  // ServerOptions::most_body. Of several calls the smallest limit applies, whatever allow_more() says.
  virtual void limit_to(std::uint64_t) {}
  // From now on the client must send this many bytes per second, averaged over ServerOptions::body_timeout, if that is
  // more than ServerOptions::slowest_client. For a handler that holds a resource that other requests wait for.
  virtual void hurry(std::uint32_t /*bytes_per_s*/) {}
  // Called before the handler keeps this many more bytes of the body until it answers. They count against the server's
  // memory limit for bodies (ServerOptions::body_memory). Errors are Errc::limit and no_memory; the handler answers
  // with them as with an error of read().
  [[nodiscard]] virtual Result<void> keep(std::size_t) { return {}; }
  // The handler answers although the client still sends the body: the response is sent at once, and then the connection
  // (HTTP/2: the stream) ends.
  virtual void abandon() {}
};

// Sends interim responses (RFC 9110, 15.2) to the client before the response.
class InterimSink {
 public:
  // `status`: a 1xx other than 100 and 101. Nothing is kept: the interim response is dropped if the client does not
  // read fast enough.
  virtual void send_interim(int status, std::span<const Field> fields) = 0;

 protected:
  ~InterimSink() = default;
};

// One request. All members are views into the connection's buffer or arena, valid until the response has been sent.
struct Request {
  Method method{};
  Version version{};
  std::string_view method_text;
  std::string_view target;  // as it was sent
  std::string_view path;    // decoded, without dot segments; begins with '/'. "*" for OPTIONS *, empty for CONNECT
  // For splitting into segments: the bytes of `path`, but with a NUL for each encoded slash (%2F), which is data.
  // Paths contain no other NULs.
  std::string_view segments;
  bool has_empty_segment = false;  // the path as sent contains `//`, which `path` reduces to one slash
  std::string_view query;          // as it was sent, without '?'
  std::string_view authority;      // Host, or :authority
  std::span<const Field> fields;
  // The last `own_fields` of `fields` were set by policies. A client's `Connection` removes none of these.
  std::size_t own_fields = 0;
  BodyReader* body = nullptr;      // null: the request has none
  InterimSink* interim = nullptr;  // null: the client takes no interim responses
  std::string_view peer;           // the client's address, without its port, possibly as reported by a trusted proxy
  bool secure = false;             // the client uses TLS, possibly as reported by a trusted proxy
  // The verified certificate that the peer of the connection has shown. Null: none.
  const net::tls::PeerCertificate* certificate = nullptr;
  // Whether the peer of the connection is a trusted proxy, and the peer's address (empty for a unix socket).
  bool from_proxy = false;
  std::string_view connection_peer;
  // The protocols that the client asks to switch to, as sent: Upgrade in HTTP/1.1, :protocol in HTTP/2. Empty if none.
  std::string_view upgrade;

  // The router's findings.
  static constexpr std::size_t max_path_values = 16;
  std::array<std::string_view, max_path_values>
      path_values;             // values of the route's parameters, in the order of the pattern
  std::string_view extension;  // such as ".csv", if the route removes it from the path
  std::uint16_t route = 0;     // id of the matched route, for metrics; 0: none

  // The field's value; empty if the field is missing. If there are several fields with this name, the first.
  [[nodiscard]] std::string_view field(std::string_view name) const;
  [[nodiscard]] bool has_field(std::string_view name) const;
};

}  // namespace sluice::http
