'use strict';
// Draws only the visible part of the sequence diagram.
const scroller = document.getElementById('scroller');
const content = document.getElementById('content');
const headSvg = document.getElementById('head');
const bodySvg = document.getElementById('body');
const SVG = 'http://www.w3.org/2000/svg';

function make(parent, name, attributes, text) {
  const node = document.createElementNS(SVG, name);
  for (const key in attributes) node.setAttribute(key, attributes[key]);
  if (text !== undefined) node.textContent = text;
  parent.appendChild(node);
  return node;
}
const pathClass = (path) => path >= 0 ? 'p' + DATA.paths[path].number % 8 : 'p-none';

function drawHead() {
  headSvg.replaceChildren();
  headSvg.setAttribute('width', place.width);
  headSvg.setAttribute('height', HEAD);
  make(headSvg, 'text', {x: place.timeX, y: 52, class: 'head dim'}, 'time s');
  make(headSvg, 'text', {x: place.tagX, y: 52, class: 'head dim'}, 'record');
  make(headSvg, 'text', {x: place.textX, y: 52, class: 'head dim'}, view.mode === 'time' ? 'step (true to time)' : 'step');
  for (const zone of place.ioZones) {
    if (zone) make(headSvg, 'text', {x: zone.left + zone.width / 2, y: 52, class: 'head dim middle'}, 'IOs');
  }
  for (const lane of place.lanes.filter((one) => !one.unused)) {
    const group = make(headSvg, 'g', {class: 'lane ' + lane.kind + (lane.recorded ? '' : ' unrecorded'),
                                      'data-kind': lane.kind, 'data-name': lane.name, 'data-lane': lane.index});
    if (lane.kind === 'connection') {
      make(group, 'text', {x: lane.x, y: 52, class: 'head middle ' + pathClass(lane.path)}, lane.con);
    } else {
      make(group, 'text', {x: lane.x, y: 34, class: 'head middle machine'}, lane.name);
      if (!lane.recorded) make(group, 'text', {x: lane.x, y: 50, class: 'small dim middle'}, 'not recorded');
    }
  }
  for (const group of place.groups) {
    const path = DATA.paths[group.path];
    make(headSvg, 'text', {x: (group.left + group.right) / 2, y: 20, class: 'head middle ' + pathClass(group.path)},
         (group.right - group.left > 60 ? 'path ' : 'p') + path.number);
    make(headSvg, 'line', {x1: group.left + 4, x2: group.right - 4, y1: 28, y2: 28, class: 'brace ' + pathClass(group.path)});
    const title = make(headSvg, 'title', {}, '');
    title.textContent = path.name;
  }
  make(headSvg, 'line', {x1: 0, x2: place.width, y1: HEAD - 0.5, y2: HEAD - 0.5, class: 'edge'});
}

function drawSpans(top, from, to, height) {
  const y = (step) => Math.max(-20, Math.min(height + 20, yOf(step) - top));
  for (const lane of place.lanes.filter((one) => !one.unused)) {
    make(bodySvg, 'line', {x1: lane.x, x2: lane.x, y1: 0, y2: height,
                           class: 'lane-line ' + (lane.kind === 'connection' || !lane.recorded ? 'idle' : 'machine')});
  }
  for (const one of spans.alive.touching(from, to)) {
    const lane = place.lanes[one.lane];
    if (lane.unused) continue;
    make(bodySvg, 'line', {x1: lane.x, x2: lane.x, y1: y(one.from), y2: y(one.to), class: 'alive ' + pathClass(lane.path)});
  }
  for (const one of spans.paths.touching(from, to)) {
    const group = place.groups.find((candidate) => candidate.path === one.path);
    if (!group) continue;
    const bar = make(bodySvg, 'rect', {x: one.side === 0 ? group.left - 5 : group.right - 2, width: 7, y: y(one.from),
                                       height: Math.max(2, y(one.to) - y(one.from)), class: 'state ' + one.state});
    bar.dataset.words = DATA.paths[one.path].name + ', as the ' + (one.side === 0 ? 'client' : 'server') + ' sees it: ' +
        one.state + (one.reason && one.reason !== 'none' ? ' (' + one.reason + ')' : '') + '\n' +
        duration(S.at[one.to] - S.at[one.from]) + ', from ' + seconds(S.at[one.from]) + ' s';
  }
  const chosen = view.selected >= 0 ? S.io[view.selected] : -1;
  for (const one of spans.requests.touching(from, to)) {
    const zone = place.ioZones[one.client];
    if (zone) drawRequest(one, zone.left + (one.slot % 26) * zone.pitch, zone.pitch, y, chosen);
  }
  const zone = place.storageZone;
  for (const one of zone ? spans.storage.touching(from, to) : []) {
    const bar = make(bodySvg, 'rect', {x: zone.left + (one.slot % 26) * zone.pitch, width: Math.max(1.5, zone.pitch - 1),
                                       y: y(one.from), height: Math.max(2, y(one.to) - y(one.from)),
                                       class: 'storage' + (one.io === chosen ? ' chosen' : '')});
    bar.dataset.words = 'in storage for ' + (one.open ? 'more than ' : '') + duration(S.at[one.to] - S.at[one.from]);
    bar.dataset.step = one.from;
  }
  for (const one of spans.messages.touching(from, to)) {
    const lane = place.lanes[one.lane];
    if (lane.unused) continue;
    const x = lane.x + ((one.slot % 5) - 2) * 2.5 * (one.slot > 0 ? 1 : 0);
    const bar = make(bodySvg, 'line', {x1: x, x2: x, y1: y(one.from), y2: y(one.to),
                                       class: 'transit ' + pathClass(lane.path)});
    bar.dataset.step = one.from;
  }
}

