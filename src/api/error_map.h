#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "api/options.h"
#include "http/response.h"
#include "sql/database.h"

namespace sluice::api {

// The rules of [errors] and [endpoint.errors] for the database's error codes. Immutable, shared by all cores.
class ErrorMap {
 public:
  // Null if there are no rules. `own` takes precedence over `common`, and a whole code over its class.
  [[nodiscard]] static std::shared_ptr<const ErrorMap> make(std::span<const Named<ErrorOptions>> own,
                                                            std::span<const Named<ErrorOptions>> common);

  struct Entry {
    std::string code;  // five characters, or the two of a class
    int status = 0;
    std::string type;
    std::string title;
    std::string detail;
    bool shows_message = false;
  };
  // Returns null if no rule matches.
  [[nodiscard]] const Entry* find(const sql::Error& error) const;
  // `detail` is used if the entry has none. `members`: further members of the problem, as JSON.
  [[nodiscard]] static http::Response answer(const Entry& entry, const sql::Error& error, std::string_view detail,
                                             std::string_view members);
  [[nodiscard]] std::vector<int> statuses() const;

 private:
  void add(std::span<const Named<ErrorOptions>> options);

  std::vector<Entry> entries_;  // the first match is used
};

// Checks a key of [errors]. Returns what is wrong with it, or an empty string.
[[nodiscard]] std::string check_error_code(std::string_view code);

}  // namespace sluice::api
