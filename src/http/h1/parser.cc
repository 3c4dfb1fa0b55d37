#include "http/h1/parser.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "base/ascii.h"
#include "base/assert.h"
#include "http/h1/scan.h"
#include "http/target.h"

namespace sluice::http::h1 {

namespace {

template <class Word>
Word load(const char* at) {
  Word word;
  std::memcpy(&word, at, sizeof word);
  return word;
}

template <class Word>
consteval Word word_of(const char (&text)[sizeof(Word) + 1]) {
  std::array<char, sizeof(Word)> bytes{};
  std::copy_n(text, sizeof(Word), bytes.begin());
  return std::bit_cast<Word>(bytes);
}

// Compares a field name of known length with a lower-case name. Names contain only token characters. Setting bit 5 maps
// only the two cases of a letter, and '-' itself, into [a-z-].
template <std::size_t Size>
bool is_name(const char* name, const char (&lower)[Size]) {
  constexpr std::size_t size = Size - 1;
  if constexpr (size < 8) {
    static_assert(size >= 4);
    const auto head = load<std::uint32_t>(name) | 0x20202020u;
    const auto tail = load<std::uint32_t>(name + size - 4) | 0x20202020u;
    return head == load<std::uint32_t>(lower) && tail == load<std::uint32_t>(lower + size - 4);
  } else {
    for (std::size_t i = 0;; i += 8) {
      const std::size_t at = std::min(i, size - 8);
      if ((load<std::uint64_t>(name + at) | 0x2020202020202020u) != load<std::uint64_t>(lower + at)) return false;
      if (at == size - 8) return true;
    }
  }
}

// Lengths of the field names that recognise() handles.
constexpr std::uint32_t known_name_sizes = 1u << 6 | 1u << 7 | 1u << 10 | 1u << 14 | 1u << 17;
bool may_be_known(std::size_t name_size) { return name_size < 32 && (known_name_sizes >> name_size & 1) != 0; }

// Where the authority of an absolute-form target begins; 0 if the scheme is not supported.
std::size_t authority_begin(std::string_view target) {
  const std::size_t colon = target.find(':');
  if (colon == std::string_view::npos || target.substr(colon, 3) != "://") return 0;
  const std::string_view scheme = target.substr(0, colon);
  return same_name(scheme, "http") || same_name(scheme, "https") ? colon + 3 : 0;
}

}  // namespace

int status_of(Reason reason) {
  switch (reason) {
    case Reason::none:
      return 200;
    case Reason::method_too_long:
    case Reason::unsupported_transfer_encoding:
      return 501;
    case Reason::target_too_long:
      return 414;
    case Reason::https_without_tls:
      return 421;
    case Reason::unsupported_version:
      return 505;
    case Reason::head_too_large:
    case Reason::too_many_fields:
    case Reason::trailers_too_large:
      return 431;
    case Reason::unsupported_expectation:
      return 417;
    default:
      return 400;
  }
}

std::string_view describe(Reason reason) {
  switch (reason) {
    case Reason::none:
      return {};
    case Reason::bad_method:
      return "The request method is not a token.";
    case Reason::method_too_long:
      return "The request method is too long.";
    case Reason::bad_target:
      return "The request target is not valid.";
    case Reason::target_too_long:
      return "The request target is too long.";
    case Reason::bad_escape:
      return "The path has an invalid percent escape.";
    case Reason::nul_in_path:
      return "The path holds the character NUL (%00), which is not allowed.";
    case Reason::path_above_root:
      return "The path leads above the root.";
    case Reason::bad_version:
      return "The request line does not end with an HTTP version.";
    case Reason::unsupported_version:
      return "Only HTTP/1.0 and HTTP/1.1 are spoken here.";
    case Reason::bad_status:
      return "The status line has no valid status code.";
    case Reason::too_many_interim_responses:
      return "Too many interim responses came before the response.";
    case Reason::too_many_empty_lines:
      return "Too many empty lines stand before the request.";
    case Reason::bare_cr:
      return "A CR is not followed by LF.";
    case Reason::bare_lf:
      return "A line ends with LF alone.";
    case Reason::obsolete_folding:
      return "A field line begins with white space.";
    case Reason::bad_field_name:
      return "A field name is not a token.";
    case Reason::space_before_colon:
      return "White space stands between a field name and its colon.";
    case Reason::bad_field_value:
      return "A field value has a control character.";
    case Reason::head_too_large:
      return "The header section is too large.";
    case Reason::too_many_fields:
      return "The request has too many header fields.";
    case Reason::missing_host:
      return "The Host field is missing.";
    case Reason::duplicate_host:
      return "The Host field comes more than once.";
    case Reason::bad_host:
      return "The Host field is not valid.";
    case Reason::bad_content_length:
      return "The Content-Length field is not valid.";
    case Reason::duplicate_content_length:
      return "The Content-Length field comes more than once.";
    case Reason::length_and_encoding:
      return "Content-Length and Transfer-Encoding come together.";
    case Reason::bad_transfer_encoding:
      return "The last transfer coding is not chunked, or chunked comes twice.";
    case Reason::unsupported_transfer_encoding:
      return "No transfer coding but chunked is supported.";
    case Reason::transfer_encoding_in_http10:
      return "HTTP/1.0 has no Transfer-Encoding.";
    case Reason::unsupported_expectation:
      return "No expectation but 100-continue is supported.";
    case Reason::https_without_tls:
      return "The target is an https one, and the connection has no TLS.";
    case Reason::bad_chunk_size:
      return "A chunk size is not valid.";
    case Reason::bad_chunk_end:
      return "A chunk does not end with CRLF.";
    case Reason::chunk_extension_too_long:
      return "The chunk extensions are too long.";
    case Reason::bad_trailer:
      return "A trailer field is not valid.";
    case Reason::trailers_too_large:
      return "The trailer section is too large.";
  }
  return {};
}

std::optional<std::uint64_t> parse_content_length(std::string_view value) {
  if (value.empty()) return std::nullopt;
  std::uint64_t length = 0;
  for (const char c : value) {
    if (!is_digit(c)) return std::nullopt;
    length = length > (INT64_MAX - 9) / 10 ? INT64_MAX : length * 10 + static_cast<std::uint64_t>(c - '0');
  }
  return length;
}

RequestParser::RequestParser(Request& request, const RequestLimits& limits)
    : limits_(limits), request_(request), lines_(limits.field_count), fields_(limits.field_count) {
  limits_.head_size = std::min<std::size_t>(limits_.head_size, 65535);
}

void RequestParser::reset() {
  phase_ = Phase::start;
  at_ = {};
  request_.has_empty_segment = false;
}

// Rare exits are separate functions, because parse() would otherwise spill registers for them.
[[gnu::cold, gnu::noinline]] Parsed RequestParser::refuse(Reason reason) {
  phase_ = Phase::complete;
  return {Parsed::State::refused, reason, 0};
}

[[gnu::cold, gnu::noinline]] Parsed RequestParser::pause(Phase phase, std::uint16_t scanned, const Line* line,
                                                         bool at_limit) {
  if (at_limit) return refuse(phase == Phase::target ? Reason::target_too_long : Reason::head_too_large);
  phase_ = phase;
  at_.scanned = scanned;
  at_.line_count = static_cast<std::uint16_t>(line - lines_.data());
  return {};
}

// Classifies a byte that ends a token where CR LF is expected. Returns `none` if it is CR and the next byte has not
// arrived.
[[gnu::cold, gnu::noinline]] Reason RequestParser::judge_line_end(const char* p, const char* end, Reason otherwise) {
  if (*p != '\r') return *p == '\n' ? Reason::bare_lf : otherwise;
  return end - p < 2 ? Reason::none : Reason::bare_cr;
}

Parsed RequestParser::parse(std::string_view received) {
  SLUICE_ASSERT(phase_ != Phase::complete && received.size() >= at_.scanned);
  const char* const base = received.data();
  // Bytes beyond the limit are ignored, so that the result does not depend on whether they arrived together with the
  // others.
  const char* const end = base + std::min(received.size(), limits_.head_size);
  const char* p = base + at_.scanned;

  const auto offset = [base](const char* at) { return static_cast<std::uint16_t>(at - base); };
  Line* line = lines_.data() + at_.line_count;
  const bool at_limit = received.size() >= limits_.head_size;
  const auto is_line_end = [end](const char* at) {
    return end - at >= 2 && load<std::uint16_t>(at) == word_of<std::uint16_t>("\r\n");
  };

  const char* name = nullptr;   // of the current line
  const char* value = nullptr;  // starts after its colon
  switch (phase_) {
    case Phase::start:
      while (p != end && *p == '\r') {
        if (end - p < 2) return pause(Phase::start, offset(p), line, at_limit);
        if (p[1] != '\n') return refuse(Reason::bare_cr);
        if (++at_.empty_lines > max_empty_lines) return refuse(Reason::too_many_empty_lines);
        p += 2;
      }
      if (p == end) return pause(Phase::start, offset(p), line, at_limit);
      at_.method.begin = offset(p);
      if (end - p >= 4 && load<std::uint32_t>(p) == word_of<std::uint32_t>("GET ")) [[likely]] {
        at_.method_known = Method::get;
        p += 3;
        goto after_method;
      }
      [[fallthrough]];

    case Phase::method: {
      const char* const begin = base + at_.method.begin;
      const char* const window = end - begin > std::ptrdiff_t{max_method_size} ? begin + max_method_size + 1 : end;
      while (p != window && is_token_char(*p)) ++p;
      if (p == window) {
        if (p - begin > std::ptrdiff_t{max_method_size}) return refuse(Reason::method_too_long);
        return pause(Phase::method, offset(p), line, at_limit);
      }
      if (*p != ' ' || p == begin) return refuse(*p == '\n' ? Reason::bare_lf : Reason::bad_method);
      at_.method_known = parse_method({begin, static_cast<std::size_t>(p - begin)});
    }
    after_method:
      at_.method.size = static_cast<std::uint16_t>(p - base - at_.method.begin);
      ++p;
      at_.target.begin = offset(p);
      [[fallthrough]];

    case Phase::target: {
      const char* const begin = base + at_.target.begin;
      const bool long_enough = static_cast<std::size_t>(end - begin) > limits_.target_size;
      const char* const window = long_enough ? begin + limits_.target_size + 1 : end;
      for (;;) {
        if (at_.query_begin == 0 && !at_.unusual_target) {
          p = find_first<EndsPlainPath>(base, p, window);
        } else {
          p = find_first<EndsTarget>(base, p, window);
        }
        if (p == window) {
          if (long_enough) return refuse(Reason::target_too_long);
          return pause(Phase::target, offset(p), line, at_limit);
        }
        if (*p == ' ') [[likely]]
          break;
        if (*p == '?') {
          ++p;
          if (at_.query_begin == 0) at_.query_begin = offset(p);
        } else if (*p == '%' || *p == '/' || *p == '.' || is_refused_in_path(*p)) {
          at_.unusual_target = true;
          ++p;
        } else {
          return refuse(*p == '\n' ? Reason::bare_lf : Reason::bad_target);
        }
      }
      // The last byte of the window may be the space. The target then has exactly the maximum length.
      at_.target.size = static_cast<std::uint16_t>(p - begin);
      if (const Reason reason = finish_target(base); reason != Reason::none) return refuse(reason);
      ++p;
      [[fallthrough]];
    }

    case Phase::version:
      if (end - p >= 10 && load<std::uint64_t>(p) == word_of<std::uint64_t>("HTTP/1.1") &&
          load<std::uint16_t>(p + 8) == word_of<std::uint16_t>("\r\n")) {
        p += 10;
      } else {
        const char* const begin = p;
        if (const Reason reason = scan_version(p, end); reason != Reason::none) return refuse(reason);
        if (p == begin) return pause(Phase::version, offset(p), line, at_limit);
      }
      goto next_line;

    case Phase::line:
    next_line:
      if (p == end) return pause(Phase::line, offset(p), line, at_limit);
      if (*p == '\r') [[unlikely]] {
        if (is_line_end(p)) {
          p += 2;
          break;
        }
        if (end - p < 2) return pause(Phase::line, offset(p), line, at_limit);
        return refuse(Reason::bare_cr);
      }
      if (line == lines_.data() + lines_.size()) return refuse(Reason::too_many_fields);
      name = p;
      line->name.begin = offset(p);
      goto in_name;

    case Phase::name:
      name = base + line->name.begin;
    in_name:
      p = find_first<EndsPlainName>(base, p, end);
      if (p == end || *p != ':' || p == name) [[unlikely]] {
        while (p != end && is_token_char(*p)) ++p;
        if (p == end) return pause(Phase::name, offset(p), line, at_limit);
        if (*p == '\n') return refuse(Reason::bare_lf);
        if (is_ows(*p)) return refuse(p == name ? Reason::obsolete_folding : Reason::space_before_colon);
        if (*p != ':' || p == name) return refuse(Reason::bad_field_name);
      }
      line->name.size = static_cast<std::uint16_t>(p - name);
      ++p;
      value = p;
      line->value.begin = offset(p);
      goto in_value;

    case Phase::value:
      name = base + line->name.begin;
      value = base + line->value.begin;
    in_value: {
      p = find_first<EndsValue>(base, p, end);
      if (!is_line_end(p)) [[unlikely]] {
        if (p == end) return pause(Phase::value, offset(p), line, at_limit);
        const Reason reason = judge_line_end(p, end, Reason::bad_field_value);
        return reason == Reason::none ? pause(Phase::value, offset(p), line, at_limit) : refuse(reason);
      }
      // Within a value, only OWS bytes are <= ' '. The colon before the value stops the backward search.
      const char* last = p;
      value += *value == ' ' ? 1 : 0;
      if (static_cast<unsigned char>(*value) <= ' ' || static_cast<unsigned char>(last[-1]) <= ' ') [[unlikely]] {
        while (static_cast<unsigned char>(last[-1]) <= ' ') --last;
        while (value < last && static_cast<unsigned char>(*value) <= ' ') ++value;
        value = std::min(value, last);
      }
      const auto value_size = static_cast<std::size_t>(last - value);
      line->value = {offset(value), static_cast<std::uint16_t>(value_size)};
      if (line->name.size == 4) {
        if (is_name(name, "host")) {
          const Reason reason = add_host(base, {value, value_size});
          if (reason != Reason::none) return refuse(reason);
        }
      } else if (may_be_known(line->name.size)) {
        const Reason reason = recognise(base, name, line->name.size, {value, value_size});
        if (reason != Reason::none) return refuse(reason);
      }
      ++line;
      p += 2;
      goto next_line;
    }

    case Phase::complete:
      return refuse(Reason::none);  // a caller's error, caught by the assertion above
  }

  at_.line_count = static_cast<std::uint16_t>(line - lines_.data());
  if (const Reason reason = finish_head(); reason != Reason::none) return refuse(reason);
  phase_ = Phase::complete;
  form_views(base);
  return {Parsed::State::done, Reason::none, offset(p)};
}

// "HTTP/" DIGIT "." DIGIT CRLF, checked byte by byte, so that an invalid version is refused without waiting for more
// bytes. Leaves `p` unchanged if there are too few.
Reason RequestParser::scan_version(const char*& p, const char* end) {
  static constexpr std::string_view shape = "HTTP/0.0\r\n";
  const std::size_t size = std::min<std::size_t>(shape.size(), static_cast<std::size_t>(end - p));
  for (std::size_t i = 0; i < size; ++i) {
    if (i == 8 && p[5] != '1') return Reason::unsupported_version;
    const bool fits = shape[i] == '0' ? is_digit(p[i]) : p[i] == shape[i];
    if (!fits) return i == 9 ? Reason::bare_cr : p[i] == '\n' ? Reason::bare_lf : Reason::bad_version;
  }
  if (size < shape.size()) return Reason::none;
  // A higher minor version is treated as the highest supported one (RFC 9110, 2.5).
  at_.version = p[7] == '0' ? Version::http10 : Version::http11;
  p += shape.size();
  return Reason::none;
}

inline Reason RequestParser::finish_target(const char* base) {
  if (base[at_.target.begin] != '/' || at_.unusual_target || at_.method_known == Method::connect) [[unlikely]] {
    return finish_unusual_target(base);
  }
  at_.path.begin = at_.target.begin;
  at_.path.size =
      at_.query_begin == 0 ? at_.target.size : static_cast<std::uint16_t>(at_.query_begin - 1 - at_.target.begin);
  return Reason::none;
}

// Handles the four forms of RFC 9112, 3.2, except an origin-form that decoding would not change.
Reason RequestParser::finish_unusual_target(const char* base) {
  const std::string_view target = at_.target.in(base);
  if (target.empty()) return Reason::bad_target;
  if (at_.method_known == Method::connect) {
    if (!is_authority(target, PortIs::required)) return Reason::bad_target;
    at_.authority = at_.target;
    at_.path_in = PathIn::literal;
    literal_path_ = {};
    at_.query_begin = 0;
    // We open no tunnel, and the client may already have sent bytes for it, which are not a request (RFC 9931).
    see(Seen::close);
    return Reason::none;
  }
  std::string_view path = target;
  if (at_.query_begin != 0) path = path.substr(0, at_.query_begin - 1u - at_.target.begin);

  if (target[0] != '/') {
    if (target == "*" && at_.method_known == Method::options) {
      at_.path_in = PathIn::literal;
      literal_path_ = "*";
      return Reason::none;
    }
    const std::size_t begin = authority_begin(path);
    if (begin == 0) return Reason::bad_target;
    const std::size_t end = std::min(path.find('/', begin), path.size());
    // This also refuses userinfo, because a host cannot contain '@' (RFC 9110, 4.2.4).
    if (!is_authority(path.substr(begin, end - begin), PortIs::optional)) return Reason::bad_target;
    at_.authority = {static_cast<std::uint16_t>(at_.target.begin + begin), static_cast<std::uint16_t>(end - begin)};
    constexpr std::size_t https_size = std::string_view("https://").size();
    if (begin == https_size && !secure_) return Reason::https_without_tls;
    path.remove_prefix(end);
    if (path.empty()) {
      at_.path_in = PathIn::literal;
      const bool whole_server = at_.method_known == Method::options && at_.query_begin == 0;  // RFC 9112, 3.2.4
      literal_path_ = whole_server ? "*" : "/";
      return Reason::none;
    }
  }
  return normalise_path(path);
}

Reason RequestParser::normalise_path(std::string_view raw) {
  scratch_.clear();
  const DecodedPath decoded = decode_path(raw, scratch_.reserve(raw.size()));
  if (decoded.fault == DecodedPath::Fault::bad_escape) return Reason::bad_escape;
  if (decoded.fault == DecodedPath::Fault::nul) return Reason::nul_in_path;
  if (decoded.fault == DecodedPath::Fault::above_root) return Reason::path_above_root;
  if (decoded.fault == DecodedPath::Fault::bad_character) return Reason::bad_target;
  scratch_.commit(decoded.size);
  request_.has_empty_segment = decoded.has_empty_segment;
  at_.path_in = PathIn::scratch;
  if (decoded.has_encoded_slash) [[unlikely]] {
    char* const path = scratch_.reserve(decoded.size);
    std::replace_copy(scratch_.data(), scratch_.data() + decoded.size, path, '\0', '/');
    scratch_.commit(decoded.size);
    at_.path_in = PathIn::scratch_twice;
  }
  return Reason::none;
}

inline Reason RequestParser::add_host(const char* base, std::string_view value) {
  if (has_seen(Seen::host)) return Reason::duplicate_host;
  see(Seen::host);
  if (at_.authority.size == 0) at_.authority = span_of(base, value);
  // Requests on one connection usually have the same Host.
  if (value.size() == known_host_size_ && std::memcmp(value.data(), known_host_.data(), value.size()) == 0) [[likely]] {
    return Reason::none;
  }
  return check_host(value);
}

[[gnu::noinline]] Reason RequestParser::check_host(std::string_view value) {
  // A client sends an empty Host if its target has no authority (RFC 9112, 3.2).
  if (!value.empty() && !is_authority(value, PortIs::optional)) return Reason::bad_host;
  if (value.size() <= known_host_.size()) {
    known_host_size_ = static_cast<std::uint8_t>(value.size());
    std::copy(value.begin(), value.end(), known_host_.begin());
  }
  return Reason::none;
}

// Most fields are dismissed by the length of their name. No name is compared with more than one candidate.
[[gnu::noinline]] Reason RequestParser::recognise(const char* base, const char* name, std::size_t name_size,
                                                  std::string_view value) {
  switch (name_size) {
    case 6: {
      if (!is_name(name, "expect")) break;
      if (!same_name(value, "100-continue")) return Reason::unsupported_expectation;
      see(Seen::continue_expected);
      break;
    }
    case 7: {
      if (!is_name(name, "upgrade") || has_seen(Seen::upgrade_field)) break;
      see(Seen::upgrade_field);
      at_.upgrade = span_of(base, value);
      break;
    }
    case 10: {
      if (is_name(name, "connection")) add_connection(value);
      break;
    }
    case 14: {
      if (!is_name(name, "content-length")) break;
      if (has_seen(Seen::content_length)) return Reason::duplicate_content_length;
      see(Seen::content_length);
      const auto length = parse_content_length(value);
      if (!length) return Reason::bad_content_length;
      at_.length = *length;
      break;
    }
    case 17: {
      if (is_name(name, "transfer-encoding")) return add_transfer_encoding(value);
      break;
    }
    default:
      break;
  }
  return Reason::none;
}

// Several fields form one list (RFC 9110, 5.3), so the list is judged at the end of the head.
Reason RequestParser::add_transfer_encoding(std::string_view value) {
  if (at_.version == Version::http10) return Reason::transfer_encoding_in_http10;
  see(Seen::transfer_encoding);
  for_each_element(value, [this](std::string_view coding) {
    if (coding.empty()) return;  // RFC 9110, 5.6.1.2
    if (has_seen(Seen::last_is_chunked)) see(Seen::after_chunked);
    at_.seen &= static_cast<std::uint16_t>(~Seen::last_is_chunked);
    see(same_name(coding, "chunked") ? Seen::last_is_chunked : Seen::other_coding);
  });
  return Reason::none;
}

void RequestParser::add_connection(std::string_view value) {
  if (value.size() == 10 && is_name(value.data(), "keep-alive")) return see(Seen::keep_alive_option);
  for_each_element(value, [this](std::string_view option) {
    if (same_name(option, "close")) {
      see(Seen::close);
    } else if (same_name(option, "keep-alive")) {
      see(Seen::keep_alive_option);
    } else if (same_name(option, "upgrade")) {
      see(Seen::upgrade_option);
    }
  });
}

inline Reason RequestParser::finish_head() {
  if (at_.seen != Seen::host || at_.version != Version::http11) return finish_unusual_head();
  body_ = {};
  keep_alive_ = true;
  expects_continue_ = false;
  return Reason::none;
}

Reason RequestParser::finish_unusual_head() {
  const bool http11 = at_.version == Version::http11;
  if (!has_seen(Seen::host) && http11) return Reason::missing_host;
  body_ = {};
  if (has_seen(Seen::transfer_encoding)) {
    if (has_seen(Seen::content_length)) return Reason::length_and_encoding;
    if (!has_seen(Seen::last_is_chunked) || has_seen(Seen::after_chunked)) return Reason::bad_transfer_encoding;
    if (has_seen(Seen::other_coding)) return Reason::unsupported_transfer_encoding;
    body_.kind = BodyFraming::Kind::chunked;
  } else if (at_.length != 0) {
    body_ = {BodyFraming::Kind::length, at_.length};
  }
  keep_alive_ = !has_seen(Seen::close) && (http11 || has_seen(Seen::keep_alive_option));
  // HTTP/1.0 has neither expectations nor upgrades (RFC 9110, 7.8 and 10.1.1).
  expects_continue_ = has_seen(Seen::continue_expected) && http11 && body_.kind != BodyFraming::Kind::none;
  if (!has_seen(Seen::upgrade_option) || !http11) at_.upgrade = {};
  return Reason::none;
}

inline void RequestParser::form_views(const char* base) {
  Request& request = request_;
  request.method = at_.method_known;
  request.version = at_.version;
  request.method_text = at_.method.in(base);
  request.target = at_.target.in(base);
  if (at_.path_in == PathIn::received) [[likely]] {
    request.path = request.segments = at_.path.in(base);
  } else if (at_.path_in == PathIn::scratch_twice) {
    request.segments = scratch_.view().substr(0, scratch_.size() / 2);
    request.path = scratch_.view().substr(scratch_.size() / 2);
  } else {
    request.path = request.segments = at_.path_in == PathIn::scratch ? scratch_.view() : literal_path_;
  }
  request.query = {};
  if (at_.query_begin != 0) {
    request.query = {base + at_.query_begin,
                     static_cast<std::size_t>(at_.target.begin + at_.target.size - at_.query_begin)};
  }
  request.authority = at_.authority.in(base);
  upgrade_ = at_.upgrade.in(base);
#if defined(__clang__)
#pragma clang loop unroll(disable)
#endif
  for (std::size_t i = 0; i < at_.line_count; ++i) {
    fields_[i] = {lines_[i].name.in(base), lines_[i].value.in(base)};
  }
  request.fields = {fields_.data(), at_.line_count};
}

void RequestParser::relocate(const char* received) {
  SLUICE_ASSERT(phase_ == Phase::complete);
  form_views(received);
}

}  // namespace sluice::http::h1
