#pragma once

#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "user.h"

namespace case_study {

// The users that have a role, as ascending positions in the vector that the index was built from.
class RoleIndex {
 public:
  explicit RoleIndex(std::span<const User> users) {
    for (std::size_t place = 0; place < users.size(); ++place) {
      for (const std::string& role : users[place].roles) places_[role].push_back(place);
    }
  }

  std::span<const std::size_t> find(std::string_view role) const {
    const auto found = places_.find(role);
    return found == places_.end() ? std::span<const std::size_t>() : found->second;
  }

 private:
  struct Hash : std::hash<std::string_view> {
    using is_transparent = void;
  };
  std::unordered_map<std::string, std::vector<std::size_t>, Hash, std::equal_to<>> places_;
};

}  // namespace case_study
