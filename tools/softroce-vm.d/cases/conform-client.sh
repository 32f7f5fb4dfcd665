# title: urtrs-conform judges the client, over verbs
# only: server=urtrs paths=1
# limit: 1800
# The tool is the server. The client connects, opens a device and reads from it, and is begun again when it gave up.
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
      (client_map 0) || sleep 1
    fi
  done
}
keep_reading >"$RUN/reading.log" 2>&1 &
"$LAB_BUILD/tools/urtrs-conform/urtrs-conform" --role client --fabric "$LAB_FABRIC" --target "$(address 1 server)" \
  --wait 60 --json "$RUN/conform.json" ${CONFORM_OPTIONS-} || code=$?
touch "$RUN/judged"
[ "${code-0}" = 0 ] || fail "$(grep -c '\[failed\]' "$RESULT/log") cases; see above"
