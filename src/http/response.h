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

// RFC 9110, 6.4.1.
[[nodiscard]] inline bool has_no_body(int status) { return status < 200 || status == 204 || status == 304; }

// A body that is pulled: backpressure is not asking for more, cancelling is destroying it.
class BodySource : public core::SlabAllocated {
 public:
  enum class Progress : std::uint8_t { more, done };
  virtual ~BodySource() = default;
  // Appends what is worth a write to `out` (at least one byte unless done). An error cuts the response so that the
  // client can tell.
  [[nodiscard]] virtual core::Async<Result<Progress>> pull(Buffer& out) = 0;
  // Of all that it gives, where that is known before: it gives as much, or an error.
  [[nodiscard]] virtual std::optional<std::uint64_t> size() const { return std::nullopt; }
  // After `done`: fields for the trailer section; views last as long as the source.
  [[nodiscard]] virtual std::span<const Field> trailers() const { return {}; }
  // For owner_of().
  [[nodiscard]] virtual const void* owner() const { return nullptr; }
};

// Bytes that many may send at once and nobody changes; `owner` keeps them alive.
struct SharedBytes {
  std::shared_ptr<const void> owner;
  std::string_view bytes;
  bool once = false;  // made for one answer, and never sent again: what is made of them is not worth a place in a cache
  const void* origin = nullptr;  // for owner_of(), where that is not `owner`
};

// A range of an open file; `owner` keeps the descriptor open.
struct FileRange {
  std::shared_ptr<const void> owner;
  int fd = -1;
  std::uint64_t offset = 0;
  std::uint64_t size = 0;
};

// What goes on after an answer that changes the protocol. The request is gone by then, and its pin; the duplex lasts
// until run() returns, and ends with it.
class Upgrade : public core::SlabAllocated {
 public:
  virtual ~Upgrade() = default;
  [[nodiscard]] virtual core::Task<void> run(net::Duplex& duplex) = 0;
  // The server is ending: say goodbye and return soon. Also before run(), and more than once.
  virtual void drain() = 0;
};

// Nothing, bytes of its own, bytes of others in one piece or in many, a file, or a stream.
using Body = std::variant<std::monostate, Buffer, SharedBytes, SharedSpans, FileRange, std::unique_ptr<BodySource>>;

// The body's length, where it is known before it is sent.
[[nodiscard]] std::optional<std::uint64_t> size_of(const Body& body);

// What the body keeps alive together with others, as Server::cut_answers_of() takes it; null: nothing of the kind.
[[nodiscard]] const void* owner_of(const Body& body);

// An answer, as a value. Content-Length, Transfer-Encoding, Date and Connection are the connection's to write.
struct Response {
  int status = 200;
  FieldList fields;
  Body body;
  // With status 101 (in HTTP/2: 200), no body, and only where the request asked for it: what follows the answer.
  std::unique_ptr<Upgrade> upgrade{};
  // The ETag is compared by what stands before its first semicolon: a coding adds its name ("7;gzip"), so that the tag
  // stays one that If-Match takes. Another strong tag becomes weak.
  bool tag_takes_suffix = false;
};

// RFC 9457: application/problem+json with the status' phrase as its title. `detail` is for the client's eyes; `members`
// is JSON for more members of the object.
[[nodiscard]] Response problem(int status, std::string_view detail = {}, std::string_view members = {});
// What a problem says of a request's body that did not come whole, or for which there was no memory (503).
[[nodiscard]] std::string_view describe_body_refusal(int status);

}  // namespace sluice::http
