#include "gateway/proxy/upstream.h"

#include <algorithm>
#include <array>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "core/mesh.h"
#include "core/simulated_reactor.h"

namespace sluice::gateway {
namespace {

// Cores that share a clock and a network. No server answers.
class UpstreamTest : public testing::Test {
 protected:
  static constexpr unsigned cores = 3;

  UpstreamTest() {
    for (unsigned i = 0; i < cores; ++i) ports_.push_back(std::make_unique<core::MeshPort>(mesh_, i, reactor_));
    options_.name = Located<std::string>("back");
    list({"http://10.0.0.1", "http://10.0.0.2"});
    options_.eject = {.after = 3, .time = {10s}, .slow_start = 0s};
  }

  void list(const std::vector<std::string>& urls) {
    options_.servers.clear();
    for (const std::string& url : urls) options_.servers.push_back({.url = {url}});
  }
  void start(unsigned count = cores) {
    shared_ = std::make_shared<SharedUpstream>(options_, shared_.get(),
                                               options_.is_secure() ? *make_tls_context(options_) : nullptr, cores);
    for (unsigned i = 0; i < count; ++i) {
      if (upstreams_[i]) {
        upstreams_[i]->serve(shared_);
      } else {
        upstreams_[i].emplace(reactor_, mailbox_, ports_[i].get(), shared_);
      }
    }
    pass(1ms);
  }
  // `deaf`: a core that receives no messages.
  void pass(Duration time, unsigned deaf = cores) {
    const Instant until = reactor_.now() + time;
    while (reactor_.now() < until) {
      bool may_sleep = true;
      for (unsigned i = 0; i < cores; ++i) {
        if (i == deaf) continue;
        ports_[i]->drain();
        may_sleep = ports_[i]->prepare_to_sleep() && may_sleep;
      }
      reactor_.turn(may_sleep ? until : reactor_.now());
      for (const auto& port : ports_) port->awake();
    }
  }
  void send(unsigned core, const std::string& server, bool passes) {
    for (int i = 0; i < 20; ++i) {
      Upstream::Attempt attempt = upstreams_[core]->begin(*shared_, exchange_).value();
      if (attempt.server().address != server) continue;
      attempt.judge(passes);
      return;
    }
    ADD_FAILURE() << "core " << core << " sends nothing to " << server;
  }
  // The servers that a core sends requests to.
  std::set<std::string> used(unsigned core) {
    std::set<std::string> names;
    for (int i = 0; i < 20; ++i) names.insert(upstreams_[core]->begin(*shared_, exchange_)->server().address);
    return names;
  }
  std::string state(const std::string& server) {
    const std::string before = "server=\"" + server + "\",state=\"";
    for (const auto& upstream : upstreams_) {
      if (!upstream) continue;
      for (const Reading& one : upstream->readings()) {
        const auto at = one.labels.find(before);
        if (one.name != "sluice_upstream_state" || one.value != 1 || at == std::string::npos) continue;
        const std::string rest = one.labels.substr(at + before.size());
        return rest.substr(0, rest.find('"'));
      }
    }
    return "";
  }
  [[nodiscard]] unsigned owner() const { return static_cast<unsigned>(hash_of("back") % cores); }

