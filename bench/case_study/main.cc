// A service that holds 10,000 users and answers GET /users?role=NAME with those that have the role. The stages differ
// in how they do it.
// usage: case_study STAGE PORT     STAGE: scan-and-copy, role-index, moves, views, text, append, reserve, parallel,
//                                         ttl-cache, gzip
//        case_study sql DIALECT    writes the users as a script for postgres or sqlite onto standard output
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <string_view>

#include "../plain_server.h"
#include "service.h"
#include "sql.h"

namespace case_study {
namespace {

constexpr std::size_t user_count = 10'000;

std::unique_ptr<Service> make_service(std::string_view stage) {
  std::vector<User> users = make_users(user_count);
  if (stage == "scan-and-copy") return scan_and_copy(std::move(users));
  if (stage == "role-index") return role_index(std::move(users));
  if (stage == "moves") return moves(std::move(users));
  if (stage == "views") return views(std::move(users));
  if (stage == "text") return text(std::move(users));
  if (stage == "append") return append(std::move(users));
  if (stage == "reserve") return reserve(std::move(users));
  if (stage == "parallel") return parallel(std::move(users));
  if (stage == "ttl-cache") return ttl_cache(parallel(std::move(users)));
  if (stage == "gzip") return ttl_cache(gzip(parallel(std::move(users))));
  return nullptr;
}

std::optional<Query> parse(std::string_view head) {
  constexpr std::string_view begin = "GET /users?role=";
  if (!head.starts_with(begin)) return std::nullopt;
  const std::size_t end = head.find(' ', begin.size());
  if (end == head.npos) return std::nullopt;
  // All clients of the benchmark write the field like this.
  const bool accepts_gzip = head.find("\r\nAccept-Encoding: gzip\r\n", end) != head.npos;
  return Query{.role = head.substr(begin.size(), end - begin.size()), .accepts_gzip = accepts_gzip};
}

bool answer(Service& service, int fd, std::string_view head) {
  const std::optional<Query> query = parse(head);
  if (!query) return plain::send_all(fd, "HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n");
  const Answer answer = service.users_with(*query);
  std::string fields = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n";
  if (answer.gzip) fields += "Content-Encoding: gzip\r\n";
  fields += "Content-Length: " + std::to_string(answer.body->size()) + "\r\n\r\n";
  return plain::send_all(fd, fields, MSG_MORE) && plain::send_all(fd, *answer.body);
}

[[noreturn]] void serve(Service& service, std::uint16_t port) {
  plain::loop(plain::listen_on(port), [&](int fd, std::string_view input) {
    while (!input.empty()) {
      // Requests are smaller than a packet, so an incomplete one does not come from our clients.
      const std::size_t end = input.find("\r\n\r\n");
      if (end == input.npos || !answer(service, fd, input.substr(0, end + 4))) return false;
      input.remove_prefix(end + 4);
    }
    return true;
  });
}

int run(std::string_view what, const char* argument) {
  if (what == "sql") {
    const bool postgres = std::strcmp(argument, "postgres") == 0;
    if (!postgres && std::strcmp(argument, "sqlite") != 0) return 2;
    const std::string script = users_as_sql(make_users(user_count), postgres ? Dialect::postgres : Dialect::sqlite);
    return std::fwrite(script.data(), 1, script.size(), stdout) == script.size() ? 0 : 1;
  }
  const std::unique_ptr<Service> service = make_service(what);
  if (!service) return 2;
  serve(*service, static_cast<std::uint16_t>(std::atoi(argument)));
}

}  // namespace
}  // namespace case_study

int main(int argc, char** argv) { return argc == 3 ? case_study::run(argv[1], argv[2]) : 2; }
