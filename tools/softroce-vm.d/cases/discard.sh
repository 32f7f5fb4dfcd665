# title: discarded ranges read as zero and are given back at the server
# fast: yes
server_start
client_map 0
dd if=/dev/urandom of="$(device 0)" bs=1M count=16 oflag=direct status=none
disk_settle 0
before=$(disk_used 0)
blkdiscard -o $((4 << 20)) -l $((8 << 20)) "$(device 0)" || fail "blkdiscard"
disk_settle 0
note "$before KiB used at the server before, $(disk_used 0) after"
[ $((before - $(disk_used 0))) -ge 8192 ] || fail "nothing was given back"
cmp -n $((8 << 20)) /dev/zero <(dd if="$(device 0)" bs=1M skip=4 count=8 iflag=direct status=none) || fail "not zero"
client_unmap 0
