#include "sql/postgres/messages.h"

#include <charconv>

namespace sluice::sql::postgres {
namespace {

// Reads values from the front of a payload. After one failure all later reads fail too.
class PayloadReader {
 public:
  explicit PayloadReader(std::string_view bytes) : rest_(bytes) {}

  [[nodiscard]] bool ok() const { return ok_; }
  [[nodiscard]] bool at_end() const { return ok_ && rest_.empty(); }
  [[nodiscard]] std::string_view rest() const { return rest_; }

  std::uint8_t u8() {
    if (!has(1)) return 0;
    const auto value = static_cast<std::uint8_t>(rest_[0]);
    rest_.remove_prefix(1);
    return value;
  }
  std::uint16_t u16() {
    if (!has(2)) return 0;
    const std::uint16_t value = load_u16(rest_.data());
    rest_.remove_prefix(2);
    return value;
  }
  std::uint32_t u32() {
    if (!has(4)) return 0;
    const std::uint32_t value = load_u32(rest_.data());
    rest_.remove_prefix(4);
    return value;
  }
  // Reads up to the next NUL and skips it.
  std::string_view string() {
    const std::size_t end = ok_ ? rest_.find('\0') : std::string_view::npos;
    if (end == std::string_view::npos) {
      ok_ = false;
      return {};
    }
    const std::string_view value = rest_.substr(0, end);
    rest_.remove_prefix(end + 1);
    return value;
  }

 private:
  bool has(std::size_t bytes) {
    if (rest_.size() < bytes) ok_ = false;
    return ok_;
  }

