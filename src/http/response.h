#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <variant>

#include "base/buffer.h"
#include "base/result.h"
#include "core/task.h"
#include "http/fields.h"
#include "http/shared_spans.h"
#include "net/duplex.h"

namespace sluice::http {

// "Not Found"; empty for a status without a registered phrase.
[[nodiscard]] std::string_view reason_phrase(int status);

// Whether responses with this status have no body (RFC 9110, 6.4.1).
[[nodiscard]] inline bool has_no_body(int status) { return status < 200 || status == 204 || status == 304; }

// A body that the connection pulls. For backpressure the connection stops calling pull(); to cancel, it destroys the
// source.
class BodySource : public core::SlabAllocated {
 public:
  enum class Progress : std::uint8_t { more, done };
  virtual ~BodySource() = default;
  // Appends enough bytes for one write to `out` (at least one byte unless done). After an error the response is cut in
  // a way that the client can detect.
  [[nodiscard]] virtual core::Async<Result<Progress>> pull(Buffer& out) = 0;
  // The total size, if it is known in advance. The source then gives exactly this many bytes, or an error.
  [[nodiscard]] virtual std::optional<std::uint64_t> size() const { return std::nullopt; }
  // After `done`: the fields of the trailer section. The views are valid as long as the source.
  [[nodiscard]] virtual std::span<const Field> trailers() const { return {}; }
  // The result of owner_of() for this body.
  [[nodiscard]] virtual const void* owner() const { return nullptr; }
  // The result of whole_bytes_of() for this body.
  [[nodiscard]] virtual std::size_t whole_bytes() const { return 0; }
};

// Immutable bytes that several responses may send at once. `owner` keeps them alive.
struct SharedBytes {
  std::shared_ptr<const void> owner;
  std::string_view bytes;
  bool once = false;             // made for one response only, so an encoded copy is not worth caching
  const void* origin = nullptr;  // what owner_of() returns, if not `owner`
};

// A range of an open file; `owner` keeps the descriptor open.
struct FileRange {
  std::shared_ptr<const void> owner;
  int fd = -1;
  std::uint64_t offset = 0;
  std::uint64_t size = 0;
};

class BodyBudget;

// Runs the new protocol after a response that switches protocols. The request and its pin have been released by then.
// The connection closes the duplex when run() returns.
class Upgrade : public core::SlabAllocated {
 public:
  virtual ~Upgrade() = default;
  // Memory for data that the client sends must be reserved with a share of `bodies`. `held` counts the bytes that the
  // connection holds.
  [[nodiscard]] virtual core::Task<void> run(net::Duplex& duplex, BodyBudget& bodies, std::uint64_t& held) = 0;
  // The server is shutting down: run() must close the protocol and return soon. May be called before run(), and more
  // than once.
  virtual void drain() = 0;
};

// Nothing, its own bytes, shared bytes in one piece or in many, a file, or a stream.
using Body = std::variant<std::monostate, Buffer, SharedBytes, SharedSpans, FileRange, std::unique_ptr<BodySource>>;

// The body's length, if it is known before the body is sent.
[[nodiscard]] std::optional<std::uint64_t> size_of(const Body& body);

// The shared object that the body keeps alive, for Server::cut_answers_of(). Null if absent.
[[nodiscard]] const void* owner_of(const Body& body);

// The bytes that are in memory only for this response until it has been sent completely.
[[nodiscard]] std::size_t whole_bytes_of(const Body& body);

// A response. The connection writes Content-Length, Transfer-Encoding, Date and Connection.
struct Response {
  int status = 200;
  FieldList fields;
  Body body;
  // The new protocol after the response. Only with status 101 (in HTTP/2: 200) and no body, and only if the request
  // asked for it.
  std::unique_ptr<Upgrade> upgrade{};
  // A content coding may append its name to the ETag ("7;gzip"), because the handler does not take it for a part of the
  // tag in If-Match and If-None-Match. Without this flag, a content coding makes a strong tag weak.
  bool tag_takes_suffix = false;
};

// A response with application/problem+json (RFC 9457). The reason phrase of the status is its title. `detail` is a
// sentence for the client. `members` is JSON with more members of the object.
[[nodiscard]] Response problem(int status, std::string_view detail = {}, std::string_view members = {});
// Replaces a response that does not fit into the BodyBudget. It invites a retry only if the request has changed
// nothing.
[[nodiscard]] Response answer_without_room(bool changes_nothing);
// The `detail` text for a request body that did not arrive completely, or for which there was no memory (503).
[[nodiscard]] std::string_view describe_body_refusal(int status);

}  // namespace sluice::http
