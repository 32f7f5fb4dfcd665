# title: the server's device grows: the new part is usable immediately; a new mapping has the new size
# limit: 300
server_start
client_map 0
larger=$(((DISK_MIB + 32) << 20))
truncate -s $larger "$(disk_file 0)"
losetup -c /dev/loop0
client_unmap 0
client_map 0
[ "$(blockdev --getsize64 "$(device 0)")" = $larger ] || fail "wrong size"
dd if="$LAB_NOISE" of="$RUN/pattern" bs=1M count=4 status=none
dd if="$RUN/pattern" of="$(device 0)" bs=1M seek=$((DISK_MIB + 8)) oflag=direct status=none
cmp "$RUN/pattern" <(dd if="$(device 0)" bs=1M skip=$((DISK_MIB + 8)) count=4 iflag=direct status=none) || fail "new part"
# Grows the device again while it is mapped. Only the kernel's client has an attribute to set a new size.
if [ "$CLIENT" = kernel ]; then
  larger=$((larger + (32 << 20)))
  truncate -s $larger "$(disk_file 0)"
  losetup -c /dev/loop0
  echo $((larger >> 9)) >"/sys/block/$(basename "$(device 0)")/rnbd/resize"
  dd if="$RUN/pattern" of="$(device 0)" bs=1M seek=$((DISK_MIB + 40)) oflag=direct status=none || fail "grown while mapped"
  cmp "$RUN/pattern" <(dd if="$(device 0)" bs=1M skip=$((DISK_MIB + 40)) count=4 iflag=direct status=none) ||
    fail "part that came while mapped"
fi
client_unmap 0
