# What the commands of *.mistakes can use, besides the files of mistakes_test.py:
# F files of each kind, B the folder of all, ROOT the sources, PORT of urtrsd, FREE where nobody listens, MUTE where
# nobody answers.

# Another user, who may write to this folder only.
nobody() { setpriv --reuid=65534 --regid=65534 --clear-groups "$@"; }

# In a folder with room for 16 KiB.
small() { unshare -m bash -c 'mount -t tmpfs -o size=16k none . && cd . && cd "$PWD" && "$@"' small "$@"; }

# A line of a configuration, as a file: config 'port = 1'.
config() { printf '%b\n' "$1" > urtrsd.toml; }

# Started with a bound: what should fail but does not, ends.
brief() { timeout -s TERM 10 "$@"; }

# What goes on with a warning.
soon() { timeout -s TERM 2 "$@"; }

# While another process has a file locked: holding FILE COMMAND...
holding() {
  python3 -c 'import fcntl, subprocess, sys
file = open(sys.argv[1], "r+")
fcntl.lockf(file, fcntl.LOCK_EX)
sys.exit(subprocess.call(sys.argv[2:]))' "$@"
}
