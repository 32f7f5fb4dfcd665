'use strict';
// Search, filters, zoom, keys, and the URL, which contains the view.
const search = document.getElementById('search');
const status = document.getElementById('status');
const button = (id) => document.getElementById(id);

function layOut() {
  placeLanes(scroller.clientWidth);
  placeRows();
  content.style.width = place.width + 'px';
  content.style.height = place.height + HEAD + 'px';
  drawHead();
  overviewImage = null;
}

let pending = false;
function redraw() {
  pending = false;
  draw();
  drawOverview();
  drawAxisWindow();
}
function later() {
  if (pending) return;
  pending = true;
  requestAnimationFrame(redraw);
}

// Redraws after the set of shown steps has changed. Keeps `anchor`, or a step near the top, at its place on the screen.
function update(anchor) {
  const top = scroller.scrollTop;
  const keep = anchor !== undefined ? anchor : shown[Math.min(shown.length - 1, rowAt(top + 200))];
  const before = keep !== undefined && keep >= 0 ? yOf(keep) - top : 0;
  refilter();
  layOut();
  if (keep !== undefined && keep >= 0) scroller.scrollTop = yOf(keep) - before;
  tell();
  redraw();
  showDetails();
  remember();
}

function tell() {
  const missing = DATA.gaps.reduce((sum, gap) => sum + gap.steps, 0), all = COUNT + missing;
  let text = shown.length.toLocaleString('en') + ' of ' + all.toLocaleString('en') + ' steps';
  if (missing > 0)
    text += ' (the page has ' + COUNT.toLocaleString('en') + ')';
  if (view.query.trim() !== '') text += ', ' + matches.length.toLocaleString('en') + ' match' + (matches.length === 1 ? '' : 'es');
  status.textContent = text;
  button('mode').textContent = view.mode;
  button('follow').classList.toggle('on', view.follow);
  button('only').checked = view.only;
  button('violation').textContent = marked.length === 0 ? 'no violation' : '▲ ' + marked.length;
  button('violation').classList.toggle('alarm', marked.length > 0);
  button('violation').disabled = marked.length === 0;
  if (document.activeElement !== search) search.value = view.query;
  for (const chip of document.querySelectorAll('.chip')) {
    const off = chip.dataset.group ? view.hidden.has(chip.dataset.group)
                : chip.dataset.device ? view.devices.has(Number(chip.dataset.device)) : view.paths.has(Number(chip.dataset.path));
    chip.setAttribute('aria-pressed', off ? 'false' : 'true');
  }
}

// Scrolls the step into view.
function reveal(step) {
  const y = yOf(step), height = scroller.clientHeight - HEAD;
  if (y < scroller.scrollTop + 30 || y > scroller.scrollTop + height - 30) scroller.scrollTop = y - height * 0.4;
}

function select(step, go) {
  view.selected = step;
  if (view.follow) {
    update(step);
  } else {
    showDetails();
    layOut();
  }
  if (step >= 0 && !isShown[step]) {
    view.hidden.delete(groupOf(step));
    view.paths.delete(S.path[step]);
    if (S.io[step] >= 0) view.devices.delete(DATA.requests[S.io[step]][11]);
    update(step);
  }
  if (step >= 0 && go) reveal(step);
  redraw();
  remember();
}

function nextOf(list, forward) {
  if (list.length === 0) return;
  const here = view.selected;
  let at = forward ? list.findIndex((step) => step > here) : list.findLastIndex((step) => step < here);
  if (at < 0 || here < 0) at = forward ? 0 : list.length - 1;
  if (here < 0 && forward) {
    const from = shown[Math.min(shown.length - 1, rowAt(scroller.scrollTop))];
    at = Math.max(0, list.findIndex((step) => step >= from));
  }
  select(list[at], true);
}

function zoom(factor) {
  const next = view.mode === 'rows' ? Math.max(3, Math.min(36, view.zoom * factor)) : Math.max(4, Math.min(400, view.zoom * factor));
  view.zoom = Math.round(next * 10) / 10;
  update(view.selected >= 0 && isShown[view.selected] ? view.selected : undefined);
}

function setTheme(theme) {
  view.theme = theme;
  document.documentElement.dataset.theme = theme || (matchMedia('(prefers-color-scheme: dark)').matches ? 'dark' : 'light');
  overviewImage = null;
}

// Scrolls to the step at a time, or shows which command draws that time.
function goToTime(time) {
  const gap = gapAt(time);
  showGap(gap);
  if (gap) {
    const row = place.gaps.find((one) => one.missing === gap);
    if (row) scroller.scrollTop = row.y - (scroller.clientHeight - HEAD) * 0.4;
    return;
  }
  if (shown.length === 0) return;
  const step = Math.min(COUNT - 1, stepAt(time));
  scroller.scrollTop = yOf(step) - (scroller.clientHeight - HEAD) * 0.3;
}

function toggleGroup(name) {
  view.hidden.has(name) ? view.hidden.delete(name) : view.hidden.add(name);
  update();
}