  std::string_view rest_;
  bool ok_ = true;
};

void append_u16(Buffer& out, std::uint16_t value) {
  value = __builtin_bswap16(value);
  std::memcpy(out.reserve(sizeof value), &value, sizeof value);
  out.commit(sizeof value);
}

void append_u32(Buffer& out, std::uint32_t value) {
  value = __builtin_bswap32(value);
  std::memcpy(out.reserve(sizeof value), &value, sizeof value);
  out.commit(sizeof value);
}

void append_string(Buffer& out, std::string_view value) {
  out.append(value);
  out.push_back('\0');
}

void begin_message(Buffer& out, char type, std::size_t payload) {
  out.push_back(type);
  append_u32(out, static_cast<std::uint32_t>(payload + 4));
}

std::uint32_t parse_number(std::string_view digits) {
  std::uint64_t value = 0;
  for (const char digit : digits) {
    if (digit < '0' || digit > '9') return 0;
    value = value * 10 + static_cast<std::uint64_t>(digit - '0');
    if (value > 0xffffffffU) return 0;
  }
  return static_cast<std::uint32_t>(value);
}

}  // namespace

std::uint64_t changes_of(std::string_view tag) {
  if (!tag.empty() && tag.back() == '\0') tag.remove_suffix(1);
  if (tag.starts_with("SELECT")) return 0;
  std::uint64_t count = 0;
  if (const auto blank = tag.rfind(' '); blank != tag.npos) {
    std::from_chars(tag.data() + blank + 1, tag.data() + tag.size(), count);
  }
  return count;
}

std::optional<ServerNotice> parse_notice(std::string_view payload) {
  PayloadReader reader(payload);
  ServerNotice notice;
  bool has_untranslated_severity = false;
  for (;;) {
    const auto type = static_cast<char>(reader.u8());
    if (!reader.ok()) return std::nullopt;
    if (type == '\0') return reader.at_end() ? std::optional(notice) : std::nullopt;
    const std::string_view value = reader.string();
    if (!reader.ok()) return std::nullopt;
    switch (type) {
      case 'S':
        if (!has_untranslated_severity) notice.severity = value;
        break;
      case 'V':
        notice.severity = value;
        has_untranslated_severity = true;
        break;
      case 'C':
        notice.sqlstate = value;
        break;
      case 'M':
        notice.message = value;
        break;
      case 'D':
        notice.detail = value;
        break;
      case 'H':
        notice.hint = value;
        break;
      case 'P':
        notice.position = parse_number(value);
        break;
      case 'W':
        notice.where = value;
        break;
      case 'R':
        notice.routine = value;
        break;
      case 't':
        notice.table = value;
        break;
      case 'c':
        notice.column = value;
        break;
      case 'n':
        notice.constraint = value;
        break;
      default:
        break;  // frontends should ignore fields of unrecognised type
    }
  }
}

std::optional<std::vector<FieldDescription>> parse_row_description(std::string_view payload) {
  PayloadReader reader(payload);
  const std::uint16_t count = reader.u16();
  // A field takes at least 19 bytes, so the payload's size limits the allocation, whatever count the server sends.
  if (!reader.ok() || reader.rest().size() / 19 < count) return std::nullopt;
  std::vector<FieldDescription> fields(count);
  for (FieldDescription& field : fields) {
    field.name = reader.string();
    reader.u32();  // the table's OID
    reader.u16();  // the attribute's number
    field.type = reader.u32();
    reader.u16();  // the type's size
    reader.u32();  // the type's modifier
    field.format = reader.u16();
  }
  if (!reader.at_end()) return std::nullopt;
  return fields;
}

std::optional<std::vector<std::uint32_t>> parse_parameter_description(std::string_view payload) {
  PayloadReader reader(payload);
  const std::uint16_t count = reader.u16();
  if (!reader.ok() || reader.rest().size() != std::size_t{count} * 4) return std::nullopt;
  std::vector<std::uint32_t> types(count);
  for (std::uint32_t& type : types) type = reader.u32();
  return types;
}

std::optional<ParameterStatus> parse_parameter_status(std::string_view payload) {
  PayloadReader reader(payload);
  ParameterStatus status;
  status.name = reader.string();
  status.value = reader.string();
  return reader.at_end() ? std::optional(status) : std::nullopt;
}

std::optional<BackendKey> parse_backend_key(std::string_view payload) {
  PayloadReader reader(payload);
  BackendKey key;
  key.process = reader.u32();
  key.secret = reader.u32();
  return reader.at_end() ? std::optional(key) : std::nullopt;
}

std::optional<Notification> parse_notification(std::string_view payload) {
  PayloadReader reader(payload);
  Notification notification;
  notification.process = reader.u32();
  notification.channel = reader.string();
  notification.payload = reader.string();
  return reader.at_end() ? std::optional(notification) : std::nullopt;
}

std::optional<AuthenticationRequest> parse_authentication(std::string_view payload) {
  using Kind = AuthenticationRequest::Kind;
  PayloadReader reader(payload);
  AuthenticationRequest request;
  request.code = reader.u32();
  if (!reader.ok()) return std::nullopt;
  request.data = reader.rest();
  switch (request.code) {
    case 0:
      request.kind = Kind::ok;
      return reader.at_end() ? std::optional(request) : std::nullopt;
    case 3:
      request.kind = Kind::cleartext;
      return reader.at_end() ? std::optional(request) : std::nullopt;
    case 5:
      request.kind = Kind::md5;
      return request.data.size() == 4 ? std::optional(request) : std::nullopt;
    case 10:
      request.kind = Kind::sasl;
      for (;;) {
        const std::string_view mechanism = reader.string();
        if (!reader.ok()) return std::nullopt;
        if (mechanism.empty()) return reader.at_end() ? std::optional(request) : std::nullopt;
        request.offers_scram_sha_256 |= mechanism == "SCRAM-SHA-256";
        request.offers_scram_sha_256_plus |= mechanism == "SCRAM-SHA-256-PLUS";
      }
    case 11:
      request.kind = Kind::sasl_continue;
      return request;
    case 12:
      request.kind = Kind::sasl_final;
      return request;
    default:
      request.kind = Kind::unsupported;
      return request;
  }
}

std::optional<char> parse_ready(std::string_view payload) {
  if (payload.size() != 1) return std::nullopt;
  const char status = payload[0];
  return status == 'I' || status == 'T' || status == 'E' ? std::optional(status) : std::nullopt;
}

void write_ssl_request(Buffer& out) {
  append_u32(out, 8);
  append_u32(out, (1234U << 16) | 5679U);
}

void write_startup(Buffer& out, const std::vector<StartupParameter>& parameters) {
  std::size_t size = 4 + 4 + 1;
  for (const auto& [name, value] : parameters) size += name.size() + value.size() + 2;
  append_u32(out, static_cast<std::uint32_t>(size));
  append_u32(out, 3U << 16);
  for (const auto& [name, value] : parameters) {
    append_string(out, name);
    append_string(out, value);
  }
  out.push_back('\0');
}

void write_password(Buffer& out, std::string_view password) {
  begin_message(out, 'p', password.size() + 1);
  append_string(out, password);
}

void write_sasl_initial(Buffer& out, std::string_view mechanism, std::string_view response) {
  begin_message(out, 'p', mechanism.size() + 1 + 4 + response.size());
  append_string(out, mechanism);
  append_u32(out, static_cast<std::uint32_t>(response.size()));
  out.append(response);
}

void write_sasl_response(Buffer& out, std::string_view response) {
  begin_message(out, 'p', response.size());
  out.append(response);
}

void write_query(Buffer& out, std::string_view sql) {
  begin_message(out, 'Q', sql.size() + 1);
  append_string(out, sql);
}

void write_parse(Buffer& out, std::string_view name, std::string_view sql, std::span<const std::uint32_t> types) {
  begin_message(out, 'P', name.size() + 1 + sql.size() + 1 + 2 + 4 * types.size());
  append_string(out, name);
  append_string(out, sql);
  append_u16(out, static_cast<std::uint16_t>(types.size()));
  for (const std::uint32_t type : types) append_u32(out, type);
}

void write_describe_statement(Buffer& out, std::string_view name) {
  begin_message(out, 'D', 1 + name.size() + 1);
  out.push_back('S');
  append_string(out, name);
}

void write_close_statement(Buffer& out, std::string_view name) {
  begin_message(out, 'C', 1 + name.size() + 1);
  out.push_back('S');
  append_string(out, name);
}

void write_bind(Buffer& out, std::string_view statement, std::uint16_t count, std::string_view parameters) {
  begin_message(out, 'B', 1 + statement.size() + 1 + 2 + 2 + parameters.size() + 2);
  out.push_back('\0');  // the unnamed portal
  append_string(out, statement);
  append_u16(out, 0);  // no format codes: all text
  append_u16(out, count);
  out.append(parameters);
  append_u16(out, 0);  // no result format codes: all text
}

char* put_parameter(char* at, std::optional<std::string_view> value) {
  const std::uint32_t size = __builtin_bswap32(value ? static_cast<std::uint32_t>(value->size()) : 0xffffffffU);
  std::memcpy(at, &size, sizeof size);
  at += sizeof size;
  if (value && !value->empty()) std::memcpy(at, value->data(), value->size());
  return value ? at + value->size() : at;
}

void write_execute(Buffer& out, std::uint32_t row_limit) {
  begin_message(out, 'E', 1 + 4);
  out.push_back('\0');
  append_u32(out, row_limit);
}

void write_sync(Buffer& out) { begin_message(out, 'S', 0); }

void write_copy_data(Buffer& out, std::string_view lines) {
  begin_message(out, 'd', lines.size());
  out.append(lines);
}

void write_copy_done(Buffer& out) { begin_message(out, 'c', 0); }

void write_copy_fail(Buffer& out, std::string_view why) {
  begin_message(out, 'f', why.size() + 1);
  append_string(out, why);
}

void append_copy_value(Buffer& out, std::string_view text) {
  while (!text.empty()) {
    const auto plain = std::min(text.find_first_of("\\\n\r\t"), text.size());
    out.append(text.substr(0, plain));
    text.remove_prefix(plain);
    if (text.empty()) return;
    out.push_back('\\');
    switch (text.front()) {
      case '\n':
        out.push_back('n');
        break;
      case '\r':
        out.push_back('r');
        break;
      case '\t':
        out.push_back('t');
        break;
      default:
        out.push_back('\\');
    }
    text.remove_prefix(1);
  }
}

void write_terminate(Buffer& out) { begin_message(out, 'X', 0); }

void write_cancel(Buffer& out, const BackendKey& key) {
  append_u32(out, 16);
  append_u32(out, (1234U << 16) | 5678U);
  append_u32(out, key.process);
  append_u32(out, key.secret);
}

}  // namespace sluice::sql::postgres
