#include "api/batch/references.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <utility>

#include <simdjson.h>

#include "base/buffer.h"
#include "base/json.h"
#include "http/router.h"
#include "http/target.h"

namespace sluice::api::batch {
namespace {

constexpr std::size_t read_at_once = 4096;
constexpr std::size_t work_of_reference = 256;  // finding a value takes about as long as copying this many bytes
constexpr std::string_view blanks = " \t\r\n";
constexpr std::string_view long_target = "with its references it is longer than a target may be";
constexpr std::string_view too_long = "with its references it is longer than a batch may be";

std::size_t end_of_string(std::string_view text, std::size_t open) {
  std::size_t end = open + 1;
  while (end < text.size() && text[end] != '"') end += text[end] == '\\' ? 2 : 1;
  return std::min(end + 1, text.size());
}

// The step of a path after its first `prefix` bytes.
std::string_view step_of(std::string_view path, std::size_t prefix) {
  path.remove_prefix(prefix + 1);
  return path.substr(0, path.find('.'));
}

// Compares step by step: a "." sorts before every other character.
bool comes_before(std::string_view a, std::string_view b) {
  return std::ranges::lexicographical_compare(
      a, b, {}, [](char c) { return c == '.' ? 0 : 1 + (c & 0xFF); },
      [](char c) { return c == '.' ? 0 : 1 + (c & 0xFF); });
}

}  // namespace

std::optional<std::size_t> parse_index(std::string_view text) {
  std::size_t index = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), index);
  const bool whole = error == std::errc{} && end == text.data() + text.size();
  if (!whole || (text.size() > 1 && text.front() == '0')) return std::nullopt;
  return index;
}

Cutter::Piece Cutter::piece(std::size_t end, std::size_t next) {
  const Piece made{.literal = text_.substr(done_, end - done_)};
  done_ = at_ = next;
  return made;
}

std::optional<Cutter::Piece> Cutter::next() {
  while (!ended_) {
    if (!in_string_) {
      const std::size_t open = text_.find('"', at_);
      const std::size_t end = open == text_.npos ? text_.size() : end_of_string(text_, open);
      ended_ = end == text_.size();
      if (open == text_.npos || end - open < 2) return piece(end, end);
      const std::size_t next = text_.find_first_not_of(blanks, end);
      const bool is_key = next != text_.npos && text_[next] == ':';
      const std::string_view inside = text_.substr(open + 1, end - open - 2);
      if (is_key || !inside.contains("${")) return piece(end, end);
      if (inside.starts_with("${") && inside.find('}') == inside.size() - 1) {
        Piece whole = piece(open, end);
        whole.reference = inside.substr(2, inside.size() - 3);
        whole.is_whole = true;
        return whole;
      }
      ended_ = false;
      in_string_ = true;
      at_ = open + 1;
      end_ = end - 1;
    }
    const std::string_view before_end = text_.substr(0, end_);
    const std::size_t mark = before_end.find("${", at_);
    if (mark == text_.npos) {
      in_string_ = false;
      at_ = end_ + 1;
      if (is_json_) continue;
      ended_ = true;
      return piece(end_, end_);
    }
    if (mark != at_ && text_[mark - 1] == '$') return piece(mark, mark + 1);
    const std::size_t end = before_end.find('}', mark);
    if (end == text_.npos) {
      ended_ = broken_ = true;
      return std::nullopt;
    }
    Piece made = piece(mark, end + 1);
    made.reference = text_.substr(mark + 2, end - mark - 2);
    return made;
  }
  return std::nullopt;
}

Results::Results(std::span<const Call> calls) : wanted_(calls.size()) {
  for (std::size_t i = 0; i < calls.size(); ++i) {
    const auto collect = [&](std::string_view text, bool is_json) {
      Cutter cutter(text, is_json);
      while (const auto piece = cutter.next()) {
        if (!piece->reference) continue;
        const std::string_view name = first_of(*piece->reference);
        const auto id = ids_.find(name);
        const std::size_t to = id != ids_.end() ? id->second : parse_index(name).value_or(i);
        const std::string_view path = piece->reference->substr(name.size());
        if (to < i && !path.empty()) wanted_[to].push_back({.path = path});
      }
    };
    collect(calls[i].target, false);
    collect(calls[i].text, false);
    collect(calls[i].body, true);
    if (!calls[i].id.empty()) ids_.emplace(calls[i].id, i);
  }
  answers_.reserve(calls.size());  // the answers must not move, because values are views of them
  for (auto& wanted : wanted_) {
    std::ranges::sort(wanted, comes_before, &Wanted::path);
    const auto [twins, end] = std::ranges::unique(wanted, {}, &Wanted::path);
    wanted.erase(twins, end);
  }
}

