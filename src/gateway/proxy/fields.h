#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "gateway/proxy/path_change.h"
#include "http/answer_fields.h"
#include "http/client/request_writer.h"
#include "http/compress/options.h"
#include "http/exchange.h"
#include "http/request.h"
#include "http/response.h"

// The parts of a message that a gateway forwards, and the fields that it adds (RFC 9110, 7.6).
namespace sluice::gateway {

// A request as it is sent to a server. Each core uses one object for all its requests; its contents are valid until the
// next make().
class ForwardedRequest {
 public:
  // Leaves out hop-by-hop fields, the fields that Connection names, and the client's X-Forwarded-For, -Proto and -Host,
  // which are replaced by our own values. A trusted proxy's fields are kept, and the proxy's address is appended to
  // X-Forwarded-For. With another `client_field`, X-Forwarded-For has the client's address and the proxy's, and
  // `client_field` is left out unless it comes from a trusted proxy. The path is the one that routes and policies have
  // seen, as the client has escaped it (see append_sent_path()).
  //
  // Of the client's TE, only `trailers` is passed on. A WebSocket over HTTP/2 (RFC 8441) becomes one over HTTP/1.1,
  // with a new key.
  //
  // Compression appends a coding to the ETag of an answer (`"7;gzip"`, see Response::tag_takes_suffix). It is removed
  // from If-Match and If-None-Match again. If-Range keeps it, because ranges are parts of the uncompressed bytes.
  //
  // `server_host`: the Host of a request that has none, and of every request if `preserve_host` is false. Returns null
  // if the path must not be forwarded: `change` fails, or a server could resolve dots in it (`/a/..%2Fb`), or with
  // `keeps_slashes` it could read another path than policies have seen (`/a//../b`).
  struct Options {
    const PathChange* change = nullptr;  // how the route changes the path
    bool preserve_host = true;
    bool keeps_slashes = false;                         // empty segments of the path are sent
    std::string_view upgrade{};                         // the protocols to ask for
    std::optional<std::uint64_t> body_size{};           // if it is known although the client has not sent it
    std::string_view client_field{};                    // TrustedProxies::client_field; empty: X-Forwarded-For
    std::span<const http::compress::Coding> codings{};  // in which answers may be sent to the client
  };
  // The request gets a Via field with our name, via_name().
  [[nodiscard]] const http::client::RequestHead* make(const http::Request& request, std::string_view server_host,
                                                      const Options& options);
  // For a WebSocket request: its Sec-WebSocket-Key; empty if it has none or several.
  [[nodiscard]] std::string_view websocket_key() const { return websocket_key_; }

 private:
  void add_fields(const http::Request& request, std::string_view client_field);
  void add_of_proxy(const http::Request& request, std::span<const http::Field> of_client,
                    std::string_view client_field);
  void add_key(bool of_our_own);
  void remove_codings(std::string_view accepted, std::span<const http::compress::Coding> codings);

  http::client::RequestHead head_;
  std::vector<http::Field> fields_;
  std::vector<std::string_view> named_;  // by the Connection field
  std::string target_;
  std::string segments_;  // of a path that has been changed
  std::string_view websocket_key_;
  std::string own_key_;
  std::string chain_;       // the value of X-Forwarded-For
  std::string via_;         // the value of our Via
  std::string conditions_;  // the values of If-Match and If-None-Match that have been changed
};

// The name of this process in Via fields (RFC 9110, 7.6.3). It is random, so that a request that has come back is
// recognised.
[[nodiscard]] const std::string& via_name();
// How often the request has passed this process, by its Via fields.
[[nodiscard]] std::size_t count_passes(const http::Request& request);

// Adds the fields of a server's response to the answer, except hop-by-hop fields. The views are not copied.
void forward_fields(std::span<const http::Field> fields, http::FieldList& into);
// Likewise for trailers, except fields for message framing or routing (RFC 9110, 6.5.1). At most 64 fields.
void forward_trailers(std::span<const http::Field> trailers, http::FieldList& into);
// The trailers of a request that are passed on to a server: none for framing, routing, authentication or conditions,
// none about the content (RFC 9110, 6.5.1), and no fields that a policy owns. `client_field`: as in
// ForwardedRequest::Options. At most 64.
void forward_request_trailers(const http::Exchange& exchange, std::string_view client_field,
                              std::span<const http::Field> trailers, std::vector<http::Field>& into);
// How the references in an answer become the client's.
struct Restoration {
  const PathChange* prefix_of = nullptr;  // the prefix that it has removed; null: none
  std::string_view server_host{};         // as a Host field names it; empty: only the client's own host is known
  bool server_is_secure = false;
};
// Changes Location, Content-Location and Set-Cookie of an answer.
//
// URLs with the server's scheme and host get the client's, and so do URLs with http and the host of a client that uses
// TLS, unless `server_host` is empty. Then the prefix is added to the paths. Paths that are below the prefix already
// stay unchanged, and so do references that are relative or to another host. `Path=/` becomes the bare prefix, so that
// the cookie is for the prefix itself too. Cookies that are called __Host-... keep their path, because browsers accept
// them only with `Path=/`.
void restore_references(const Restoration& how, const http::Request& request, http::FieldList& fields);
// Removes the fields that this program's configuration adds to every response, including those only for TLS.
void remove_ours(const http::AnswerFields& ours, http::FieldList& fields);

}  // namespace sluice::gateway
