#include "sql/postgres/session_start.h"

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "sql/postgres/auth.h"
#include "sql/postgres/encryption.h"
#include "sql/postgres/server_error.h"
#include "sql/postgres/settings.h"

namespace sluice::sql::postgres {
namespace {

constexpr std::size_t start_message_limit = 64 << 10;  // no message before the session is ready is longer
constexpr std::string_view other_protocol = "the server does not speak PostgreSQL's protocol";
constexpr std::string_view rejected = "28000";  // usually refused by pg_hba.conf; trying again is useless
constexpr std::string_view no_proof = "the server did not prove that it knows the password";

}  // namespace

core::Task<bool> SessionStart::run(std::uint32_t statement_timeout_ms) {
  deadline_ = stream_.reactor().now() + std::chrono::milliseconds(options_.connect_timeout_ms);
  const SslMode mode = options_.ssl_mode;
  const bool over_tls = mode != SslMode::disable && mode != SslMode::allow;
  if (co_await attempt(statement_timeout_ms, over_tls)) co_return true;
  const bool may_change = mode == SslMode::allow || mode == SslMode::prefer;
  if (!may_change || !worth_the_other_way_ || stream_.reactor().now() >= deadline_) co_return false;

  const std::string first = std::move(failure_.message);
  failure_ = {Failure::unavailable, {}, {}, 0};
  stream_.close();
  in_.clear();
  if (co_await attempt(statement_timeout_ms, !over_tls)) co_return true;
  failure_.message = first + (over_tls ? "; without TLS: " : "; over TLS: ") + failure_.message;
  co_return false;
}

core::Task<bool> SessionStart::attempt(std::uint32_t statement_timeout_ms, bool over_tls) {
  if (!co_await connect()) co_return false;
  over_tls = over_tls && address_.family() != AF_UNIX;
  if (over_tls && !co_await begin_tls()) co_return false;

  const std::string timeout = std::to_string(statement_timeout_ms);
  std::vector<StartupParameter> parameters = {{"user", options_.user},
                                              {"database", options_.database},
                                              {"client_encoding", "UTF8"},
                                              {"application_name", options_.application_name},
                                              {"DateStyle", "ISO"}};
  if (options_.prepared) {
    for (const auto& [name, value] : text_settings) parameters.push_back({name, value});
    parameters.push_back({"statement_timeout", timeout});
  }
  Buffer bytes;
  write_startup(bytes, parameters);
  if (!co_await write(bytes)) co_return false;
  if (!co_await authenticate()) co_return false;
  for (;;) {
    Message message;
    if (!co_await read(message)) co_return false;
    switch (message.type) {
      case 'Z':
        if (!parse_ready(message.payload)) co_return fail(other_protocol);
        in_.consume(message.size);
        co_return true;
      case 'K':
        if (const auto key = parse_backend_key(message.payload)) key_ = *key;
        break;
      case 'E':
        co_return refused(message);
      case 'S':
      case 'N':
      case 'v':
        break;
      default:
        co_return fail(other_protocol);
    }
    in_.consume(message.size);
  }
}

core::Task<bool> SessionStart::connect() {
  std::vector<core::Address> addresses = options_.addresses;
  std::string unresolved;
  if (options_.resolver != nullptr && addresses.front().family() != AF_UNIX) {
    const Instant now = stream_.reactor().now();
    // Half of the time is reserved for connecting.
    const auto found =
        co_await options_.resolver->resolve(*options_.mailbox, options_.host, now + (deadline_ - now) / 2);
    if (found) {
      addresses = (*found)->list;
      const std::uint16_t port = options_.addresses.front().port();
      for (core::Address& address : addresses) address = *core::Address::from_ip(address.ip(), port);
    } else {
      unresolved = "; the host \"" + options_.host + "\" cannot be resolved: " + found.error();
    }
  }
  for (std::size_t i = 0; i < addresses.size(); ++i) {
    const core::Address& address = addresses[i];
    // An address that drops packets must not use up the time of the following addresses.
    const Instant now = stream_.reactor().now();
    const auto left = static_cast<Duration::rep>(addresses.size() - i);
    const auto result = co_await stream_.connect(address, now + (deadline_ - now) / left);
    if (result) {
      address_ = address;
      co_return true;
    }
    failure_.message = "cannot connect to " + address.text() + ": " + result.error().text() + unresolved;
  }
  co_return false;
}

core::Task<bool> SessionStart::begin_tls() {
  Encryption tls = co_await encrypt(options_, stream_, tls_, deadline_);
  switch (tls.outcome) {
    case Encryption::Outcome::on:
      co_return true;
    case Encryption::Outcome::declined:
      if (options_.ssl_mode == SslMode::prefer) co_return true;
      co_return fail(
          "the server does not support TLS" + (options_.ssl_mode == SslMode::allow
                                                   ? std::string()
                                                   : ", but sslmode=" + std::string(name_of(options_.ssl_mode))),
          rejected);
    case Encryption::Outcome::failed:
      break;
  }
  // Only a failed handshake justifies a second attempt without TLS; earlier failures have other causes.
  worth_the_other_way_ = stream_.tls() != nullptr;
  co_return fail(tls.why, tls.distrust ? rejected : "");
}

bool SessionStart::refused_log_in(const Message& message) {
  (void)refused(message);
  // A wrong password, or a missing right to use the database, would fail the second attempt as well.
  const bool is_other_way = stream_.tls() != nullptr || options_.ssl_mode == SslMode::allow;
  worth_the_other_way_ = failure_.sqlstate == rejected && is_other_way;
  return false;
}

core::Task<bool> SessionStart::authenticate() {
  using Kind = AuthenticationRequest::Kind;
  using Channel = ScramClient::Channel;
  std::optional<ScramClient> scram;
  bool server_is_known = false;
  bool is_bound = false;
  const bool hidden = stream_.tls() != nullptr && options_.tls->verify() != net::tls::ClientOptions::Verify::none;
  for (;;) {
    Message message;
    if (!co_await read(message)) co_return false;
    if (message.type == 'E') co_return refused_log_in(message);
    if (message.type == 'N' || message.type == 'v') {
      in_.consume(message.size);
      continue;
    }
    const auto request = message.type == 'R' ? parse_authentication(message.payload) : std::nullopt;
    if (!request) co_return fail(other_protocol);
    Buffer reply;
    // After SCRAM has begun, an honest server asks neither for the password nor for its md5 hash.
    if (scram && (request->kind == Kind::cleartext || request->kind == Kind::md5)) co_return fail(other_protocol);
    if (options_.channel_binding == ChannelBinding::require && !is_bound && request->kind != Kind::sasl) {
      co_return fail("the server does not tie the log-in to its certificate, but channel_binding=require", rejected);
    }
    switch (request->kind) {
      case Kind::ok:
        // A server that skips the end of SCRAM has not proved that it knows the password.
        if (scram && !server_is_known) co_return fail(no_proof);
        in_.consume(message.size);
        co_return true;
      case Kind::cleartext:
        if (!hidden && !options_.allow_cleartext_password) {
          co_return fail("the server asks for the password in the clear; it gets it with sslmode=verify-full only",
                         rejected);
        }
        write_password(reply, options_.password);
        break;
      case Kind::md5:
        write_password(reply, md5_password(options_.user, options_.password, request->data));
        break;
      case Kind::sasl: {
        const bool may_bind = stream_.tls() != nullptr && options_.channel_binding != ChannelBinding::disable;
        const std::string end_point = may_bind ? stream_.tls()->server_end_point() : std::string();
        is_bound = request->offers_scram_sha_256_plus && !end_point.empty();
        if (options_.channel_binding == ChannelBinding::require && !is_bound) {
          co_return fail("the log-in cannot be tied to the server's certificate, but channel_binding=require",
                         rejected);
        }
        if ((!request->offers_scram_sha_256 && !is_bound) || scram) {
          co_return fail("the server offers no SASL mechanism that is supported (SCRAM-SHA-256)");
        }
        const Channel channel = is_bound             ? Channel::server_end_point
                                : !end_point.empty() ? Channel::server_cannot
                                                     : Channel::unbound;
        scram.emplace("", options_.password, ScramClient::random_nonce(), channel, is_bound ? end_point : "");
        write_sasl_initial(reply, is_bound ? "SCRAM-SHA-256-PLUS" : "SCRAM-SHA-256", scram->first_message());
        break;
      }
      case Kind::sasl_continue: {
        const auto answer = scram ? scram->final_message(request->data)
                                  : std::expected<std::string, std::string>(std::unexpected("SCRAM out of order"));
        if (!answer) co_return fail(answer.error());
        write_sasl_response(reply, *answer);
        break;
      }
      case Kind::sasl_final:
        server_is_known = scram && scram->verify(request->data);
        if (!server_is_known) co_return fail(no_proof);
        break;
      case Kind::unsupported:
        co_return fail(
            "the server asks for an authentication that is not supported (code " + std::to_string(request->code) + ")",
            rejected);
    }
    in_.consume(message.size);
    if (!reply.empty() && !co_await write(reply)) co_return false;
  }
}

core::Task<bool> SessionStart::write(Buffer& bytes) {
  iovec part{bytes.data(), bytes.size()};
  const auto written = co_await stream_.write({&part, 1}, deadline_ - stream_.reactor().now());
  if (!written) co_return lost("cannot send to the server", written.error().text());
  co_return true;
}

core::Task<bool> SessionStart::read(Message& message) {
  for (;;) {
    switch (frame(in_.data(), in_.size(), start_message_limit, message)) {
      case Framing::complete:
        co_return true;
      case Framing::need_more:
        break;
      case Framing::malformed:
      case Framing::too_large:
        co_return fail(other_protocol);
    }
    const auto got = co_await stream_.read(in_, 4096, deadline_);
    if (!got || *got == 0) {
      co_return lost("the server did not finish the start of the session",
                     got ? "it closed the connection" : got.error().text());
    }
  }
}

bool SessionStart::fail(std::string_view why, std::string_view sqlstate) {
  failure_.message = why;
  failure_.sqlstate = sqlstate;
  return false;
}

bool SessionStart::lost(std::string_view while_what, const std::string& why) {
  // With TLS 1.3 the server verifies our certificate after the handshake has ended for us.
  const Encryption trouble = trouble_of(options_, stream_);
  if (trouble.distrust) return fail(trouble.why, rejected);
  return fail(std::string(while_what) + ": " + (trouble.why.empty() ? why : trouble.why));
}

bool SessionStart::refused(const Message& message) {
  const auto notice = parse_notice(message.payload);
  if (!notice) return fail(other_protocol);
  const ServerError error(*notice);
  return fail(error.message, error.sqlstate);
}

}  // namespace sluice::sql::postgres
