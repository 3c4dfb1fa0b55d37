#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "user.h"

// One service, GET /users?role=..., improved in stages. Each stage has a file and builds on the stages before it.
namespace case_study {

struct Query {
  std::string_view role;
  bool accepts_gzip = false;
};

struct Answer {
  std::shared_ptr<const std::string> body;  // a JSON array of users
  bool gzip = false;
};

class Service {
 public:
  virtual ~Service() = default;
  virtual Answer users_with(const Query& query) = 0;
};

std::unique_ptr<Service> scan_and_copy(std::vector<User> users);
std::unique_ptr<Service> role_index(std::vector<User> users);
std::unique_ptr<Service> moves(std::vector<User> users);
std::unique_ptr<Service> views(std::vector<User> users);
std::unique_ptr<Service> text(std::vector<User> users);
std::unique_ptr<Service> append(std::vector<User> users);
std::unique_ptr<Service> reserve(std::vector<User> users);
std::unique_ptr<Service> parallel(std::vector<User> users);
std::unique_ptr<Service> ttl_cache(std::unique_ptr<Service> inner);
std::unique_ptr<Service> gzip(std::unique_ptr<Service> inner);

}  // namespace case_study
