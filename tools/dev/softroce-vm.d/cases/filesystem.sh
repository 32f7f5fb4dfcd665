# title: ext4 on the device: created, filled, checked, mounted again, trimmed
server_start
client_map 0
mkfs.ext4 -q -F -E nodiscard "$(device 0)"
mkdir -p "$RUN/mnt"
mount "$(device 0)" "$RUN/mnt"
for n in $(seq 20); do head -c $((n * 60000)) "$LAB_NOISE" >"$RUN/mnt/file$n"; done
(cd "$RUN/mnt" && sha256sum file* >"$RUN/sums")
umount "$RUN/mnt"
e2fsck -fn "$(device 0)" >"$RUN/fsck.log" 2>&1 || fail "e2fsck"
client_unmap 0
client_map 0
mount "$(device 0)" "$RUN/mnt"
(cd "$RUN/mnt" && sha256sum --quiet -c "$RUN/sums") || fail "files differ"
rm "$RUN"/mnt/file1*
fstrim -v "$RUN/mnt"
umount "$RUN/mnt"
e2fsck -fn "$(device 0)" >"$RUN/fsck.log" 2>&1 || fail "e2fsck after the trim"
client_unmap 0
