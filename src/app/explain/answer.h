#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "app/explain/explain.h"
#include "app/log/redaction.h"
#include "app/prepare/loop.h"
#include "http/request.h"
#include "http/response.h"
#include "sql/encode/format.h"

namespace sluice::app {

// Part of explain(): where the answer of a route comes from, which Route::explain() says.
class AnswerExplainer {
 public:
  // All arguments outlive this.
  AnswerExplainer(const Plan& plan, Loop& loop, const Redaction& redaction, Explanation& into)
      : plan_(plan), loop_(loop), redaction_(redaction), into_(into) {}

  void add(std::string name, std::string text) { into_.destination.push_back({std::move(name), {std::move(text)}}); }
  // With the credentials in the address hidden.
  void add_address(std::string name, std::string_view address) { add(std::move(name), shown_address(address)); }
  [[nodiscard]] std::string shown_address(std::string_view address) const {
    std::string text;
    redaction_.append_address(text, address);
    return text;
  }
  void add_list(std::string name, std::vector<std::string> texts) {
    if (!texts.empty()) into_.destination.push_back({std::move(name), std::move(texts), true});
  }
  // The parameters of the statement that the route has added.
  void set_parameters(std::vector<Explanation::Value> parameters) { into_.parameters = std::move(parameters); }
  // The route, or Sluice itself, answers with this.
  void take(const http::Response& response);
  // The format that the request chooses for rows, by its path or by Accept. Refuses it and returns false if it accepts
  // none. `has_rows`: whether the answer has any; if not, the format is only chosen.
  bool add_format(const http::Request& request, sql::FormatSet offered, bool has_rows = true);
  // It is refused with this, in place of all that has been added.
  void refuse(const http::Response& response) {
    into_.is_answered = false;
    into_.destination.clear();
    take(response);
  }

  [[nodiscard]] const Options& options() const { return plan_.options; }
  [[nodiscard]] const std::string& host() const { return into_.host; }
  [[nodiscard]] const Redaction& redaction() const { return redaction_; }
  [[nodiscard]] Loop& loop() const { return loop_; }
  // Whether the claims of the request are those that it would have at run time.
  bool knows_claims = true;

 private:
  const Plan& plan_;
  Loop& loop_;
  const Redaction& redaction_;
  Explanation& into_;
};

}  // namespace sluice::app
