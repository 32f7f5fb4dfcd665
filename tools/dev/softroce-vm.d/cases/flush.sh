# title: buffered writes with fsync, and write-through (FUA); flushed data are at the server
# fast: yes
server_start
client_map 0
cache=$(cat "/sys/block/$(basename "$(device 0)")/queue/write_cache")
[ "$cache" = "write back" ] || fail "write_cache is '$cache': flushes would not be sent"
dd if="$LAB_NOISE" of="$RUN/pattern" bs=1M count=4 status=none
dd if="$RUN/pattern" of="$(device 0)" bs=128k conv=fsync status=none
dd if="$RUN/pattern" of="$(device 0)" bs=128k seek=64 oflag=direct,dsync status=none
disk_settle 0
cmp -n $((4 << 20)) "$RUN/pattern" "$(disk_file 0)" || fail "what was flushed is not at the server"
cmp -n $((4 << 20)) "$RUN/pattern" "$(disk_file 0)" 0 $((8 << 20)) || fail "what was written through is not at the server"
verify 0 --rw=randwrite --bs=4k --fsync=8 --size=1M --iodepth=4
client_unmap 0
