// Stage 0: a typical first version. The repository returns its users by value, as if it read them from somewhere; the
// service collects those that have the role; the controller makes a JSON value of them, and text of the value.
#include <utility>

#include "json.h"
#include "service.h"

namespace case_study {
namespace {

class Repository {
 public:
  explicit Repository(std::vector<User> users) : users_(std::move(users)) {}

  std::vector<User> all() const { return users_; }

 private:
  std::vector<User> users_;
};

class ScanAndCopy final : public Service {
 public:
  explicit ScanAndCopy(std::vector<User> users) : repository_(std::move(users)) {}

  Answer users_with(const Query& query) override {
    return {.body = std::make_shared<std::string>(nlohmann::json(find(query.role)).dump())};
  }

 private:
  std::vector<User> find(std::string_view role) const {
    std::vector<User> found;
    const std::vector<User> users = repository_.all();
    for (const User& user : users) {
      if (has_role(user, role)) found.push_back(user);
    }
    return found;
  }

  Repository repository_;
};

}  // namespace

std::unique_ptr<Service> scan_and_copy(std::vector<User> users) {
  return std::make_unique<ScanAndCopy>(std::move(users));
}

}  // namespace case_study
