#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "api/options.h"
#include "core/task.h"

// Parameters with the option `hash`: their values are passwords, of which a statement gets the hash.
namespace sluice::api {

// The rules for a password. Created at start, immutable.
struct PasswordRules {
  static constexpr std::size_t most_bytes = 1024;

  std::uint32_t min_length = 8;  // characters
  bool allows_common = false;

  // Returns what is wrong with the password, such as "must have at least 8 characters", or an empty string. The text
  // never contains the password.
  [[nodiscard]] std::string fault_of(std::string_view password) const;
};

// Returns null if the value is no password.
[[nodiscard]] std::shared_ptr<const PasswordRules> password_rules(const ParamOptions& options);

// Hashes passwords on one core.
class PasswordHasher {
 public:
  virtual ~PasswordHasher() = default;
  // `peer`: as in http::Request. Returns the hash, or nullopt if too many passwords wait.
  [[nodiscard]] virtual core::Task<std::optional<std::string>> hash(std::string_view peer, std::string password) = 0;
};

// The passwords in the body of one request. Binding the values the first time collects them. Once they are hashed,
// binding them again gives their hashes.
class Passwords {
 public:
  // `key`: the field of the body. Returns nullopt if the password has not been hashed; then it is collected.
  [[nodiscard]] std::optional<std::string_view> hash_of(std::string_view key, std::string_view password);
  // Hashes the collected passwords, one after another. Returns false if too many passwords wait.
  [[nodiscard]] core::Task<bool> hash_all(PasswordHasher& hasher, std::string_view peer);

 private:
  struct One {
    std::string key;
    std::string password;  // empty once it has been hashed
    std::string hash;      // empty until then
  };
  std::deque<One> all_;  // the texts stay where they are
};

}  // namespace sluice::api
