#include "app/suite/response.h"

#include <algorithm>
#include <charconv>

#include <fmt/format.h>

#include "base/ascii.h"
#include "http/fields.h"
#include "http/response.h"

namespace sluice::app::suite {
namespace {}  // namespace

const std::string* Answer::field(std::string_view name) const {
  const auto found =
      std::ranges::find_if(fields, [&](const auto& field) { return http::same_name(field.first, name); });
  return found == fields.end() ? nullptr : &found->second;
}

ResponseReader::State ResponseReader::fail(std::string problem) {
  problem_ = std::move(problem);
  return State::broken;
}

ResponseReader::State ResponseReader::feed(std::string_view bytes) {
  if (!problem_.empty()) return State::broken;
  if (phase_ == Phase::complete) return bytes.empty() ? State::done : fail("bytes behind the end of the answer");
  in_ += bytes;
  while (phase_ == Phase::head) {
    if (const State state = read_head(); state != State::done) return state;
  }
  return read_body();
}

// When done, phase_ is the next phase, or `head` again after an interim response.
ResponseReader::State ResponseReader::read_head() {
  const std::size_t end = in_.find("\r\n\r\n");
  if (end == in_.npos) return in_.size() > longest_head ? fail("the header does not end") : State::more;
  if (end > longest_head) return fail("the header is too long");
  const std::string head = in_.substr(0, end + 2);
  in_.erase(0, end + 4);
  // "HTTP/1.1 200 OK" (RFC 9112, 4); the reason may be empty.
  const std::size_t line_end = head.find("\r\n");
  const std::string_view line = std::string_view(head).substr(0, line_end);
  const bool good = line.size() >= 13 && line.starts_with("HTTP/1.1 ") && is_digit(line[9]) && is_digit(line[10]) &&
                    is_digit(line[11]) && line[12] == ' ' && line[9] != '0';
  if (!good) return fail("it does not begin with a status line of HTTP/1.1");
  std::from_chars(line.data() + 9, line.data() + 12, answer_.status);
  answer_.fields.clear();
  if (const State state = read_fields(std::string_view(head).substr(line_end + 2)); state != State::done) return state;
  if (answer_.status >= 200) return choose_body();
  return answer_.status == 101 ? fail("the server switches protocols") : State::done;
}

ResponseReader::State ResponseReader::read_fields(std::string_view lines) {
  while (!lines.empty()) {
    const std::size_t end = lines.find("\r\n");
    const std::string_view line = lines.substr(0, end);
    lines.remove_prefix(end + 2);
    const std::size_t colon = line.find(':');
    if (colon == line.npos || !http::is_token(line.substr(0, colon))) return fail("a line that is no header field");
    std::string_view value = line.substr(colon + 1);
    while (!value.empty() && (value.front() == ' ' || value.front() == '\t')) value.remove_prefix(1);
    while (!value.empty() && (value.back() == ' ' || value.back() == '\t')) value.remove_suffix(1);
    if (std::ranges::any_of(value,
                            [](char c) { return (static_cast<unsigned char>(c) < 0x20 && c != '\t') || c == 0x7f; })) {
      return fail("a control character in a header field");
    }
    answer_.fields.emplace_back(line.substr(0, colon), value);
  }
  return State::done;
}

// RFC 9112, 6.3.
ResponseReader::State ResponseReader::choose_body() {
  const std::string* const length = answer_.field("Content-Length");
  const std::string* const coding = answer_.field("Transfer-Encoding");
  const auto count = std::ranges::count_if(answer_.fields, [](const auto& field) {
    return http::same_name(field.first, "Content-Length") || http::same_name(field.first, "Transfer-Encoding");
  });
  if (count > 1) return fail("more than one field says how long the body is");
  if (length != nullptr) {
    const char* const end = length->data() + length->size();
    const auto [stopped, error] = std::from_chars(length->data(), end, left_);
    if (error != std::errc() || stopped != end) return fail("Content-Length is not a number");
  }
  phase_ = length != nullptr ? Phase::length : coding != nullptr ? Phase::chunked : Phase::until_close;
  if (is_head_ || answer_.status == 204 || answer_.status == 304) {
    phase_ = Phase::complete;
  } else if (coding != nullptr && *coding != "chunked") {
    return fail("Transfer-Encoding is not \"chunked\"");
  } else if (length != nullptr && left_ > longest_body) {
    return fail("the body is too long");
  }
  return State::done;
}

ResponseReader::State ResponseReader::read_body() {
  switch (phase_) {
    case Phase::head:
      return State::more;
    case Phase::complete:
      return in_.empty() ? State::done : fail("bytes behind the end of the answer");
    case Phase::until_close:
      answer_.body += in_;
      in_.clear();
      return answer_.body.size() > longest_body ? fail("the body is too long") : State::more;
    case Phase::length: {
      const std::size_t taken = std::min<std::uint64_t>(left_, in_.size());
      answer_.body.append(in_, 0, taken);
      in_.erase(0, taken);
      left_ -= taken;
      if (left_ != 0) return State::more;
      break;
    }
    case Phase::chunked: {
      using Step = http::h1::ChunkedDecoder::Step;
      std::string_view rest = in_;
      Step step;
      do {
        step = chunks_.decode(rest);
        answer_.body += step.data;
        rest.remove_prefix(step.consumed);
      } while (step.state == Step::State::data);
      in_ = std::string(rest);
      if (step.state == Step::State::refused) return fail("a chunk that is none");
      if (answer_.body.size() > longest_body) return fail("the body is too long");
      if (step.state == Step::State::need_more) return State::more;
      break;
    }
  }
  phase_ = Phase::complete;
  return in_.empty() ? State::done : fail("bytes behind the end of the answer");
}

ResponseReader::State ResponseReader::end() {
  if (!problem_.empty()) return State::broken;
  if (phase_ == Phase::until_close) phase_ = Phase::complete;
  if (phase_ == Phase::complete) return State::done;
  return fail(phase_ == Phase::head ? "the connection was closed without an answer"
                                    : "the connection was closed before the end of the body");
}

}  // namespace sluice::app::suite
