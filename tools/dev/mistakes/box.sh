# Functions for the commands of *.mistakes. mistakes_test.py sets these variables: F folder of sample files, B parent
# folder, ROOT source tree, PORT port of urtrsd, FREE port without a listener, MUTE port whose listener never answers.

# Runs a command as another user, who has permission to write only to this folder.
nobody() { setpriv --reuid=65534 --regid=65534 --clear-groups "$@"; }

# Runs a command in a folder with 16 KiB of space.
small() { unshare -m bash -c 'mount -t tmpfs -o size=16k none . && cd . && cd "$PWD" && "$@"' small "$@"; }

# Writes a line to urtrsd.toml: config 'port = 1'.
config() { printf '%b\n' "$1" > urtrsd.toml; }

# Runs a command that should fail immediately; ends it after 10 s if it does not.
brief() { timeout -s TERM 10 "$@"; }

# Runs a program that should print a warning and continue; ends it after 2 s.
soon() { timeout -s TERM 2 "$@"; }

# holding FILE COMMAND...: runs a command while another process holds a lock on a file.
holding() {
  python3 -c 'import fcntl, subprocess, sys
file = open(sys.argv[1], "r+")
fcntl.lockf(file, fcntl.LOCK_EX)
sys.exit(subprocess.call(sys.argv[2:]))' "$@"
}
