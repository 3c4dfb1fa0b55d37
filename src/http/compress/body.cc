#include "http/compress/body.h"

#include <algorithm>
#include <cerrno>
#include <utility>

#include <unistd.h>

namespace sluice::http::compress {

Result<std::size_t> read_file(int fd, std::uint64_t offset, char* into, std::size_t size) {
  ssize_t got = 0;
  do {
    got = ::pread(fd, into, size, static_cast<off_t>(offset));
  } while (got < 0 && errno == EINTR);
  if (got < 0) return fail(Errc::system, errno);
  if (got == 0) return fail(Errc::closed);
  return static_cast<std::size_t>(got);
}

class CompressedBody::Pending : public core::SlabAllocated {
 public:
  explicit Pending(core::Task<Result<Progress>> task)
      : task_(std::move(task)), inner_(std::move(task_).operator co_await()) {
    inner_.await_suspend(std::noop_coroutine()).resume();
  }
  Pending(const Pending&) = delete;
  [[nodiscard]] bool done() const { return inner_.frame.done(); }
  // Once, when it is done.
  [[nodiscard]] Result<Progress> take() { return inner_.await_resume(); }

  class Wait {
   public:
    explicit Wait(Pending& pending) : pending_(pending) {}
    Wait(const Wait&) = delete;
    ~Wait() {
      if (waits_) pending_.inner_.frame.promise().continuation = std::noop_coroutine();
    }
    bool await_ready() const noexcept { return pending_.done(); }
    void await_suspend(std::coroutine_handle<> caller) noexcept {
      waits_ = true;
      pending_.inner_.frame.promise().continuation = caller;
    }
    void await_resume() noexcept { waits_ = false; }

   private:
    Pending& pending_;
    bool waits_ = false;
  };

 private:
  core::Task<Result<Progress>> task_;
  decltype(std::declval<core::Task<Result<Progress>>>().operator co_await()) inner_;
};

CompressedBody::CompressedBody(Body inner, EncoderPool::Lease encoder, Turnstile& turnstile, Cache& cache,
                               Counters& counters, const std::optional<Cache::Source>& source)
    : inner_(std::move(inner)),
      encoder_(std::move(encoder)),
      turnstile_(turnstile),
      cache_(cache),
      counters_(counters),
      coding_(encoder_->coding()) {
  if (const auto* own = std::get_if<Buffer>(&inner_)) rest_ = own->view();
  if (const auto* shared = std::get_if<SharedBytes>(&inner_)) rest_ = shared->bytes;
  if (source && cache_.reserve(*source, coding_)) source_ = source;
}

CompressedBody::~CompressedBody() { stop_collecting(); }

void CompressedBody::collect(std::string_view bytes) {
  if (!source_) return;
  if (collected_.size() + bytes.size() > cache_.most_bytes()) return stop_collecting();
  collected_.append(bytes);
}

void CompressedBody::stop_collecting() {
  if (!source_) return;
  cache_.abandon(*source_, coding_);
  source_.reset();
  collected_.release();
}

std::span<const Field> CompressedBody::trailers() const {
  const auto* stream = std::get_if<std::unique_ptr<BodySource>>(&inner_);
  return stream != nullptr ? (*stream)->trailers() : std::span<const Field>{};
}

core::Async<Result<BodySource::Progress>> CompressedBody::pull(Buffer& out) {
  if (!pending_ && turnstile_.open()) {
    if (auto progress = run(out)) return *progress;
  }
  return wait(out);
}

core::Task<Result<BodySource::Progress>> CompressedBody::wait(Buffer& out) {
  for (;;) {
    if (pending_) {
      {
        Pending::Wait waiting(*pending_);
        co_await waiting;
      }
      const Result<Progress> got = pending_->take();
      pending_.reset();
      if (!got) co_return std::unexpected(got.error());
      inner_done_ = *got == Progress::done;
    }
    if (!turnstile_.open()) {
      Turnstile::Turn turn(turnstile_);
      co_await turn;
    }
    if (auto progress = run(out)) co_return *progress;
  }
}

// Some: there are bytes in rest_ or input_.
Result<CompressedBody::Input> CompressedBody::fetch() {
  if (auto* file = std::get_if<FileRange>(&inner_); file != nullptr && input_.empty() && file->size != 0) {
    const auto wanted = static_cast<std::size_t>(std::min<std::uint64_t>(file->size, file_piece));
    const auto got = read_file(file->fd, file->offset, input_.reserve(wanted), wanted);
    if (!got) return std::unexpected(got.error());
    input_.commit(*got);
    file->offset += *got;
    file->size -= *got;
  }
  if (auto* stream = std::get_if<std::unique_ptr<BodySource>>(&inner_)) {
    while (input_.empty() && !inner_done_) {
      core::Async<Result<Progress>> pulling = (*stream)->pull(input_);
      if (!pulling.ready()) {
        pending_ = std::make_unique<Pending>(pulling.take_task());
        if (!pending_->done()) return Input::wait;
      }
      const Result<Progress> got = pending_ ? pending_->take() : pulling.take();
      pending_.reset();
      if (!got) return std::unexpected(got.error());
      inner_done_ = *got == Progress::done;
    }
  }
  return rest_.empty() && input_.empty() ? Input::end : Input::some;
}

Result<BodySource::Progress> CompressedBody::write(Encoder::Step step, std::string_view bytes, Buffer& out) {
  const std::size_t before = out.size();
  if (!encoder_->write(bytes, step, out)) return fail(Errc::limit);
  unflushed_ = step == Encoder::Step::go_on;
  counters_.bytes_in += bytes.size();
  counters_.bytes_out += out.size() - before;
  collect(out.view().substr(before));
  return step == Encoder::Step::finish ? Progress::done : Progress::more;
}

std::optional<Result<BodySource::Progress>> CompressedBody::run(Buffer& out) {
  if (!encoder_) return Result<Progress>(Progress::done);
  const std::size_t before = out.size();
  for (std::size_t taken = 0;;) {
    const Result<Input> input = fetch();
    if (!input) return Result<Progress>(std::unexpected(input.error()));
    if (*input == Input::wait) {
      if (unflushed_) {
        if (const auto flushed = write(Encoder::Step::flush, {}, out); !flushed) return flushed;
      }
      if (out.size() == before) return std::nullopt;
      return Result<Progress>(Progress::more);
    }
    if (*input == Input::end) {
      const auto finished = write(Encoder::Step::finish, {}, out);
      if (!finished) return finished;
      encoder_.give_back();
      if (source_) {
        (void)cache_.store(*source_, coding_, std::move(collected_));
        source_.reset();
      }
      return finished;
    }

    const bool in_memory = !rest_.empty();
    const std::string_view piece = (in_memory ? rest_ : input_.view()).substr(0, Turnstile::turn_bytes - taken);
    if (const auto written = write(Encoder::Step::go_on, piece, out); !written) return written;
    if (in_memory) {
      rest_.remove_prefix(piece.size());
    } else {
      input_.consume(piece.size());
    }
    taken += piece.size();
    turnstile_.count(piece.size());
    if (taken >= Turnstile::turn_bytes) {
      if (out.size() == before) return std::nullopt;  // the encoder has it all
      return Result<Progress>(Progress::more);
    }
  }
}

}  // namespace sluice::http::compress
