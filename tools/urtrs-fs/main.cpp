// The program urtrs-fs shows the attributes of running servers and clients as a file system with the layout
// of /sys.
#define FUSE_USE_VERSION 35
#include <fuse3/fuse.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdarg>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>

#include "tools/lib/text/help_text.hpp"
#include "tools/lib/text/standard_output.hpp"
#include "tools/lib/text/usage/json_error.hpp"
#include "tools/lib/text/version/version.hpp"
#include "tools/urtrs-fs/remote_tree.hpp"

namespace {

using rtrs::fs_tool::Entry;
using rtrs::fs_tool::RemoteTree;

constexpr const char* kHelp =
    "Mounts the attributes of urtrsd and of running clients in one tree, like\n"
    "those of the server and client of Linux 6.12 in /sys.\n"
    "Usage: urtrs-fs [OPTIONS] FOLDER\n"
    "       urtrs-fs help [OPTION]\n"
    "\n"
    "Positionals:\n"
    "  FOLDER                      where to mount them\n"
    "\n"
    "Options:\n"
    "  -h,--help                   print this help and exit\n"
    "  --version                   print version, fabrics and compiler, and exit\n"
    "  --json                      with --version: as JSON; errors are JSON too\n"
    "  --socket=FILE               control socket of the one to show; default: all\n"
    "  -f                          stay in the foreground\n"
    "  -o OPTION[,OPTION]...       options of FUSE, for example allow_other\n"
    "\n"
    "Examples:\n"
    "  urtrs-fs /mnt/urtrs\n"
    "  cat /mnt/urtrs/class/rtrs-server/*/paths/*/stats/rdma\n"
    "  echo ip:10.0.2.1 > /mnt/urtrs/class/rtrs-client/web1/add_path\n"
    "  umount /mnt/urtrs\n"
    "\n"
    "Exit codes: 0 mounted, or with -f unmounted or ended by a signal; 1 failed;\n"
    "2 wrong usage; 3 no daemon can be reached.\n";

RemoteTree* tree() {
  return static_cast<RemoteTree*>(fuse_get_context()->private_data);
}

// Content of an open file. The content is read when the file is opened, so that a reader gets consistent data
// even if it reads in parts.
struct Opened {
  std::string content;
};
Opened* opened(fuse_file_info* file) {
  return reinterpret_cast<Opened*>(file->fh);
}

mode_t type_of(Entry::Kind kind) {
  return kind == Entry::Kind::folder ? S_IFDIR : kind == Entry::Kind::link ? S_IFLNK : S_IFREG;
}

int get_attributes(const char* path, struct stat* into, fuse_file_info*) {
  const auto entry = tree()->look(path);
  if (!entry) return -entry.error();
  *into = {};
  into->st_mode = type_of(entry->kind) | entry->mode;
  into->st_nlink = entry->kind == Entry::Kind::folder ? 2 : 1;
  // Every attribute has the size of a page, as in sysfs.
  into->st_size = entry->kind == Entry::Kind::link ? static_cast<off_t>(entry->target.size()) : 4096;
  into->st_uid = ::geteuid();
  into->st_gid = ::getegid();
  return 0;
}

int read_folder(const char* path, void* into, fuse_fill_dir_t fill, off_t, fuse_file_info*,
                fuse_readdir_flags) {
  const auto entry = tree()->look(path);
  if (!entry) return -entry.error();
  if (entry->kind != Entry::Kind::folder) return -ENOTDIR;
  for (const char* name : {".", ".."}) fill(into, name, nullptr, 0, fuse_fill_dir_flags(0));
  for (const auto& [name, kind] : entry->names) {
    struct stat of {};
    of.st_mode = type_of(kind);
    fill(into, name.c_str(), &of, 0, fuse_fill_dir_flags(0));
  }
  return 0;
}

int read_link(const char* path, char* into, std::size_t size) {
  const auto entry = tree()->look(path);
  if (!entry) return -entry.error();
  if (entry->kind != Entry::Kind::link || size == 0) return -EINVAL;
  into[entry->target.copy(into, size - 1)] = '\0';
  return 0;
}

int open_file(const char* path, fuse_file_info* file) {
  auto state = std::make_unique<Opened>();
  const bool writes = (file->flags & O_ACCMODE) != O_RDONLY;
  const bool reads = (file->flags & O_ACCMODE) != O_WRONLY;
  if (writes) {
    const auto entry = tree()->look(path);
    if (!entry) return -entry.error();
    // As in sysfs, not even root may open a file for writing that has no write permission.
    if ((entry->mode & 0222U) == 0) return -EACCES;
  }
  if (reads) {
    auto content = tree()->read(path);
    if (!content) return -content.error();
    state->content = std::move(*content);
  }
  file->direct_io = 1;  // a file ends where its content ends, regardless of st_size
  file->fh = reinterpret_cast<std::uint64_t>(state.release());
  return 0;
}

int read_file(const char*, char* into, std::size_t size, off_t from, fuse_file_info* file) {
  const std::string& content = opened(file)->content;
  if (from < 0 || static_cast<std::size_t>(from) >= content.size()) return 0;
  return static_cast<int>(content.copy(into, size, static_cast<std::size_t>(from)));
}

// Each write() sets a complete value, as in sysfs.
int write_file(const char* path, const char* from, std::size_t size, off_t, fuse_file_info*) {
  const int error = tree()->write(path, std::string(from, size));
  return error == 0 ? static_cast<int>(size) : -error;
}

// Does nothing. The function must exist because ">" in a shell truncates the file.
int truncate_file(const char*, off_t, fuse_file_info*) {
  return 0;
}

int release_file(const char*, fuse_file_info* file) {
  delete opened(file);
  return 0;
}

bool answers_in_json = false;

// Prints why nothing is mounted. Returns `code`.
int refuse(int code, const std::string& why) {
  std::fprintf(stderr, "urtrs-fs: %s\n", why.c_str());
  if (answers_in_json) std::fputs(rtrs::tools::json_error(code, why).c_str(), stdout);
  return code;
}

struct CommandLine {
  char* socket = nullptr;
  int show_help = 0;
  int show_version = 0;
  int json = 0;
  int folders = 0;
};

// Log function for libfuse. Begins each line with the name of this program; a line may arrive in several
// parts.
void say(fuse_log_level, const char* format, va_list values) {
  static bool within_line = false;
  if (!within_line) std::fputs("urtrs-fs: ", stderr);
  within_line = std::strchr(format, '\n') == nullptr;
  std::vfprintf(stderr, std::strncmp(format, "fuse: ", 6) == 0 ? format + 6 : format, values);
}

// Checks an argument: rejects unknown long options, and accepts one FOLDER.
int check_option(void* data, const char* word, int key, fuse_args*) {
  auto& line = *static_cast<CommandLine*>(data);
  if (key == FUSE_OPT_KEY_NONOPT && ++line.folders > 1) {
    refuse(2, std::string("only one folder can be given, and \"") + word +
                  "\" is a second; see urtrs-fs --help");
    return -1;
  }
  if (key == FUSE_OPT_KEY_OPT && std::strncmp(word, "--", 2) == 0 && word[2] != '\0') {
    refuse(2, std::string("unknown option \"") + word + "\"" +
                  (std::strncmp(word, "--so", 4) == 0 ? "; did you mean \"--socket=FILE\"?"
                                                      : "; see urtrs-fs --help"));
    return -1;
  }
  return 1;
}

volatile std::sig_atomic_t end_requested = 0;
void (*end_of_fuse)(int) = nullptr;

void on_signal(int number) {
  end_requested = 1;
  end_of_fuse(number);
}

// Replaces the signal handlers of libfuse, which would make the program exit with an error.
void* begin(fuse_conn_info*, fuse_config*) {
  for (const int number : {SIGHUP, SIGINT, SIGTERM}) {
    struct sigaction action {};
    if (::sigaction(number, nullptr, &action) != 0 || action.sa_handler == SIG_DFL ||
        action.sa_handler == SIG_IGN)
      continue;
    end_of_fuse = action.sa_handler;
    action.sa_handler = on_signal;
    ::sigaction(number, &action, nullptr);
  }
  return tree();
}

// Returns the reason why `folder` cannot be a mount point; empty if it can be one.
std::string folder_problem(const char* folder) {
  struct stat found {};
  if (::stat(folder, &found) != 0)
    return std::string(std::strerror(errno)) + (errno == ENOENT ? "; create it with mkdir" : "");
  return S_ISDIR(found.st_mode) ? "" : "it is not a folder";
}

int show_help(const std::string& topic) {
  const std::string found = topic.empty() ? kHelp : rtrs::tools::help_entries_about(kHelp, topic);
  std::fputs(found.c_str(), stdout);
  return found.empty() ? refuse(2, "unknown option \"" + topic + "\"; see urtrs-fs --help") : 0;
}

int show_version() {
  if (answers_in_json)
    std::fputs(rtrs::tools::version_json("urtrs-fs").c_str(), stdout);
  else
    std::printf("%s\nFUSE %s\n", rtrs::tools::version_text("urtrs-fs").c_str(), fuse_pkgversion());
  return 0;
}

fuse_operations operations_of_tree() {
  fuse_operations operations{};
  operations.init = begin;
  operations.getattr = get_attributes;
  operations.readdir = read_folder;
  operations.readlink = read_link;
  operations.open = open_file;
  operations.read = read_file;
  operations.write = write_file;
  operations.truncate = truncate_file;
  operations.release = release_file;
  return operations;
}

}  // namespace

