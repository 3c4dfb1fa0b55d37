#include "gateway/proxy/options.h"

#include <algorithm>
#include <charconv>

#include "http/fields.h"
#include "http/target.h"

namespace sluice::gateway {
namespace {

std::optional<int> parse_number(std::string_view text, int least, int most) {
  int number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc{} || end != text.data() + text.size() || number < least || number > most) return std::nullopt;
  return number;
}

bool is_within(std::string_view text, int least, int most) {
  const auto range = StatusRange::parse(text);
  return range && range->first >= least && range->last <= most;
}

}  // namespace

std::optional<StatusRange> StatusRange::parse(std::string_view text) {
  const std::size_t dash = std::min(text.find('-'), text.size());
  const auto first = parse_number(text.substr(0, dash), 100, 599);
  const auto last = dash == text.size() ? first : parse_number(text.substr(dash + 1), 100, 599);
  if (!first || !last || *last < *first) return std::nullopt;
  return StatusRange{*first, *last};
}

std::optional<HashKey> HashKey::parse(std::string_view text) {
  if (text == "client") return HashKey{Kind::client, {}};
  if (text == "path") return HashKey{Kind::path, {}};
  const std::size_t dot = std::min(text.find('.'), text.size());
  const std::string_view kind = text.substr(0, dot);
  const std::string_view name = text.substr(std::min(dot + 1, text.size()));
  if (name.empty()) return std::nullopt;
  if (kind == "claim") return HashKey{Kind::claim, std::string(name)};
  if (!http::is_token(name)) return std::nullopt;
  if (kind == "header") return HashKey{Kind::header, std::string(name)};
  if (kind == "cookie") return HashKey{Kind::cookie, std::string(name)};
  return std::nullopt;
}

unsigned percent_of(std::string_view text) {
  return static_cast<unsigned>(parse_number(text.substr(0, text.size() - 1), 0, 100).value());
}

std::string check_percent(std::string_view text) {
  const bool is_percent = text.ends_with('%') && parse_number(text.substr(0, text.size() - 1), 0, 100);
  return is_percent ? std::string() : "must be a share from \"0%\" to \"100%\"";
}

std::string EjectOptions::check_status(std::string_view text) {
  if (text.empty() || is_within(text, 500, 599)) return {};
  return "must be a status of a server's fault, as \"503\" is, or a range of them, as \"502-504\"";
}

std::string HealthOptions::check_status(std::string_view text) {
  return is_within(text, 200, 599) ? std::string() : "must be a status, as \"204\" is, or a range, as \"200-399\"";
}

std::string HealthOptions::check_path(std::string_view text) {
  const bool is_plain = std::ranges::all_of(text, [](char c) { return c > ' ' && c < 0x7f && c != '#'; });
  return text.empty() || (text.starts_with('/') && is_plain) ? std::string() : "must be a path, as \"/healthz\" is";
}

std::string HealthOptions::check_host(std::string_view text) {
  const bool is_host = http::is_authority(text, http::PortIs::optional);
  return is_host ? std::string() : "must be a host, as \"billing.example\" is";
}

std::string HealthOptions::check_method(std::string_view text) {
  return text == "GET" || text == "HEAD" || text == "OPTIONS" ? "" : "must be \"GET\", \"HEAD\" or \"OPTIONS\"";
}

std::string UpstreamOptions::check_hash(std::string_view text) {
  if (text.empty() || HashKey::parse(text)) return {};
  return "must be \"client\", \"path\", \"header.NAME\", \"cookie.NAME\" or \"claim.NAME\"";
}

UpstreamOptions UpstreamOptions::without_choice() const {
  UpstreamOptions rest = *this;
  rest.servers.clear();
  rest.balance = {};
  rest.hash = {};
  rest.retries = {};
  rest.retry_on = {};
  rest.required = {};
  rest.connections = {};
  rest.queue = {};
  rest.wait = {};
  return rest;
}

}  // namespace sluice::gateway
