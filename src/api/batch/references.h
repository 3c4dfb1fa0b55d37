#pragma once

#include <cstddef>
#include <cstdint>
#include <expected>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "api/batch/call.h"

// References of calls to the answers of earlier calls. All references are known before the first call, so each answer
// is read only once, however many references name it.
namespace sluice::api::batch {

// Cuts "a${film.id}b$${c" into pieces, each with literal text and the reference that follows.
class Cutter {
 public:
  struct Piece {
    std::string_view literal;
    std::optional<std::string_view> reference{};
    bool is_whole = false;  // the JSON string consists only of the reference; its quotes belong to no piece
  };
  // `is_json`: only strings that are values may contain references. Otherwise the text is one string without quotes.
  Cutter(std::string_view text, bool is_json)
      : text_(text), end_(text.size()), is_json_(is_json), in_string_(!is_json) {}

  // Returns nullopt at the end, or for a reference without its "}".
  [[nodiscard]] std::optional<Piece> next();
  [[nodiscard]] bool broken() const { return broken_; }

 private:
  [[nodiscard]] Piece piece(std::size_t end, std::size_t next);

  std::string_view text_;
  std::size_t done_ = 0;  // next() has returned everything before it: done_ <= at_
  std::size_t at_ = 0;
  std::size_t end_;  // the end of the string that is being cut
  bool is_json_;
  bool in_string_;
  bool ended_ = false;
  bool broken_ = false;
};

inline constexpr std::string_view unended_reference = "a \"${\" without its \"}\"";

// Parses a step that is an array index, in canonical notation.
[[nodiscard]] std::optional<std::size_t> parse_index(std::string_view text);
// The call that a reference names: its id or index.
[[nodiscard]] inline std::string_view first_of(std::string_view reference) {
  return reference.substr(0, reference.find('.'));
}

// The parts of the calls' answers that references need.
class Results {
 public:
  // `calls` outlives this.
  explicit Results(std::span<const Call> calls);

  // Adds the next call's answer: JSON, or empty. advance() must have read it before the next call is resolved.
  void add(std::string body);
  [[nodiscard]] std::size_t size() const { return answers_.size(); }
  // Reads a few KiB of the last answer. Returns the number of bytes read, or 0 if it has been read to its end.
  std::size_t advance();
  [[nodiscard]] std::uint64_t bytes_read() const { return bytes_read_; }

  // The value's JSON text. An error says which reference is wrong and why.
  [[nodiscard]] std::expected<std::string_view, std::string> find(std::string_view reference) const;
  // The value's characters: a decoded string, or a number or boolean as written.
  [[nodiscard]] std::expected<std::string, std::string> text_of(std::string_view reference) const;

 private:
  // A path into an answer, ".tags.0". The paths of one answer are sorted by their steps, so those with a common
  // beginning are adjacent.
  struct Wanted {
    std::string_view path;
    std::string_view value{};  // empty if it has not been found
    std::size_t reached = 0;   // 1 + the length of the part of `path` found so far; 0 if none has been found
    bool in_scalar = false;    // the path continues below a scalar, so the value does not exist
  };
  // An array or object that is wanted itself or contains wanted values.
  struct Level {
    std::size_t first;  // the wanted values within it are [first, last)
    std::size_t last;
    std::size_t prefix;  // the length of their paths' common part that leads here
    std::size_t begin;
    Wanted* self;  // null if the array or object itself is not wanted
    bool is_array;
    bool expects_key;
    std::size_t index = 0;
  };

  // Returns the end of the token at `at_`.
  [[nodiscard]] std::size_t take_token(std::string_view body, std::vector<Wanted>& wanted);
  void begin_value(std::string_view body, std::size_t end, std::vector<Wanted>& wanted);
  void choose(std::string_view step, std::span<const Wanted> wanted);

  std::unordered_map<std::string_view, std::size_t> ids_;
  std::vector<std::vector<Wanted>> wanted_;  // by call
  std::vector<std::string> answers_;
  std::uint64_t bytes_read_ = 0;

  // State of the answer that is being read.
  std::size_t at_ = 0;
  std::size_t skipped_ = 0;  // nesting depth of `at_` within a value that is not wanted
  std::vector<Level> levels_;
  std::size_t first_ = 0;  // the wanted values at or within the next value are [first_, last_)
  std::size_t last_ = 0;
  std::size_t prefix_ = 0;  // see Level::prefix
};

// A text of one call, in which references are replaced by their values.
class Resolution {
 public:
  // `read_target`: the target of a GET, in which an extension would choose the format.
  enum class Form : std::uint8_t { read_target, target, json, text };

  // All arguments outlive this. `most`: the maximum size of the result in bytes.
  Resolution(const Results& results, std::string_view text, Form form, std::size_t most)
      : results_(results), text_(text), form_(form), most_(most), cutter_(text, form == Form::json) {}

  // Handles the next piece. Returns roughly how many bytes it has read and written, or 0 if there are no more pieces.
  std::size_t advance();
  // The result, after the last piece. An error says which reference is wrong and why.
  [[nodiscard]] std::expected<std::string, std::string> take();

 private:
  [[nodiscard]] bool is_target() const { return form_ <= Form::target; }
  [[nodiscard]] std::string write(std::string_view reference, bool is_whole);

  const Results& results_;
  std::string_view text_;
  Form form_;
  std::size_t most_;
  Cutter cutter_;
  std::string out_;
  std::string fault_;
};

}  // namespace sluice::api::batch
