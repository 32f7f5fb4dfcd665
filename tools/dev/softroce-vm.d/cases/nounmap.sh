# title: BLKZEROOUT keeps blocks allocated if both ends support NOUNMAP (RNBD 2.2, and ours); otherwise it frees them
# fast: yes
# kernels: 6.12 6.12-rnbd2.2 7.3
server_start
client_map 0
[ "$(cat "/sys/block/$(basename "$(device 0)")/queue/write_zeroes_max_bytes")" != 0 ] ||
  fail "the device takes no zeroes: they would be sent as data"
dd if="$LAB_NOISE" of="$RUN/pattern" bs=1M count=8 status=none
dd if="$RUN/pattern" of="$(device 0)" bs=1M oflag=direct status=none
disk_settle 0
before=$(disk_used 0)
blkdiscard -z -o $((2 << 20)) -l $((4 << 20)) "$(device 0)" || fail "blkdiscard -z"
disk_settle 0
after=$(disk_used 0)
note "$before KiB used at the server before, $after after"
knows_nounmap() { [ "$1" = urtrs ] || [ "$LAB_KERNEL" = 6.12-rnbd2.2 ] || [ "$LAB_KERNEL" = 7.3 ]; }
if knows_nounmap "$CLIENT" && knows_nounmap "$SERVER"; then
  [ "$after" -ge "$before" ] || fail "blocks were freed"
else
  # This branch proves that the measurement detects freed blocks.
  [ $((before - after)) -ge 4096 ] || fail "blocks were kept by a peer that does not know NOUNMAP"
fi
dd if=/dev/zero of="$RUN/pattern" bs=1M seek=2 count=4 conv=notrunc status=none
cmp "$RUN/pattern" <(dd if="$(device 0)" bs=1M count=8 iflag=direct status=none) || fail "contents differ"
client_unmap 0
