#pragma once

#include <concepts>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "msg/context.h"
#include "msg/service.h"
#include "services/databases.h"  // services::database(), for services
#include "services/service_set.h"

namespace sluice {

// The program `sluice` with services of one's own behind its routes:
//
//   int main(int count, char** arguments) {
//     sluice::Program program;
//     program.add<Chat>("chat");
//     return program.run(count, arguments);
//   }
//
// It has all commands of `sluice`, and its configuration may name the services:
//
//   [[websocket]]
//   path = "/chat/{room}"
//   service = "chat"
//
// There is one per process.
class Program {
 public:
  // Every core makes one T from these arguments, which are copied to it. Services with the same name share their
  // sessions and their message ids. Throws std::invalid_argument if the name is not letters, digits, '-' and '_'.
  template <std::derived_from<msg::Service> T, class... Arguments>
  void add(std::string_view name, Arguments... arguments) {
    add_entry(name, [... arguments = std::move(arguments)](msg::Context& context) {
      context.add(std::make_unique<T>(arguments...));
    });
  }
  // The arguments of main(). Returns the exit code.
  [[nodiscard]] int run(int count, char** arguments);

 private:
  static void add_entry(std::string_view name, services::MakeService make);
};

}  // namespace sluice
