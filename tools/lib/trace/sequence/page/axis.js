'use strict';
// Figures of the whole run over time, from left to right. A click goes to that time.
const axisSvg = document.getElementById('axis');
const AXIS = REPORT ? REPORT.axis : null;
const AXIS_LEFT = 116, AXIS_RIGHT = 16;
const STATES = ['unknown', 'absent', 'connecting', 'connected', 'draining', 'waiting', 'closing', 'closed'];
// States that a bucket shows first if a path had several.
const STATE_ORDER = [4, 5, 2, 6, 7, 3];

const axisSpan = () => AXIS.completed.length * AXIS.width;
const axisRoom = () => Math.max(100, axisSvg.clientWidth - AXIS_LEFT - AXIS_RIGHT);
const axisX = (time) => AXIS_LEFT + Math.max(0, Math.min(1, (time - AXIS.from) / axisSpan())) * axisRoom();
const axisTime = (x) => AXIS.from + Math.max(0, Math.min(1, (x - AXIS_LEFT) / axisRoom())) * axisSpan();

// Returns a round number that is not less than `least`: 1, 2 or 5 times a power of ten.
function roundUp(least) {
  const power = Math.pow(10, Math.floor(Math.log10(least)));
  return [1, 2, 5, 10].map((part) => part * power).find((value) => value >= least * 0.999999);
}
function rateWords(rate) {
  return rate >= 10000 ? (rate / 1000).toLocaleString('en', {maximumFractionDigits: 0}) + 'k'
                       : rate.toLocaleString('en', {maximumFractionDigits: rate < 10 ? 1 : 0});
}

// Draws values as steps, from bucket to bucket. `toY` returns y of a value.
function axisLine(values, toY, base, className) {
  let path = '', last = null;
  values.forEach((value, index) => {
    const y = value === null ? null : toY(value).toFixed(1);
    const x1 = axisX(AXIS.from + index * AXIS.width).toFixed(1), x2 = axisX(AXIS.from + (index + 1) * AXIS.width).toFixed(1);
    if (y === null) { last = null; return; }
    path += (last === null ? 'M' + x1 + ' ' + (base === null ? y : base + 'V' + y) : 'V' + y) + 'H' + x2;
    if (base !== null && (index + 1 === values.length || values[index + 1] === null)) path += 'V' + base + 'Z';
    last = y;
  });
  if (path) make(axisSvg, 'path', {d: path, class: className});
}

function axisLabel(y, text, note) {
  make(axisSvg, 'text', {x: 10, y: y + 4, class: 'axis-label'}, text);
  if (note) make(axisSvg, 'text', {x: 10, y: y + 17, class: 'axis-note'}, note);
}
function axisScale(y, text) {
  make(axisSvg, 'line', {x1: AXIS_LEFT, x2: AXIS_LEFT + axisRoom(), y1: y, y2: y, class: 'tick'});
  make(axisSvg, 'text', {x: AXIS_LEFT - 5, y: y + 3, class: 'axis-note end'}, text);
}

// Returns the rate of each bucket. If few requests ended, the mean of up to 16 buckets.
function ratesOf(counts) {
  const all = AXIS.completed.reduce((a, b) => a + b, 0);
  let group = 1;
  while (group < 16 && all * group < 4 * counts.length) group *= 2;
  return counts.map((count, index) => {
    const from = index - index % group, part = counts.slice(from, from + group);
    return part.reduce((a, b) => a + b, 0) / (part.length * AXIS.width) * 1e9;
  });
}

function drawRates(top, height) {
  const rates = ratesOf(AXIS.completed);
  const most = roundUp(Math.max(1e-9, ...rates));
  axisLabel(top + height / 2, 'IOPS');
  axisScale(top, rateWords(most));
  const toY = (rate) => top + height - rate / most * height;
  axisLine(rates, toY, top + height, 'iops');
  axisLine(ratesOf(AXIS.failed).map((rate) => rate === 0 ? null : rate), toY, top + height, 'iops-failed');
}

// Latencies on a logarithmic scale, which is labelled at powers of ten.
function drawLatencies(top, height) {
  const known = AXIS.longest.filter((one, index) => AXIS.completed[index] > 0 && one > 0);
  axisLabel(top + height / 2 - 6, 'latency', 'p50, max');
  if (known.length === 0) return;
  const least = Math.min(...AXIS.p50.filter((one, index) => AXIS.completed[index] > 0 && one > 0));
  const low = Math.floor(Math.log10(Math.max(1, least))), high = Math.max(low + 1, Math.ceil(Math.log10(Math.max(...known))));
  const toY = (ns) => top + height - (Math.log10(Math.max(1, ns)) - low) / (high - low) * height;
  const every = Math.ceil((high - low) / Math.floor(height / 13));
  for (let power = low; power <= high; power += every) axisScale(toY(Math.pow(10, power)), duration(Math.pow(10, power)));
  const ended = (values) => values.map((value, index) => AXIS.completed[index] > 0 ? value : null);
  axisLine(ended(AXIS.longest), toY, null, 'latency-max');
  axisLine(ended(AXIS.p50), toY, null, 'latency-median');
}