function makeChips() {
  const counts = DATA.groups.map(() => 0);
  for (let step = 0; step < COUNT; ++step) ++counts[S.group[step]];
  DATA.groups.forEach((group, index) => {
    if (counts[index] === 0) return;
    const chip = node(button('groups'), 'button', 'chip', group.name + ' ' + counts[index].toLocaleString('en'));
    chip.dataset.group = group.name;
    chip.addEventListener('click', () => toggleGroup(group.name));
  });
  const busyPaths = new Set(DATA.lanes.filter((lane, index) => lane.kind === 'connection' && busyLanes.has(index)).map((lane) => lane.path));
  const clients = new Set([...busyPaths].map((path) => DATA.paths[path].owner)).size;
  DATA.paths.forEach((path, index) => {
    if (DATA.paths.length < 2 || !busyPaths.has(index)) return;
    const chip = node(button('paths'), 'button', 'chip ' + pathClass(index), clients > 1 ? path.name.replace('client ', 'c').replace('path ', 'p') : 'path ' + path.number);
    chip.dataset.path = index;
    chip.title = path.name;
    chip.addEventListener('click', () => {
      view.paths.has(index) ? view.paths.delete(index) : view.paths.add(index);
      update();
    });
  });
  DATA.devices.forEach((name, index) => {
    const chip = node(button('devices'), 'button', 'chip', 'device ' + name.replace(/^device /, ''));
    chip.dataset.device = index;
    chip.addEventListener('click', () => {
      view.devices.has(index) ? view.devices.delete(index) : view.devices.add(index);
      update();
    });
  });
  DATA.files.forEach((file, index) => {
    const line = node(button('files'), 'span', 'file');
    node(line, 'b', '', letterOf(index));
    line.append(' ' + file.name.split('/').pop());
    node(line, 'span', 'dim', ['', file.tool, file.backend, file.seed ? 'seed ' + file.seed : '',
                               file.records.toLocaleString('en') + ' records'].filter((word) => word !== '').join(' · '));
    if (file.beginningMissing) node(line, 'span', 'bad', 'beginning missing');
    if (file.stopped) node(line, 'span', 'bad', 'stopped at ' + file.stopped);
    if (file.clock) node(line, 'span', 'dim', 'clock shifted by ' + duration(file.clock));
    line.title = [file.name, file.role].concat(file.options).join('\n');
  });
}

const KEYS = [
  ['j k, ↓ ↑', 'next, previous step'], ['[ ]', 'previous, next step of the same request'], ['p', 'the other end of the message'],
  ['/', 'search'], ['n N', 'next, previous match'], ['o', 'only matches'], ['v V', 'next, previous violation'],
  ['f', 'follow: only this request'], ['t', 'equal rows, or true to time'], ['+ − 0', 'zoom'], ['h', 'heartbeats'], ['l', 'local details'],
  ['g G', 'beginning, end'], ['d', 'light or dark'], ['Esc', 'let go'],
];
function makeHelp() {
  const dialog = button('keys');
  node(dialog, 'h2', '', 'Keys');
  const table = node(dialog, 'table');
  for (const [key, meaning] of KEYS) {
    const line = node(table, 'tr');
    node(line, 'th', '', key);
    node(line, 'td', '', meaning);
  }
  node(dialog, 'h2', '', 'Colours');
  const legend = node(dialog, 'p', 'legend');
  for (const [name, what] of [['request write', 'write'], ['request read', 'read'], ['request read moved', 'failed over'], ['request read failed', 'failed'], ['storage', 'in storage'],
                              ['state connecting', 'connecting'], ['state connected', 'connected'],
                              ['state draining', 'draining'], ['state waiting', 'waiting'], ['state closing', 'closing'],
                              ['state closed', 'closed']]) {
    const item = node(legend, 'span');
    const box = make(item, 'svg', {width: 12, height: 12});
    make(box, 'rect', {x: 1, y: 1, width: 10, height: 10, class: name});
    item.append(' ' + what);
  }
  node(dialog, 'p', 'dim', 'The bars at both sides of a path are its states as the client (left) and the server (right) see them. ' +
       'Upright strokes on a connection are messages on the way.');
  dialog.addEventListener('click', () => dialog.close());
}

// --- URL ---

function remember() {
  const words = new URLSearchParams();
  if (view.query) words.set('q', view.query);
  if (view.only) words.set('only', '1');
  const usual = DATA.groups.filter((group) => !group.shown).map((group) => group.name).join(',');
  const hidden = DATA.groups.map((group) => group.name).filter((name) => view.hidden.has(name)).join(',');
  if (hidden !== usual) words.set('hide', hidden);
  if (view.paths.size) words.set('nopath', [...view.paths].join(','));
  if (view.devices.size) words.set('nodevice', [...view.devices].join(','));
  if (view.mode !== 'rows') words.set('mode', view.mode);
  if (view.zoom !== 20) words.set('zoom', view.zoom);
  if (view.selected >= 0) words.set('at', tagOf(view.selected));
  if (view.follow) words.set('follow', '1');
  if (view.theme) words.set('theme', view.theme);
  history.replaceState(null, '', '#' + words);
}

