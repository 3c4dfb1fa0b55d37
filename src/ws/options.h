#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/declare.h"
#include "base/host.h"

namespace sluice::ws {

enum class Compression : std::uint8_t { off, message, connection };

inline NameOf<Compression> names_of(Compression) {
  return {{"off", Compression::off}, {"message", Compression::message}, {"connection", Compression::connection}};
}

enum class ServiceKind : std::uint8_t { echo };

inline NameOf<ServiceKind> names_of(ServiceKind) { return {{"echo", ServiceKind::echo}}; }

// [[websocket]]
struct WebSocketOptions {
  Located<std::string> path;
  Located<std::string> host;
  std::optional<ServiceKind> handler;
  Located<std::string> service{};
  ByteSize max_message = 1_MiB;
  std::optional<Located<ByteSize>> max_frame;
  std::vector<std::string> origins;
  std::vector<std::string> protocols;
  Compression compression = Compression::off;
  std::uint8_t window_bits = 15;
  Duration ping_interval = 30s;
  Duration pong_timeout = 10s;
  Duration close_timeout = 5s;
  Duration write_timeout = 30s;
  std::vector<Located<std::string>> use;
  Located<bool> is_public;
  bool access_log = true;
  Position position;

  static std::string check_origin(std::string_view text) {
    const auto scheme = text.find("://");
    const bool whole = scheme != text.npos && scheme > 0 && text.size() > scheme + 3 &&
                       text.find_first_of("/ ?#", scheme + 3) == text.npos;
    if (whole && ((text.starts_with("https://") && text.ends_with(":443")) ||
                  (text.starts_with("http://") && text.ends_with(":80")))) {
      return "must leave out the scheme's own port, as browsers do: none would match";
    }
    if (text == "*" || text == "null" || whole) return {};
    return "must be an origin, such as \"https://example.com\", or \"*\"";
  }
  static std::string check_protocol(std::string_view text) {
    constexpr std::string_view marks = "!#$%&'*+-.^_`|~";
    for (const char c : text) {
      const bool letter_or_digit = (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z');
      if (!letter_or_digit && marks.find(c) == marks.npos)
        return "must be a token: letters, digits and !#$%&'*+-.^_`|~";
    }
    return text.empty() ? "must not be empty" : std::string();
  }

  template <class Visitor>
  static void declare(Visitor& v) {
    using Self = WebSocketOptions;
    v.field("path", &Self::path, "The path where clients connect.", {.required = true});
    v.field("host", &Self::host, host_meaning, {.check = check_host});
    v.field("handler", &Self::handler, "A built-in handler of messages. `echo` sends every message back.");
    v.field("service", &Self::service,
            "The C++ service that handles messages, by the name under which the program has added it. Either this or "
            "`handler` is required.");
    v.field("max_message", &Self::max_message,
            "The longest message, with all its frames and decompressed. A longer one closes the connection with 1009.",
            {.min = 1_B, .max = 1_GiB});
    v.field("max_frame", &Self::max_frame,
            "The longest frame. A longer one closes the connection with 1009. Without it, the limit is `max_message`.",
            {.min = 1_B, .max = 1_GiB});
    v.field("origins", &Self::origins,
            "The origins of pages that may connect, such as `https://example.com`; `*`: all. `[]`: only pages of the "
            "same host and port. Other pages are answered 403. A client that sends no Origin is not a browser and "
            "may connect.",
            {.check = check_origin});
    v.field("protocols", &Self::protocols,
            "The supported subprotocols. The first one in the client's list that is also in this list is chosen.",
            {.check = check_protocol});
    v.field("compression", &Self::compression,
            "permessage-deflate, for clients that offer it. `message`: each message is compressed separately. "
            "`connection`: messages share a dictionary; they become smaller, and each connection takes up to 200 KiB "
            "of memory.");
    v.field("window_bits", &Self::window_bits,
            "The largest compression window: two to the power of this number, in bytes.", {.min = 9, .max = 15});
    v.field("ping_interval", &Self::ping_interval, "A client that has been silent for this long is sent a ping.",
            {.min = 10ms, .max = 24h});
    v.field("pong_timeout", &Self::pong_timeout,
            "How long a client may stay silent after a ping before it is disconnected.", {.min = 10ms, .max = 1h});
    v.field("close_timeout", &Self::close_timeout, "How long a client may take to answer a close frame.",
            {.min = 1ms, .max = 1h});
    v.field("write_timeout", &Self::write_timeout, "How long a client may read nothing before it is disconnected.",
            {.min = 1ms, .max = 24h});
    v.field("use", &Self::use,
            "The names of the policies ([policy.NAME]) that apply to a request, in this order, whatever its method.");
    v.field("public", &Self::is_public, "`true`: the policies of [defaults] do not apply here.");
    v.field("access_log", &Self::access_log, "`false`: the access log has no lines for these requests.");
    v.position(&Self::position);
  }
};

}  // namespace sluice::ws
