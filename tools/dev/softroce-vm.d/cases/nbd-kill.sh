# title: nbdkit is killed repeatedly under /dev/nbd0 of `urtrs map --nbd`: no IO fails, no data are lost; it can grow
# only: client=urtrs
# limit: 400
# runs: tools/urtrs/urtrs tools/urtrs-mapd/urtrs-mapd
urtrs=$LAB_BUILD/tools/urtrs/urtrs

writes_go_on() {
  local before
  before=$(writes_of 0)
  wait_for 60 "writes go on" has_more_writes 0 $((before + 20))
  load_alive
}
size_is() { [ "$(blockdev --getsize64 /dev/nbd0)" = "$1" ]; }

mapd_prepare
server_start
mapd_start
keeper_start
mapd_is_ready
urtrs_map
wait_for 20 "it is kept connected" grep -q "kept connected" "$RUN/keeper.log"
# Time in milliseconds after which the kernel resends requests in flight. The default is 10 s.
echo 2000 >/sys/block/nbd0/queue/io_timeout
load_start 0

for turn in 1 2 3; do
  began=$(now)
  nbdkit_kill
  pause 1
  writes_go_on
  figure "nbd_kill_$turn" "$(since "$began")" s
done
kill -TERM $mapd_pid
wait_quietly 20 no_pid $mapd_pid || fail "urtrs-mapd does not end"
pause 1
load_alive
mapd_start
wait_for 20 "the next urtrs-mapd takes over" grep -q "takes over" "$RUN/mapd.log"
writes_go_on
# Kill all processes at once: the new ones must take over the device.
kill -KILL $mapd_pid $keeper_pid
nbdkit_kill
pause 2
keeper_start
mapd_start
writes_go_on
load_stop
[ "$(grep -c "connected again" "$RUN/keeper.log")" -ge 3 ] || fail "it was not connected again"

larger=$(((DISK_MIB + 32) << 20))
if [ "$SERVER" = urtrs ]; then
  truncate -s $larger "$(disk_file 0)"
  losetup -c /dev/loop0
  "$urtrs" device close "${DISK_KIND}0" "$("$urtrs" session list --json | sed -n 's/.*"sessname": "\(.*\)".*/\1/p')" >"$RUN/close.log" 2>&1 ||
    { cat "$RUN/close.log"; fail "the server does not close it"; }
  dd if=/dev/nbd0 of=/dev/null bs=4k count=1 iflag=direct status=none
  wait_for 90 "the kernel's device has grown" size_is $larger
fi
verify 0 --rw=randwrite --bs=16k --size=2M --iodepth=8

"$urtrs" unmap "${DISK_KIND}0" || { cat "$RUN/mapd.log"; fail "it cannot be unmapped"; }
nbd0_is_detached || fail "/dev/nbd0 is still attached"
wait_for 30 "nothing serves it" no_process nbdkit
! grep -q "${DISK_KIND}0" "$RUN/state.json" || fail "it is still to be mapped"
kill -TERM $mapd_pid $keeper_pid
wait_quietly 20 no_process urtrs-mapd || fail "urtrs-mapd does not end"