void Results::add(std::string body) {
  answers_.push_back(std::move(body));
  at_ = skipped_ = prefix_ = first_ = 0;
  last_ = wanted_[answers_.size() - 1].size();
  levels_.clear();
  if (last_ == 0) at_ = answers_.back().size();
}

std::size_t Results::advance() {
  if (answers_.empty()) return 0;
  const std::string_view body = answers_.back();
  auto& wanted = wanted_[answers_.size() - 1];
  const std::size_t begin = at_;
  while (at_ < body.size() && at_ - begin < read_at_once) at_ = take_token(body, wanted);
  bytes_read_ += at_ - begin;
  return at_ - begin;
}

std::size_t Results::take_token(std::string_view body, std::vector<Wanted>& wanted) {
  switch (body[at_]) {
    case ' ':
    case '\t':
    case '\r':
    case '\n':
    case ':':
      return at_ + 1;
    case ',':
      if (skipped_ == 0 && !levels_.empty()) {
        ++levels_.back().index;
        levels_.back().expects_key = !levels_.back().is_array;
      }
      return at_ + 1;
    case '}':
    case ']':
      if (skipped_ != 0) {
        --skipped_;
      } else if (!levels_.empty()) {
        const Level& level = levels_.back();
        if (level.self != nullptr) level.self->value = body.substr(level.begin, at_ + 1 - level.begin);
        levels_.pop_back();
      }
      return at_ + 1;
    case '{':
    case '[':
      if (skipped_ != 0) {
        ++skipped_;
      } else {
        begin_value(body, body.npos, wanted);
      }
      return at_ + 1;
    case '"': {
      const std::size_t end = end_of_string(body, at_);
      if (skipped_ != 0) return end;
      if (!levels_.empty() && std::exchange(levels_.back().expects_key, false)) {
        choose(body.substr(at_ + 1, end - at_ - 2), wanted);
      } else {
        begin_value(body, end, wanted);
      }
      return end;
    }
    default: {
      const std::size_t end = std::min(body.find_first_of(",]} \t\r\n", at_), body.size());
      if (skipped_ == 0) begin_value(body, end, wanted);
      return end;
    }
  }
}

// `end`: the end of a scalar; npos if an array or an object begins.
void Results::begin_value(std::string_view body, std::size_t end, std::vector<Wanted>& wanted) {
  const bool is_scalar = end != body.npos;
  if (!levels_.empty() && levels_.back().is_array) {
    std::array<char, 20> digits{};
    const auto written = std::to_chars(digits.begin(), digits.end(), levels_.back().index);
    choose({digits.data(), written.ptr}, wanted);
  }
  // If a name occurs several times, the first member counts.
  if (first_ == last_ || wanted[first_].reached > prefix_) {
    skipped_ += is_scalar ? 0 : 1;
    return;
  }
  Wanted* const self = wanted[first_].path.size() == prefix_ ? &wanted[first_] : nullptr;
  for (std::size_t i = first_; i < last_; ++i) {
    wanted[i].reached = prefix_ + 1;
    wanted[i].in_scalar = is_scalar;
  }
  if (!is_scalar) {
    levels_.push_back({.first = first_ + (self != nullptr ? 1 : 0),
                       .last = last_,
                       .prefix = prefix_,
                       .begin = at_,
                       .self = self,
                       .is_array = body[at_] == '[',
                       .expects_key = body[at_] == '{'});
  } else if (self != nullptr) {
    self->value = body.substr(at_, end - at_);
  }
  first_ = last_;  // the next value is a different one
}

// The next value in the innermost level has this step.
void Results::choose(std::string_view step, std::span<const Wanted> wanted) {
  const Level& level = levels_.back();
  const auto within = wanted.subspan(level.first, level.last - level.first);
  const auto found =
      std::ranges::equal_range(within, step, {}, [&](const Wanted& one) { return step_of(one.path, level.prefix); });
  first_ = level.first + static_cast<std::size_t>(found.begin() - within.begin());
  last_ = first_ + found.size();
  prefix_ = level.prefix + 1 + step.size();
}

