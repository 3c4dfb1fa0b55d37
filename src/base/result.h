#pragma once

#include <cstdint>
#include <expected>
#include <string>

namespace sluice {

// A foreseeable failure, caused by a peer or the environment.
enum class Errc : std::uint8_t {
  closed,     // the peer has closed, or this end was shut down
  timed_out,  // a deadline passed
  limit,      // a stated limit was reached
  malformed,  // bytes that the protocol does not allow
  system,     // a system call failed: detail is the errno
};

// Small enough to return in a register. The text for the user is made where the error is reported, not where it occurs.
struct Error {
  Errc code{};
  std::int32_t detail = 0;

  friend bool operator==(const Error&, const Error&) = default;

  [[nodiscard]] std::string text() const;
};

template <class T>
using Result = std::expected<T, Error>;

[[nodiscard]] inline std::unexpected<Error> fail(Errc code, std::int32_t detail = 0) {
  return std::unexpected(Error{code, detail});
}

}  // namespace sluice
