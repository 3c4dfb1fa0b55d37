// Stage 1: an index finds the users of a role. They are still copied, and become a JSON value.
#include "role_index.h"

#include <utility>

#include "json.h"
#include "service.h"

namespace case_study {
namespace {

class Indexed final : public Service {
 public:
  explicit Indexed(std::vector<User> users) : users_(std::move(users)), index_(users_) {}

  Answer users_with(const Query& query) override {
    return {.body = std::make_shared<std::string>(nlohmann::json(find(query.role)).dump())};
  }

 private:
  std::vector<User> find(std::string_view role) const {
    std::vector<User> found;
    for (const std::size_t place : index_.find(role)) found.push_back(users_[place]);
    return found;
  }

  std::vector<User> users_;
  RoleIndex index_;
};

}  // namespace

std::unique_ptr<Service> role_index(std::vector<User> users) { return std::make_unique<Indexed>(std::move(users)); }

}  // namespace case_study
