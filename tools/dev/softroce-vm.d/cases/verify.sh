# title: every size from 512 bytes to 1 MiB, with uneven memory segments; random IO with checksums
# fast: yes
# limit: 300
QUEUE_DEPTH=512
server_start
client_map 0
queue=/sys/block/$(basename "$(device 0)")/queue
cat "$queue/max_hw_sectors_kb" >"$queue/max_sectors_kb"
note "largest request $(cat "$queue/max_sectors_kb") KiB, at most $(cat "$queue/max_segments") pieces"
scatter "$(device 0)" "$(disk_file 0)" $((1 << 20)) || fail "scatter"
verify 0 --rw=randwrite --bsrange=512-126976 --bs_unaligned=0 --blockalign=512 --size=4M --iodepth=16
verify 0 --rw=write --bs=512k --size=8M --iodepth=4
client_unmap 0
