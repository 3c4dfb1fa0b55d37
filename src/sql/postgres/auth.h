#pragma once

#include <cstdint>
#include <expected>
#include <string>
#include <string_view>

// How a client authenticates: md5 and SCRAM-SHA-256 (RFC 5802, RFC 7677). Trust and cleartext need no computation.
namespace sluice::sql::postgres {

// The answer to AuthenticationMD5Password: "md5" + hex(md5(hex(md5(password + user)) + salt)).
[[nodiscard]] std::string md5_password(std::string_view user, std::string_view password, std::string_view salt);

// Prepares a password by RFC 4013. If that is impossible, it returns the password itself, as PostgreSQL does: invalid
// UTF-8, characters that are prohibited or not in Unicode 3.2, both directions of writing, or an empty result.
[[nodiscard]] std::string saslprep(std::string_view password);

// One SCRAM-SHA-256 conversation. Errors are sentences for the log.
class ScramClient {
 public:
  // The gs2-cbind-flag (RFC 5802, 6). The server checks that it agrees with what the server has offered.
  enum class Channel : std::uint8_t {
    unbound,           // the client does not support channel binding
    server_cannot,     // the client supports channel binding, and the server has not offered it
    server_end_point,  // bound to the hash of the server's certificate (RFC 5929): SCRAM-SHA-256-PLUS
  };
  // The server chooses the iteration count; a higher one could block a whole core.
  static constexpr unsigned max_iterations = 1'000'000;

  // `user` may be empty: PostgreSQL takes it from the startup message. `nonce` is printable ASCII without commas.
  // `binding`: the hash, for `server_end_point`.
  ScramClient(std::string_view user, std::string_view password, std::string nonce, Channel channel = Channel::unbound,
              std::string_view binding = {});

  [[nodiscard]] static std::string random_nonce();

  [[nodiscard]] std::string first_message() const { return header_ + first_bare_; }
  // Makes the client's last message from the server's first.
  [[nodiscard]] std::expected<std::string, std::string> final_message(std::string_view server_first);
  // Whether the server has proved that it knows the password. Send nothing to a server that has not.
  [[nodiscard]] bool verify(std::string_view server_final) const;

 private:
  std::string password_;
  std::string nonce_;
  std::string header_;  // gs2-header
  std::string binding_;
  std::string first_bare_;
  std::string server_signature_;  // empty until final_message()
};

}  // namespace sluice::sql::postgres