std::expected<std::string_view, std::string> Results::find(std::string_view reference) const {
  const auto missing = [&](std::string_view why) {
    return std::unexpected("${" + std::string(reference) + "}: " + std::string(why));
  };
  const std::string_view name = first_of(reference);
  const auto id = ids_.find(name);
  const std::size_t call = id != ids_.end() ? id->second : parse_index(name).value_or(size());
  if (call >= size()) return missing("there is no such call");
  if (answers_[call].empty()) return missing("the call's answer has no JSON");
  const std::string_view path = reference.substr(name.size());
  if (path.empty()) return answers_[call];
  const auto& wanted = wanted_[call];
  const auto found = std::ranges::lower_bound(wanted, path, comes_before, &Wanted::path);
  if (found == wanted.end() || found->path != path || found->reached == 0) return missing("it cannot be read");
  if (!found->value.empty()) return found->value;
  const std::size_t prefix = found->reached - 1;
  if (prefix == path.size()) return missing("it cannot be read");
  const std::string step = "\"" + std::string(step_of(path, prefix)) + "\"";
  if (!found->in_scalar) return missing("there is no " + step);
  if (prefix == 0) return missing("the answer is neither an object nor an array");
  return missing("there is nothing in which " + step + " could be");
}

std::expected<std::string, std::string> Results::text_of(std::string_view reference) const {
  const auto found = find(reference);
  if (!found) return std::unexpected(found.error());
  const auto no_text = [&](std::string_view what) {
    return std::unexpected("${" + std::string(reference) + "}: " + std::string(what) + " cannot stand in a text");
  };
  if (found->starts_with('{') || found->starts_with('[')) return no_text("an object or an array");
  if (*found == "null") return no_text("null");
  if (!found->starts_with('"')) return std::string(*found);
  const simdjson::padded_string padded(*found);
  simdjson::ondemand::parser parser;
  simdjson::ondemand::document document;
  std::string_view text;
  if (parser.iterate(padded).get(document) != simdjson::SUCCESS ||
      document.get_string().get(text) != simdjson::SUCCESS) {
    return no_text("what cannot be read");
  }
  return std::string(text);
}

std::size_t Resolution::advance() {
  if (!fault_.empty()) return 0;
  const auto piece = cutter_.next();
  if (!piece) {
    if (cutter_.broken()) fault_ = unended_reference;
    return 0;
  }
  const std::size_t before = out_.size();
  out_ += piece->literal;
  if (!piece->reference) return 1 + piece->literal.size();
  fault_ = write(*piece->reference, piece->is_whole);
  return work_of_reference + out_.size() - before;
}

// Returns what is wrong with the reference, or an empty string.
std::string Resolution::write(std::string_view reference, bool is_whole) {
  const std::size_t room = most_ - std::min(out_.size(), most_);
  const std::string_view too_much = is_target() ? long_target : too_long;
  if (is_whole) {
    const auto value = results_.find(reference);
    if (!value) return value.error();
    if (value->size() > room) return std::string(too_much);
    out_ += *value;
    return {};
  }
  const auto value = results_.text_of(reference);
  if (!value) return value.error();
  if (value->size() > room) return std::string(too_much);
  if (is_target()) {
    http::append_escaped(out_, *value);
    if (value->empty()) return "${" + std::string(reference) + "}: it is empty";
  } else if (form_ == Form::json) {
    Buffer escaped;
    append_json_escaped(escaped, *value);
    out_ += escaped.view();
  } else {
    out_ += *value;
  }
  return {};
}

std::expected<std::string, std::string> Resolution::take() {
  if (!fault_.empty()) return std::unexpected(std::move(fault_));
  if (!is_target()) return std::move(out_);
  if (out_.size() > most_) return std::unexpected(std::string(long_target));
  // A value must stay within one segment of the path, so that it cannot lead to another route or choose a format.
  const std::string_view path = text_.substr(0, text_.find('?'));
  if (path.contains("${") && http::has_dot_segment(out_)) {
    return std::unexpected("with its references it has a segment \".\" or \"..\"");
  }
  if (form_ == Form::read_target && path.contains("${") && http::gains_format(out_, text_)) {
    return std::unexpected("with its references it ends in an extension, which would choose a format");
  }
  return std::move(out_);
}

}  // namespace sluice::api::batch
