#include "http/compress/body.h"

#include <algorithm>
#include <cerrno>
#include <string>
#include <utility>

#include <sys/uio.h>
#include <unistd.h>

namespace sluice::http::compress {

Readings Counters::readings() const {
  return {
      counter("sluice_compression_answers_total", "Answers that went out compressed.", answers),
      counter("sluice_compression_cached_total", "Answers whose compressed form was cached.", cached),
      counter("sluice_compression_refused_total",
              "Answers that went out as they were for want of [compression] memory.", no_memory),
      counter("sluice_compression_input_bytes_total", "Bytes given to compressors.", bytes_in),
      counter("sluice_compression_output_bytes_total", "Bytes that compressors made of them.", bytes_out),
  };
}

class CompressedBody::Pending : public core::SlabAllocated {
 public:
  explicit Pending(core::Task<Result<Progress>> task)
      : task_(std::move(task)), inner_(std::move(task_).operator co_await()) {
    inner_.await_suspend(std::noop_coroutine()).resume();
  }
  Pending(const Pending&) = delete;
  [[nodiscard]] bool done() const { return inner_.frame.done(); }
  // Called once, when done() is true.
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

CompressedBody::CompressedBody(Body inner, EncoderPool::Lease encoder, const Surroundings& surroundings,
                               const std::optional<Cache::Source>& source)
    : inner_(std::move(inner)), encoder_(std::move(encoder)), around_(surroundings), coding_(encoder_->coding()) {
  if (const auto* own = std::get_if<Buffer>(&inner_)) rest_ = own->view();
  if (const auto* shared = std::get_if<SharedBytes>(&inner_)) rest_ = shared->bytes;
  if (const auto* spans = std::get_if<SharedSpans>(&inner_)) spans_ = SpanReader(spans->pieces());
  if (source && around_.cache.reserve(*source, coding_)) source_ = source;
}

CompressedBody::~CompressedBody() { stop_collecting(); }

void CompressedBody::collect(std::string_view bytes) {
  if (!source_) return;
  if (collected_.size() + bytes.size() > around_.cache.most_bytes()) return stop_collecting();
  collected_.append(bytes);
}

void CompressedBody::stop_collecting() {
  if (!source_) return;
  around_.cache.abandon(*source_, coding_);
  source_.reset();
  collected_.release();
}

std::span<const Field> CompressedBody::trailers() const {
  const auto* stream = std::get_if<std::unique_ptr<BodySource>>(&inner_);
  return stream != nullptr ? (*stream)->trailers() : std::span<const Field>{};
}

core::Async<Result<BodySource::Progress>> CompressedBody::pull(Buffer& out) {
  if (!pending_ && around_.turnstile.open()) {
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
    if (!around_.turnstile.open()) {
      Turnstile::Turn turn(around_.turnstile);
      co_await turn;
    }
    if (auto progress = run(out)) co_return *progress;
  }
}

// `some`: there are bytes in rest_ or input_.
Result<CompressedBody::Input> CompressedBody::fetch() {
  while (rest_.empty() && input_.empty() && !inner_done_) {
    core::Async<Result<Progress>> fetching = fetch_piece();
    if (!fetching.ready()) {
      pending_ = std::make_unique<Pending>(fetching.take_task());
      if (!pending_->done()) return Input::wait;
    }
    const Result<Progress> got = pending_ ? pending_->take() : fetching.take();
    pending_.reset();
    if (!got) return std::unexpected(got.error());
    inner_done_ = *got == Progress::done;
  }
  return rest_.empty() && input_.empty() ? Input::end : Input::some;
}

core::Async<Result<BodySource::Progress>> CompressedBody::fetch_piece() {
  if (auto* stream = std::get_if<std::unique_ptr<BodySource>>(&inner_)) return (*stream)->pull(input_);
  if (auto* file = std::get_if<FileRange>(&inner_); file != nullptr && file->size != 0) return read(*file);
  return copy_spans();
}

Result<BodySource::Progress> CompressedBody::copy_spans() {
  if (spans_.at_end()) return Progress::done;
  char* const room = input_.reserve(copied_spans);
  input_.commit(spans_.copy(room, copied_spans));
  return Progress::more;
}

// Reads bytes in the page cache directly and all others on a thread, because a disk may be slow.
core::Async<Result<BodySource::Progress>> CompressedBody::read(FileRange& file) {
  iovec part{nullptr, static_cast<std::size_t>(std::min<std::uint64_t>(file.size, file_piece))};
  part.iov_base = input_.reserve(part.iov_len);
  const ssize_t got = ::preadv2(file.fd, &part, 1, static_cast<off_t>(file.offset), RWF_NOWAIT);
  if (got <= 0) return read_slowly(file);
  input_.commit(static_cast<std::size_t>(got));
  file.offset += static_cast<std::uint64_t>(got);
  file.size -= static_cast<std::uint64_t>(got);
  return Result<Progress>(Progress::more);
}

core::Task<Result<BodySource::Progress>> CompressedBody::read_slowly(FileRange& file) {
  struct Piece {
    std::string bytes;
    int error = 0;
  };
  auto work = [owner = file.owner, fd = file.fd, offset = file.offset, size = file.size] {
    Piece piece;
    piece.bytes.resize(static_cast<std::size_t>(std::min<std::uint64_t>(size, file_piece)));
    ssize_t got = 0;
    do {
      got = ::pread(fd, piece.bytes.data(), piece.bytes.size(), static_cast<off_t>(offset));
    } while (got < 0 && errno == EINTR);
    if (got < 0) piece.error = errno;
    piece.bytes.resize(got < 0 ? 0 : static_cast<std::size_t>(got));
    return piece;
  };
  const auto piece = co_await around_.threads.run(around_.mailbox, std::move(work));
  if (!piece) co_return std::unexpected(piece.error());
  if (piece->error != 0) co_return fail(Errc::system, piece->error);
  if (piece->bytes.empty()) co_return fail(Errc::closed);  // the file has become shorter
  input_.append(piece->bytes);
  file.offset += piece->bytes.size();
  file.size -= piece->bytes.size();
  co_return Progress::more;
}

Result<BodySource::Progress> CompressedBody::write(Encoder::Step step, std::string_view bytes, Buffer& out) {
  const std::size_t before = out.size();
  if (!encoder_->write(bytes, step, out)) return fail(Errc::limit);
  unflushed_ = step == Encoder::Step::go_on;
  around_.counters.bytes_in += bytes.size();
  around_.counters.bytes_out += out.size() - before;
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
        (void)around_.cache.store(*source_, coding_, std::move(collected_));
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
    around_.turnstile.count(piece.size());
    if (taken >= Turnstile::turn_bytes) {
      if (out.size() == before) return std::nullopt;  // all bytes are still in the encoder
      return Result<Progress>(Progress::more);
    }
  }
}

}  // namespace sluice::http::compress
