#include "app/components/feed/changes.h"

#include <algorithm>
#include <stdexcept>
#include <utility>

#include "api/changes/event.h"
#include "app/worker.h"
#include "base/contains.h"
#include "runtime/metrics.h"

namespace sluice::app {
namespace {

// An event on its way to the feeds of all cores.
struct Delivery {
  const Plan::Feed* feed = nullptr;
  std::shared_ptr<const api::changes::Event> event;
};
using Deliveries = std::vector<Delivery>;

}  // namespace

// The listener for one database.
class Changes::Source final : public sql::ChangeSink {
 public:
  Source(core::Core& core, std::shared_ptr<Plan::Database> database, std::span<Worker* const> workers)
      : core_(core), workers_(workers), database_(std::move(database)), name_(database_->options.name.value) {
    auto opened = sql::listen_for_changes(name_, database_->options.value, core.reactor(), core.mailbox(),
                                          database_->shared.get(), {}, *this);
    if (!opened) throw std::runtime_error("database \"" + name_ + "\": " + opened.error().message);
    listener_ = std::move(*opened);
  }

  [[nodiscard]] const Plan::Database* database() const { return database_.get(); }
  // The listener runs from the first settle() on.
  void join(std::shared_ptr<const Plan::Feed> plan) {
    if (contains(feeds_, plan, &Feed::plan)) return;
    sql::Topic topic{.channel = plan->options.options.notify.value, .tables = {}};
    for (const auto& table : plan->options.options.tables) topic.tables.push_back(table.value);
    const std::size_t index = listener_->add(std::move(topic));
    if (index >= feeds_.size()) feeds_.resize(index + 1);
    feeds_[index] = {.plan = std::move(plan)};
    has_joined_ = true;
  }
  // Returns at once if no feed has joined since the last call.
  core::Task<void> settle() {
    if (!std::exchange(has_joined_, false)) co_return;
    if (tasks_.empty()) tasks_.spawn(listener_->run());
    co_await listener_->settle();
  }
  // Removes the feeds that the plan does not have, and adds their counts to `ended`. Returns false if no feed is left.
  bool leave(const Plan& plan, Readings& ended) {
    bool has_some = false;
    for (std::size_t i = 0; i < feeds_.size(); ++i) {
      if (!feeds_[i].plan) continue;
      if (plan.has(feeds_[i].plan.get())) {
        has_some = true;
      } else {
        listener_->drop(i);
        runtime::keep_counters(ended, {events(feeds_[i])});
        feeds_[i] = {};
      }
    }
    if (!has_some) runtime::keep_counters(ended, readings());
    return has_some;
  }

  core::Task<void> changed(std::span<const sql::Change> changes) override {
    auto deliveries = std::make_shared<Deliveries>();
    for (const sql::Change& change : changes) {
      Feed& feed = feeds_[change.topic];
      if (!feed.plan) continue;
      api::changes::Event event{.number = ++feed.last, .gap = false, .frame = {}};
      api::changes::append_event(event.frame, api::changes::event_id(feed.plan->options.boot, event.number), {},
                                 change.text);
      deliveries->push_back({feed.plan.get(), std::make_shared<const api::changes::Event>(std::move(event))});
    }
    co_await deliver(std::move(deliveries));
  }

  core::Task<void> resumed() override {
    auto deliveries = std::make_shared<Deliveries>();
    for (Feed& feed : feeds_) {
      if (!feed.plan) continue;
      api::changes::Event event{.number = ++feed.last, .gap = true, .frame = {}};
      event.frame = api::changes::reset_frame(api::changes::event_id(feed.plan->options.boot, event.number), "gap");
      deliveries->push_back({feed.plan.get(), std::make_shared<const api::changes::Event>(std::move(event))});
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
      if (feed.plan) all.push_back(events(feed));
    }
    return all;
  }

 private:
  struct Feed {
    std::shared_ptr<const Plan::Feed> plan;  // null: dropped
    std::uint64_t last = 0;                  // the number of its last event
  };

  static Reading events(const Feed& feed) {
    return counter("sluice_changes_events_total", "Changes that were heard of.", feed.last,
                   label("http_route", feed.plan->options.path));
  }

  static void deliver_to(const Worker& worker, const Deliveries& deliveries) {
    // A reload may have removed the feed.
    for (const Delivery& delivery : deliveries) {
      if (const auto feed = worker.find(delivery.feed)) feed->add(delivery.event);
    }
    for (const Delivery& delivery : deliveries) {
      if (const auto feed = worker.find(delivery.feed)) feed->wake_all();
    }
  }
  // No deadline: the listener reads no more changes until this is done, and a core that missed some would leave a gap
  // that its clients do not see.
  core::Task<void> deliver(std::shared_ptr<const Deliveries> deliveries) {
    for (unsigned i = 0; i < workers_.size(); ++i) {
      if (i == core_.index()) {
        deliver_to(*workers_[i], *deliveries);
        continue;
      }
      auto take = [worker = workers_[i], deliveries] { deliver_to(*worker, *deliveries); };
      (void)co_await core_.mesh().post(i, never, std::move(take));  // fails only if that core is ending: no clients
    }
  }

  core::Core& core_;
  const std::span<Worker* const> workers_;
  const std::shared_ptr<Plan::Database> database_;
  const std::string name_;
  std::vector<Feed> feeds_;  // by topic
  bool has_joined_ = false;  // a feed has joined since the last settle()
  std::unique_ptr<sql::ChangeListener> listener_;
  core::TaskGroup tasks_;
};

Changes::Changes(core::Core& core, std::span<Worker* const> workers) : core_(core), workers_(workers) {}

void Changes::join(const Plan& plan) {
  for (const auto& feed : plan.all<Plan::Feed>()) {
    auto found = std::ranges::find(sources_, feed->options.database.get(), &Source::database);
    if (found == sources_.end()) {
      sources_.push_back(std::make_unique<Source>(core_, feed->options.database, workers_));
      found = sources_.end() - 1;
    }
    (*found)->join(feed);
  }
}

core::Task<void> Changes::settle() {
  for (std::size_t i = 0; i < sources_.size(); ++i) co_await sources_[i]->settle();
}

void Changes::leave(const Plan& plan) {
  std::erase_if(sources_, [&](const auto& source) { return !source->leave(plan, ended_); });
}

Changes::~Changes() = default;

Readings Changes::readings() const {
  Readings all = ended_;
  for (const auto& source : sources_) append(all, source->readings());
  return all;
}

}  // namespace sluice::app
