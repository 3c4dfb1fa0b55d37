#include "msg/groups.h"

#include "base/assert.h"
#include "msg/session.h"

namespace sluice::msg {
namespace {

constexpr std::size_t ahead = 4;  // of the session that a frame is queued for, others are on their way into the cache

}  // namespace

const Membership* Groups::find(const Session& session, std::string_view name) {
  for (const Membership& one : session.groups_) {  // a session is in few groups
    if (*one.group->name == name) return &one;
  }
  return nullptr;
}

bool Groups::join(Session& session, std::string_view name) {
  auto& of_session = session.groups_;
  if (session.state() == Session::State::ended) return false;
  if (find(session, name) != nullptr) return true;
  if (of_session.size() >= most_of_session) return false;
  if (of_session.size() == of_session.capacity()) of_session.reserve(2 * of_session.size() + 1);
  const auto [at, is_new] = groups_.try_emplace(std::string(name));
  Group& group = at->second;
  try {
    group.members.push_back({.session = &session, .index = of_session.size()});
  } catch (...) {
    if (is_new) groups_.erase(at);
    throw;
  }
  group.name = &at->first;
  of_session.push_back({.group = &group, .index = group.members.size() - 1});
  return true;
}

void Groups::leave(Session& session, std::string_view name) {
  const Membership* const found = find(session, name);
  if (found != nullptr) remove(session, static_cast<std::size_t>(found - session.groups_.data()));
}

void Groups::leave_all(Session& session) {
  while (!session.groups_.empty()) remove(session, session.groups_.size() - 1);
}

void Groups::remove(Session& session, std::size_t index) {
  auto& of_session = session.groups_;
  Group& group = *of_session[index].group;
  // The last member takes the free place, and so does the session's last group.
  const std::size_t place = of_session[index].index;
  SLUICE_ASSERT(group.members[place].session == &session && group.members[place].index == index);
  group.members[place] = group.members.back();
  group.members[place].session->groups_[group.members[place].index].index = place;
  group.members.pop_back();
  if (index + 1 != of_session.size()) {
    of_session[index] = of_session.back();
    of_session[index].group->members[of_session[index].index].index = index;
  }
  of_session.pop_back();
  if (group.members.empty()) groups_.erase(groups_.find(*group.name));
}

void Groups::broadcast(std::string_view name, const Payload& payload) const {
  const auto found = groups_.find(name);
  if (found == groups_.end()) return;
  const auto& members = found->second.members;
  for (std::size_t i = 0; i < members.size(); ++i) {
    if (i + ahead < members.size()) members[i + ahead].session->prefetch();
    members[i].session->send(payload);
  }
}

std::size_t Groups::size(std::string_view name) const {
  const auto found = groups_.find(name);
  return found != groups_.end() ? found->second.members.size() : 0;
}

bool Groups::has(const Session& session, std::string_view name) const { return find(session, name) != nullptr; }

void Groups::validate() const {
  for (const auto& [name, group] : groups_) {
    SLUICE_ASSERT(group.name == &name && !group.members.empty());
    for (const Group::Member& member : group.members) {
      const auto& of_session = member.session->groups_;
      SLUICE_ASSERT(member.index < of_session.size() && of_session[member.index].group == &group);
      for (std::size_t index = 0; index < of_session.size(); ++index) {
        const auto& members = of_session[index].group->members;
        SLUICE_ASSERT(of_session[index].index < members.size());
        const Group::Member& place = members[of_session[index].index];
        SLUICE_ASSERT(place.session == member.session && place.index == index);
      }
    }
  }
}

}  // namespace sluice::msg
