# title: a device mapped read-only: reads succeed, writes fail
server_start
dd if="$LAB_NOISE" of="$(disk_file 0)" bs=1M count=4 conv=notrunc status=none
client_map 0 ro
[ "$(blockdev --getro "$(device 0)")" = 1 ] || fail "the device is not read-only"
cmp -n $((4 << 20)) "$(disk_file 0)" <(dd if="$(device 0)" bs=64k count=64 iflag=direct status=none) || fail "reads differ"
sum=$(sha256sum <"$(disk_file 0)")
! dd if=/dev/zero of="$(device 0)" bs=4k count=1 oflag=direct conv=notrunc 2>"$RUN/dd.log" || fail "a write went through"
[ "$sum" = "$(sha256sum <"$(disk_file 0)")" ] || fail "the device has changed"
client_unmap 0
