# title: the server's device grows; after a reconnect the session knows it, a new mapping has the new size
# limit: 300
server_start
client_map 0
larger=$(((DISK_MIB + 32) << 20))
truncate -s $larger "$(disk_file 0)"
losetup -c /dev/loop0
server_drop_paths
wait_quietly 20 some_path_lost
new_size_known() { [ "$(client_size 0)" = $larger ]; }
wait_for 90 "the session knows the new size" new_size_known
client_unmap 0
client_map 0
[ "$(blockdev --getsize64 "$(device 0)")" = $larger ] || fail "wrong size"
dd if="$LAB_NOISE" of="$RUN/pattern" bs=1M count=4 status=none
dd if="$RUN/pattern" of="$(device 0)" bs=1M seek=$((DISK_MIB + 8)) oflag=direct status=none
cmp "$RUN/pattern" <(dd if="$(device 0)" bs=1M skip=$((DISK_MIB + 8)) count=4 iflag=direct status=none) || fail "new part"
client_unmap 0
