#pragma once

#include <span>
#include <string>
#include <string_view>

#include "api/error_map.h"
#include "api/source.h"
#include "base/log.h"
#include "http/response.h"
#include "sql/database.h"

namespace sluice::api {

// The operation that failed. It decides whether the client's values can be the cause.
enum class Failed : std::uint8_t {
  reading,        // reads with values from the client
  reading_alone,  // reads without values from the client, so bad data cannot be the client's fault
  writing,
  writing_parameters,  // writes with values of the path, the query string and the header, but not of a body
  writing_alone,       // writes without values of the request
};

// The log entry for an error. A message may repeat the statement's values, even in changed form. It is therefore
// omitted if the statement takes a credential. `credential`: its name, from credential_of(); empty without a
// credential.
[[nodiscard]] std::string log_text(const sql::Error& error, std::string_view credential);

// Makes one endpoint's answers to database errors, as problem details (RFC 9457). The SQLSTATE determines the status.
// The database's own message goes only to the log, unless [errors] says otherwise.
class Failures {
 public:
  // Answers show the database's message and the statement. For development: set once, before there are threads.
  static inline bool tells_clients = false;

  // `path`, `errors` and `credential` must outlive this. `trouble`: the log for a database that cannot be reached; if
  // null, each request that fails for this reason is logged. `errors` may be null. `credential`: as for log_text().
  Failures(std::string_view path, TroubleLog* trouble, const ErrorMap* errors, std::string_view credential = {})
      : path_(path), trouble_(trouble), errors_(errors), credential_(credential) {}

  // `members`: further members of the problem, as JSON, if the database refuses the client's values. `sources`: the
  // sources of the statement's parameters, if they are known. `statement`: its text, for tells_clients.
  [[nodiscard]] http::Response answer(const sql::Error& error, Failed failed, std::string_view members = {},
                                      std::span<const Source> sources = {}, std::string_view statement = {}) const;
  void got_through() const {
    if (trouble_ != nullptr) trouble_->got_through();
  }

 private:
  [[nodiscard]] http::Response answer_alone(const sql::Error& error, Failed failed, std::string_view members,
                                            std::span<const Source> sources) const;
  void log(const sql::Error& error) const;

  std::string_view path_;
  TroubleLog* trouble_;
  const ErrorMap* errors_;
  std::string_view credential_;
};

}  // namespace sluice::api