function drawInFlight(top, height) {
  const most = Math.max(1, ...AXIS.inFlight);
  axisLabel(top + height / 2, 'in flight');
  axisScale(top, most.toLocaleString('en'));
  axisLine(AXIS.inFlight, (count) => top + height - count / most * height, top + height, 'in-flight');
}

function drawPathBand(name, states, top, height, label) {
  if (label) axisLabel(top + height / 2, name.length > 14 ? name.replace('client ', 'c').replace('path ', 'p') : name);
  const worst = states.map((mask) => STATE_ORDER.find((state) => mask >> state & 1));
  for (let from = 0; from < worst.length;) {
    let to = from + 1;
    while (to < worst.length && worst[to] === worst[from]) ++to;
    if (worst[from] !== undefined) {
      const x = axisX(AXIS.from + from * AXIS.width);
      const bar = make(axisSvg, 'rect', {x, y: top, width: Math.max(1, axisX(AXIS.from + to * AXIS.width) - x), height,
                                         class: 'state ' + STATES[worst[from]]});
      bar.dataset.path = name;
    }
    from = to;
  }
}

// Draws the marks of the answer's items, and the faults of the simulator.
function drawMarks(top, bottom) {
  const marks = [];
  for (const row of REPORT.rows)
    for (const item of row.items) marks.push({item, row});
  // Important ones last, so that they are on top.
  for (const {item, row} of marks.reverse()) {
    const x = axisX(item.at);
    const group = make(axisSvg, 'g', {class: 'axis-mark ' + row.tone, 'data-kind': row.kind});
    if (item.until > item.at && row.kind !== 'failover')
      make(group, 'rect', {x, y: top, width: Math.max(1, axisX(item.until) - x), height: 4, class: 'axis-length'});
    make(group, 'line', {x1: x, x2: x, y1: top, y2: bottom});
    make(group, 'path', {d: `M${x} ${top + 1}l-4.5 -8h9z`});
    make(group, 'title', {}, row.label + ' at ' + (item.at / 1e9).toFixed(3) + ' s: ' + item.text);
    group.addEventListener('click', (event) => {
      event.stopPropagation();
      goToItem(item);
    });
  }
}

function drawFaults(top) {
  if (REPORT.faults.length === 0) return;
  axisLabel(top + 5, 'faults');
  let free = -1, label = null, hidden = 0;
  for (const fault of REPORT.faults) {
    const x = axisX(fault.at);
    const group = make(axisSvg, 'g', {class: 'fault'});
    make(group, 'line', {x1: x, x2: x, y1: top, y2: top + 11});
    if (x > free) {
      const words = make(group, 'text', {x: x + 3, y: top + 9, class: 'axis-note'}, fault.text.length > 48 ? fault.text.slice(0, 47) + '…' : fault.text);
      const room = words.getComputedTextLength();
      if (x + 3 + room > AXIS_LEFT + axisRoom()) words.setAttribute('x', Math.max(free, x - 3 - room));
      if (x + 3 + room > AXIS_LEFT + axisRoom() && x - 3 - room < free) words.remove();
      free = x + room + 10;
      label = words;
      hidden = 0;
    } else if (label) {
      label.textContent = label.textContent.replace(/ \+\d+$/, '') + ' +' + ++hidden;
      free = Math.max(free, x + 4);
    }
    make(group, 'title', {}, (fault.at / 1e9).toFixed(6) + ' s: ' + fault.text);
    group.addEventListener('click', (event) => {
      event.stopPropagation();
      goToTime(fault.at);
    });
  }
}

function drawTicks(y) {
  const least = axisSpan() / axisRoom() * 90;
  const tick = roundUp(least);
  const digits = Math.max(0, Math.min(9, -Math.floor(Math.log10(tick / 1e9))));
  for (let at = Math.ceil(AXIS.from / tick) * tick; at <= AXIS.from + axisSpan(); at += tick) {
    const x = axisX(at);
    make(axisSvg, 'line', {x1: x, x2: x, y1: y, y2: y + 4, class: 'axis-tick'});
    make(axisSvg, 'text', {x, y: y + 14, class: 'axis-note middle'}, (at / 1e9).toFixed(digits) + ' s');
  }
}

