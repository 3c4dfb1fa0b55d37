#include "app/suite/response.h"

#include <algorithm>

#include "http/fields.h"

namespace sluice::app::suite {

using http::h1::BodyFraming;

const std::string* Answer::field(std::string_view name) const {
  const auto found =
      std::ranges::find_if(fields, [&](const auto& field) { return http::same_name(field.first, name); });
  return found == fields.end() ? nullptr : &found->second;
}

ResponseReader::State ResponseReader::fail(std::string_view problem) {
  problem_ = problem;
  return State::broken;
}

ResponseReader::State ResponseReader::feed(std::string_view bytes) {
  if (!problem_.empty()) return State::broken;
  in_.append(bytes);
  while (!has_head_) {
    if (const State state = read_head(); state != State::done) return state;
  }
  return read_body();
}

ResponseReader::State ResponseReader::read_head() {
  using Parsed = http::h1::Parsed;
  const Parsed parsed = parser_.parse(in_.view(), method_);
  if (parsed.state == Parsed::State::need_more) return State::more;
  if (!in_.view().starts_with("HTTP/1.1 ")) return fail("it does not begin with a status line of HTTP/1.1");
  if (parsed.state == Parsed::State::refused) return fail(http::h1::describe(parsed.reason));
  // The parser accepts a status line without the space behind the status; RFC 9112, 4 requires it.
  if (in_.view()[12] != ' ') return fail(http::h1::describe(http::h1::Reason::bad_status));
  const http::client::ResponseHead& head = parser_.head();
  if (head.status == 101) return fail("the server switches protocols");
  has_head_ = head.status >= 200;
  if (has_head_) {
    std::size_t lengths = 0;
    for (const auto& [name, value] : head.fields) {
      if (http::same_name(name, "content-length"))
        lengths += 1 + static_cast<std::size_t>(std::ranges::count(value, ','));
    }
    if (lengths > 1) return fail(http::h1::describe(http::h1::Reason::duplicate_content_length));
    if (lengths != 0 && !head.length) return fail(http::h1::describe(http::h1::Reason::length_and_encoding));
    answer_.status = static_cast<unsigned>(head.status);
    for (const auto& [name, value] : head.fields) answer_.fields.emplace_back(name, value);
    body_ = head.body;
    if (body_.length > longest_body) return fail("the body is too long");
  }
  in_.consume(parsed.head_size);
  parser_.reset();
  return State::done;
}

// When the body is complete, body_.kind becomes `none`.
ResponseReader::State ResponseReader::read_body() {
  switch (body_.kind) {
    case BodyFraming::Kind::none:
      break;
    case BodyFraming::Kind::until_close:
      answer_.body += in_.view();
      in_.clear();
      return answer_.body.size() > longest_body ? fail("the body is too long") : State::more;
    case BodyFraming::Kind::length: {
      const std::string_view piece = in_.view().substr(0, body_.length);
      answer_.body += piece;
      body_.length -= piece.size();
      in_.consume(piece.size());
      if (body_.length != 0) return State::more;
      break;
    }
    case BodyFraming::Kind::chunked: {
      using Step = http::h1::ChunkedDecoder::Step;
      Step step;
      do {
        step = chunks_.decode(in_.view());
        answer_.body += step.data;
        in_.consume(step.consumed);
      } while (step.state == Step::State::data);
      if (step.state == Step::State::refused) return fail(http::h1::describe(step.reason));
      if (answer_.body.size() > longest_body) return fail("the body is too long");
      if (step.state == Step::State::need_more) return State::more;
      break;
    }
  }
  body_.kind = BodyFraming::Kind::none;
  return in_.empty() ? State::done : fail("bytes behind the end of the answer");
}

ResponseReader::State ResponseReader::end() {
  if (!problem_.empty()) return State::broken;
  if (!has_head_) return fail("the connection was closed without an answer");
  if (body_.kind == BodyFraming::Kind::until_close) body_.kind = BodyFraming::Kind::none;
  return body_.kind == BodyFraming::Kind::none ? State::done
                                               : fail("the connection was closed before the end of the body");
}

}  // namespace sluice::app::suite