  core::SimulatedReactor reactor_{7};
  core::Mailbox mailbox_{reactor_};
  core::Mesh mesh_{cores, 2};
  std::vector<std::unique_ptr<core::MeshPort>> ports_;
  UpstreamOptions options_;
  std::shared_ptr<SharedUpstream> shared_;
  std::array<std::optional<Upstream>, cores> upstreams_;
  http::Exchange exchange_;
  const std::string one_ = "10.0.0.1:80";
  const std::string two_ = "10.0.0.2:80";
  const std::set<std::string> both_ = {one_, two_};
};

TEST_F(UpstreamTest, TheFirstStatesOfTheOwnerDoNotChangeTheTurn) {
  ASSERT_NE(owner(), 2U);
  list({"http://10.0.0.1", "http://10.0.0.2", "http://10.0.0.3"});
  shared_ = std::make_shared<SharedUpstream>(options_, nullptr, nullptr, cores);
  for (unsigned i = 0; i < cores; ++i) upstreams_[i].emplace(reactor_, mailbox_, ports_[i].get(), shared_);
  const std::string first = upstreams_[2]->begin(*shared_, exchange_)->server().address;
  pass(1ms);
  EXPECT_NE(upstreams_[2]->begin(*shared_, exchange_)->server().address, first);
}

TEST_F(UpstreamTest, AHostHasAPortUnlessItIsTheDefault) {
  options_.tls.emplace().verify = false;
  list({"http://a", "http://a:81", "https://a", "https://a:80", "http://[::1]:80", "unix:/run/a"});
  start(1);
  std::vector<std::string> hosts;
  for (std::size_t i = 0; i < options_.servers.size(); ++i) {
    hosts.push_back(upstreams_[0]->begin(*shared_, exchange_)->server().host);
  }
  std::ranges::sort(hosts);
  EXPECT_EQ(hosts, (std::vector<std::string>{"[::1]", "a", "a", "a:80", "a:81", "localhost"}));
}

TEST_F(UpstreamTest, EachCoreBeginsWithAnotherServer) {
  start();
  for (unsigned core = 0; core < cores; ++core) {
    for (unsigned i = 0; i < 4; ++i) {
      EXPECT_EQ(upstreams_[core]->begin(*shared_, exchange_)->server().address, (core + i) % 2 == 0 ? one_ : two_);
    }
  }
}

TEST_F(UpstreamTest, WhatOneCoreReportsAllCoresHear) {
  start();
  const unsigned other = (owner() + 1) % cores;
  for (int i = 0; i < 2; ++i) send(other, one_, false);
  pass(100ms);
  EXPECT_EQ(state(one_), "up");
  send(other, one_, false);
  pass(10ms);
  EXPECT_EQ(state(one_), "ejected");
  for (unsigned i = 0; i < cores; ++i) EXPECT_EQ(used(i), std::set{two_}) << i;
}

TEST_F(UpstreamTest, FailuresOfAllCoresAreInARowUnlessOnePasses) {
  start();
  for (unsigned i = 0; i < 2; ++i) send(i, one_, false);
  pass(10ms);
  send(2, one_, true);
  pass(300ms);
  for (unsigned i = 0; i < 2; ++i) send(i, one_, false);
  pass(300ms);
  EXPECT_EQ(state(one_), "up");
  send(2, one_, false);
  pass(300ms);
  EXPECT_EQ(state(one_), "ejected");
}

TEST_F(UpstreamTest, ABackupGetsRequestsWhileNoOtherServerIsUp) {
  options_.servers[0].backup = true;
  start();
  for (unsigned i = 0; i < cores; ++i) EXPECT_EQ(used(i), std::set{two_}) << i;
  Upstream::Tried tried;
  tried.add(hash_of(two_));
  EXPECT_EQ(upstreams_[0]->begin_again(*shared_, exchange_, tried, true)->server().address, one_);
  for (int i = 0; i < 3; ++i) send(0, two_, false);
  pass(10ms);
  for (unsigned i = 0; i < cores; ++i) EXPECT_EQ(used(i), std::set{one_}) << i;
  // One request tries the other server, which then gets all requests.
  pass(10s);
  for (int i = 0; i < 10 && state(two_) == "probing"; ++i) {
    for (auto& upstream : upstreams_) {
      Upstream::Attempt attempt = upstream->begin(*shared_, exchange_).value();
      if (attempt.server().address == two_) attempt.judge(true);
    }
    pass(10ms);
  }
  for (unsigned i = 0; i < cores; ++i) EXPECT_EQ(used(i), std::set{two_}) << i;
  // A backup is not tried while another server is up.
  options_.servers[0].backup = false;
  start();
  for (int i = 0; i < 3; ++i) send(0, one_, false);
  pass(10ms);
  options_.servers[0].backup = true;
  start();
  pass(11s);
  EXPECT_EQ(state(one_), "probing");
  for (unsigned i = 0; i < cores; ++i) EXPECT_EQ(used(i), std::set{two_}) << i;
}

// The servers refuse connections.
TEST_F(UpstreamTest, ProbesRemoveAllServersOnAllCores) {
  options_.health = HealthOptions{.every = 1s, .timeout = 500ms, .fall = 2};
  options_.eject.at_most = "0%";
  start();
  for (unsigned i = 0; i < cores; ++i) EXPECT_EQ(used(i), both_) << i;
  pass(3s);
  EXPECT_EQ(state(one_), "ejected");
  for (auto& upstream : upstreams_) EXPECT_FALSE(upstream->begin(*shared_, exchange_));
  // No probe has judged a new server yet.
  list({"http://10.0.0.1", "http://10.0.0.3"});
  start();
  for (unsigned i = 0; i < cores; ++i) EXPECT_EQ(used(i), std::set<std::string>{"10.0.0.3:80"}) << i;
}

TEST_F(UpstreamTest, OneRequestOfOneCoreTriesIt) {
  start();
  for (int i = 0; i < 3; ++i) send(0, one_, false);
  pass(10ms);
  pass(10s);
  EXPECT_EQ(state(one_), "probing");
  // The permit moves from core to core, and each core may send one request.
  std::set<unsigned> had_it;
  for (int i = 0; i < 6 && had_it.size() < cores; ++i) {
    unsigned with_permit = 0;
    for (unsigned core = 0; core < cores; ++core) {
      if (!used(core).contains(one_)) continue;  // the request is not judged, so its permit is given back
      ++with_permit;
      had_it.insert(core);
    }
    EXPECT_LE(with_permit, 1u);
    pass(1s);
  }
  EXPECT_EQ(had_it.size(), cores);
  EXPECT_EQ(state(one_), "probing");
  // A permit that no core uses moves on, too.
  pass(5s);
  for (int i = 0; i < 10 && state(one_) == "probing"; ++i) {
    for (unsigned core = 0; core < cores; ++core) {
      Upstream::Attempt attempt = upstreams_[core]->begin(*shared_, exchange_).value();
      if (attempt.server().address == one_) attempt.judge(true);
    }
    pass(500ms);
  }
  EXPECT_EQ(state(one_), "up");
  for (unsigned i = 0; i < cores; ++i) EXPECT_EQ(used(i), both_) << i;
}

TEST_F(UpstreamTest, AServerThatIsDrainedBeforeItIsTriedIsTriedLater) {
  start();
  for (int i = 0; i < 3; ++i) send(0, one_, false);
  pass(10ms);
  pass(10s);
  EXPECT_EQ(state(one_), "probing");
  EXPECT_TRUE(upstreams_[owner()]->drain(one_, true));
  pass(10ms);
  EXPECT_TRUE(upstreams_[owner()]->drain(one_, false));
  for (int i = 0; i < 10 && state(one_) == "probing"; ++i) {
    pass(10ms);
    for (auto& upstream : upstreams_) {
      Upstream::Attempt attempt = upstream->begin(*shared_, exchange_).value();
      if (attempt.server().address == one_) attempt.judge(true);
    }
  }
  pass(10ms);
  EXPECT_EQ(state(one_), "up");
}

TEST_F(UpstreamTest, ACoreThatHadNoRoomIsToldLater) {
  list({"http://10.0.0.1", "http://10.0.0.2", "http://10.0.0.3", "http://10.0.0.4", "http://10.0.0.5",
        "http://10.0.0.6", "http://10.0.0.7", "http://10.0.0.8"});
  start();
  const unsigned deaf = (owner() + 1) % cores;
  for (int server = 1; server <= 4; ++server) {
    for (int i = 0; i < 3; ++i) send(owner(), "10.0.0." + std::to_string(server) + ":80", false);
    pass(10ms, deaf);
  }
  EXPECT_EQ(used(deaf).size(), 8u);
  pass(20ms);
  EXPECT_EQ(used(deaf), (std::set<std::string>{"10.0.0.5:80", "10.0.0.6:80", "10.0.0.7:80", "10.0.0.8:80"}));
}

TEST_F(UpstreamTest, ACoreThatComesLaterAsks) {
  start(2);
  const unsigned late = 2;
  ASSERT_NE(owner(), late);
  for (int i = 0; i < 3; ++i) send(owner(), one_, false);
  pass(10ms);
  upstreams_[late].emplace(reactor_, mailbox_, ports_[late].get(), shared_);
  EXPECT_EQ(used(late), both_);
  pass(10ms);
  EXPECT_EQ(used(late), std::set{two_});
}

TEST_F(UpstreamTest, AReloadKeepsWhatStays) {
  start();
  for (int i = 0; i < 3; ++i) send(0, one_, false);
  pass(10ms);
  // Server two is removed while it has a request.
  std::optional<Upstream::Attempt> attempt = upstreams_[0]->begin(*shared_, exchange_);
  EXPECT_EQ(attempt->server().address, two_);
  list({"http://10.0.0.1", "http://10.0.0.3"});
  options_.retries.tries = 1;
  start();
  EXPECT_EQ(state(one_), "ejected");
  EXPECT_EQ(used(0), std::set<std::string>{"10.0.0.3:80"});
  const auto has_two = [&] {
    for (const Reading& one : upstreams_[0]->readings()) {
      if (one.labels.contains(two_)) return true;
    }
    return false;
  };
  EXPECT_TRUE(has_two());
  attempt->judge(false);
  attempt.reset();
  pass(5ms);
  EXPECT_FALSE(has_two()) << "nobody needs it";
  // A server that is listed again starts without its former state.
  list({"http://10.0.0.2", "http://10.0.0.3"});
  start();
  list({"http://10.0.0.1", "http://10.0.0.2", "http://10.0.0.3"});
  start();
  EXPECT_EQ(state(one_), "up");
  EXPECT_EQ(used(1).size(), 3u);
}

// One request has waited while the configuration changed; another is sent again after the change.
TEST_F(UpstreamTest, ARequestGoesToServersOfItsOwnConfiguration) {
  list({"http://10.0.0.1", "http://10.0.0.2", "http://10.0.0.3"});
  start();
  const auto earlier = shared_;
  Upstream& upstream = *upstreams_[0];
  list({"http://10.0.0.3", "http://10.0.0.4"});
  start();
  pass(5ms);
  for (int i = 0; i < 3; ++i) {
    Upstream::Tried tried;
    std::set<std::string> names;
    std::optional<Upstream::Attempt> attempt = upstream.begin(*earlier, exchange_);
    while (attempt) {
      names.insert(attempt->server().address);
      tried.add(attempt->server().id);
      pass(5ms);
      attempt->judge(false);
      attempt = upstream.begin_again(*earlier, exchange_, tried, true);
    }
    EXPECT_EQ(names, (std::set<std::string>{"10.0.0.1:80", "10.0.0.2:80", "10.0.0.3:80"}));
    EXPECT_EQ(used(0), (std::set<std::string>{"10.0.0.3:80", "10.0.0.4:80"}));
  }
  pass(5ms);
  for (const Reading& one : upstream.readings()) {
    EXPECT_FALSE(one.labels.contains(one_)) << "nobody needs it";
  }
}

TEST_F(UpstreamTest, RetriesHaveABudget) {
  const auto retry = [&](bool is_free) {
    Upstream& upstream = *upstreams_[0];
    Upstream::Tried tried;
    const Upstream::Attempt attempt = upstream.begin(*shared_, exchange_).value();
    tried.add(attempt.server().id);
    const auto next = upstream.begin_again(*shared_, exchange_, tried, is_free);
    if (next) EXPECT_NE(next->server().id, attempt.server().id);
    return next.has_value();
  };
  const auto retries = [&](int requests) {
    int done = 0;
    for (int i = 0; i < requests; ++i) done += retry(false) ? 1 : 0;
    return done;
  };
  start();
  EXPECT_NEAR(retries(1000), 1000 / 5 + 10, 1);
  for (int i = 0; i < 100; ++i) EXPECT_TRUE(retry(true));
  options_.retries = {.budget = "1%", .at_least = 5};
  start();
  EXPECT_EQ(retries(1000), 5 + 9) << "a reload keeps what the new options allow";
  options_.retries = {.budget = "1%", .at_least = 0};
  start();
  EXPECT_EQ(retries(1000), 10) << "the share is always allowed";
  options_.retries = {.budget = "0%"};
  start();
  EXPECT_EQ(retries(100), 0);
  EXPECT_TRUE(retry(true));
  options_.retries = {.budget = "100%", .at_least = 0};
  start();
  EXPECT_EQ(retries(100), 100);
  // There is also a limit for each request, and a retry never uses the same server again.
  Upstream::Tried tried;
  for (const std::string& name : both_) tried.add(hash_of(name));
  EXPECT_FALSE(upstreams_[0]->begin_again(*shared_, exchange_, tried, true));
}

TEST_F(UpstreamTest, HashGoesByWhatItIsToldTo) {
  list({"http://10.0.0.1", "http://10.0.0.2", "http://10.0.0.3", "http://10.0.0.4"});
  options_.balance = Located<Balance>(Balance::hash);
  const auto server_of = [&](const http::Exchange& exchange) {
    return upstreams_[0]->begin(*shared_, exchange)->server().address;
  };
  // Whether requests that differ only by `change` go to several servers, and equal requests to the same server.
  const auto goes_by = [&](const std::string& hash, auto change) {
    for (auto& one : upstreams_) one.reset();
    shared_.reset();
    options_.hash = Located<std::string>(hash);
    start();
    std::set<std::string> names;
    for (int i = 0; i < 40; ++i) {
      http::Exchange exchange;
      http::Request& request = exchange.request;
      request.peer = "192.0.2.1";
      request.segments = request.path = "/a";
      const std::string value = std::to_string(i);
      std::vector<http::Field> fields;
      std::string text;
      change(request, fields, text, value);
      request.fields = fields;
      const std::string name = server_of(exchange);
      names.insert(name);
      for (int j = 0; j < 5; ++j) {
        if (server_of(exchange) != name) return false;
      }
    }
    return names.size() == 4;
  };
  using Fields = std::vector<http::Field>;
  const auto peer = [](http::Request& request, Fields&, std::string&, const std::string& value) {
    request.peer = value;
  };
  const auto path = [](http::Request& request, Fields&, std::string&, const std::string& value) {
    request.segments = value;
  };
  const auto header = [](http::Request&, Fields& fields, std::string&, const std::string& value) {
    fields = {{"x-other", "1"}, {"X-User", value}};
  };
  const auto cookie = [](http::Request&, Fields& fields, std::string& text, const std::string& value) {
    text = "asession=1; session=" + value + "; session2=2";
    fields = {{"cookie", "a=b"}, {"Cookie", text}};
  };
  EXPECT_TRUE(goes_by("client", peer));
  EXPECT_TRUE(goes_by("path", path));
  EXPECT_TRUE(goes_by("header.x-user", header));
  EXPECT_TRUE(goes_by("cookie.session", cookie));
  EXPECT_FALSE(goes_by("client", path));
  EXPECT_FALSE(goes_by("cookie.sess", cookie)) << "without its cookie a request goes by round robin";
  EXPECT_FALSE(goes_by("header.x-others", header));
  EXPECT_FALSE(goes_by("claim.sub", peer));
}

}  // namespace
}  // namespace sluice::gateway
