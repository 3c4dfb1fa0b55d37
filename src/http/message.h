#pragma once

#include <array>
#include <cerrno>
#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include <sys/uio.h>

#include "base/assert.h"
#include "base/buffer.h"
#include "base/result.h"
#include "base/time.h"
#include "core/task.h"
#include "http/claims.h"
#include "http/shared_spans.h"

namespace sluice::core {
class Reactor;
}

namespace sluice::http {

enum class Method : std::uint8_t { get, head, post, put, delete_, patch, options, connect, trace, other };
inline constexpr std::size_t method_count = 10;
enum class Version : std::uint8_t { http10, http11, http2 };

[[nodiscard]] Method parse_method(std::string_view text);
[[nodiscard]] std::string_view name_of(Method method);
// "Not Found"; empty for a status without a registered phrase.
[[nodiscard]] std::string_view reason_phrase(int status);

// A header field as it came or goes: the name compares without case.
struct Field {
  std::string_view name;
  std::string_view value;
};

[[nodiscard]] bool same_name(std::string_view a, std::string_view b);

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
  std::string_view query;      // as it was sent, without '?'
  std::string_view authority;  // Host, or :authority
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

// A body of unknown length that is pulled: backpressure is not asking for more, cancelling is destroying it.
class BodySource : public core::SlabAllocated {
 public:
  enum class Progress : std::uint8_t { more, done };
  virtual ~BodySource() = default;
  // Appends what is worth a write to `out` (at least one byte unless done). An error cuts the response so that the
  // client can tell.
  [[nodiscard]] virtual core::Async<Result<Progress>> pull(Buffer& out) = 0;
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

// What is left of a request when both sides have changed the protocol: bytes both ways, over an HTTP/1.1 connection or
// an HTTP/2 stream. At most one readable() and one write() wait at a time; destroying them cancels.
class Duplex {
 public:
  virtual ~Duplex() = default;
  [[nodiscard]] virtual core::Reactor& reactor() = 0;
  // Tries at once: appends up to `most` bytes to `into` and gives their count; 0: the peer has ended its side. Nothing:
  // there is nothing now.
  [[nodiscard]] virtual std::optional<Result<std::size_t>> try_read(Buffer& into, std::size_t most) = 0;
  // Until there may be something to read, the peer has gone, or interrupt() was called.
  [[nodiscard]] virtual core::Task<Result<void>> readable(Instant deadline) = 0;
  // Ends a readable() that waits, as if there were something to read; resumes its coroutine before it returns.
  virtual void interrupt() = 0;
  // Writes all of `parts`, whose array is used up. `progress` bounds each wait for the peer to take more.
  [[nodiscard]] virtual core::Task<Result<void>> write(std::span<iovec> parts, Duration progress) = 0;
};

// What goes on after an answer that changes the protocol. The request is gone by then; the duplex lasts until run()
// returns, and ends with it.
class Upgrade : public core::SlabAllocated {
 public:
  virtual ~Upgrade() = default;
  [[nodiscard]] virtual core::Task<void> run(Duplex& duplex) = 0;
  // The server is ending: say goodbye and return soon. Also before run(), and more than once.
  virtual void drain() = 0;
};

// Nothing, bytes of its own, bytes of others in one piece or in many, a file, or a stream.
using Body = std::variant<std::monostate, Buffer, SharedBytes, SharedSpans, FileRange, std::unique_ptr<BodySource>>;

// The body's length, where it is known before it is sent.
[[nodiscard]] std::optional<std::uint64_t> size_of(const Body& body);

// What the body keeps alive together with others, as Server::cut_answers_of() takes it; null: nothing of the kind.
[[nodiscard]] const void* owner_of(const Body& body);

// Fields of a response. Values are views: static, in the response's `owned`, or alive as long as the body.
class FieldList {
 public:
  static constexpr std::size_t capacity = 16;
  void add(std::string_view name, std::string_view value) {
    SLUICE_ASSERT(size_ < capacity);
    items_[size_++] = {name, value};
  }
  // For a name and a value that cannot hold what a peer sent, and are not for the connection to write (Content-Length
  // and the like): they go out without being looked at again.
  void add_trusted(std::string_view name, std::string_view value) {
    trusted_ |= 1u << size_;
    add(name, value);
  }
  // Copies the value.
  void add_owned(std::string_view name, std::string value);
  // Another value for the item at this index.
  void set(std::size_t index, std::string_view value) {
    SLUICE_ASSERT(index < size_);
    items_[index].value = value;
    trusted_ &= ~(1u << index);
  }
  void set_owned(std::size_t index, std::string value);  // likewise, copied
  void remove(std::size_t index);
  [[nodiscard]] std::span<const Field> items() const { return {items_.data(), size_}; }
  [[nodiscard]] std::uint32_t trusted() const { return trusted_; }  // a bit an item
  [[nodiscard]] std::string_view get(std::string_view name) const;

  FieldList() {}  // leaves the items as they are: only those below size_ are ever read
  FieldList(FieldList&& other) noexcept
      : size_(other.size_), trusted_(other.trusted_), owned_(std::move(other.owned_)) {
    for (std::size_t i = 0; i < size_; ++i) items_[i] = other.items_[i];
    other.size_ = 0;
  }
  FieldList& operator=(FieldList&& other) noexcept {
    size_ = other.size_;
    trusted_ = other.trusted_;
    owned_ = std::move(other.owned_);
    for (std::size_t i = 0; i < size_; ++i) items_[i] = other.items_[i];
    other.size_ = 0;
    return *this;
  }

 private:
  union {
    std::array<Field, capacity> items_;
  };
  std::uint32_t size_ = 0;
  std::uint32_t trusted_ = 0;
  std::vector<std::unique_ptr<std::string>> owned_;
};

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