function recall() {
  const words = new URLSearchParams(location.hash.slice(1));
  view.query = words.get('q') || '';
  view.only = words.get('only') === '1';
  if (words.has('hide')) view.hidden = new Set(words.get('hide').split(',').filter((name) => name !== ''));
  if (words.has('nopath')) view.paths = new Set(words.get('nopath').split(',').map(Number));
  if (words.has('nodevice')) view.devices = new Set(words.get('nodevice').split(',').map(Number));
  view.mode = words.get('mode') === 'time' ? 'time' : 'rows';
  view.zoom = Number(words.get('zoom')) || 20;
  view.selected = words.has('at') ? stepOfTag(words.get('at')) : -1;
  view.follow = words.get('follow') === '1';
  setTheme(['light', 'dark'].includes(words.get('theme')) ? words.get('theme') : '');
}

function begin() {
  makeSpans();
  showAnswer();
  recall();
  refilter();
  document.body.classList.toggle('with-details', view.selected >= 0);
  layOut();
  makeChips();
  makeHelp();
  tell();
  showDetails();
  layOut();
  drawTimeAxis();
  const first = view.selected >= 0 ? view.selected : matches.length > 0 ? matches[0] : marked.length > 0 ? marked[0] : firstOfAnswer();
  if (first >= 0) reveal(first);
  redraw();
}

// --- user input ---

scroller.addEventListener('scroll', later);
new ResizeObserver(() => { layOut(); redraw(); }).observe(scroller);
window.addEventListener('resize', drawTimeAxis);
window.addEventListener('hashchange', () => { recall(); update(view.selected >= 0 ? view.selected : undefined); });
matchMedia('(prefers-color-scheme: dark)').addEventListener('change', () => { setTheme(view.theme); later(); });
scroller.addEventListener('wheel', (event) => {
  if (!event.ctrlKey) return;
  event.preventDefault();
  zoom(event.deltaY < 0 ? 1.2 : 1 / 1.2);
}, {passive: false});
search.addEventListener('input', () => { view.query = search.value; update(); });
search.addEventListener('keydown', (event) => {
  if (event.key === 'Enter') nextOf(matches, !event.shiftKey);
  if (event.key === 'Escape') scroller.focus();
  event.stopPropagation();
});

const ACTIONS = {
  previous: () => nextOf(matches, false),
  next: () => nextOf(matches, true),
  only: () => { view.only = !view.only; update(); },
  mode: () => { view.mode = view.mode === 'rows' ? 'time' : 'rows'; view.zoom = 20; update(); },
  out: () => zoom(1 / 1.25),
  in: () => zoom(1.25),
  violation: () => nextOf(marked, true),
  follow: () => { view.follow = !view.follow; update(view.selected); },
  theme: () => { setTheme(document.documentElement.dataset.theme === 'dark' ? 'light' : 'dark'); later(); remember(); },
  help: () => button('keys').showModal(),
};
for (const id in ACTIONS) button(id).addEventListener(id === 'only' ? 'change' : 'click', ACTIONS[id]);

function moveBy(rows) {
  if (shown.length === 0) return;
  const row = view.selected >= 0 ? rowOf[view.selected] + rows : rowAt(scroller.scrollTop + 10);
  select(shown[Math.max(0, Math.min(shown.length - 1, row))], true);
}
const inRequest = (forward) => { if (view.selected >= 0 && S.io[view.selected] >= 0) nextOf(stepsOfRequest(S.io[view.selected]), forward); };
const PRESSED = {
  j: () => moveBy(1), ArrowDown: () => moveBy(1), k: () => moveBy(-1), ArrowUp: () => moveBy(-1),
  '[': () => inRequest(false), ']': () => inRequest(true),
  p: () => { if (view.selected >= 0 && S.peer[view.selected] >= 0) select(S.peer[view.selected], true); },
  '/': () => { search.focus(); search.select(); }, n: ACTIONS.next, N: ACTIONS.previous, o: ACTIONS.only,
  v: ACTIONS.violation, V: () => nextOf(marked, false), f: ACTIONS.follow, t: ACTIONS.mode,
  '+': ACTIONS.in, '=': ACTIONS.in, '-': ACTIONS.out, 0: () => { view.zoom = 20; update(); },
  h: () => toggleGroup('heartbeat'), l: () => toggleGroup('local'),
  g: () => { scroller.scrollTop = 0; }, G: () => { scroller.scrollTop = place.height; },
  d: ACTIONS.theme, '?': ACTIONS.help,
  Escape: () => { if (view.follow) { view.follow = false; update(view.selected); } else { select(-1, false); } },
};
document.addEventListener('keydown', (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || event.target === search || !(event.key in PRESSED)) return;
  event.preventDefault();
  PRESSED[event.key]();
});

begin();
