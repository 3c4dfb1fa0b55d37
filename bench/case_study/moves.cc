// Stage 2: the users are copied as before, but their strings move into the JSON value instead of being copied again.
#include <utility>

#include "json.h"
#include "role_index.h"
#include "service.h"

namespace case_study {
namespace {

nlohmann::json moved(User&& user) {
  nlohmann::json value = {{"id", user.id}, {"active", user.active}};
  value["name"] = std::move(user.name);
  value["email"] = std::move(user.email);
  value["title"] = std::move(user.title);
  value["department"] = std::move(user.department);
  value["created_at"] = std::move(user.created_at);
  value["updated_at"] = std::move(user.updated_at);
  value["about"] = std::move(user.about);
  nlohmann::json& roles = value["roles"] = nlohmann::json::array();
  for (std::string& role : user.roles) roles.push_back(std::move(role));
  nlohmann::json& settings = value["settings"] = nlohmann::json::object();
  for (auto& [key, text] : user.settings) settings[key] = std::move(text);
  nlohmann::json& address = value["address"];
  address["street"] = std::move(user.address.street);
  address["city"] = std::move(user.address.city);
  address["postcode"] = std::move(user.address.postcode);
  address["country"] = std::move(user.address.country);
  return value;
}

class Moves final : public Service {
 public:
  explicit Moves(std::vector<User> users) : users_(std::move(users)), index_(users_) {}

  Answer users_with(const Query& query) override {
    nlohmann::json array = nlohmann::json::array();
    for (const std::size_t place : index_.find(query.role)) array.push_back(moved(User(users_[place])));
    return {.body = std::make_shared<std::string>(array.dump())};
  }

 private:
  std::vector<User> users_;
  RoleIndex index_;
};

}  // namespace

std::unique_ptr<Service> moves(std::vector<User> users) { return std::make_unique<Moves>(std::move(users)); }

}  // namespace case_study
