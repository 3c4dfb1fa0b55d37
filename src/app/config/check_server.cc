#include "app/config/check_server.h"

#include <string>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "app/config/listen.h"
#include "app/config/reader.h"
#include "app/config/text.h"
#include "http/answer_fields.h"
#include "http/fields.h"

namespace sluice::app::config {
namespace {

void check_tls(const ServerOptions& server, bool has_secure_frames, const Complain& complain) {
  int secure = has_secure_frames ? 1 : 0;
  int plain = 0;
  for (const auto& listen : server.listen) {
    const Listen parsed = Listen::parse(listen.value);
    ++(parsed.secure(server.tls.has_value()) ? secure : plain);
    if (parsed.scheme == Listen::Scheme::https && !server.tls) {
      complain(listen.position, "there is no certificate for this address", "add [server.tls]");
    }
  }
  if (!server.tls) return;
  const TlsOptions& tls = *server.tls;
  if (secure == 0) complain(tls.position, "no address of \"listen\" speaks TLS", "write \"https://...\" for one");
  if (tls.redirect.value && plain == 0) {
    complain(tls.redirect.position, "there is no address without TLS to redirect from",
             "add one to \"listen\", such as \"http://*:80\"");
  }
  if (tls.redirect_port.position.line != 0 && !tls.redirect.value) {
    complain(tls.redirect_port.position, "\"redirect_port\" is for \"redirect = true\"");
  }
  const bool asks = tls.client_auth.value != ClientAuth::off;
  if (asks && tls.client_ca.value.empty()) {
    complain(tls.client_auth.position, "certificates of clients cannot be verified without \"client_ca\"");
  }
  if (!asks && !tls.client_ca.value.empty()) {
    complain(tls.client_ca.position, "\"client_ca\" is used only with \"client_auth\"",
             "add client_auth = \"require\"");
  }
  if (tls.client_ca.value.empty() && tls.crl.position.line != 0) {
    complain(tls.crl.position, "\"crl\" is about the revocation lists in \"client_ca\"");
  }
}

void check_limits(const ServerOptions& server, const Complain& complain) {
  if (server.target_limit.position.line != 0 && server.target_limit.value > server.header_limit) {
    complain(server.target_limit.position, "a target of that length does not fit into header_limit",
             fmt::format("header_limit is {}", format_size(server.header_limit)));
  }
}

// Refuses fields that the server or a handler writes itself, because they would be sent twice.
void check_headers(const ServerOptions& server, const Source& source, const Complain& complain) {
  static constexpr std::pair<std::string_view, std::string_view> others[] = {
      {"Server", "\"server_header\" of [server] sets it"},
      {"Strict-Transport-Security", "\"hsts\" of [server.tls] sets it"},
      {"Cache-Control", "\"cache_control\" of [[endpoint]] and [[files]] sets it"},
      {"Accept-Ranges", {}},
      {"Age", {}},
      {"Allow", {}},
      {"Connection", {}},
      {"Content-Encoding", {}},
      {"Content-Length", {}},
      {"Content-Range", {}},
      {"Content-Type", {}},
      {"Date", {}},
      {"ETag", {}},
      {"Keep-Alive", {}},
      {"Last-Modified", {}},
      {"Location", {}},
      {"Proxy-Connection", {}},
      {"Retry-After", {}},
      {"TE", {}},
      {"Trailer", {}},
      {"Transfer-Encoding", {}},
      {"Upgrade", {}},
      {"Vary", {}}};
  if (server.headers.size() > http::AnswerFields::max_configured) {
    complain(server.headers.back().name.position,
             fmt::format("[server.headers] has more than {} fields", http::AnswerFields::max_configured));
  }
  for (std::size_t i = 0; i < server.headers.size(); ++i) {
    const auto& [name, header] = server.headers[i];
    // Keys are in lower case. A header field with the same name can still be written in another case.
    if (is_key_of<ServerOptions>(name.value)) {
      complain(name.position, misplaced(name.value, "[server]", "[server.headers]"), move_above("[server.headers]"));
    }
    if (!http::is_token(name.value)) complain(name.position, "not the name of a header field");
    for (const auto& [other, instead] : others) {
      if (!http::same_name(name.value, other)) continue;
      complain(name.position, "the server writes this field itself", std::string(instead));
    }
    for (std::size_t j = 0; j < i; ++j) {
      if (!http::same_name(name.value, server.headers[j].name.value)) continue;
      complain(name.position, "this field comes twice", again(server.headers[j].name.position, source.files()));
    }
    check_field_value(header.value, source, complain);
  }
}

}  // namespace

void check_field_value(const Located<std::string>& field, const Source& source, const Complain& complain) {
  std::uint32_t character = 1;
  for (char byte : field.value) {
    auto code = static_cast<unsigned char>(byte);
    if ((code < 0x20 && byte != '\t') || code >= 0x7f) {
      complain(source.locate(field.position, character), "a header field holds printable ASCII only");
      return;
    }
    ++character;
  }
  if (field.value.starts_with(' ') || field.value.ends_with(' ')) {
    complain(field.position, "a header field neither begins nor ends with a space");
  }
}

void check_server(const ServerOptions& server, bool has_secure_frames, const Source& source, const Complain& complain) {
  check_tls(server, has_secure_frames, complain);
  check_field_value(server.server_header, source, complain);
  check_headers(server, source, complain);
  check_limits(server, complain);
  if (server.client_header.position.line != 0 && server.trusted_proxies.empty()) {
    complain(server.client_header.position, "\"client_header\" needs \"trusted_proxies\"",
             "any client could name any address");
  }
  if (!server.http1 && !server.http2.value) {
    complain(server.http2.position, "a server needs HTTP/1.1 or HTTP/2");
  }
}

}  // namespace sluice::app::config

namespace sluice::app {

// A word is probably misspelt, and not the name of a file.
std::string ServerOptions::check_access_log(std::string_view text) {
  if (text == "off" || text == "stdout" || text.find_first_of("/.") != text.npos) return "";
  return "must be \"off\", \"stdout\" or the path of a file, with a \"/\" or a \".\"";
}

std::string ServerOptions::check_error_log(std::string_view text) {
  if (text == "stderr" || text.find_first_of("/.") != text.npos) return "";
  return "must be \"stderr\" or the path of a file, with a \"/\" or a \".\"";
}

std::string ServerOptions::check_client_header(std::string_view text) {
  if (http::same_name(text, "forwarded"))
    return "must be a field with plain addresses; Forwarded (RFC 7239) is not read";
  return http::is_token(text) ? "" : "must be the name of a header field";
}

}  // namespace sluice::app
