// Stage 4: text instead of JSON values. Each function returns a string, and operator+ joins them.
#include <utility>

#include <fmt/format.h>

#include "role_index.h"
#include "service.h"

namespace case_study {
namespace {

std::string quoted(const std::string& text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') {
      out = out + '\\' + c;
    } else if (static_cast<unsigned char>(c) < 0x20) {
      out = out + fmt::format("\\u{:04x}", static_cast<int>(c));
    } else {
      out.push_back(c);
    }
  }
  return out + '"';
}

std::string field(const std::string& key, const std::string& value) { return quoted(key) + ':' + quoted(value); }

std::string object_of(const User& user) {
  std::string roles;
  for (const std::string& role : user.roles) roles = roles + (roles.empty() ? "" : ",") + quoted(role);
  std::string settings;
  for (const auto& [key, value] : user.settings)
    settings = settings + (settings.empty() ? "" : ",") + field(key, value);
  const std::string address = "{" + field("street", user.address.street) + ',' + field("city", user.address.city) +
                              ',' + field("postcode", user.address.postcode) + ',' +
                              field("country", user.address.country) + '}';
  return "{\"id\":" + std::to_string(user.id) + ',' + field("name", user.name) + ',' + field("email", user.email) +
         ',' + field("title", user.title) + ',' + field("department", user.department) + ",\"roles\":[" + roles +
         "],\"active\":" + (user.active ? "true" : "false") + ',' + field("created_at", user.created_at) + ',' +
         field("updated_at", user.updated_at) + ",\"address\":" + address + ",\"settings\":{" + settings + "}," +
         field("about", user.about) + '}';
}

class Text final : public Service {
 public:
  explicit Text(std::vector<User> users) : users_(std::move(users)), index_(users_) {}

  Answer users_with(const Query& query) override {
    std::vector<std::string> objects;
    for (const std::size_t place : index_.find(query.role)) objects.push_back(object_of(users_[place]));
    std::string array = "[";
    for (const std::string& object : objects) {
      if (array.size() > 1) array.push_back(',');
      array.append(object);
    }
    array.push_back(']');
    return {.body = std::make_shared<std::string>(std::move(array))};
  }

 private:
  std::vector<User> users_;
  RoleIndex index_;
};

}  // namespace

std::unique_ptr<Service> text(std::vector<User> users) { return std::make_unique<Text>(std::move(users)); }

}  // namespace case_study
