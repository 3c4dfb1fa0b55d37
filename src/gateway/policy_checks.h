#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/declare.h"

namespace sluice::gateway {

// Reports what is wrong with the options of one policy, and answers what a check must know of the rest of the
// configuration.
class PolicyChecks {
 public:
  explicit PolicyChecks(const Located<std::string>& name) : name(name) {}
  PolicyChecks(const PolicyChecks&) = delete;
  virtual ~PolicyChecks() = default;

  virtual void complain(Position position, std::string message, std::string hint = {}) = 0;
  // Whether the configuration has other errors. An absent value may then have been refused when it was read.
  [[nodiscard]] virtual bool has_errors() const = 0;
  // Reports a name that is not the name of an [[upstream]].
  virtual void check_upstream(const Located<std::string>& upstream) = 0;
  // Reports a name that is not the name of a [[resident]] with a key.
  // `key` is what the key must be: "the column with the digests".
  virtual void check_table(const Located<std::string>& table, std::string_view key) = 0;
  // The names of the fields that [server.headers] adds to all answers.
  [[nodiscard]] virtual std::vector<Located<std::string>> server_headers() const = 0;
  // Whether [server.tls] asks clients for certificates.
  [[nodiscard]] virtual bool has_client_certificates() const = 0;

  const Located<std::string>& name;  // of the policy
};

}  // namespace sluice::gateway
