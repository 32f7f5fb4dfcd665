// Counts the completed IOs of a measurement, with its warm-up, its windows, its progress lines and its end.
// The measurements of urtrs and of the bare fabric both use it, so that the code for both is the same.
#pragma once
#include <algorithm>
#include <functional>
#include <optional>

#include "tools/urtrs-perf/result.hpp"

namespace rtrs::perf {

// The first 1/kWarmUpShare of the measurement, but at most one second, is a warm-up, which is not counted.
inline constexpr unsigned kWarmUpShare = 10;

class Meter {
 public:
  // Called once per `interval`. Receives the seconds since the start, and the rate and the mean latency (in
  // microseconds) since the previous call. May be empty.
  using Progress = std::function<void(double at, double iops, double latency)>;
  Meter(const Options& options, std::uint32_t bytes, Progress progress)
      : progress_(std::move(progress)),
        interval_(progress_ ? options.interval.value_or(seconds(1)) : kNever),
        warm_up_ios_(options.iterations ? *options.iterations / kWarmUpShare : 0),
        warm_up_time_(options.iterations ? 0 : std::min(options.runtime / kWarmUpShare, seconds(1))),
        end_ios_(options.iterations.value_or(~std::uint64_t{0})),
        runtime_(options.iterations ? kNever : options.runtime) {
    result_.bytes = bytes;
    result_.iodepth = options.iodepth;
  }

  void start(Nanos now) {
    started_ = last_progress_ = now;
    if (warm_up_ios_ == 0 && warm_up_time_ == 0) begin(now);
  }
  // Number of IOs to submit, including the warm-up.
  std::uint64_t to_submit() const noexcept {
    return end_ios_ == ~std::uint64_t{0} ? end_ios_ : end_ios_ + warm_up_ios_;
  }
  void completed(Nanos now, Nanos latency) noexcept {
    ++progress_ios_;
    progress_latency_ += latency;
    if (!measuring_) {
      if (++warmed_ >= warm_up_ios_ && now - started_ >= warm_up_time_) begin(now);
      return;
    }
    if (over_) return;
    result_.latency.record(latency);
    ++result_.iterations;
    ++window_ios_;
    if (result_.iterations >= end_ios_) finish(now);
  }
  // Call it often, not later than next_tick().
  void tick(Nanos now) {
    if (measuring_ && !over_) {
      while (now >= window_end_) {
        result_.windows.push_back(window_ios_);
        window_ios_ = 0;
        window_end_ += kWindow;
      }
    }
    if (now - last_progress_ >= interval_) report_progress(now);
    if (!over_ && runtime_ != kNever && now - started_ >= runtime_) finish(now);
  }
  Nanos next_tick() const noexcept { return measuring_ ? window_end_ : started_ + warm_up_time_ + kWindow; }
  void finish(Nanos now) noexcept {
    if (over_) return;
    over_ = true;
    result_.elapsed = measuring_ ? now - measured_from_ : 0;
  }
  bool over() const noexcept { return over_; }
  Result take() { return std::move(result_); }

 private:
  void begin(Nanos now) noexcept {
    measuring_ = true;
    measured_from_ = now;
    window_end_ = now + kWindow;
  }
  void report_progress(Nanos now) {
    const double past = static_cast<double>(now - last_progress_) / 1e9;
    const double ios = static_cast<double>(progress_ios_);
    progress_(static_cast<double>(now - started_) / 1e9, ios / past,
              progress_ios_ == 0 ? 0 : static_cast<double>(progress_latency_) / ios / 1e3);
    last_progress_ = now;
    progress_ios_ = 0;
    progress_latency_ = 0;
  }

  Result result_;
  Progress progress_;
  Nanos interval_;
  std::uint64_t warm_up_ios_;
  Nanos warm_up_time_;
  std::uint64_t end_ios_;
  Nanos runtime_;
  std::uint64_t warmed_ = 0;
  std::uint64_t window_ios_ = 0;
  std::uint64_t progress_ios_ = 0;
  Nanos progress_latency_ = 0;
  Nanos started_ = 0;
  Nanos measured_from_ = 0;
  Nanos window_end_ = 0;
  Nanos last_progress_ = 0;
  bool measuring_ = false;
  bool over_ = false;
};

}  // namespace rtrs::perf
