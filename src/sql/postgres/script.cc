#include "sql/postgres/script.h"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>

#include "net/stream.h"
#include "sql/postgres/messages.h"
#include "sql/postgres/server_error.h"
#include "sql/postgres/session_start.h"

namespace sluice::sql::postgres {
namespace {

constexpr std::size_t script_message_limit = 64 << 20;  // one row, which is dropped; an error is far shorter
constexpr std::size_t script_read_size = 64 << 10;

Error lost(std::string why) { return {Failure::lost, {}, "the connection broke: " + std::move(why), 0}; }

}  // namespace

core::Task<Result<void>> run_script(Options options, core::Reactor& reactor, std::string_view script,
                                    Instant deadline) {
  if (script.find('\0') != std::string_view::npos) {
    co_return std::unexpected(Error{Failure::statement, {}, "a NUL byte", 0});
  }
  options.read_only = false;
  net::tls::CoreState tls;
  net::Stream stream(reactor);
  Buffer in;
  SessionStart session(options, tls, stream, in);
  if (!co_await session.run(0)) co_return std::unexpected(std::move(session.failure()));

  Buffer out;
  write_query(out, script);
  iovec part{out.data(), out.size()};
  if (const auto written = co_await stream.write({&part, 1}, std::max(deadline - reactor.now(), Duration(1)));
      !written) {
    co_return std::unexpected(lost(written.error().text()));
  }
  std::optional<Error> refused;
  std::size_t complete = 0;  // statements completed
  for (;;) {
    Message message;
    const Framing framing = frame(in.data(), in.size(), script_message_limit, message);
    if (framing == Framing::need_more) {
      const auto got = co_await stream.read(in, script_read_size, deadline);
      if (!got && got.error().code == Errc::timed_out) {
        co_return std::unexpected(Error{Failure::timed_out, {}, "it takes too long", 0});
      }
      if (!got || *got == 0) {
        if (refused) co_return std::unexpected(std::move(*refused));  // the error that the server sent before it closed
        co_return std::unexpected(lost(got ? "the server closed it" : got.error().text()));
      }
      continue;
    }
    if (framing != Framing::complete) co_return std::unexpected(lost("the server sent a malformed message"));
    if (message.type == 'E' && !refused) {
      const auto notice = parse_notice(message.payload);
      if (!notice) co_return std::unexpected(lost("the server sent a malformed message"));
      ServerError error(*notice);
      refused = {Failure::statement, std::move(error.sqlstate), std::move(error.message), error.position};
      if (error.position == 0 && complete != 0) refused->message += ", in statement " + std::to_string(complete + 1);
    } else if (message.type == 'C') {
      ++complete;
    } else if (message.type == 'G') {
      co_return std::unexpected(Error{Failure::statement, {}, "COPY FROM STDIN: a script has no data of its own", 0});
    } else if (message.type == 'Z') {
      if (refused) co_return std::unexpected(std::move(*refused));
      Buffer goodbye;
      write_terminate(goodbye);
      iovec last{goodbye.data(), goodbye.size()};
      (void)co_await stream.write({&last, 1}, std::chrono::seconds(1));
      co_return Result<void>{};
    }
    in.consume(message.size);
  }
}

}  // namespace sluice::sql::postgres
