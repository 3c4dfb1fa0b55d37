#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/time.h"
#include "core/task.h"
#include "net/stream.h"
#include "sql/postgres/options.h"

namespace sluice::sql::postgres {

// The result of switching a new connection to TLS.
struct Encryption {
  enum class Outcome : std::uint8_t {
    on,
    declined,  // the server has no TLS; the connection is as it was
    failed,    // the connection must be closed
  };
  Outcome outcome{};
  std::string why = {};   // if failed: the reason, as a sentence
  bool distrust = false;  // failed because one side does not accept the other's certificate
};

// The mode's name as a URL writes it: "verify-full".
[[nodiscard]] std::string_view name_of(SslMode mode);

// Sends the SSLRequest, and starts TLS if the server accepts it. Precondition: options.tls. All arguments must outlive
// the task; `core` must also outlive the stream.
[[nodiscard]] core::Task<Encryption> encrypt(const Options& options, net::Stream& stream, net::tls::CoreState& core,
                                             Instant deadline);

// Explains a failed operation of the stream, if TLS was the cause. An empty `why` means that the network failed.
[[nodiscard]] Encryption trouble_of(const Options& options, const net::Stream& stream);

}  // namespace sluice::sql::postgres
