#pragma once

#include <string>

#include "app/explain/explain.h"
#include "app/log/redaction.h"
#include "app/prepare/loop.h"
#include "app/routes/claims.h"
#include "http/exchange.h"
#include "http/response.h"

namespace sluice::app {

// Part of explain(): where the answer of a route comes from.
class AnswerExplainer {
 public:
  // All arguments outlive this.
  AnswerExplainer(const Plan& plan, Loop& loop, const Redaction& redaction, Explanation& into)
      : plan_(plan), loop_(loop), redaction_(redaction), into_(into) {}

  // The exchange has passed the policies of the claim's route. `knows_claims`: its claims are those that it would have
  // at run time.
  void explain(const Claim& claim, http::Exchange& exchange, bool knows_claims);
  // The route, or Sluice itself, answers with this.
  void take(const http::Response& response);

 private:
  void explain(const gateway::RouteOptions& route, const http::Exchange& exchange);
  void explain(const api::EndpointOptions& endpoint, http::Exchange& exchange);
  void explain(const files::FilesOptions& files, const http::Request& request);
  void add_upstream(const std::string& name, const std::string& share);
  // `written`: the statement as in the file.
  void add_statement(const api::EndpointOptions& endpoint, const http::Pattern& pattern, const std::string& written,
                     std::span<const api::Source> sources, const http::Exchange& exchange);
  void add_plan(const api::EndpointOptions& endpoint, const http::Pattern& pattern, const std::string& written,
                std::span<const sql::Argument> arguments);
  void add(std::string name, std::string text) { into_.destination.push_back({std::move(name), {std::move(text)}}); }
  void add_list(std::string name, std::vector<std::string> texts) {
    if (!texts.empty()) into_.destination.push_back({std::move(name), std::move(texts), true});
  }

  const Plan& plan_;
  Loop& loop_;
  const Redaction& redaction_;
  Explanation& into_;
  bool knows_claims_ = true;
};

}  // namespace sluice::app
