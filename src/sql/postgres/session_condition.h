#pragma once

#include <cstdint>

namespace sluice::sql::postgres {

// A session's own settings, and what its requests have left in it: an open transaction, changed parameters, temporary
// tables. The session sends the commands; this object knows which are needed.
class SessionCondition {
 public:
  // Decides the session's statement_timeout: as configured if shared; none if exclusive, because a client may be slow.
  enum class Role : std::uint8_t { shared, exclusive };
  // The session's default_transaction_read_only. Requests that read set it; transactions that write restore the default
  // of the server, which may be read-only itself.
  enum class Access : std::uint8_t { unknown, server_default, reading };

  void begin(Role role) {
    *this = {};
    role_ = opened_as_ = role;
  }
  [[nodiscard]] Role role() const { return role_; }
  [[nodiscard]] Access access() const { return access_; }
  // These return whether a command must be sent.
  [[nodiscard]] bool set_role(Role role) {
    const bool differs = !role_known_ || role_ != role;
    role_ = role;
    role_known_ = true;
    return differs;
  }
  [[nodiscard]] bool set_access(Access access) {
    const bool differs = access_ != access;
    access_ = access;
    return differs;
  }

  void begin_transaction(bool changes_session) {
    in_transaction_ = true;
    unreset_ |= changes_session;
  }
  void end_transaction() { in_transaction_ = false; }
  [[nodiscard]] bool in_transaction() const { return in_transaction_; }
  void make_temporary() { has_temporary_ = true; }
  void drop_temporary() { has_temporary_ = false; }
  [[nodiscard]] bool has_temporary() const { return has_temporary_; }
  // A request may have changed the session, and whether it has been reset after it.
  void set_unreset(bool unreset) { unreset_ = unreset; }
  [[nodiscard]] bool is_unreset() const { return unreset_; }
  [[nodiscard]] bool is_clean() const { return !in_transaction_ && !unreset_ && !has_temporary_; }

  // The reset commands have been written; they may fail.
  void reset_is_on_its_way() {
    if (role_ != opened_as_) role_known_ = false;
    if (access_ != Access::server_default) access_ = Access::unknown;
  }
  void was_reset() {
    role_ = opened_as_;
    role_known_ = true;
    access_ = Access::server_default;
    unreset_ = has_temporary_ = false;
  }

 private:
  Role role_ = Role::shared;
  Role opened_as_ = Role::shared;
  Access access_ = Access::server_default;
  bool role_known_ = true;
  bool in_transaction_ = false;
  bool unreset_ = false;
  bool has_temporary_ = false;
};

}  // namespace sluice::sql::postgres
