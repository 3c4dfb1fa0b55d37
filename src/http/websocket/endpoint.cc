#include "http/websocket/endpoint.h"

#include <string>
#include <utility>

#include "core/sleep.h"

namespace sluice::http::websocket {

core::Task<void> Echo::converse(ws::Channel& channel, const Opening&) {
  for (;;) {
    const auto message = co_await channel.receive();
    if (!message) co_return;
    if (!co_await channel.send(message->kind, message->data)) co_return;
  }
}

class Endpoint::Conversation final : public Upgrade {
 public:
  Conversation(std::shared_ptr<Endpoint> endpoint, const Request& request, Handshake handshake)
      : endpoint_(std::move(endpoint)),
        peer_(request.peer),
        protocol_(std::move(handshake.protocol)),
        deflate_(handshake.deflate),
        findings_{.claims = {}, .claims_end_s = request.findings.claims_end_s},
        next_(endpoint_->newest_) {
    if (next_ != nullptr) next_->previous_ = this;
    endpoint_->newest_ = this;
  }
  ~Conversation() override {
    (previous_ != nullptr ? previous_->next_ : endpoint_->newest_) = next_;
    if (next_ != nullptr) next_->previous_ = previous_;
  }
  [[nodiscard]] Conversation* next() const { return next_; }

  core::Task<void> run(net::Duplex& duplex) override {
    ws::Channel channel(duplex, endpoint_->pool_, endpoint_->options_, deflate_);
    struct Place {
      Conversation& conversation;
      ~Place() { conversation.channel_ = nullptr; }
    } place{*this};
    channel_ = &channel;
    if (draining_) channel.drain();
    core::TaskGroup ending;
    const Instant end = findings_.claims_end(duplex.reactor());
    if (end != never) ending.spawn(end_at(channel, duplex.reactor(), end));
    const Opening opening{.peer = peer_, .protocol = protocol_};
    co_await endpoint_->service_.converse(channel, opening);
    ending.cancel();
    co_await channel.close();
  }

  void drain() override {
    draining_ = true;
    if (channel_ != nullptr) channel_->drain();
  }

 private:
  // No conversation outlives the token that it was let in by.
  static core::Task<void> end_at(ws::Channel& channel, core::Reactor& reactor, Instant end) {
    co_await core::Sleep(reactor, end);
    channel.drain(ws::CloseCode::policy_violation);
  }

  const std::shared_ptr<Endpoint> endpoint_;
  std::string peer_;
  std::string protocol_;
  std::optional<ws::DeflateParameters> deflate_;
  Findings findings_;  // when they end
  ws::Channel* channel_ = nullptr;
  bool draining_ = false;
  Conversation* next_;  // the endpoint's list
  Conversation* previous_ = nullptr;
};

void Endpoint::drain() {
  for (Conversation* conversation = newest_; conversation != nullptr;) {  // it may end while it is told
    Conversation* const next = conversation->next();
    conversation->drain();
    conversation = next;
  }
}

Endpoint::Endpoint(const ws::WebSocketOptions& options, Service& service)
    : options_{.max_frame = options.max_message,
               .max_message = options.max_message,
               .ping_interval = options.ping_interval,
               .pong_timeout = options.pong_timeout,
               .close_timeout = options.close_timeout,
               .write_timeout = options.write_timeout},
      service_(service) {
  if (options.max_frame) options_.max_frame = options.max_frame->value;
  for (const auto& origin : options.origins) policy_.origins.push_back(origin);
  for (const auto& protocol : options.protocols) policy_.protocols.push_back(protocol);
  if (options.compression != ws::Compression::off) {
    policy_.deflate = DeflatePolicy{.context_takeover = options.compression == ws::Compression::connection,
                                    .window_bits = options.window_bits};
  }
}

core::Async<Response> Endpoint::handle(Request& request) {
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
  response.upgrade = std::make_unique<Conversation>(shared_from_this(), request, std::move(*judged));
  return response;
}

}  // namespace sluice::http::websocket
