#pragma once

#include <cstdint>

#include "base/buffer.h"
#include "core/address.h"
#include "core/task.h"
#include "net/stream.h"
#include "sql/database.h"
#include "sql/postgres/messages.h"
#include "sql/postgres/options.h"

namespace sluice::sql::postgres {

// The start of a session: connects to the first address that answers, over TLS as ssl_mode has it, logs in, and reads
// until the server is ready for the first request. It ends within connect_timeout_ms.
class SessionStart {
 public:
  // `stream` and `in` are the connection's: they are closed and empty now, and hold the session afterwards. `tls`
  // outlives the stream.
  SessionStart(const Options& options, net::tls::CoreState& tls, net::Stream& stream, Buffer& in)
      : options_(options), tls_(tls), stream_(stream), in_(in) {}
  SessionStart(const SessionStart&) = delete;

  // The session's own statement_timeout is given; 0: none. False: failure() says why.
  [[nodiscard]] core::Task<bool> run(std::uint32_t statement_timeout_ms);

  [[nodiscard]] const core::Address& address() const { return address_; }
  // What a CancelRequest for this session has to carry.
  [[nodiscard]] const BackendKey& key() const { return key_; }
  [[nodiscard]] Error& failure() { return failure_; }

 private:
  [[nodiscard]] core::Task<bool> attempt(std::uint32_t statement_timeout_ms, bool over_tls);
  [[nodiscard]] core::Task<bool> connect();
  [[nodiscard]] core::Task<bool> begin_tls();
  [[nodiscard]] core::Task<bool> authenticate();
  [[nodiscard]] core::Task<bool> read(Message& message);
  [[nodiscard]] core::Task<bool> write(Buffer& bytes);
  // For `co_return`.
  [[nodiscard]] bool fail(std::string_view why, std::string_view sqlstate = {});
  [[nodiscard]] bool refused(const Message& message);
  [[nodiscard]] bool lost(std::string_view while_what, const std::string& why);

  const Options& options_;
  net::tls::CoreState& tls_;
  net::Stream& stream_;
  Buffer& in_;
  Instant deadline_ = never;
  core::Address address_;
  BackendKey key_;
  bool worth_the_other_way_ = false;  // over TLS, or in the clear, the server might say something else
  Error failure_{Failure::unavailable, {}, {}, 0};
};

}  // namespace sluice::sql::postgres
