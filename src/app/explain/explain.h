#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "app/components/policy/policy_keys.h"
#include "app/plan.h"
#include "base/declare.h"

namespace sluice::app {

// A request that is explained, not sent. Precondition: the method is a token, the target begins with a slash, and no
// text has control characters.
struct ExplainedRequest {
  std::string method;
  std::string target;
  std::string host;
  bool secure = false;
  std::vector<std::string> headers;  // "Name: value"
  std::string client;                // the client's address; empty: not known
};

// How a configuration answers a request. Credentials are hidden.
struct Explanation {
  struct Value {
    std::string name;
    std::optional<std::string> text;  // nothing: NULL, or not known
    std::string from = {};            // its source, of a statement's parameter
  };
  struct Route {
    std::string kind;  // "[[endpoint]]"
    std::string path;  // after its host, if it has one
    Position position;
    std::string why_not = {};  // of a route that matches the path and does not answer
  };
  struct Policy {
    enum class Verdict : std::uint8_t { passes, refuses, undecided, not_asked };
    std::string name;
    std::string type;
    Position position;
    bool is_default = false;  // from [defaults]
    bool is_dry_run = false;  // refuses nothing
    Verdict verdict = Verdict::not_asked;
    std::string note = {};
  };
  // An answer that needs no server, database or file.
  struct Answer {
    int status = 0;
    std::string detail;  // of a problem
    std::vector<Value> fields;
    std::string body = {};  // of [route.respond]
  };
  // One fact about where the answer comes from.
  struct Item {
    std::string name;  // "upstream", "sql"
    std::vector<std::string> texts;
    bool is_list = false;
  };

  std::string method;
  std::string target;
  std::string host;
  std::string path;                // normalised; empty if the target is refused
  std::optional<Route> route;      // the one that matches
  std::vector<Value> path_values;  // of the route
  std::vector<std::string> conditions;
  std::vector<Route> others;         // routes that match the path too
  std::vector<std::string> nearest;  // paths like this one, if no route matches
  std::vector<Policy> policies;      // in the order in which they are asked
  std::optional<Answer> answer;
  std::vector<Item> destination;  // if there is no `answer`
  std::vector<Value> parameters;  // of the statement
  bool is_answered = false;       // by a route, not by an error
};

// Asks policies that need nothing but the request. Sends nothing to an upstream, and fetches nothing. The database
// explains the statement of an endpoint, without executing it.
// `keys`: the current keys of the policies, by index in the options.
[[nodiscard]] Explanation explain(const Plan& plan, const PolicyKeys::Keys& keys, const ExplainedRequest& request);

}  // namespace sluice::app
