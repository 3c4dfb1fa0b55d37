#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace case_study {

struct Address {
  std::string street;
  std::string city;
  std::string postcode;
  std::string country;
};

// A user as such services have them: about 500 bytes of JSON.
struct User {
  std::int64_t id = 0;
  std::string name;
  std::string email;
  std::string title;
  std::string department;
  std::vector<std::string> roles;
  bool active = false;
  std::string created_at;  // times as RFC 3339 has them, in UTC
  std::string updated_at;
  Address address;
  std::map<std::string, std::string> settings;
  std::string about;
};

bool has_role(const User& user, std::string_view role);

// The same users on every machine, their ids from 1 on. With 10,000 of them "admin" are 100, "editor" 1,000, and
// "member" all.
std::vector<User> make_users(std::size_t count, std::uint64_t seed = 5);

}  // namespace case_study