function drawRequest(one, x, pitch, y, chosen) {
  const bar = make(bodySvg, 'rect', {x, width: Math.max(1.5, pitch - 1), y: y(one.from), rx: 1,
                                     height: Math.max(2, y(one.to) - y(one.from)),
                                     class: 'request ' + (one.write ? 'write' : 'read') + (one.failed ? ' failed' : '') +
                                            (one.open ? ' open' : '') + (one.failedOver ? ' moved' : '') +
                                            (one.io === chosen ? ' chosen' : '')});
  const r = DATA.requests[one.io];
  bar.dataset.words = (one.write ? 'write ' : 'read ') + sizeWords(r[6]) + ', permit ' + r[7] + '\n' +
      (r[10] < 0 ? 'has no end in the traces' : 'took ' + duration(r[10])) +
      (one.failedOver ? '\nfailed over' : '') + (one.failed ? '\nfailed' : '');
  bar.dataset.step = one.from;
}

function arrow(group, x1, x2, y, kind, lost) {
  const way = x2 > x1 ? 1 : -1;
  make(group, 'line', {x1, x2: x2 - way * 3, y1: y, y2: y, class: 'arrow ' + kind});
  if (lost) {
    const x = x2 - way * 7;
    make(group, 'path', {d: `M${x - 4} ${y - 4}l8 8m0 -8l-8 8`, class: 'lost'});
  } else {
    make(group, 'path', {d: `M${x2 - way} ${y}l${-way * 7} -3.5v7z`, class: 'tip ' + kind});
  }
}

const classesOf = (step) => groupOf(step) + ' ' + TONES[S.tone[step]] + (S.mark[step] ? ' violation' : '') +
    (step === view.selected ? ' selected' : '') + (isMatch[step] ? ' match' : '') +
    (view.selected >= 0 && S.io[step] >= 0 && S.io[step] === S.io[view.selected] ? ' chain' : '');

// Draws the row of a step behind bars and lanes, so that the pointer also finds the step between them.
function drawRow(step, y, high) {
  make(bodySvg, 'rect', {x: 0, y: y - high / 2, width: place.width, height: high, class: 'row ' + classesOf(step),
                         'data-step': step});
}

function drawStep({step, y, label, more}, small) {
  const group = make(bodySvg, 'g', {class: 'step ' + classesOf(step), 'data-step': step, 'data-record': tagOf(step),
                                    'data-event': textOf(step, 'event'), 'data-group': groupOf(step)});
  const machine = laneX(S.lane[step]), wire = S.wire[step] >= 0 ? laneX(S.wire[step]) : machine;
  const kind = pathClass(S.wire[step] >= 0 ? S.path[step] : -1);
  const storage = place.lanes[S.lane[step] + 1];
  switch (S.shape[step]) {
    case SEND:
      arrow(group, machine, wire, y, kind, S.lost[step] === 1);
      break;
    case RECEIVE:
      arrow(group, wire, machine, y, kind, false);
      break;
    case SUBMIT:
      arrow(group, machine - 24, machine, y, 'app', false);
      break;
    case COMPLETE:
      arrow(group, machine, machine - 24, y, 'app', false);
      break;
    case DELIVER:
      if (storage) arrow(group, machine, storage.x, y, 'app', false);
      break;
    case ANSWER:
      if (storage) arrow(group, storage.x, machine, y, 'app', false);
      break;
    default:
      if (groupOf(step) === 'state') {
        make(group, 'path', {d: `M${machine} ${y - 5}l5 5l-5 5l-5 -5z`, class: 'dot'});
      } else {
        make(group, 'circle', {cx: machine, cy: y, r: small ? 2 : 3.2, class: 'dot'});
      }
  }
  if (!label) return;
  make(group, 'text', {x: place.timeX, y: y + 4, class: 'time'}, seconds(S.at[step]));
  make(group, 'text', {x: place.tagX, y: y + 4, class: 'tag'}, tagOf(step));
  const words = make(group, 'text', {x: place.textX, y: y + 4, class: 'words'});
  if (S.mark[step]) make(words, 'tspan', {class: 'mark'}, '▲ ' + S.mark[step]);
  make(words, 'tspan', {class: 'title ' + kind, dx: S.mark[step] ? 10 : 0}, textOf(step, 'title'));
  const note = noteOf(step);
  if (note) make(words, 'tspan', {class: S.lost[step] ? 'lost-note' : 'note', dx: 10}, note);
  if (more > 0 && view.mode === 'time') make(words, 'tspan', {class: 'note', dx: 10}, 'and ' + more + ' more');
}

