#include "http/client/response_parser.h"

#include <algorithm>
#include <cstring>

#include "base/ascii.h"
#include "base/assert.h"
#include "http/h1/scan.h"
#include "http/response.h"

namespace sluice::http::client {

using h1::BodyFraming;
using h1::Parsed;
using h1::Reason;

ResponseParser::ResponseParser(const ResponseLimits& limits) : limits_(limits) {
  limits_.head_size = std::min<std::size_t>(limits_.head_size, 65535);
}

void ResponseParser::reset() {
  line_begin_ = scanned_ = 0;
  has_length_ = has_encoding_ = upgrades_ = false;
  length_ = 0;
  chunked_count_ = 0;
  connection_ = Connection::unsaid;
  upgrade_line_ = -1;
  lines_.clear();
  head_ = {};
}

Parsed ResponseParser::parse(std::string_view received, Method request) {
  SLUICE_ASSERT(received.size() >= scanned_);
  const auto refuse = [](Reason reason) { return Parsed{Parsed::State::refused, reason, 0}; };
  // Bytes beyond the limit are ignored, so that the result does not depend on whether they arrived together with the
  // others.
  const std::string_view seen = received.substr(0, limits_.head_size);
  for (;;) {
    if (line_begin_ != 0 && scanned_ == line_begin_) {
      if (const PlainField field = find_plain_field(seen); field.end != 0) [[likely]] {
        if (const Reason reason = add(seen.data(), field.name, field.value); reason != Reason::none) {
          return refuse(reason);
        }
        line_begin_ = scanned_ = field.end;
        continue;
      }
    }
    const std::size_t line_feed = seen.find('\n', scanned_);
    if (line_feed == std::string_view::npos) {
      scanned_ = seen.size();
      return received.size() >= limits_.head_size ? refuse(Reason::head_too_large) : Parsed{};
    }
    std::string_view line = seen.substr(line_begin_, line_feed - line_begin_);
    if (!line.ends_with('\r')) return refuse(Reason::bare_lf);
    line.remove_suffix(1);
    const bool is_first = line_begin_ == 0;
    line_begin_ = scanned_ = line_feed + 1;
    if (line.empty() && !is_first) break;
    const Reason reason = is_first ? take_status_line(line) : take_field(seen.data(), line);
    if (reason != Reason::none) return refuse(reason);
  }
  if (const Reason reason = finish(request); reason != Reason::none) return refuse(reason);
  relocate(seen.data());
  return {Parsed::State::done, Reason::none, static_cast<std::uint16_t>(line_begin_)};
}

// Finds the field that begins at line_begin_ without first searching for the end of its line. Its end is 0 if the line
// is not complete, or has anything unusual: the line is then examined as a whole.
ResponseParser::PlainField ResponseParser::find_plain_field(std::string_view seen) const {
  const char* const base = seen.data();
  const char* const end = base + seen.size();
  const char* const begin = base + line_begin_;
  const char* const colon = h1::find_first<h1::EndsPlainName>(base, begin, end);
  if (colon == end || *colon != ':' || colon == begin) return {};
  const char* value = colon + 1;
  if (value != end && *value == ' ') ++value;
  const char* const last = h1::find_first<h1::EndsValue>(base, value, end);
  if (end - last < 2 || last[0] != '\r' || last[1] != '\n') return {};
  if (last != value && (h1::is_ows(*value) || h1::is_ows(last[-1]))) return {};
  return {.name = {begin, static_cast<std::size_t>(colon - begin)},
          .value = {value, static_cast<std::size_t>(last - value)},
          .end = static_cast<std::size_t>(last + 2 - base)};
}

// HTTP-version SP status-code [SP [reason-phrase]]
Reason ResponseParser::take_status_line(std::string_view line) {
  if (line.size() < 8 || !line.starts_with("HTTP/") || !is_digit(line[5]) || line[6] != '.' || !is_digit(line[7])) {
    return Reason::bad_version;
  }
  if (line[5] != '1') return Reason::unsupported_version;
  head_.version = line[7] == '0' ? Version::http10 : Version::http11;
  line.remove_prefix(8);
  if (line.size() < 4 || line[0] != ' ' || !is_digit(line[1]) || !is_digit(line[2]) || !is_digit(line[3])) {
    return Reason::bad_status;
  }
  head_.status = (line[1] - '0') * 100 + (line[2] - '0') * 10 + (line[3] - '0');
  line.remove_prefix(4);
  if (head_.status < 100 || (!line.empty() && line[0] != ' ')) return Reason::bad_status;
  const char* const end = line.data() + line.size();
  return h1::find_first<h1::EndsValue>(line.data(), line.data(), end) == end ? Reason::none : Reason::bad_status;
}

Reason ResponseParser::take_field(const char* base, std::string_view line) {
  const char* const begin = line.data();
  const char* const end = begin + line.size();
  const char* p = h1::find_first<h1::EndsPlainName>(base, begin, end);
  while (p != end && is_token_char(*p)) ++p;
  if (p == end) return Reason::bad_field_name;
  if (h1::is_ows(*p)) return p == begin ? Reason::obsolete_folding : Reason::space_before_colon;
  if (*p != ':' || p == begin) return Reason::bad_field_name;
  const std::string_view name(begin, static_cast<std::size_t>(p - begin));
  ++p;
  if (const char* const bad = h1::find_first<h1::EndsValue>(base, p, end); bad != end) {
    return *bad == '\r' ? Reason::bare_cr : Reason::bad_field_value;
  }
  const char* last = end;
  while (p != last && h1::is_ows(*p)) ++p;
  while (last != p && h1::is_ows(last[-1])) --last;
  return add(base, name, {p, static_cast<std::size_t>(last - p)});
}

Reason ResponseParser::add(const char* base, std::string_view name, std::string_view value) {
  if (lines_.size() == limits_.field_count) return Reason::too_many_fields;
  const auto offset = [base](std::string_view text) { return static_cast<std::uint16_t>(text.data() - base); };
  lines_.push_back(
      {offset(name), static_cast<std::uint16_t>(name.size()), offset(value), static_cast<std::uint16_t>(value.size())});
  return recognise(name, value);
}

// A list of equal values counts as one value (RFC 9112, 6.3).
Reason ResponseParser::take_length(std::string_view value) {
  Reason reason = Reason::none;
  h1::for_each_element(value, [&](std::string_view element) {
    const auto length = h1::parse_content_length(element);
    if (!length) {
      reason = Reason::bad_content_length;
    } else if (has_length_ && *length != length_) {
      reason = Reason::duplicate_content_length;
    } else {
      has_length_ = true;
      length_ = *length;
    }
  });
  return reason;
}

Reason ResponseParser::recognise(std::string_view name, std::string_view value) {
  switch (name.size()) {
    case 7:
      if (same_name(name, "upgrade") && upgrade_line_ < 0) upgrade_line_ = static_cast<int>(lines_.size()) - 1;
      break;
    case 10:
      if (!same_name(name, "connection")) break;
      h1::for_each_element(value, [this](std::string_view option) {
        if (same_name(option, "close")) connection_ = Connection::close;
        if (same_name(option, "keep-alive") && connection_ == Connection::unsaid) connection_ = Connection::keep_alive;
        upgrades_ |= same_name(option, "upgrade");
      });
      break;
    case 14:
      if (same_name(name, "content-length")) return take_length(value);
      break;
    case 17: {
      if (!same_name(name, "transfer-encoding")) break;
      if (head_.version == Version::http10) return Reason::transfer_encoding_in_http10;
      has_encoding_ = true;
      bool is_known = true;
      h1::for_each_element(value, [&](std::string_view coding) {
        if (same_name(coding, "chunked")) {
          ++chunked_count_;
        } else {
          is_known &= coding.empty();  // RFC 9110, 5.6.1.2
        }
      });
      if (!is_known) return Reason::unsupported_transfer_encoding;
      break;
    }
    default:
      break;
  }
  return Reason::none;
}

// RFC 9112, 6.3. A response whose status or request allows no body is still refused if two recipients could disagree on
// its framing.
Reason ResponseParser::finish(Method request) {
  if (has_length_ && !has_encoding_) head_.length = length_;
  if (has_encoding_ && chunked_count_ != 1) return Reason::bad_transfer_encoding;
  if (!has_no_body(head_.status) && request != Method::head) {
    head_.body = has_encoding_  ? BodyFraming{BodyFraming::Kind::chunked}
                 : !has_length_ ? BodyFraming{BodyFraming::Kind::until_close}
                 : length_ == 0 ? BodyFraming{}
                                : BodyFraming{BodyFraming::Kind::length, length_};
  }
  head_.keep_alive = connection_ != Connection::close && !(has_encoding_ && has_length_) &&
                     head_.body.kind != BodyFraming::Kind::until_close &&
                     (head_.version == Version::http11 || connection_ == Connection::keep_alive);
  return Reason::none;
}

void ResponseParser::relocate(const char* received) {
  fields_.clear();
  for (const Line& line : lines_) {
    fields_.push_back({{received + line.name, line.name_size}, {received + line.value, line.value_size}});
  }
  head_.fields = fields_;
  if (head_.status == 101 && upgrades_ && upgrade_line_ >= 0) {
    head_.upgrade = fields_[static_cast<std::size_t>(upgrade_line_)].value;
  }
}

}  // namespace sluice::http::client
