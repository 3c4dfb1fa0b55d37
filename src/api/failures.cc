#include "api/failures.h"

#include <array>
#include <utility>
#include <variant>

#include "base/json.h"

namespace sluice::api {
namespace {

struct Known {
  std::string_view sqlstate;  // five characters, or the two of a class
  int status;                 // of an operation that writes
  std::string_view detail;
  int reading = 0;      // the status of an operation that reads; 0: it is not the client's fault
  bool logged = false;  // the operator may have to do something: grant a right, or raise a limit
};

// The first match is used. Violations caused by a row's own values are the client's fault and are not logged.
constexpr std::array refusals{
    Known{"23505", 409, "There is a row with the same key already."},
    Known{"23503", 409, "It refers to something that is not there, or is still referred to."},
    Known{"23P01", 409, "It collides with another row."},
    Known{"23502", 422, "A required value is missing."},
    Known{"23514", 422, "A value is outside of what is allowed."},
    Known{"44000", 422, "A value is outside of what is allowed."},
    Known{"23", 409, "It breaks a rule of the data."},
    Known{"22", 422, "A value does not fit its type."},
    Known{"54000", 422, "A value is too long.", .reading = 0, .logged = true},
    Known{"54001", 422, "A value is nested too deeply.", .reading = 0, .logged = true},
    Known{"P0001", 422, "The database refuses it.", .reading = 400},
    Known{"42501", 403, "This is not permitted.", .reading = 403, .logged = true},
    Known{"55P03", 409, "Somebody else is changing the same; try again."},
};

bool is_writing(Failed failed) {
  return failed == Failed::writing || failed == Failed::writing_parameters || failed == Failed::writing_alone;
}

const Known* find(std::string_view sqlstate, Failed failed) {
  for (const Known& known : refusals) {
    if (sqlstate.starts_with(known.sqlstate)) return is_writing(failed) || known.reading != 0 ? &known : nullptr;
  }
  return nullptr;
}

bool has_values(Failed failed) { return failed != Failed::reading_alone && failed != Failed::writing_alone; }

// The detail of an answer, if it is not secret; otherwise empty.
std::string_view detail_of(const sql::Error& error, Failed failed) {
  switch (error.failure) {
    case sql::Failure::unavailable:
    case sql::Failure::lost:
      return "The database cannot answer now.";
    case sql::Failure::timed_out:
      return "The statement took too long.";
    case sql::Failure::conflict:
      return is_writing(failed) ? "Somebody else is changing the same; try again." : "The database cannot answer now.";
    case sql::Failure::not_allowed:
      return "This is not permitted.";
    case sql::Failure::bad_argument:
      if (!has_values(failed)) break;
      if (error.sqlstate == "42601") return "The search expression or path cannot be read.";
      return failed == Failed::writing ? "A value does not fit its type." : "The database refuses a parameter's value.";
    case sql::Failure::statement:
      if (const Known* known = find(error.sqlstate, failed); known != nullptr) return known->detail;
      break;
    case sql::Failure::too_large:
      return "The answer is too long.";
  }
  return {};
}

http::Response try_again(int status, std::string_view detail) {
  http::Response response = http::problem(status, detail);
  response.fields.add("Retry-After", "1");
  return response;
}

// "database": the message as it is, the SQLSTATE and the statement.
void add_database_member(http::Response& response, const sql::Error& error, std::string_view statement) {
  auto* const body = std::get_if<Buffer>(&response.body);
  const std::size_t end = body != nullptr ? body->view().rfind('}') : std::string_view::npos;
  if (end == std::string_view::npos) return;
  Buffer longer;
  longer.append(body->view().substr(0, end));
  const auto add = [&longer](std::string_view name, std::string_view text) {
    longer.append(name);
    longer.append("\"");
    append_json_escaped(longer, text);
    longer.append("\"");
  };
  add(R"(,"database":{"message":)", error.message);
  if (!error.sqlstate.empty()) add(R"(,"sqlstate":)", error.sqlstate);
  if (!statement.empty()) add(R"(,"statement":)", statement);
  longer.append("}}");
  *body = std::move(longer);
}

}  // namespace

std::string log_text(const sql::Error& error, std::string_view credential) {
  const std::string code = error.sqlstate + (error.sqlstate.empty() ? "" : " ");
  // The messages of other errors contain no values.
  const bool has_values = error.failure == sql::Failure::statement || error.failure == sql::Failure::bad_argument ||
                          error.failure == sql::Failure::not_allowed;
  if (credential.empty() || !has_values) return code + error.message;
  return code + "(the message is left out: the statement takes the credential \"" + std::string(credential) + "\")";
}

void Failures::log(const sql::Error& error) const {
  log_error("endpoint " + std::string(path_) + ": " + log_text(error, credential_));
}

http::Response Failures::answer(const sql::Error& error, Failed failed, std::string_view members,
                                std::span<const Source> sources, std::string_view statement) const {
  http::Response response = answer_alone(error, failed, members, sources);
  if (tells_clients) add_database_member(response, error, statement);
  return response;
}

http::Response Failures::answer_alone(const sql::Error& error, Failed failed, std::string_view members,
                                      std::span<const Source> sources) const {
  if (const ErrorMap::Entry* entry = errors_ != nullptr ? errors_->find(error) : nullptr; entry != nullptr) {
    if (entry->status >= 500) log(error);
    http::Response response = ErrorMap::answer(*entry, error, detail_of(error, failed), members);
    if (error.failure == sql::Failure::conflict) response.fields.add("Retry-After", "1");
    return response;
  }
  const std::string_view detail = detail_of(error, failed);
  switch (error.failure) {
    case sql::Failure::unavailable:
    case sql::Failure::lost:
      if (trouble_ != nullptr) {
        trouble_->met(error.sqlstate + (error.sqlstate.empty() ? "" : " ") + error.message);
      } else {
        log(error);
      }
      return try_again(503, detail);
    case sql::Failure::timed_out:
      log(error);
      return http::problem(504, detail);
    case sql::Failure::conflict:
      log(error);
      return try_again(is_writing(failed) ? 409 : 503, detail);
    case sql::Failure::not_allowed:
      log(error);
      return http::problem(403, detail);
    case sql::Failure::bad_argument:
      if (const std::size_t number = error.rule ? error.rule->parameter : 0; number != 0 && number <= sources.size()) {
        const Source& source = sources[number - 1];
        if (source.from != From::body && source.from != From::environment) {
          return refuse_value({.source = &source, .reason = "does not fit its type"});
        }
      }
      if (failed == Failed::writing) return http::problem(422, detail, members);
      if (has_values(failed)) return http::problem(400, detail);
      break;
    case sql::Failure::statement:
      if (const Known* known = find(error.sqlstate, failed); known != nullptr) {
        if (known->logged) log(error);
        return is_writing(failed) ? http::problem(known->status, detail, members)
                                  : http::problem(known->reading, detail);
      }
      break;
    case sql::Failure::too_large:
      return http::problem(422, detail, members);
  }
  log(error);
  return http::problem(500);
}

}  // namespace sluice::api
