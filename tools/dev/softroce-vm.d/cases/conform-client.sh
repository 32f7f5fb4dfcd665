# title: urtrs-conform tests the client, over verbs
# only: server=urtrs paths=1
# limit: 1800
# runs: tools/urtrs-conform/urtrs-conform
# urtrs-conform acts as the server. The client connects, opens a device and reads from it; it is restarted when it gave
# up.
mapped() {
  case $CLIENT in
    kernel) [ -b "$(device 0 2>/dev/null)" ] ;;
    urtrs) [ -e /sys/block/nbd0/pid ] ;;
  esac
}
keep_reading() {
  until [ -e "$RUN/judged" ]; do
    if mapped; then
      dd if="$(device 0)" of=/dev/null bs=4k count=1 iflag=direct status=none || sleep 0.5
      sleep 0.05
    else
      client_map 0
    fi
  done
}
# nbdkit exits when the shell that started it exits, so the subshell keeps running. If a mapping fails, both
# exit and the loop starts them again.
until [ -e "$RUN/judged" ]; do (keep_reading) || sleep 1; done >"$RUN/reading.log" 2>&1 &
"$LAB_BUILD/tools/urtrs-conform/urtrs-conform" --role client --fabric "$LAB_FABRIC" --target "$(address 1 server)" \
  --wait 60 --json "$RUN/conform.json" ${CONFORM_OPTIONS-} || code=$?
touch "$RUN/judged"
[ "$CLIENT" = kernel ] || client_kill 0 || true  # else its last read waits until queue_timeout
[ "${code-0}" = 0 ] || fail "$(grep -c '\[failed\]' "$RESULT/log") cases; see above"
