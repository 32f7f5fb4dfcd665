# title: /dev/nbd0 of `urtrs map --nbd` fails in time if nbdkit does not restart; stays attached while in use; read-only
# only: client=urtrs server=urtrs
# limit: 300
# runs: tools/urtrs/urtrs tools/urtrs-mapd/urtrs-mapd
urtrs=$LAB_BUILD/tools/urtrs/urtrs

mapd_prepare
server_start
mapd_start
keeper_start
mapd_is_ready
urtrs_map --nbd-wait=10

mkfs.ext4 -q -F -E nodiscard /dev/nbd0
mkdir -p "$RUN/mnt"
mount /dev/nbd0 "$RUN/mnt"
head -c 1000000 "$LAB_NOISE" >"$RUN/mnt/file"
! "$urtrs" unmap "${DISK_KIND}0" 2>"$RUN/unmap.log" || fail "a mounted device was taken away"
grep -q 'is it mounted' "$RUN/unmap.log" || { cat "$RUN/unmap.log"; fail "it is not said why"; }
cmp -n 1000000 "$LAB_NOISE" "$RUN/mnt/file" || fail "the file is another one"
umount "$RUN/mnt"
note "a mounted device stays"

# One read is in flight, and one is submitted later. Both must fail after the wait time (10 s).
kill -STOP $(pids_of nbdkit)
dd if=/dev/nbd0 of=/dev/null bs=4k count=1 iflag=direct 2>"$RUN/dd1.log" &
first=$!
pause 1
kill -KILL $mapd_pid
nbdkit_kill
began=$(now)
dd if=/dev/nbd0 of=/dev/null bs=4k count=1 skip=100 iflag=direct 2>"$RUN/dd2.log" &
second=$!
wait_for 60 "the device is detached" nbd0_is_detached
figure nbd_lost "$(since "$began")" s
! wait $first || fail "the read that was under way has data"
! wait $second || fail "the read that came later has data"
grep -q 'no connection for 10 s and is detached' "$RUN/keeper.log" || { cat "$RUN/keeper.log"; fail "it is not said why"; }

# urtrs-mapd restores the mapping; mapping it again attaches the device.
: >"$RUN/mapd.log"
mapd_start
mapd_is_ready
urtrs_map --idempotent
urtrs_map --idempotent
mount /dev/nbd0 "$RUN/mnt"
cmp -n 1000000 "$LAB_NOISE" "$RUN/mnt/file" || fail "the file is lost"
umount "$RUN/mnt"
"$urtrs" unmap "${DISK_KIND}0" || fail "it cannot be unmapped"
nbd0_is_detached || fail "/dev/nbd0 is still attached"
note "attached again, and unmapped"

urtrs_map ro
[ "$(blockdev --getro /dev/nbd0)" = 1 ] || fail "the device is not read-only"
nbdkit_kill
cmp -n 4096 <(dd if=/dev/nbd0 bs=4k count=1 iflag=direct status=none) "$(disk_file 0)" || fail "read-only, and it did not come back"
! dd if=/dev/zero of=/dev/nbd0 bs=4k count=1 oflag=direct conv=notrunc 2>"$RUN/dd.log" || fail "a write went through"
"$urtrs" unmap "${DISK_KIND}0" || fail "it cannot be unmapped"
nbd0_is_detached || fail "/dev/nbd0 is still attached"
kill -TERM $mapd_pid $keeper_pid
wait_quietly 20 no_process urtrs-mapd || fail "urtrs-mapd does not end"
