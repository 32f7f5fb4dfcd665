# title: a disk grows as README says: the kernel's client stays mounted, ours gets the size by `device close`
# only: paths=1
# limit: 300
# runs: tools/urtrs/urtrs
export URTRS_RUNTIME_DIR=$RUN
mounted=$RUN/mounted
server_start
client_map 0
mkdir "$mounted"
mkfs.ext4 -q -F -E nodiscard "$(device 0)"
mount "$(device 0)" "$mounted"
dd if="$LAB_NOISE" of="$mounted/before" bs=1M count=6 status=none
sync
larger=$(((DISK_MIB + 64) << 20))
truncate -s $larger "$(disk_file 0)"
losetup -c /dev/loop0
if [ "$CLIENT" = kernel ]; then
  echo $((larger >> 9)) >"/sys/block/$(basename "$(device 0)")/rnbd/resize"
else
  [ "$SERVER" != urtrs ] || "$LAB_BUILD/tools/urtrs/urtrs" device close loop0 "$SESSION-0" || fail "device close"
  # NBD has no message for a new size, so detach the device and attach it again.
  umount "$mounted"
  client_unmap 0
  client_map 0
  mount "$(device 0)" "$mounted"
fi
[ "$(blockdev --getsize64 "$(device 0)")" = $larger ] || fail "wrong size"
resize2fs "$(device 0)" >"$RUN/resize2fs.log" 2>&1 || { cat "$RUN/resize2fs.log"; fail "resize2fs"; }
for n in $(seq 12); do cp "$mounted/before" "$mounted/copy$n"; done
sync
echo 3 >/proc/sys/vm/drop_caches
for n in $(seq 12); do cmp "$mounted/before" "$mounted/copy$n" || fail "copy $n differs"; done
umount "$mounted"
e2fsck -fn "$(device 0)" >"$RUN/e2fsck.log" 2>&1 || { cat "$RUN/e2fsck.log"; fail "e2fsck"; }
client_unmap 0
