#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "app/suite/database.h"
#include "app/suite/expectation.h"
#include "app/suite/file.h"
#include "app/suite/response.h"
#include "app/suite/signals.h"
#include "app/suite/tap.h"
#include "app/suite/token.h"
#include "app/suite/variables.h"
#include "base/time.h"
#include "core/address.h"

namespace sluice::app::suite {

// Runs one step: sends, receives, and compares with the expectation. Sets the step's variables from the answer, whether
// the step passes or not.
class StepRun {
 public:
  // All arguments outlive this object.
  StepRun(const Suite& suite, const Step& step, Variables& variables)
      : suite_(suite), step_(step), variables_(variables) {}

  void run_request(const core::Address& server, const Tokens& tokens, Instant deadline, Signals& signals);
  void run_statement(Database& database, Instant deadline);

  [[nodiscard]] bool passed() const { return problems_.empty(); }
  [[nodiscard]] std::string message() const { return problems_.empty() ? "" : problems_.front(); }
  // The details that a failed test point prints.
  [[nodiscard]] Tap::Details details() const;
  // The request and the answer, for --verbose.
  [[nodiscard]] std::string transcript() const;

  // For tests: compares this answer with the expectation.
  void judge(Answer answer);

 private:
  void problem(std::string text) { problems_.push_back(std::move(text)); }
  void compare_body(const Json& got, std::string_view called);
  void set_variables(const Json* body);
  [[nodiscard]] bool prepare_body(struct RequestText& request);
  [[nodiscard]] bool prepare_form(struct RequestText& request, std::string& type);
  [[nodiscard]] std::optional<std::string> read_file(const std::string& path);

  const Suite& suite_;
  const Step& step_;
  Variables& variables_;
  std::string sent_;
  std::optional<Answer> answer_;
  std::optional<Json> rows_;
  std::vector<std::string> problems_;  // sentences
  std::string diff_;
};

// Parses an answer's body by its Content-Type: JSON, NDJSON or CSJ. An error is a sentence.
[[nodiscard]] std::expected<Json, std::string> read_body(const Answer& answer);

// Shortens a text for a diagnostic.
[[nodiscard]] std::string cut(std::string_view text);

}  // namespace sluice::app::suite
