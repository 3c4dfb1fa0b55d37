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

// Starts a session: connects to the first address that answers, uses TLS according to ssl_mode, logs in, and reads
// until the server is ready for the first request. It ends within connect_timeout_ms.
class SessionStart {
 public:
  // `stream` and `in` belong to the connection. `stream` must be closed and `in` empty; afterwards they hold the
  // session. `tls` outlives the stream.
  SessionStart(const Options& options, net::tls::CoreState& tls, net::Stream& stream, Buffer& in)
      : options_(options), tls_(tls), stream_(stream), in_(in) {}
  SessionStart(const SessionStart&) = delete;

  // `statement_timeout_ms` is set for the session; 0: no timeout. Returns false on failure; see failure().
  [[nodiscard]] core::Task<bool> run(std::uint32_t statement_timeout_ms);

  [[nodiscard]] const core::Address& address() const { return address_; }
  // The key for a CancelRequest to this session.
  [[nodiscard]] const BackendKey& key() const { return key_; }
  [[nodiscard]] Error& failure() { return failure_; }

 private:
  [[nodiscard]] core::Task<bool> attempt(std::uint32_t statement_timeout_ms, bool over_tls);
  [[nodiscard]] core::Task<bool> connect();
  [[nodiscard]] core::Task<bool> begin_tls();
  [[nodiscard]] core::Task<bool> authenticate();
  [[nodiscard]] core::Task<bool> read(Message& message);
  [[nodiscard]] core::Task<bool> write(Buffer& bytes);
  // Sets failure() and returns false, for use with `co_return`.
  [[nodiscard]] bool fail(std::string_view why, std::string_view sqlstate = {});
  [[nodiscard]] bool refused(const Message& message);
  [[nodiscard]] bool refused_log_in(const Message& message);
  [[nodiscard]] bool lost(std::string_view while_what, const std::string& why);

  const Options& options_;
  net::tls::CoreState& tls_;
  net::Stream& stream_;
  Buffer& in_;
  Instant deadline_ = never;
  core::Address address_;
  BackendKey key_;
  bool worth_the_other_way_ = false;  // a second attempt, with TLS switched on or off, may succeed
  Error failure_{Failure::unavailable, {}, {}, 0};
};

}  // namespace sluice::sql::postgres
