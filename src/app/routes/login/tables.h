#pragma once

#include <expected>
#include <optional>
#include <string_view>
#include <vector>

#include "app/prepare/kind.h"
#include "base/declare.h"
#include "login/options.h"

namespace sluice::app {

// The kind of route [login], and its table.
struct LoginTable {
  static constexpr std::string_view name = "[login]";
  static constexpr Nouns nouns = {"log-in", "log-ins"};
  std::optional<login::Options> login;

  template <class Visitor>
  static void declare(Visitor& v) {
    v.field("login", &LoginTable::login,
            "Lets users of a database log in, and gives them the tokens that a policy of type `jwt` takes.");
  }
  static void resolve(Options& options, const config::Paths& paths);
  // Chooses what depends on other tables, and tells the policy where its tokens come from.
  static void complete(Options& options);
  static void check(config::Checks& checks);
  static std::vector<Shape> shapes(const login::Options& options);
  static std::expected<void, Away> prepare(Preparation& preparation);
};

}  // namespace sluice::app
