#include "api/body/form_data.h"

#include <algorithm>
#include <utility>

#include "base/ascii.h"
#include "http/fields.h"

namespace sluice::api {
namespace {

using http::is_token;
using http::same_name;

constexpr std::size_t longest_boundary = 70;  // RFC 2046, 5.1.1
constexpr std::size_t longest_padding = 64;   // of blanks after a boundary

// A quoted string. Browsers write a quote as %22 and leave a backslash unchanged (WHATWG); other clients write \" and
// \\.
std::optional<std::string> quoted(std::string_view& rest) {
  std::string value;
  for (std::size_t at = 1; at < rest.size(); ++at) {
    const char c = rest[at];
    if (c == '"') {
      rest.remove_prefix(at + 1);
      return value;
    }
    if (c == '\\' && at + 1 < rest.size() && (rest[at + 1] == '"' || rest[at + 1] == '\\')) ++at;
    value += rest[at];
  }
  return std::nullopt;
}

struct Parameter {
  std::string_view name;
  std::string value;
};

// *( OWS ";" OWS [ name "=" value ] ), one parameter per call. Returns false at the end, and, with `broken` set, if it
// does not parse.
bool next_parameter(std::string_view& rest, Parameter& into, bool& broken) {
  for (;;) {
    skip_blanks(rest);
    if (rest.empty()) return false;
    broken = true;
    if (rest.front() != ';') return false;
    rest.remove_prefix(1);
    skip_blanks(rest);
    broken = false;
    if (!rest.empty() && rest.front() != ';') break;
  }
  broken = true;
  into.name = rest.substr(0, rest.find_first_of("=; \t"));
  rest.remove_prefix(into.name.size());
  if (!is_token(into.name) || !rest.starts_with('=')) return false;
  rest.remove_prefix(1);
  if (rest.starts_with('"')) {
    auto value = quoted(rest);
    if (!value) return false;
    into.value = std::move(*value);
  } else {
    into.value = rest.substr(0, rest.find_first_of("; \t"));
    rest.remove_prefix(into.value.size());
    if (!is_token(into.value)) return false;
  }
  broken = false;
  return true;
}

bool is_boundary(std::string_view text) {
  const auto is_one = [](char c) {
    const bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
    return letter || std::string_view("'()+_,-./:=? ").contains(c);
  };
  return !text.empty() && text.size() <= longest_boundary && text.back() != ' ' && std::ranges::all_of(text, is_one);
}

// Decodes %0A, %0D and %22, which browsers write for characters not allowed in quotes (WHATWG HTML,
// multipart/form-data).
std::string unescaped(std::string_view text) {
  std::string result;
  while (!text.empty()) {
    const std::string_view escape = text.substr(0, 3);
    if (escape == "%0A" || escape == "%0D" || escape == "%22") {
      result += escape == "%22" ? '"' : escape == "%0A" ? '\n' : '\r';
      text.remove_prefix(3);
    } else {
      result += text.front();
      text.remove_prefix(1);
    }
  }
  return result;
}

}  // namespace

std::optional<std::string> bare_media_type(std::string_view content_type) {
  const std::string_view media = trim_blanks(content_type.substr(0, content_type.find(';')));
  const auto slash = media.find('/');
  if (slash == media.npos || !is_token(media.substr(0, slash)) || !is_token(media.substr(slash + 1)))
    return std::nullopt;
  return to_lower(media);
}

std::optional<std::string> form_data_boundary(std::string_view content_type) {
  const auto type = bare_media_type(content_type);
  if (!type || *type != "multipart/form-data") return std::nullopt;
  std::string_view rest = content_type.substr(std::min(content_type.find(';'), content_type.size()));
  std::optional<std::string> boundary;
  bool broken = false;
  for (Parameter parameter; next_parameter(rest, parameter, broken);) {
    if (!same_name(parameter.name, "boundary")) continue;
    if (boundary || !is_boundary(parameter.value)) return std::nullopt;
    boundary = std::move(parameter.value);
  }
  return broken ? std::nullopt : boundary;
}

FormDataReader::FormDataReader(std::string_view boundary, const FormDataLimits& limits)
    : delimiter_("\r\n--" + std::string(boundary)), limits_(limits) {
  buffer_.append("\r\n");  // the first boundary may be the body's first line
}

void FormDataReader::feed(std::string_view bytes) {
  buffer_.consume(std::exchange(given_, 0));
  buffer_.append(bytes);
}

FormDataReader::Next FormDataReader::break_off(std::string fault) {
  state_ = State::broken;
  fault_ = std::move(fault);
  return Next::broken;
}

FormDataReader::Next FormDataReader::next() {
  buffer_.consume(std::exchange(given_, 0));
  for (;;) {
    std::optional<Next> found;
    switch (state_) {
      case State::preamble:
      case State::data:
        found = look_for_boundary();
        break;
      case State::boundary:
        found = after_boundary();
        break;
      case State::header:
        found = read_header();
        break;
      case State::begin:
        found = begin_data();
        break;
      case State::epilogue:
        buffer_.clear();
        return finished_ ? Next::end : Next::need_more;
      case State::broken:
        return Next::broken;
    }
    if (!found) continue;
    if (*found == Next::need_more && finished_) return break_off("the body ends before its last boundary");
    return *found;
  }
}

std::optional<FormDataReader::Next> FormDataReader::look_for_boundary() {
  const std::string_view all = buffer_.view();
  const auto at = all.find(delimiter_);
  // A possible beginning of a boundary stays in the buffer.
  const std::size_t whole = at != all.npos ? at : all.size() - std::min(all.size(), delimiter_.size() - 1);
  if (at != all.npos && (whole == 0 || state_ == State::preamble)) {
    buffer_.consume(at + delimiter_.size());
    state_ = State::boundary;
    return std::nullopt;
  }
  if (whole == 0) return Next::need_more;
  if (state_ == State::preamble) {
    buffer_.consume(whole);
    return Next::need_more;
  }
  data_ = all.substr(0, whole);
  given_ = whole;
  return Next::data;
}

std::optional<FormDataReader::Next> FormDataReader::after_boundary() {
  const std::string_view all = buffer_.view();
  if (all.size() < 2) return Next::need_more;
  if (all.starts_with("--")) {
    state_ = State::epilogue;
    return std::nullopt;
  }
  const std::size_t blanks = std::min(all.find_first_not_of(" \t"), all.size());
  if (blanks > longest_padding) return break_off("a boundary is followed by something else");
  const std::string_view end = all.substr(blanks, 2);
  if (end == "\r\n") {
    buffer_.consume(blanks + 2);
    state_ = State::header;
    if (++parts_ > limits_.parts) {
      return break_off("the body has more than " + std::to_string(limits_.parts) + " parts");
    }
    return std::nullopt;
  }
  if (end.empty() || end == "\r") return Next::need_more;
  return break_off("a boundary is followed by something else");
}

std::optional<FormDataReader::Next> FormDataReader::read_header() {
  const std::string_view all = buffer_.view();
  const bool none = all.starts_with("\r\n");
  const auto end = none ? 0 : all.find("\r\n\r\n");
  // The end of the header or, if it has not arrived, the first position where it may be.
  if (std::min(end, all.size() - std::min<std::size_t>(all.size(), 3)) > limits_.header_bytes) {
    return break_off("a part's header is longer than " + std::to_string(limits_.header_bytes) + " bytes");
  }
  if (end == all.npos) return Next::need_more;
  if (std::string wrong = parse_header(all.substr(0, end)); !wrong.empty()) return break_off(std::move(wrong));
  buffer_.consume(end + 2);
  state_ = State::begin;
  return Next::part;
}

// The empty line after the header may also be the line end before a boundary.
std::optional<FormDataReader::Next> FormDataReader::begin_data() {
  const std::string_view all = buffer_.view();
  if (all.size() < delimiter_.size() && delimiter_.starts_with(all)) return Next::need_more;
  if (!all.starts_with(delimiter_)) buffer_.consume(2);
  state_ = State::data;
  return std::nullopt;
}

std::string FormDataReader::parse_header(std::string_view lines) {
  part_ = {};
  part_.media_type = "text/plain";
  bool has_disposition = false;
  bool has_type = false;
  while (!lines.empty()) {
    const auto end = lines.find("\r\n");
    const std::string_view line = lines.substr(0, end);
    lines = end == lines.npos ? std::string_view{} : lines.substr(end + 2);
    if (line.find_first_of(std::string_view("\r\n\0", 3)) != line.npos)
      return "a part's header has a control character";
    const auto colon = line.find(':');
    if (colon == line.npos || !is_token(line.substr(0, colon))) return "a part's header has a line that is no field";
    const std::string_view name = line.substr(0, colon);
    const std::string_view value = trim_blanks(line.substr(colon + 1));
    if (same_name(name, "content-disposition")) {
      if (std::exchange(has_disposition, true)) return "a part has two fields Content-Disposition";
      std::string_view rest = value.substr(std::min(value.find(';'), value.size()));
      if (!same_name(trim_blanks(value.substr(0, value.size() - rest.size())), "form-data")) {
        return "a part is no form-data";
      }
      bool has_name = false;
      bool broken = false;
      for (Parameter parameter; next_parameter(rest, parameter, broken);) {
        if (same_name(parameter.name, "name")) {
          if (std::exchange(has_name, true)) return "a part has two names";
          part_.name = unescaped(parameter.value);
        } else if (same_name(parameter.name, "filename")) {
          if (part_.file_name) return "a part has two names of files";
          const std::string path = unescaped(parameter.value);
          // RFC 7578, 4.2: the folders are removed.
          part_.file_name = path.substr(path.find_last_of("/\\") + 1);
        }
      }
      if (broken) return "a part's Content-Disposition cannot be read";
      if (!has_name) return "a part has no name";
    } else if (same_name(name, "content-type")) {
      if (std::exchange(has_type, true)) return "a part has two fields Content-Type";
      auto type = bare_media_type(value);
      if (!type) return "a part's Content-Type cannot be read";
      part_.media_type = std::move(*type);
    } else if (same_name(name, "content-transfer-encoding")) {
      // RFC 7578, 4.7: other encodings are not used.
      if (!same_name(value, "binary") && !same_name(value, "8bit") && !same_name(value, "7bit")) {
        return "a part has a Content-Transfer-Encoding";
      }
    }
  }
  return has_disposition ? "" : "a part has no Content-Disposition";
}

}  // namespace sluice::api
