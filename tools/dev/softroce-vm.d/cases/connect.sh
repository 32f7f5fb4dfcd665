# title: map, read, unmap, map again; a second session in parallel
# fast: yes
DISKS=2
QUEUE_DEPTH=512
server_start
client_map 0
wait_for 5 "all paths connected" all_paths
[ "$(blockdev --getsize64 "$(device 0)")" = $((DISK_MIB << 20)) ] || fail "wrong size"
[ "$(server_sessions)" != 0 ] || fail "the server knows no session"
client_map 1 rw other
dd if="$LAB_NOISE" of="$RUN/pattern" bs=1M count=2 status=none
dd if="$RUN/pattern" of="$(device 1)" bs=64k oflag=direct status=none
client_unmap 1
client_unmap 0
wait_for 40 "the server has forgotten the sessions" server_has_no_session
disk_settle 1
cmp -n $((2 << 20)) "$RUN/pattern" "$(disk_file 1)" || fail "the server's file differs"
client_map 0
client_unmap 0
