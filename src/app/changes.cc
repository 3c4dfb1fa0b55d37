#include "app/changes.h"

#include <algorithm>
#include <stdexcept>
#include <utility>

#include "app/worker.h"

namespace sluice::app {

// One database.
class Changes::Source final : public sql::ChangeSink {
 public:
  Source(core::Core& core, const Plan& plan, std::size_t database, std::span<Worker* const> workers,
         sql::SharedDatabase* shared)
      : core_(core), workers_(workers), name_(plan.options.databases[database].name.value) {
    std::vector<sql::Topic> topics;
    for (const Plan::Feed& feed : plan.feeds) {
      if (feed.database != database) continue;
      const api::changes::Options& options = feed.plan->options;
      sql::Topic topic{.channel = options.notify.value, .tables = {}};
      for (const auto& table : options.tables) topic.tables.push_back(table.value);
      topics.push_back(std::move(topic));
      feeds_.push_back({.plan = feed.plan.get()});
    }
    auto opened = sql::listen_for_changes(name_, plan.options.databases[database].value, core.reactor(), core.mailbox(),
                                          shared, std::move(topics), *this);
    if (!opened) throw std::runtime_error("database \"" + name_ + "\": " + opened.error().message);
    listener_ = std::move(*opened);
    core.tasks().spawn(listener_->run());
  }

  core::Task<void> changed(std::span<const sql::Change> changes) override {
    auto deliveries = std::make_shared<Deliveries>();
    for (const sql::Change& change : changes) {
      Feed& feed = feeds_[change.topic];
      api::changes::Event event{.number = ++feed.last, .gap = false, .frame = {}};
      api::changes::append_event(event.frame, api::changes::event_id(feed.plan->boot, event.number), {}, change.text);
      deliveries->push_back({feed.plan, std::make_shared<const api::changes::Event>(std::move(event))});
    }
    co_await deliver(std::move(deliveries));
  }

  core::Task<void> resumed() override {
    auto deliveries = std::make_shared<Deliveries>();
    for (Feed& feed : feeds_) {
      api::changes::Event event{.number = ++feed.last, .gap = true, .frame = {}};
      event.frame = api::changes::reset_frame(api::changes::event_id(feed.plan->boot, event.number), "gap");
      deliveries->push_back({feed.plan, std::make_shared<const api::changes::Event>(std::move(event))});
    }
    co_await deliver(std::move(deliveries));
  }

  [[nodiscard]] Readings readings() const {
    const sql::ChangeListener::Counters counters = listener_->counters();
    const std::string name = label("database", name_);
    Readings all{
        gauge("sluice_changes_listening", "Whether changes of the database are heard of.", counters.listening, name),
        counter("sluice_changes_connections_total", "Connections that have listened for changes.", counters.connections,
                name),
    };
    for (const Feed& feed : feeds_) {
      all.push_back(counter("sluice_changes_events_total", "Changes that were heard of.", feed.last,
                            label("http_route", feed.plan->path)));
    }
    return all;
  }

 private:
  struct Feed {
    const api::changes::Plan* plan = nullptr;
    std::uint64_t last = 0;  // the number of its last event
  };

  core::Task<void> deliver(std::shared_ptr<const Deliveries> deliveries) {
    for (unsigned i = 0; i < workers_.size(); ++i) {
      if (i == core_.index()) {
        workers_[i]->deliver(*deliveries);
        continue;
      }
      auto take = [worker = workers_[i], deliveries] { worker->deliver(*deliveries); };
      (void)co_await core_.mesh().post(i, std::move(take));  // a core that is ending has no clients any more
    }
  }

  core::Core& core_;
  const std::span<Worker* const> workers_;
  const std::string name_;
  std::vector<Feed> feeds_;  // by topic
  std::unique_ptr<sql::ChangeListener> listener_;
};

Changes::Changes(core::Core& core, const Plan& plan, std::span<Worker* const> workers,
                 std::span<const std::unique_ptr<sql::SharedDatabase>> shared) {
  for (std::size_t i = 0; i < plan.options.databases.size(); ++i) {
    if (std::ranges::count(plan.feeds, i, &Plan::Feed::database) != 0)
      sources_.push_back(std::make_unique<Source>(core, plan, i, workers, shared[i].get()));
  }
}

Changes::~Changes() = default;

Readings Changes::readings() const {
  Readings all;
  for (const auto& source : sources_) append(all, source->readings());
  return all;
}

}  // namespace sluice::app
