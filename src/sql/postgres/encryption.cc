#include "sql/postgres/encryption.h"

#include "base/buffer.h"
#include "sql/postgres/messages.h"

namespace sluice::sql::postgres {
namespace {

Encryption failed(std::string why) { return {Encryption::Outcome::failed, std::move(why)}; }

}  // namespace

std::string_view name_of(SslMode mode) {
  constexpr std::string_view names[] = {"disable", "allow", "prefer", "require", "verify-ca", "verify-full"};
  return names[static_cast<std::size_t>(mode)];
}

Encryption trouble_of(const Options& options, const net::Stream& stream) {
  using Failure = net::tls::Failure;
  if (stream.tls() == nullptr || stream.tls()->failure() == Failure::none) return failed({});
  const Failure failure = stream.tls()->failure();
  Encryption trouble =
      failed("TLS with \"" + options.host + "\": " + (failure == Failure::refused ? "the server refuses: " : "") +
             stream.tls()->failure_text());
  trouble.distrust = failure == Failure::certificate || failure == Failure::refused;
  return trouble;
}

core::Task<Encryption> encrypt(const Options& options, net::Stream& stream, net::tls::CoreState& core,
                               Instant deadline) {
  Buffer bytes;
  write_ssl_request(bytes);
  iovec part{bytes.data(), bytes.size()};
  if (const auto written = co_await stream.write({&part, 1}, deadline - stream.reactor().now()); !written) {
    co_return failed("cannot ask the server for TLS: " + written.error().text());
  }
  Buffer answer;
  const auto got = co_await stream.read(answer, 64, deadline);
  if (!got || *got == 0) {
    co_return failed("the server did not say whether it supports TLS: " +
                     (got ? std::string("it closed the connection") : got.error().text()));
  }
  // Bytes after the answer were sent before TLS was on: a man in the middle could inject them as the server's first
  // messages inside TLS (CVE-2021-23222). Bytes that arrive later go to the handshake, which rejects them. For the same
  // reason the text of an error is not shown.
  const bool alone = *got == 1;
  switch (answer.view().front()) {
    case 'S':
      if (!alone) co_return failed("the server sent data in the clear behind its answer to the request for TLS");
      break;
    case 'N':
      if (!alone) co_return failed("the server sent data behind its answer to the request for TLS");
      co_return Encryption{Encryption::Outcome::declined};
    case 'E':
      co_return failed("the server answered the request for TLS with an error");
    default:
      co_return failed("the server does not speak PostgreSQL's protocol");
  }
  const auto shaken = co_await stream.connect_tls(options.tls, options.host, core, deadline);
  if (shaken) co_return Encryption{Encryption::Outcome::on};
  Encryption trouble = trouble_of(options, stream);
  if (trouble.why.empty()) trouble.why = "TLS with \"" + options.host + "\": " + shaken.error().text();
  co_return trouble;
}

}  // namespace sluice::sql::postgres
