# title: urtrs-perf on a named device, without fresh keys and with each method to invalidate keys; data are checked
# only: client=urtrs server=urtrs invalidate=on paths=1
# limit: 300
# runs: tools/urtrs-perf/urtrs-perf
perf=$LAB_BUILD/tools/urtrs-perf/urtrs-perf
ours=$(address 1 client)
theirs=$(address 1 server)
for how in none auto windows registration; do
  way=()
  [ $how = none ] || way=(--rdma-invalidation=$how)
  post=(${RDMA_POST:+--rdma-post="$RDMA_POST"})
  "$perf" --fabric=verbs --rdma-device=rxe1s "${way[@]}" "${post[@]}" --listen "$theirs" --queue-depth=32 --chunk-size=64k >"$RUN/server-$how.log" 2>&1 &
  server=$!
  wait_quietly 30 grep -q listening "$RUN/server-$how.log" || { cat "$RUN/server-$how.log"; fail "the server does not listen"; }
  "$perf" "$ours@$theirs" --fabric=verbs --rdma-device=rxe1c "${post[@]}" --connect-timeout=30s --rw=rw --iodepth=4 -n 200 --verify \
    >"$RESULT/perf-$how.txt" 2>&1 || { cat "$RESULT/perf-$how.txt" "$RUN/server-$how.log"; fail "with $how"; }
  kill -INT $server
  wait $server || true
  note "$how: $(tail -1 "$RUN/server-$how.log")"
done
! "$perf" --fabric=verbs --rdma-device=nosuch0 >"$RUN/nosuch.log" 2>&1 || fail "a device that is not there is taken"
grep -q nosuch0 "$RUN/nosuch.log" || { cat "$RUN/nosuch.log"; fail "the device is not named"; }
