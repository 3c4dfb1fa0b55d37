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

// References of calls to the answers of earlier ones. Each answer is read once, whatever the number of references into
// it: all of them are known before the first call.
namespace sluice::api::batch {

// Cuts "a${film.id}b$${c" into pieces: text that stands as it is, and the reference behind it.
class Cutter {
 public:
  struct Piece {
    std::string_view literal;
    std::optional<std::string_view> reference{};
    bool is_whole = false;  // a JSON string is nothing but the reference; its quotes belong to no piece
  };
  // `is_json`: only strings that are values have references. Otherwise the text is one string without quotes.
  Cutter(std::string_view text, bool is_json)
      : text_(text), end_(text.size()), is_json_(is_json), in_string_(!is_json) {}

  // Nothing: the end, or a reference without its "}".
  [[nodiscard]] std::optional<Piece> next();
  [[nodiscard]] bool broken() const { return broken_; }

 private:
  [[nodiscard]] Piece piece(std::size_t end, std::size_t next);

  std::string_view text_;
  std::size_t done_ = 0;  // what is before is in pieces: done_ <= at_
  std::size_t at_ = 0;
  std::size_t end_;  // of the string that is being cut
  bool is_json_;
  bool in_string_;
  bool ended_ = false;
  bool broken_ = false;
};

inline constexpr std::string_view unended_reference = "a \"${\" without its \"}\"";

// The index that a step is, in its one notation.
[[nodiscard]] std::optional<std::size_t> parse_index(std::string_view text);
// Which call a reference is to: its id or index.
[[nodiscard]] inline std::string_view first_of(std::string_view reference) {
  return reference.substr(0, reference.find('.'));
}

// What calls have been answered, as far as references are to it.
class Results {
 public:
  // `calls` outlive it.
  explicit Results(std::span<const Call> calls);

  // The next call's answer: JSON, or empty. It is read by advance(), before the next call is resolved.
  void add(std::string body);
  [[nodiscard]] std::size_t size() const { return answers_.size(); }
  // Reads a few KiB of the last answer. Returns how many bytes; 0: there is nothing more to read.
  std::size_t advance();
  [[nodiscard]] std::uint64_t bytes_read() const { return bytes_read_; }

  // A value's own JSON. An error says which reference is wrong, and how.
  [[nodiscard]] std::expected<std::string_view, std::string> find(std::string_view reference) const;
  // Its characters: a string's decoded, a number's or a boolean's as they are.
  [[nodiscard]] std::expected<std::string, std::string> text_of(std::string_view reference) const;

 private:
  // A path into an answer, ".tags.0". Those of one answer are sorted by their steps, so that what has the same first
  // steps is together.
  struct Wanted {
    std::string_view path;
    std::string_view value{};  // empty: not found
    std::size_t reached = 0;   // 1 + the length of the part of `path` that has been found; 0: nothing is known
    bool in_scalar = false;    // there are no steps beyond it
  };
  // An array or an object that has wanted values, or is one.
  struct Level {
    std::size_t first;  // the wanted within it are [first, last)
    std::size_t last;
    std::size_t prefix;  // how much of their paths leads here
    std::size_t begin;
    Wanted* self;  // null: the whole of it is not wanted
    bool is_array;
    bool expects_key;
    std::size_t index = 0;
  };

  // Returns the end of the token at `at_`.
  [[nodiscard]] std::size_t take_token(std::string_view body, std::vector<Wanted>& wanted);
  void begin_value(std::string_view body, std::size_t end, std::vector<Wanted>& wanted);
  void choose(std::string_view step, std::span<const Wanted> wanted);

  std::unordered_map<std::string_view, std::size_t> ids_;
  std::vector<std::vector<Wanted>> wanted_;  // of each call
  std::vector<std::string> answers_;
  std::uint64_t bytes_read_ = 0;

  // Of the answer that is being read.
  std::size_t at_ = 0;
  std::size_t skipped_ = 0;  // how deep `at_` is in what nobody wants
  std::vector<Level> levels_;
  std::size_t first_ = 0;  // the value that comes next is wanted by [first_, last_), through `prefix_` of their paths
  std::size_t last_ = 0;
  std::size_t prefix_ = 0;
};

// One text of a call, with the values that its references are to.
class Resolution {
 public:
  enum class Form : std::uint8_t { target, json, text };

  // All outlive it. `most`: how many bytes it may become.
  Resolution(const Results& results, std::string_view text, Form form, std::size_t most)
      : results_(results), text_(text), form_(form), most_(most), cutter_(text, form == Form::json) {}

  // Takes the next piece. Returns roughly how many bytes it has read and written; 0: there are no more pieces.
  std::size_t advance();
  // After the last piece. An error says which reference is wrong, and how.
  [[nodiscard]] std::expected<std::string, std::string> take();

 private:
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
