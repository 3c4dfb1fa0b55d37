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

// A typical user record: about 500 bytes of JSON.
struct User {
  std::int64_t id = 0;
  std::string name;
  std::string email;
  std::string title;
  std::string department;
  std::vector<std::string> roles;
  bool active = false;
  std::string created_at;  // RFC 3339, in UTC; so is updated_at
  std::string updated_at;
  Address address;
  std::map<std::string, std::string> settings;
  std::string about;
};

bool has_role(const User& user, std::string_view role);

// Makes the same users on every machine, with ids from 1 on. All have the role "member", 10 % "editor" and 1 % "admin".
std::vector<User> make_users(std::size_t count, std::uint64_t seed = 5);

}  // namespace case_study
