#include "tools/urtrs-perf/report.hpp"
#include "tools/lib/text/usage/json_error.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <nlohmann/json.hpp>

namespace rtrs::perf {
namespace {

constexpr double kMiB = 1048576;
constexpr std::size_t kRule = 87;

double usec(std::uint64_t nanos) {
  return static_cast<double>(nanos) / 1e3;
}

double mib(double iops, std::uint32_t bytes) {
  return iops * bytes / kMiB;
}

nlohmann::ordered_json json_of(const Result& result) {
  const tools::Histogram& latency = result.latency;
  return {{"bytes", result.bytes},
          {"iodepth", result.iodepth},
          {"iterations", result.iterations},
          {"elapsed_s", static_cast<double>(result.elapsed) / 1e9},
          {"iops", result.iops()},
          {"iops_median_50ms", result.median_iops()},
          {"iops_peak_50ms", result.peak_iops()},
          {"bw_mib_s", mib(result.iops(), result.bytes)},
          {"bw_peak_mib_s", mib(result.peak_iops(), result.bytes)},
          {"latency_usec",
           {{"min", usec(latency.min())},
            {"max", usec(latency.max())},
            {"typical", usec(latency.most_frequent())},
            {"mean", latency.mean() / 1e3},
            {"stdev", latency.stdev() / 1e3},
            {"p50", usec(latency.percentile(50))},
            {"p90", usec(latency.percentile(90))},
            {"p99", usec(latency.percentile(99))},
            {"p99_9", usec(latency.percentile(99.9))}}}};
}

}  // namespace

std::string table_header(const Options& options) {
  std::string text(kRule, '-');
  const std::string what = options.raw ? "bare libfabric, " : "";
  if (options.iodepth == 1) {
    text += fmt::format("\n {}{}, full IO latency (request to response), one IO at a time\n", what,
                        to_string(options.rw));
    text += fmt::format(" {:<8} {:<12} {:<11} {:<11} {:<15} {:<11} {:<13} {:<20} {}\n", "#bytes",
                        "#iterations", "t_min[usec]", "t_max[usec]", "t_typical[usec]", "t_avg[usec]",
                        "t_stdev[usec]", "99% percentile[usec]", "99.9% percentile[usec]");
    return text;
  }
  text += fmt::format("\n {}{}, {} IOs in flight\n", what, to_string(options.rw), options.iodepth);
  text += fmt::format(" {:<8} {:<12} {:<16} {:<19} {:<13} {}\n", "#bytes", "#iterations", "BW peak[MiB/sec]",
                      "BW average[MiB/sec]", "MsgRate[Mpps]", "IOPS");
  return text;
}

std::string table_row(const Result& result) {
  const tools::Histogram& latency = result.latency;
  if (result.iodepth == 1) {
    return fmt::format(" {:<8} {:<12} {:<11.2f} {:<11.2f} {:<15.2f} {:<11.2f} {:<13.2f} {:<20.2f} {:.2f}\n",
                       result.bytes, result.iterations, usec(latency.min()), usec(latency.max()),
                       usec(latency.most_frequent()), latency.mean() / 1e3, latency.stdev() / 1e3,
                       usec(latency.percentile(99)), usec(latency.percentile(99.9)));
  }
  return fmt::format(" {:<8} {:<12} {:<16.2f} {:<19.2f} {:<13.6f} {:.0f}\n", result.bytes, result.iterations,
                     mib(result.peak_iops(), result.bytes), mib(result.iops(), result.bytes),
                     result.iops() / 1e6, result.iops());
}

std::string csv_header() {
  return "rw,bytes,iodepth,iterations,elapsed_s,iops,iops_peak,bw_mib_s,lat_min_us,lat_max_us,lat_typical_us,"
         "lat_mean_us,lat_stdev_us,lat_p50_us,lat_p99_us,lat_p99_9_us\n";
}

std::string csv_row(const Options& options, const Result& result) {
  const tools::Histogram& latency = result.latency;
  return fmt::format(
      "{},{},{},{},{:.6f},{:.1f},{:.1f},{:.3f},{:.3f},{:.3f},{:.3f},{:.3f},{:.3f},{:.3f},{:.3f},{:.3f}\n",
      to_string(options.rw), result.bytes, result.iodepth, result.iterations,
      static_cast<double>(result.elapsed) / 1e9, result.iops(), result.peak_iops(),
      mib(result.iops(), result.bytes), usec(latency.min()), usec(latency.max()),
      usec(latency.most_frequent()), latency.mean() / 1e3, latency.stdev() / 1e3,
      usec(latency.percentile(50)), usec(latency.percentile(99)), usec(latency.percentile(99.9)));
}

std::string to_json(const Options& options, const Report& report) {
  nlohmann::ordered_json json{{"schema_version", 1},
                              {"tool", "urtrs-perf"},
                              {"version", URTRS_VERSION},
                              {"kind", options.raw ? "raw" : "rtrs"},
                              {"fabric", options.fabric},
                              {"provider", options.fabric == "libfabric" ? options.provider : ""},
                              {"rw", to_string(options.rw)},
                              {"wait", to_string(options.wait)},
                              {"connections", options.protocol.con_num - 1},
                              {"policy", to_string(options.protocol.policy)},
                              {"verify", options.verify},
                              {"results", nlohmann::ordered_json::array()},
                              {"paths", nlohmann::ordered_json::array()}};
  for (const Result& result : report.results) json["results"].push_back(json_of(result));
  for (const PathLine& path : report.paths) {
    json["paths"].push_back({{"path", path.name},
                             {"state", path.state},
                             {"ios", path.ios},
                             {"failovers", path.failovers},
                             {"reconnects", path.reconnects},
                             {"device", path.device.name},
                             {"posting", path.device.posting}});
  }
  json["exit_code"] = report.exit_code;
  if (report.failure.empty())
    json["error"] = nullptr;
  else
    json["error"] = {{"code", tools::error_code(report.exit_code)}, {"message", report.failure}};
  return json.dump(2) + "\n";
}

namespace {

// True for a path that must not be replaced by a file: a device, a pipe, or an open descriptor in /proc or
// /dev.
bool is_special(const std::string& path) {
  struct stat is {};
  const auto below = [&](const char* folder) { return path.rfind(folder, 0) == 0; };
  const bool by_number = below("/proc/") || (below("/dev/") && !below("/dev/shm/"));
  return by_number || (::stat(path.c_str(), &is) == 0 && !S_ISREG(is.st_mode));
}

// Returns the target of a symbolic link, even if it does not exist.
std::string target_of(const std::string& path) {
  constexpr int kMaxLinks = 40;  // the kernel has the same limit
  std::filesystem::path target = path;
  for (int i = 0; i < kMaxLinks; ++i) {
    std::error_code no_link;
    const std::filesystem::path next = std::filesystem::read_symlink(target, no_link);
    if (no_link) break;
    target = target.parent_path() / next;
  }
  return target.string();
}

int write_to(int fd, const std::string& text) {
  if (fd < 0) return errno;
  int error = 0;
  for (std::size_t written = 0; written < text.size() && error == 0;) {
    const ssize_t count = ::write(fd, text.data() + written, text.size() - written);
    if (count >= 0)
      written += static_cast<std::size_t>(count);
    else if (errno != EINTR)
      error = errno;
  }
  if (::close(fd) != 0 && error == 0) error = errno;
  return error;
}

// Writes to an existing device or pipe. If no process reads the pipe, fails immediately; otherwise blocks
// until the data is written.
int write_into(const std::string& path, const std::string& text) {
  const int fd = ::open(path.c_str(), O_WRONLY | O_APPEND | O_NONBLOCK | O_CLOEXEC);
  if (fd >= 0) ::fcntl(fd, F_SETFL, O_APPEND);
  return write_to(fd, text);
}

}  // namespace

int write_whole(const std::string& path, const std::string& text) {
  if (is_special(path)) return write_into(path, text);
  const std::string target = target_of(path);
  const std::string temporary = target + ".tmp." + std::to_string(::getpid());
  int error = write_to(::open(temporary.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666), text);
  if (error == 0 && std::rename(temporary.c_str(), target.c_str()) != 0) error = errno;
  if (error != 0) ::unlink(temporary.c_str());
  return error;
}

int check_writable(const std::string& path) {
  if (path.empty()) return 0;
  std::error_code unknown;
  if (std::filesystem::is_directory(path, unknown)) return EISDIR;
  if (is_special(path)) return ::access(path.c_str(), W_OK) == 0 ? 0 : errno;
  const std::string folder = std::filesystem::path(target_of(path)).parent_path() / ".";
  return ::access(folder.c_str(), W_OK | X_OK) == 0 ? 0 : errno;
}

int report_unwritable(const std::string& path, int error) {
  fmt::print(stderr, "urtrs-perf: cannot write \"{}\": {}\n", path, std::strerror(error));
  return kFailed;
}

void Printer::begin() const {
  if (options_.csv)
    fmt::print("{}", csv_header());
  else if (!options_.json || !options_.json_file.empty())
    fmt::print("{}", table_header(options_));
  std::fflush(stdout);
}

void Printer::row(const Result& result) const {
  if (options_.csv)
    fmt::print("{}", csv_row(options_, result));
  else if (!options_.json || !options_.json_file.empty())
    fmt::print("{}", table_row(result));
  std::fflush(stdout);
}

namespace {

void print_paths(const std::vector<PathLine>& paths) {
  for (const PathLine& path : paths) {
    if (paths.size() > 1)
      fmt::print(" path {}: {}, {} IOs, {} taken over, {} reconnects\n", path.name, path.state, path.ios,
                 path.failovers, path.reconnects);
    if (!path.device.posting.empty())
      fmt::print(" path {}: over {}, posted by {}\n", path.name, path.device.name,
                 path.device.posting == "wr" ? "ibv_wr_*()" : "ibv_post_send()");
  }
}

}  // namespace

int Printer::end(const Report& report) const {
  const bool table = !options_.csv && (!options_.json || !options_.json_file.empty());
  if (table) print_paths(report.paths);
  if (!report.failure.empty()) fmt::print(stderr, "urtrs-perf: {}\n", report.failure);
  if (!options_.json) return report.exit_code;
  if (options_.json_file.empty()) {
    fmt::print("{}", to_json(options_, report));
    return report.exit_code;
  }
  const int error = write_whole(options_.json_file, to_json(options_, report));
  if (error == 0) return report.exit_code;
  return report_unwritable(options_.json_file, error);
}

}  // namespace rtrs::perf
