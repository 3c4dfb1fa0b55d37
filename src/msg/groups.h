#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "msg/payload.h"

namespace sluice::msg {

class Session;
struct Membership;

// Each member knows its place in the session's list of groups, whose Membership knows the member's place here.
struct Group {
  struct Member {
    Session* session;
    std::size_t index;  // in Session::groups_
  };
  const std::string* name;  // the key of this group
  std::vector<Member> members;
};

// The named groups of one core's sessions. Joining and leaving take constant time; a broadcast visits the members
// alone. A group is there while it has members.
class Groups {
 public:
  Groups() = default;
  Groups(const Groups&) = delete;

  // A session that is in the group already stays in it once. Returns false if the session has ended, or is in
  // `most_of_session` others.
  static constexpr std::size_t most_of_session = 1000;
  bool join(Session& session, std::string_view name);
  void leave(Session& session, std::string_view name);
  void leave_all(Session& session);
  // Queues the payload for every open member.
  void broadcast(std::string_view name, const Payload& payload) const;
  [[nodiscard]] std::size_t size(std::string_view name) const;
  [[nodiscard]] bool has(const Session& session, std::string_view name) const;

  // Asserts that no group is empty, and that each member and its session's Membership point at each other. Visits all
  // groups of all members, so it is for tests.
  void validate() const;

 private:
  struct Hash : std::hash<std::string_view> {
    using is_transparent = void;
  };

  [[nodiscard]] static const Membership* find(const Session& session, std::string_view name);
  void remove(Session& session, std::size_t index);

  std::unordered_map<std::string, Group, Hash, std::equal_to<>> groups_;
};

}  // namespace sluice::msg
