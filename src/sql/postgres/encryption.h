#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/time.h"
#include "core/task.h"
#include "net/stream.h"
#include "sql/postgres/options.h"

namespace sluice::sql::postgres {

// How a connection that has just been made becomes one over TLS.
struct Encryption {
  enum class Outcome : std::uint8_t {
    on,
    declined,  // the server has no TLS; the connection is as it was
    failed,    // the connection is for closing
  };
  Outcome outcome{};
  std::string why = {};   // failed: a sentence
  bool distrust = false;  // failed because one side does not accept the other's certificate
};

// As it is written in a URL: "verify-full".
[[nodiscard]] std::string_view name_of(SslMode mode);

// Sends the SSLRequest and does what the server answers. Precondition: options.tls. All that is given outlives the
// task, the core's state the stream too.
[[nodiscard]] core::Task<Encryption> encrypt(const Options& options, net::Stream& stream, net::tls::CoreState& core,
                                             Instant deadline);

// What TLS has to say about an operation of the stream that failed; empty: nothing, it was the network.
[[nodiscard]] Encryption trouble_of(const Options& options, const net::Stream& stream);

}  // namespace sluice::sql::postgres
