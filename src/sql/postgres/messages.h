#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "base/buffer.h"
#include "sql/rows.h"

// The PostgreSQL frontend/backend protocol, version 3.0, without I/O. Writers append the client's messages to a Buffer;
// readers turn the server's bytes into views. No reader trusts a length or a count that the server sent.
namespace sluice::sql::postgres {

inline constexpr std::uint32_t text_oid = 25;

[[nodiscard]] inline std::uint16_t load_u16(const char* bytes) {
  std::uint16_t value;
  std::memcpy(&value, bytes, sizeof value);
  return __builtin_bswap16(value);
}
[[nodiscard]] inline std::uint32_t load_u32(const char* bytes) {
  std::uint32_t value;
  std::memcpy(&value, bytes, sizeof value);
  return __builtin_bswap32(value);
}

// One message of the server, still in the receive buffer.
struct Message {
  char type = 0;
  std::string_view payload;
  std::size_t size = 0;  // including type and length; known once five bytes have arrived
};

enum class Framing : std::uint8_t {
  complete,
  need_more,  // message.size is the total size, or 0 while that is unknown
  malformed,
  too_large,  // well formed, but larger than the caller's limit
};

// The first message in `size` bytes at `data`. `limit` bounds the whole message.
[[nodiscard]] inline Framing frame(const char* data, std::size_t size, std::size_t limit, Message& message) {
  if (size < 5) {
    message.size = 0;
    return Framing::need_more;
  }
  const std::uint32_t length = load_u32(data + 1);
  if (length < 4) return Framing::malformed;
  message.size = std::size_t{length} + 1;
  if (message.size > limit) return Framing::too_large;
  if (size < message.size) return Framing::need_more;
  message.type = data[0];
  message.payload = {data + 5, length - 4};
  return Framing::complete;
}

// Splits a DataRow into exactly `columns` fields at `into`. Returns false if the bytes are not such a row.
[[nodiscard]] inline bool cut_row(std::string_view payload, std::size_t columns, Field* into) {
  const char* at = payload.data();
  const char* const end = at + payload.size();
  if (payload.size() < 2 || load_u16(at) != columns) return false;
  at += 2;
  for (Field* const stop = into + columns; into != stop; ++into) {
    if (end - at < 4) return false;
    const std::uint32_t size = load_u32(at);
    at += 4;
    if (size == 0xffffffffU) {
      into->data = nullptr;
      into->size = 0;
    } else {
      if (size > static_cast<std::size_t>(end - at)) return false;
      into->data = at;
      into->size = size;
      at += size;
    }
  }
  return at == end;
}

// The server's messages, parsed. Views last as long as the payload.

// ErrorResponse or NoticeResponse. Missing fields are empty.
struct ServerNotice {
  std::string_view severity;  // the untranslated one, if the server sends it
  std::string_view sqlstate;
  std::string_view message;
  std::string_view detail;
  std::string_view hint;
  std::uint32_t position = 0;  // 1-based character in the statement's text; 0: unknown
  std::string_view where;      // "COPY t, line 3, column c: ..."
  std::string_view routine;    // the function in the server's source that raised it
  std::string_view table;      // the constraint's table, without its schema
  std::string_view column;
  std::string_view constraint;
};
[[nodiscard]] std::optional<ServerNotice> parse_notice(std::string_view payload);

// The rows that a statement has changed, from its CommandComplete: "INSERT 0 3", "UPDATE 2". A SELECT changes nothing.
[[nodiscard]] std::uint64_t changes_of(std::string_view tag);

struct FieldDescription {
  std::string_view name;
  std::uint32_t type = 0;    // OID
  std::uint16_t format = 0;  // 0: text
};
[[nodiscard]] std::optional<std::vector<FieldDescription>> parse_row_description(std::string_view payload);

// The OIDs of a statement's parameters.
[[nodiscard]] std::optional<std::vector<std::uint32_t>> parse_parameter_description(std::string_view payload);

struct ParameterStatus {
  std::string_view name;
  std::string_view value;
};
[[nodiscard]] std::optional<ParameterStatus> parse_parameter_status(std::string_view payload);

struct BackendKey {
  std::uint32_t process = 0;
  std::uint32_t secret = 0;
};
[[nodiscard]] std::optional<BackendKey> parse_backend_key(std::string_view payload);

struct Notification {
  std::uint32_t process = 0;
  std::string_view channel;
  std::string_view payload;
};
[[nodiscard]] std::optional<Notification> parse_notification(std::string_view payload);

struct AuthenticationRequest {
  enum class Kind : std::uint8_t { ok, cleartext, md5, sasl, sasl_continue, sasl_final, unsupported };
  Kind kind{};
  std::uint32_t code = 0;             // as sent
  std::string_view data;              // md5: the salt (4 bytes); sasl_continue and sasl_final: the server's message
  bool offers_scram_sha_256 = false;  // sasl: among the mechanisms
  bool offers_scram_sha_256_plus = false;
};
[[nodiscard]] std::optional<AuthenticationRequest> parse_authentication(std::string_view payload);

// ReadyForQuery: 'I' idle, 'T' in a transaction, 'E' in a failed one.
[[nodiscard]] std::optional<char> parse_ready(std::string_view payload);

// The client's messages. Strings that end with NUL on the wire must not contain NUL: callers check user input.

struct StartupParameter {
  std::string_view name;
  std::string_view value;
};
// Sent before everything else. The server answers with one byte: 'S' if the TLS handshake may begin, otherwise 'N'.
void write_ssl_request(Buffer& out);
void write_startup(Buffer& out, const std::vector<StartupParameter>& parameters);
void write_password(Buffer& out, std::string_view password);
void write_sasl_initial(Buffer& out, std::string_view mechanism, std::string_view response);
void write_sasl_response(Buffer& out, std::string_view response);
void write_query(Buffer& out, std::string_view sql);
// The server infers the type of a parameter whose entry in `types` is 0 or missing.
void write_parse(Buffer& out, std::string_view name, std::string_view sql, std::span<const std::uint32_t> types);
void write_describe_statement(Buffer& out, std::string_view name);
void write_close_statement(Buffer& out, std::string_view name);
// Binds the unnamed portal with values in text format. `parameters` is the output of `count` calls of put_parameter().
void write_bind(Buffer& out, std::string_view statement, std::uint16_t count, std::string_view parameters);
// Writes one parameter as Bind carries it: 4 bytes of length, then the text. nullopt is NULL. Returns the end.
char* put_parameter(char* at, std::optional<std::string_view> value);
// Executes the unnamed portal. A `row_limit` of 0 means all rows.
void write_execute(Buffer& out, std::uint32_t row_limit);
void write_sync(Buffer& out);
// COPY ... FROM STDIN: any number of write_copy_data() in text format, then write_copy_done() or write_copy_fail().
void write_copy_data(Buffer& out, std::string_view lines);
void write_copy_done(Buffer& out);
void write_copy_fail(Buffer& out, std::string_view why);
// Appends one value of a line for write_copy_data(), with special characters escaped.
void append_copy_value(Buffer& out, std::string_view text);
void write_terminate(Buffer& out);
// Sent on a separate connection, as its only message besides an SSLRequest.
void write_cancel(Buffer& out, const BackendKey& key);

}  // namespace sluice::sql::postgres
