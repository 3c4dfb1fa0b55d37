#pragma once

#include <memory>
#include <string>
#include <utility>

#include "api/changes/feed.h"
#include "api/changes/options.h"
#include "api/options.h"
#include "app/components/component.h"
#include "app/components/database/database.h"
#include "app/components/policies.h"
#include "base/declare.h"

namespace sluice::app {

// A feed of changes of an endpoint. Its streams go on if the feed, `require` and the policies are unchanged.
class FeedComponent final : public ComponentOf<FeedComponent, api::changes::Feed> {
 public:
  struct Options {
    std::string path;
    std::string boot;  // the prefix of its event ids
    api::changes::Options options;
    OneOrMore<api::RequireOptions> require;
    Policies policies;
    std::shared_ptr<DatabaseComponent> database;
  };
  explicit FeedComponent(Options of) : options(std::move(of)) {}

  [[nodiscard]] bool is_same(const FeedComponent& other) const;
  const Options options;

 private:
  std::shared_ptr<api::changes::Feed> make(const core::Here& here, const Parts& parts) const override;
  void retire(api::changes::Feed& feed) const override { feed.drain(); }
  void drain(api::changes::Feed& feed) const override { feed.drain(); }
  Readings readings_of(api::changes::Feed& feed) const override;
};

}  // namespace sluice::app
