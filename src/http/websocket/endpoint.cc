#include "http/websocket/endpoint.h"

#include <string>
#include <utility>

#include "http/body_budget.h"
#include "http/identity.h"
#include "http/router.h"
#include "http/standing.h"

namespace sluice::http::websocket {

core::Task<void> Echo::converse(ws::Channel& channel, const Opening&) {
  for (;;) {
    const auto message = co_await channel.receive();
    if (!message) co_return;
    if (!co_await channel.send(message->kind, message->data)) co_return;
  }
}

namespace {

// The share of a conversation in the core's BodyBudget.
class MessageShare final : public ws::MessageMemory, public BodyBudget::Share {
 public:
  MessageShare(BodyBudget& bodies, std::uint64_t& held) : Share(bodies, held) {}
  ~MessageShare() override = default;
  void belong_to(ws::Channel& channel) { channel_ = &channel; }

  ws::CloseCode take(std::size_t bytes) override {
    switch (Share::take(bytes)) {
      case Taken::yes:
        return ws::CloseCode::none;
      case Taken::no:
        return ws::CloseCode::try_again_later;
      case Taken::too_long:
        return ws::CloseCode::too_large;
    }
    std::unreachable();
  }
  void give_back(std::size_t bytes) override {
    Share::give_back(bytes);
    if (Share::bytes() == 0) release();
  }
  void set_waiting(bool waiting) override {
    waiting_.reset();
    if (waiting) waiting_.emplace(*this);
  }
  void moved(std::size_t bytes) override { took(bytes); }

 private:
  void cut() override { channel_->abandon(); }

  ws::Channel* channel_ = nullptr;
  std::optional<Waiting> waiting_;
};

}  // namespace

class Endpoint::Conversation final : public Upgrade {
 public:
  Conversation(std::shared_ptr<Endpoint> endpoint, const Exchange& exchange, Handshake handshake)
      : endpoint_(std::move(endpoint)),
        service_(endpoint_->service_.keep_alive()),
        peer_(exchange.request.peer),
        protocol_(std::move(handshake.protocol)),
        path_(exchange.request.path),
        query_(exchange.request.query),
        parameters_(endpoint_->parameters_of(exchange.request)),
        claims_(shared_claims_of(exchange)),
        secure_(exchange.request.secure),
        deflate_(handshake.deflate),
        certificate_(exchange.request.certificate),
        standing_(exchange),
        next_(endpoint_->newest_) {
    if (endpoint_->service_.keeps_requests()) keep_request(exchange.request);
    if (next_ != nullptr) next_->previous_ = this;
    endpoint_->newest_ = this;
  }
  ~Conversation() override {
    (previous_ != nullptr ? previous_->next_ : endpoint_->newest_) = next_;
    if (next_ != nullptr) next_->previous_ = previous_;
  }
  [[nodiscard]] Conversation* next() const { return next_; }

  core::Task<void> run(net::Duplex& duplex, BodyBudget& bodies, std::uint64_t& held) override {
    MessageShare share(bodies, held);
    ws::Channel channel(duplex, endpoint_->channels_, endpoint_->options_, deflate_, &share);
    share.belong_to(channel);
    struct Place {
      Conversation& conversation;
      ~Place() { conversation.channel_ = nullptr; }
    } place{*this};
    channel_ = &channel;
    if (draining_) channel.drain();
    core::TaskGroup ending;
    if (standing_.next_look(duplex.reactor()) != never) ending.spawn(end(channel, duplex.reactor()));
    const Opening opening{.peer = peer_,
                          .protocol = protocol_,
                          .path = path_,
                          .query = query_,
                          .parameters = parameters_,
                          .claims = claims_,
                          .secure = secure_,
                          .fields = fields_,
                          .authority = authority_,
                          .certificate = certificate_};
    co_await endpoint_->service_.converse(channel, opening);
    ending.cancel();
    co_await channel.close();
  }

  void drain() override {
    draining_ = true;
    if (channel_ != nullptr) channel_->drain();
  }