// The colours of the bands, beside the ticks.
function drawLegend(y) {
  const used = new Set();
  for (const states of AXIS.states) for (const mask of states) STATE_ORDER.forEach((state) => { if (mask >> state & 1) used.add(state); });
  let x = AXIS_LEFT;
  const item = (className, text) => {
    if (className) make(axisSvg, 'rect', {x, y: y - 8, width: 9, height: 9, class: className});
    const words = make(axisSvg, 'text', {x: x + 13, y, class: 'axis-note'}, text);
    x += 13 + words.getComputedTextLength() + 12;
  };
  for (const state of STATE_ORDER) if (used.has(state)) item('state ' + STATES[state], STATES[state]);
  item('legend-median', 'p50');
  item('legend-max', 'max latency');
  for (const row of REPORT.rows) {
    if (row.count === 0) continue;
    make(axisSvg, 'path', {d: `M${x + 4.5} ${y}l-4.5 -8h9z`, class: 'axis-key ' + row.tone});
    item('', row.label);
  }
}

let axisBottom = 0;
function drawTimeAxis() {
  axisSvg.replaceChildren();
  if (!AXIS || AXIS.completed.length === 0) {
    axisSvg.style.display = 'none';
    return;
  }
  const bands = AXIS.states.length, band = Math.max(3, Math.min(9, Math.floor(72 / Math.max(1, bands))));
  let y = 12;
  const top = y;
  drawRates(y += 4, 26);
  drawLatencies(y += 34, 40);
  drawInFlight(y += 51, 18);
  y += 25;
  AXIS.states.forEach((states, index) => {
    drawPathBand(AXIS.paths[index], states, y, band, band >= 9 || index === 0);
    y += band + (band >= 9 ? 4 : 1);
  });
  if (REPORT.faults.length > 0) {
    drawFaults(y += 2);
    y += 14;
  }
  drawMarks(top, y);
  drawTicks(y);
  drawLegend(y + 30);
  axisBottom = y;
  axisSvg.setAttribute('height', y + 36);
  drawAxisWindow();
}

// Shows which time the diagram shows.
function drawAxisWindow() {
  for (const old of axisSvg.querySelectorAll('.axis-window')) old.remove();
  if (!AXIS || AXIS.completed.length === 0 || shown.length === 0) return;
  const first = shown[Math.min(shown.length - 1, rowAt(scroller.scrollTop))];
  const last = shown[Math.min(shown.length - 1, rowAt(scroller.scrollTop + scroller.clientHeight - HEAD))];
  const x = axisX(S.at[first]);
  make(axisSvg, 'rect', {x: x - 1, y: 12, width: Math.max(3, axisX(S.at[last]) - x + 2), height: axisBottom - 12, class: 'axis-window'});
}

function axisTip(event) {
  const time = axisTime(event.offsetX), bucket = Math.min(AXIS.completed.length - 1, Math.floor((time - AXIS.from) / AXIS.width));
  if (event.target.closest('.axis-mark, .fault') || event.offsetX < AXIS_LEFT) {
    tip.hidden = true;
    return;
  }
  tip.replaceChildren();
  node(tip, 'h2', '', (time / 1e9).toFixed(6) + ' s');
  const rate = AXIS.completed[bucket] / AXIS.width * 1e9;
  node(tip, 'p', '', rateWords(rate) + ' IOPS (' + AXIS.completed[bucket].toLocaleString('en') + ' in ' + duration(AXIS.width) + ')' +
       (AXIS.failed[bucket] ? ', ' + AXIS.failed[bucket].toLocaleString('en') + ' failed' : ''));
  if (AXIS.completed[bucket]) node(tip, 'p', '', 'p50 ' + duration(AXIS.p50[bucket]) + ', max ' + duration(AXIS.longest[bucket]));
  node(tip, 'p', '', 'up to ' + AXIS.inFlight[bucket].toLocaleString('en') + ' in flight');
  AXIS.states.forEach((states, index) => {
    const words = STATES.filter((name, state) => states[bucket] >> state & 1 && state > 1).join(', ');
    if (words) node(tip, 'p', 'dim', AXIS.paths[index] + ': ' + words);
  });
  tip.hidden = false;
  const room = tip.getBoundingClientRect();
  tip.style.left = Math.max(4, Math.min(event.clientX + 16, window.innerWidth - room.width - 8)) + 'px';
  tip.style.top = event.clientY + 18 + 'px';
}
if (AXIS) {
  axisSvg.addEventListener('click', (event) => { if (event.offsetX >= AXIS_LEFT) goToTime(axisTime(event.offsetX)); });
  axisSvg.addEventListener('pointermove', axisTip);
  axisSvg.addEventListener('pointerleave', () => { tip.hidden = true; });
}