int main(int argc, char** argv) {
  rtrs::tools::hold_standard_streams();
  answers_in_json = rtrs::tools::wants_json(argc, argv);
  if ((argc == 2 || argc == 3) && std::strcmp(argv[1], "help") == 0)
    return rtrs::tools::written("urtrs-fs", show_help(argc == 3 ? argv[2] : ""), 1);
  const fuse_opt options[] = {{"--socket=%s", offsetof(CommandLine, socket), 0},
                              {"-h", offsetof(CommandLine, show_help), 1},
                              {"--help", offsetof(CommandLine, show_help), 1},
                              {"-V", offsetof(CommandLine, show_version), 1},
                              {"--version", offsetof(CommandLine, show_version), 1},
                              {"--json", offsetof(CommandLine, json), 1},
                              FUSE_OPT_END};
  fuse_args arguments = FUSE_ARGS_INIT(argc, argv);
  CommandLine line;
  fuse_set_log_func(say);
  if (fuse_opt_parse(&arguments, &line, options, check_option) != 0) return 2;
  if (line.show_help != 0) return rtrs::tools::written("urtrs-fs", show_help(""), 1);
  if (line.show_version != 0) return rtrs::tools::written("urtrs-fs", show_version(), 1);
  if (line.json != 0) return refuse(2, "--json requires --version; \"urtrs\" shows all of it as JSON");
  if (line.folders == 0) return refuse(2, "name the folder to mount on; see urtrs-fs --help");
  const char* const folder = arguments.argv[arguments.argc - 1];
  if (const std::string problem = folder_problem(folder); !problem.empty())
    return refuse(2, std::string("cannot mount on \"") + folder + "\": " + problem);
  RemoteTree attributes(line.socket != nullptr ? line.socket : "");
  const std::string refused = attributes.check();
  if (!refused.empty()) return refuse(3, refused);
  // Sets the option to its default value, because libfuse 3.14 prints a warning if it is not set.
  fuse_opt_insert_arg(&arguments, 1, "-omax_idle_threads=10");
  // The kernel then checks permissions, also for other users if allow_other is set.
  fuse_opt_add_arg(&arguments, "-odefault_permissions");
  const fuse_operations operations = operations_of_tree();
  const int code = fuse_main(arguments.argc, arguments.argv, &operations, &attributes);
  fuse_opt_free_args(&arguments);
  return code == 0 || end_requested != 0 ? 0 : 1;
}