 private:
  void keep_request(const Request& request) {
    std::size_t size = request.authority.size();
    for (const Field& field : request.fields) size += field.name.size() + field.value.size();
    kept_.reserve(size);  // so that the views stay valid
    const auto copy = [&](std::string_view text) {
      const std::size_t at = kept_.size();
      kept_.append(text);
      return std::string_view(kept_).substr(at);
    };
    for (const Field& field : request.fields) {
      const std::string_view name = copy(field.name);
      fields_.push_back({name, copy(field.value)});
    }
    authority_ = copy(request.authority);
  }

  // A conversation ends when the credentials of its request do.
  core::Task<void> end(ws::Channel& channel, core::Reactor& reactor) {
    co_await standing_.end(reactor);
    channel.drain(ws::CloseCode::unauthorized);
  }

  const std::shared_ptr<Endpoint> endpoint_;
  const std::shared_ptr<const void> service_;  // keeps it alive
  std::string peer_;
  std::string protocol_;
  std::string path_;
  std::string query_;
  std::vector<std::pair<std::string, std::string>> parameters_;
  std::shared_ptr<const Claims> claims_;
  bool secure_;
  std::optional<ws::DeflateParameters> deflate_;
  std::string kept_;
  std::vector<Field> fields_;   // views of kept_
  std::string_view authority_;  // likewise
  const net::tls::PeerCertificate* certificate_;
  const Standing standing_;  // of the client's credentials
  ws::Channel* channel_ = nullptr;
  bool draining_ = false;
  Conversation* next_;  // in the endpoint's list
  Conversation* previous_ = nullptr;
};

void Endpoint::drain() {
  for (Conversation* conversation = newest_; conversation != nullptr;) {  // drain() may destroy the conversation
    Conversation* const next = conversation->next();
    conversation->drain();
    conversation = next;
  }
}

Endpoint::Endpoint(const ws::WebSocketOptions& options, Service& service, ws::ChannelPool& channels)
    : names_(Pattern::parse(options.path.value).value_or(Pattern{}).names()),
      options_{.max_frame = options.max_message,
               .max_message = options.max_message,
               .ping_interval = options.ping_interval,
               .pong_timeout = options.pong_timeout,
               .close_timeout = options.close_timeout,
               .write_timeout = options.write_timeout},
      service_(service),
      channels_(channels) {
  if (options.max_frame) options_.max_frame = options.max_frame->value;
  for (const auto& origin : options.origins) policy_.origins.push_back(origin);
  for (const auto& protocol : options.protocols) policy_.protocols.push_back(protocol);
  if (options.compression != ws::Compression::off) {
    policy_.deflate = DeflatePolicy{.context_takeover = options.compression == ws::Compression::connection,
                                    .window_bits = options.window_bits};
  }
}

std::vector<std::pair<std::string, std::string>> Endpoint::parameters_of(const Request& request) const {
  std::vector<std::pair<std::string, std::string>> all;
  for (std::size_t i = 0; i < names_.size(); ++i) all.emplace_back(names_[i], request.path_values[i]);
  return all;
}

core::Async<Response> Endpoint::handle(Exchange& exchange) {
  const Request& request = exchange.request;
  auto judged = judge_handshake(request, policy_);
  if (!judged) return std::move(judged.error());
  Response response;
  if (request.version == Version::http2) {
    response.status = 200;
  } else {
    response.status = 101;
    response.fields.add_trusted("Upgrade", "websocket");
    response.fields.add_owned("Sec-WebSocket-Accept", std::move(judged->accept));
  }
  if (!judged->protocol.empty()) response.fields.add_owned("Sec-WebSocket-Protocol", judged->protocol);
  if (!judged->extensions.empty()) {
    response.fields.add_owned("Sec-WebSocket-Extensions", std::move(judged->extensions));
  }
  response.upgrade = std::make_unique<Conversation>(shared_from_this(), exchange, std::move(*judged));
  return response;
}

}  // namespace sluice::http::websocket
