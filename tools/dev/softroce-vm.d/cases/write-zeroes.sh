# title: BLKZEROOUT: zeroes are not sent as data if the device supports it; the blocks around are unchanged
# fast: yes
server_start
client_map 0
dd if="$LAB_NOISE" of="$RUN/pattern" bs=1M count=8 status=none
dd if="$RUN/pattern" of="$(device 0)" bs=1M oflag=direct status=none
note "write_zeroes_max_bytes: $(cat "/sys/block/$(basename "$(device 0)")/queue/write_zeroes_max_bytes")"
blkdiscard -z -o 4194304 -l 3145728 "$(device 0)" || fail "blkdiscard -z"
dd if="$(device 0)" of="$RUN/back" bs=1M count=8 iflag=direct status=none
dd if=/dev/zero of="$RUN/pattern" bs=1M seek=4 count=3 conv=notrunc status=none
cmp "$RUN/pattern" "$RUN/back" || fail "contents differ"
client_unmap 0
