// Everything that a PostgreSQL server can send: the framing, the parser of each message type, and the SCRAM messages.
// The first byte chooses how many columns a row is expected to have.
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "fuzzing.h"
#include "sql/postgres/auth.h"
#include "sql/postgres/messages.h"

namespace {

using namespace sluice::sql::postgres;
using sluice::fuzz::require;
using sluice::sql::Field;

// A view that a parser returns lies inside the parser's input.
void require_inside(std::string_view part, std::string_view whole) {
  require(part.empty() || (part.data() >= whole.data() && part.data() + part.size() <= whole.data() + whole.size()));
}

void look_at(const Message& message, std::size_t columns) {
  const std::string_view payload = message.payload;
  switch (message.type) {
    case 'D': {
      std::vector<Field> fields(columns);
      if (!cut_row(payload, columns, fields.data())) return;
      std::size_t size = 2 + 4 * columns;
      for (const Field& field : fields) {
        require_inside(field.view(), payload);
        size += field.size;
      }
      require(size == payload.size());
      return;
    }
    case 'T':
      if (const auto fields = parse_row_description(payload)) {
        for (const FieldDescription& field : *fields) require_inside(field.name, payload);
      }
      return;
    case 't':
      if (const auto types = parse_parameter_description(payload)) require(types->size() * 4 + 2 == payload.size());
      return;
    case 'E':
    case 'N':
      if (const auto notice = parse_notice(payload)) {
        for (const auto part : {notice->severity, notice->sqlstate, notice->message, notice->detail, notice->hint}) {
          require_inside(part, payload);
        }
        (void)ServerNotice(*notice);
      }
      return;
    case 'S':
      if (const auto status = parse_parameter_status(payload)) {
        require(status->name.size() + status->value.size() + 2 == payload.size());
      }
      return;
    case 'K':
      (void)parse_backend_key(payload);
      return;
    case 'A':
      (void)parse_notification(payload);
      return;
    case 'Z':
      (void)parse_ready(payload);
      return;
    case 'R':
      if (const auto request = parse_authentication(payload)) {
        require_inside(request->data, payload);
        // The server chooses the iteration count, and a million hashes would only slow the fuzzer down.
        if (request->kind == AuthenticationRequest::Kind::sasl_continue && payload.find("i=1,") == payload.npos &&
            payload.ends_with("i=1")) {
          ScramClient client("", "secret", "nonce", ScramClient::Channel::server_end_point, "a hash");
          (void)client.final_message(request->data);
          (void)client.verify(request->data);
        }
        (void)saslprep(request->data);
      }
      return;
    default:
      return;
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const std::size_t columns = data[0] % 17;
  const char* at = reinterpret_cast<const char*>(data) + 1;
  std::size_t left = size - 1;
  for (;;) {
    Message message;
    const Framing framing = frame(at, left, 1 << 16, message);
    if (framing != Framing::complete) {
      require(framing != Framing::need_more || message.size == 0 || message.size > left);
      return 0;
    }
    require(message.size >= 5 && message.size <= left && message.payload.size() + 5 == message.size);
    look_at(message, columns);
    at += message.size;
    left -= message.size;
  }
}