// Draws the time axis of the time view: ticks at round times, as close as they fit.
function drawAxis(top, height, labels) {
  const least = 70 / place.scale;
  let tick = Math.pow(10, Math.ceil(Math.log10(least)));
  for (const part of [5, 2]) if (tick / part >= least) { tick /= part; break; }
  const zero = S.at[shown[0]];
  const first = Math.ceil((top / place.scale + zero) / tick) * tick;
  for (let at = first; (at - zero) * place.scale < top + height; at += tick) {
    const y = 16 + (at - zero) * place.scale - top;
    make(bodySvg, 'line', {x1: place.timeX, x2: place.textX - 14, y1: y, y2: y, class: 'tick'});
    if (!labels.some((other) => Math.abs(other - y + 7) < 13))
      make(bodySvg, 'text', {x: place.timeX, y: y - 3, class: 'axis'}, '+' + duration(at));
  }
}

// Returns the steps to draw, and which of them have room for a label.
function visibleSteps(firstRow, lastRow, top) {
  const special = (step) => S.mark[step] !== '' || step === view.selected;
  const taken = [];
  for (let row = firstRow; row <= lastRow; ++row) if (special(shown[row])) taken.push(place.rowY[row] - top);
  const visible = [];
  let lastLabel = -100, lastY = -100, labelled = null;
  for (let row = firstRow; row <= lastRow; ++row) {
    const step = shown[row], y = place.rowY[row] - top;
    let label = special(step) ? y - lastLabel >= 6 : y - lastLabel >= 13 && !taken.some((other) => Math.abs(other - y) < 13);
    if (!label && labelled) ++labelled.more;
    // Closer than a pixel, the step would be drawn on the previous one.
    if (!special(step) && !label && y - lastY < 0.75) continue;
    lastY = y;
    const one = {step, y, label, more: 0};
    if (label) {
      lastLabel = y;
      labelled = one;
    }
    visible.push(one);
  }
  return visible;
}

function draw() {
  const top = scroller.scrollTop, height = Math.max(50, scroller.clientHeight - HEAD);
  bodySvg.replaceChildren();
  bodySvg.setAttribute('width', place.width);
  bodySvg.setAttribute('height', height);
  if (shown.length === 0) {
    make(bodySvg, 'text', {x: 40, y: 60, class: 'words'}, 'No step is shown: change the search, the groups or the paths.');
    return;
  }
  const firstRow = Math.max(0, rowAt(top - 30) - 1), lastRow = Math.min(shown.length - 1, rowAt(top + height + 30));
  for (const gap of place.gaps) {
    const y = gap.y - top;
    if (y < -20 || y > height + 20) continue;
    make(bodySvg, 'rect', {x: 0, y: y - QUIET_ROOM / 2 + 3, width: place.width, height: QUIET_ROOM - 6, class: 'gap'});
    if (gap.missing) {
      const line = make(bodySvg, 'text', {x: place.textX, y: y + 4, class: 'note missing'}, '⋮  ' + missingWords(gap.missing));
      line.dataset.gap = DATA.gaps.indexOf(gap.missing);
    } else {
      make(bodySvg, 'text', {x: place.textX, y: y + 4, class: 'note'}, '⋮  ' + duration(gap.ns) + ' later');
    }
  }
  const small = view.mode === 'rows' && view.zoom < 13;
  const visible = visibleSteps(firstRow, lastRow, top);
  visible.forEach(({step, y}, index) => {
    const above = index > 0 ? y - visible[index - 1].y : 20, below = index + 1 < visible.length ? visible[index + 1].y - y : 20;
    drawRow(step, y, Math.max(2, Math.min(24, above, below)));
  });
  if (view.mode === 'time') drawAxis(top, height, visible.filter((one) => one.label).map((one) => one.y));
  drawSpans(top, shown[firstRow], shown[lastRow], height);
  for (const one of visible) drawStep(one, small);
}
