# title: three devices at the same time, each with its own content; one is unmapped while the others are in use
DISKS=3
server_start
for n in 0 1 2; do client_map $n; done
for n in 0 1 2; do
  fio --name=d$n --filename="$(device $n)" --direct=1 --ioengine=libaio --rw=randwrite --bs=16k --iodepth=8 --size=2M \
    --verify=crc32c --verify_fatal=1 --randseed=$n --eta=never >"$RUN/fio$n.log" 2>&1 &
  eval "job$n=\$!"
done
note "three loads run"
for n in 0 1 2; do eval "wait \$job$n" || { cat "$RUN/fio$n.log"; fail "fio on disk $n"; }; done
for n in 0 1 2; do disk_settle $n; sha256sum <"$(disk_file $n)"; done | sort -u | wc -l >"$RUN/different"
[ "$(cat "$RUN/different")" = 3 ] || fail "two devices hold the same"
note "each disk has its own contents"
load_start 0
sleep 1
client_unmap 1
client_unmap 2
note "two disks are unmapped"
sleep 1
load_stop
client_unmap 0
