# title: discarded ranges read as zero, and the server frees their blocks
# fast: yes
server_start
client_map 0
dd if="$LAB_NOISE" of="$(device 0)" bs=1M count=8 oflag=direct status=none
disk_settle 0
before=$(disk_used 0)
blkdiscard -o $((2 << 20)) -l $((4 << 20)) "$(device 0)" || fail "blkdiscard"
disk_settle 0
note "$before KiB used at the server before, $(disk_used 0) after"
[ $((before - $(disk_used 0))) -ge 4096 ] || fail "nothing was given back"
cmp -n $((4 << 20)) /dev/zero <(dd if="$(device 0)" bs=1M skip=2 count=4 iflag=direct status=none) || fail "not zero"
client_unmap 0
