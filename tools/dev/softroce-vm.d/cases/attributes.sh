# title: attributes of the kernel's client in /sys, and of the server (ours: in urtrs-fs), compared with the listing
# only: client=kernel paths=1
# limit: 500
# runs: tools/urtrs-fs/urtrs-fs
DISKS=3
server_start
client_map 0
client_map 1 rw other
dd if="$LAB_NOISE" of="$(device 0)" bs=64k count=16 oflag=direct status=none
repository=$LAB_GUEST/../../../..
compare() { python3 "$repository/tools/lib/testing/sysfs_listing.py" "$1" "$repository/tools/lib/control/attributes/linux-6.12.toml" "${@:2}"; }
server=(class/rtrs-server class/rnbd-server module/rtrs_server module/rnbd_server)
if [ "$SERVER" = urtrs ]; then
  modprobe fuse || skip "this kernel has no FUSE"
  mkdir "$RUN/sys"
  "$LAB_BUILD/tools/urtrs-fs/urtrs-fs" "$RUN/sys" || fail "urtrs-fs"
  compare "$RUN/sys" "${server[@]}" || fail "the server's attributes are not as listed"
  umount "$RUN/sys"
else
  # Compares both ends in one call, because writing to some server attributes ends paths: the attributes of
  # the client are written before.
  compare /sys || fail "the attributes are not as listed"
fi
