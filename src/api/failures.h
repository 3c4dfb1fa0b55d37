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

// What failed, as far as it matters to whose fault it is.
enum class Failed : std::uint8_t {
  reading,        // with values that the client has sent
  reading_alone,  // without: bad data cannot be its fault
  writing,
  writing_parameters,  // with values of the path, the query string and the header alone, and none of a body
  writing_alone,       // without values of the request
};

// An error as the log has it. A message may repeat values, also changed ones, so that of a statement that takes a
// credential is left out. `credential`: its name; empty: the statement takes none.
[[nodiscard]] std::string log_text(const sql::Error& error, std::string_view credential);

// What the answers of one endpoint say when its database refuses: a status by SQLSTATE (RFC 9457), and never the
// database's own words, which go to the log; only [errors] may ask for them.
class Failures {
 public:
  // `path` of the endpoint lives as long; `trouble`: of the database, which cannot be reached; null: each request that
  // meets it is logged.
  // `errors`: null, or lives as long. `credential`: as for log_text(); lives as long.
  Failures(std::string_view path, TroubleLog* trouble, const ErrorMap* errors, std::string_view credential = {})
      : path_(path), trouble_(trouble), errors_(errors), credential_(credential) {}

  // `members`: of the problem, as JSON, where the database refuses what the client has sent. `sources`: of the
  // statement's parameters, where they are known.
  [[nodiscard]] http::Response answer(const sql::Error& error, Failed failed, std::string_view members = {},
                                      std::span<const Source> sources = {}) const;
  void got_through() const {
    if (trouble_ != nullptr) trouble_->got_through();
  }

 private:
  void log(const sql::Error& error) const;

  std::string_view path_;
  TroubleLog* trouble_;
  const ErrorMap* errors_;
  std::string_view credential_;
};

}  // namespace sluice::api
