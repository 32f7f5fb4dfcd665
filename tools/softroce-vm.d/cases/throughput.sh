# title: IOs a second, 4 KiB and 64 KiB, 16 at a time: the median of three runs of two seconds
server_start
client_map 0
for kind in randread randwrite; do
  for size in 4k 64k; do
    for _ in 1 2 3; do
      fio --name=t --filename="$(device 0)" --direct=1 --ioengine=libaio --rw=$kind --bs=$size --iodepth=16 --size=32M \
        --time_based --runtime=2 --norandommap --eta=never --output-format=json --output="$RUN/throughput.json" \
        >"$RUN/fio.log" 2>&1 || { cat "$RUN/fio.log"; fail "fio $kind $size"; }
      load-report "$RUN/throughput.json" --iops
    done | tee "$RUN/runs.log" >&2
    figure "${kind}_$size" "$(sort -n "$RUN/runs.log" | sed -n 2p)" IOPS
  done
done
client_unmap 0
